"""The whole suite: all topics."""

from __future__ import annotations

from holdfast.testing.stores.advances import Advances
from holdfast.testing.stores.alongside import Alongside
from holdfast.testing.stores.blobs import Blobs
from holdfast.testing.stores.checkpoints import CheckpointTopic
from holdfast.testing.stores.claims import Claims
from holdfast.testing.stores.commits import Commits
from holdfast.testing.stores.concurrency import Concurrency
from holdfast.testing.stores.definitions import DefinitionTopic
from holdfast.testing.stores.generations import Generations
from holdfast.testing.stores.governance.admission import Admission
from holdfast.testing.stores.governance.audit import AuditTopic
from holdfast.testing.stores.governance.files import Files
from holdfast.testing.stores.governance.holding import HoldingTopic
from holdfast.testing.stores.governance.origins import Origins
from holdfast.testing.stores.governance.receipts import ReceiptTopic
from holdfast.testing.stores.governance.tasks import TaskTopic
from holdfast.testing.stores.governance.writes import Writes
from holdfast.testing.stores.handles import Handles
from holdfast.testing.stores.handovers import HandoverTopic
from holdfast.testing.stores.inbox import Inbox
from holdfast.testing.stores.items import ItemTopic
from holdfast.testing.stores.leases import Leases
from holdfast.testing.stores.machines.cell_roots import RootTopic, UnrootedTopic
from holdfast.testing.stores.machines.cells import CellTopic
from holdfast.testing.stores.machines.held_events import HeldEventTopic
from holdfast.testing.stores.machines.splits import SplitTopic
from holdfast.testing.stores.operations import Operations
from holdfast.testing.stores.pauses import Pauses
from holdfast.testing.stores.programs import Programs
from holdfast.testing.stores.queries import Queries
from holdfast.testing.stores.reads import Reads
from holdfast.testing.stores.references import References
from holdfast.testing.stores.retention import Retention
from holdfast.testing.stores.templates import TemplateTopic
from holdfast.testing.stores.timers import Timers
from holdfast.testing.stores.work import QueuedWork


class StoreSuite(
    Handles,
    Commits,
    Advances,
    Alongside,
    Claims,
    Timers,
    Leases,
    HandoverTopic,
    Programs,
    DefinitionTopic,
    References,
    ItemTopic,
    TemplateTopic,
    CellTopic,
    HeldEventTopic,
    SplitTopic,
    Inbox,
    Pauses,
    Operations,
    QueuedWork,
    Generations,
    CheckpointTopic,
    UnrootedTopic,
    RootTopic,
    Reads,
    Queries,
    Blobs,
    Retention,
    Origins,
    ReceiptTopic,
    HoldingTopic,
    Writes,
    TaskTopic,
    AuditTopic,
    Files,
    Admission,
    Concurrency,
):
    """Inherit from this, define ``fresh``, and let pytest collect it."""

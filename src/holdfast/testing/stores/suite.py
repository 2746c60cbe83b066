"""The whole suite: one topic beside the other."""

from __future__ import annotations

from holdfast.testing.stores.advances import Advances
from holdfast.testing.stores.alongside import Alongside
from holdfast.testing.stores.blobs import Blobs
from holdfast.testing.stores.checkpoints import CheckpointTopic
from holdfast.testing.stores.claims import Claims
from holdfast.testing.stores.commits import Commits
from holdfast.testing.stores.concurrency import Concurrency
from holdfast.testing.stores.generations import Generations
from holdfast.testing.stores.governance.admission import Admission
from holdfast.testing.stores.governance.audit import AuditTopic
from holdfast.testing.stores.governance.files import Files
from holdfast.testing.stores.governance.origins import Origins
from holdfast.testing.stores.governance.receipts import ReceiptTopic
from holdfast.testing.stores.governance.tasks import TaskTopic
from holdfast.testing.stores.governance.writes import Writes
from holdfast.testing.stores.handovers import HandoverTopic
from holdfast.testing.stores.inbox import Inbox
from holdfast.testing.stores.leases import Leases
from holdfast.testing.stores.opening import Opening
from holdfast.testing.stores.operations import Operations
from holdfast.testing.stores.pausing import Pausing
from holdfast.testing.stores.programs import Programs
from holdfast.testing.stores.queries import Queries
from holdfast.testing.stores.reading import Reading
from holdfast.testing.stores.retention import Retention
from holdfast.testing.stores.timers import Timers
from holdfast.testing.stores.work import QueuedWork


class StoreSuite(
    Opening,
    Commits,
    Advances,
    Alongside,
    Claims,
    Timers,
    Leases,
    HandoverTopic,
    Programs,
    Inbox,
    Pausing,
    Operations,
    QueuedWork,
    Generations,
    CheckpointTopic,
    Reading,
    Queries,
    Blobs,
    Retention,
    Origins,
    ReceiptTopic,
    Writes,
    TaskTopic,
    AuditTopic,
    Files,
    Admission,
    Concurrency,
):
    """Inherit from this, define ``fresh``, and let pytest collect it."""

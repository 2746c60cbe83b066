"""The whole suite: one topic beside the other."""

from __future__ import annotations

from holdfast.testing.stores.admission import Admission
from holdfast.testing.stores.advances import Advances
from holdfast.testing.stores.alongside import Alongside
from holdfast.testing.stores.artefacts import Artefacts
from holdfast.testing.stores.auditing import Auditing
from holdfast.testing.stores.blobs import Blobs
from holdfast.testing.stores.claims import Claims
from holdfast.testing.stores.commits import Commits
from holdfast.testing.stores.concurrency import Concurrency
from holdfast.testing.stores.generations import Generations
from holdfast.testing.stores.handovers import Handovers
from holdfast.testing.stores.inbox import Inbox
from holdfast.testing.stores.leases import Leases
from holdfast.testing.stores.opening import Opening
from holdfast.testing.stores.origins import Origins
from holdfast.testing.stores.pausing import Pausing
from holdfast.testing.stores.queries import Queries
from holdfast.testing.stores.reading import Reading
from holdfast.testing.stores.receipts import Receipts
from holdfast.testing.stores.retention import Retention
from holdfast.testing.stores.tasks import Tasks
from holdfast.testing.stores.timers import Timers
from holdfast.testing.stores.work import QueuedWork
from holdfast.testing.stores.writes import Writes


class StoreSuite(
    Opening,
    Commits,
    Advances,
    Alongside,
    Claims,
    Timers,
    Leases,
    Handovers,
    Inbox,
    Pausing,
    QueuedWork,
    Generations,
    Reading,
    Queries,
    Blobs,
    Retention,
    Origins,
    Receipts,
    Writes,
    Tasks,
    Auditing,
    Artefacts,
    Admission,
    Concurrency,
):
    """Inherit from this, define ``fresh``, and let pytest collect it."""

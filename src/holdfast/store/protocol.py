"""The store's protocol: changes that are applied or refused each on its own, and the questions that can be asked.

The laws every store keeps, judged by ``holdfast.testing.stores``:

- ``commit`` applies a batch of changes in one transaction and answers each. A refused one never harms its neighbours.
- An ``Advance`` is applied only at the expected version, generation and lease epoch; else it is ``Fenced``. Committed
  again after an unknown outcome it is recognised by its head hash and answered ``Advanced``; a ``Start`` that leases
  its run to a worker likewise, and answered ``Started``.
- What comes ``also`` with a change is applied if and only if the change is.
- Messages to a run take positions 1, 2, 3, … in its inbox, in commit order.
- A lease belongs to a worker. It ends when it is released, or when the worker is known to be dead or has not been heard
  of for its time to live; taking it over raises the run's epoch, which fences the last holder out.
- Times are microseconds since 1970. ``now`` is given by the caller, except for the life of workers: that is the
  store's own.

Every operation raises StoreUnavailable where the store does not answer, and OperatorError where a person must act.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from holdfast.store.admission import Cap, Limits, TenantLimits, WriteLimits
from holdfast.store.audit import AuditPort
from holdfast.store.changes import (
    Advance,
    Advanced,
    Also,
    Answer,
    Beat,
    Change,
    CodeMisfit,
    Delivered,
    Enqueue,
    Enqueued,
    Exists,
    Fenced,
    FinishWork,
    Gating,
    Gone,
    KeepCode,
    Kept,
    Operate,
    OperatedOn,
    Pause,
    Paused,
    Renew,
    Renewal,
    Renewed,
    Repeated,
    Retired,
    Start,
    Started,
    Unknown,
    Unpause,
    Withdraw,
    Withdrawn,
)
from holdfast.store.gatekeeping import GatePort
from holdfast.store.governance import (
    EVIDENCE,
    AuditEntry,
    AuditQuery,
    Block,
    CancelTask,
    Capped,
    ChainEnd,
    Closed,
    CloseReceipt,
    Escalation,
    File,
    Governed,
    KeptFile,
    Note,
    Noted,
    Opened,
    OpenReceipt,
    PutTask,
    ReceiptQuery,
    ReceiptRow,
    ReceiptState,
    Sealing,
    SigningKey,
    Span,
    Taken,
    TaskAnswer,
    Tasked,
    TaskKind,
    TaskQuery,
    TaskRow,
    TaskStatus,
)
from holdfast.store.reading import ReadPort
from holdfast.store.rows import (
    ASKS,
    CheckpointRow,
    ClaimedRuns,
    ClaimedWork,
    Declined,
    Facts,
    Leased,
    Loaded,
    Progress,
    Query,
    Run,
    RunCount,
    WorkerRow,
    named_in,
)
from holdfast.store.values import (
    ENDED,
    FUNCTION,
    PAUSED,
    Blobs,
    Code,
    Cursor,
    Deliver,
    Key,
    Message,
    Origin,
    Projection,
    Received,
    Segment,
    Serves,
    Standing,
    Status,
    Work,
)

__all__ = [
    "ASKS",
    "ENDED",
    "EVIDENCE",
    "FUNCTION",
    "PAUSED",
    "Advance",
    "Advanced",
    "Also",
    "Answer",
    "AuditEntry",
    "AuditQuery",
    "Beat",
    "Blobs",
    "Block",
    "CancelTask",
    "Cap",
    "Capped",
    "ChainEnd",
    "Change",
    "CheckpointRow",
    "ClaimedRuns",
    "ClaimedWork",
    "CloseReceipt",
    "Closed",
    "Code",
    "CodeMisfit",
    "Cursor",
    "Declined",
    "Deliver",
    "Delivered",
    "Enqueue",
    "Enqueued",
    "Escalation",
    "Exists",
    "Facts",
    "Fenced",
    "File",
    "FinishWork",
    "Gating",
    "Gone",
    "Governed",
    "KeepCode",
    "Kept",
    "KeptFile",
    "Key",
    "Leased",
    "Limits",
    "Loaded",
    "Message",
    "Note",
    "Noted",
    "OpenReceipt",
    "Opened",
    "Operate",
    "OperatedOn",
    "Origin",
    "Pause",
    "Paused",
    "Progress",
    "Projection",
    "PutTask",
    "Query",
    "ReceiptQuery",
    "ReceiptRow",
    "ReceiptState",
    "Received",
    "Renew",
    "Renewal",
    "Renewed",
    "Repeated",
    "Retired",
    "Run",
    "RunCount",
    "Sealing",
    "Segment",
    "Serves",
    "SigningKey",
    "Span",
    "Standing",
    "Start",
    "Started",
    "Status",
    "Store",
    "Taken",
    "TaskAnswer",
    "TaskKind",
    "TaskQuery",
    "TaskRow",
    "TaskStatus",
    "Tasked",
    "TenantLimits",
    "Unknown",
    "Unpause",
    "Withdraw",
    "Withdrawn",
    "Work",
    "WorkerRow",
    "WriteLimits",
    "named_in",
]


class Store(ReadPort, AuditPort, GatePort, Protocol):
    """Where runs live."""

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date under a lock. Raises SchemaTooNew, StoreReadOnly, StoreCorrupt."""
        ...

    def twin(self) -> Store:
        """Another handle on the same store, not opened yet, for use on another event loop."""
        ...

    async def close(self) -> None:
        """Let go of everything. Safe to call twice, and before open."""
        ...

    async def commit(self, batch: Sequence[Change]) -> list[Answer]:
        """Apply the changes in order, in one transaction, and answer each."""
        ...

    # -- leases

    async def register(self, worker: WorkerRow, ttl_seconds: float) -> None:
        """Make a worker known, alive for ``ttl_seconds``."""
        ...

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        """Prolong a worker's life. False where it is not known any more: all of its leases are lost."""
        ...

    async def unregister(self, worker: str, now: int) -> None:
        """Forget a worker and hand back all that it leases. Nothing is counted against the runs."""
        ...

    async def rescue(self, now: int) -> list[str]:
        """Forget workers that are known dead or have expired, take their leases back, and name the workers.

        Leases of workers that are not registered are taken back too: one may have claimed after it was forgotten.
        """
        ...

    async def claim(
        self,
        worker: str,
        serves: Serves,
        limit: int,
        now: int,
        limits: Limits | None = None,
        has_declined: bool = False,
    ) -> ClaimedRuns:
        """Wake the runs whose timers are due, then lease ready runs: highest priority first, then oldest.

        Only runs that the worker ``serves``: of functions by their name, of other kinds of programs by the kind.

        A worker that ``has_declined`` runs is not given them again; one that has not need not be looked up.

        With ``limits``, root runs that have not begun are leased only as ``admission.admit`` says, after the others; no
        two claims admit at the same time. ``next_wake_at`` also tells when a rate lets the next one begin.
        """
        ...

    async def decline(self, worker: str, key: Key, epoch: int, reason: str, now: int) -> bool:
        """Hand a leased run back, ready, for workers whose code fits its journal. This one is kept in mind as having
        declined it until the run is resumed or has a new generation, or the worker is forgotten.

        False, and nothing done, where no other living worker serves it and has not declined it; True where
        the lease was lost. ``rescue`` offers a run that all who live have declined once more: one is told False then.
        """
        ...

    async def declined(self, key: Key) -> list[Declined]:
        """Who has declined a run in its present generation, oldest first."""
        ...

    async def claim_work(
        self, worker: str, wanted: Mapping[str, int], now: int, steps: Sequence[str] | None = None
    ) -> ClaimedWork:
        """Lease free work that is available, at most so many per queue: highest priority first, then oldest.

        With ``steps`` only work of these names: the rest is for workers whose code has them.
        """
        ...

    async def leased(self, worker: str) -> Leased:
        """Everything leased to this worker: what it must ask when a claim's answer was lost."""
        ...

    async def arrivals(self, worker: str) -> list[Run]:
        """The runs leased to this worker that have messages not consumed, or were paused."""
        ...

    # -- operating

    async def pause(self, key: Key, reason: str, now: int) -> bool:
        """Keep a run from going on. False where there is no such run or it has ended."""
        ...

    async def unpause(self, key: Key, now: int) -> bool:
        """Let a run go on, from now."""
        ...

    async def prune(self, ended_before: int, limit: int) -> int:
        """Delete up to ``limit`` runs that ended before then, with all that belongs to them; gives how many.

        Governed runs that have no evidence are left: nothing else could tell of them what evidence does.
        """
        ...

    async def forget_deliveries(self, before: int, limit: int) -> int:
        """Forget up to ``limit`` ids of messages that came before then, oldest first; gives how many.

        A message that comes again after that is a new one.
        """
        ...

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        """Call ``hint`` whenever another process may have changed something; gives a function that ends the watch.

        A hint may come late, twice, for nothing, or not at all: it only saves waiting.
        """
        ...

"""The store's protocol: changes, each applied or refused by itself, and the operations that read.

The laws every store keeps, judged by ``holdfast.testing.stores``:

- ``commit`` applies a batch of changes in one transaction and answers each. A refused change does not affect others.
- An ``Advance`` is applied only at the expected version, generation and lease epoch; else it is ``Fenced``. Committed
  again after an unknown outcome, it is recognised by its head hash and answered ``Advanced``. A ``Start`` that leases
  its run to a worker is recognised in the same way and answered ``Started``.
- Attached changes are applied if and only if the change that carries them is.
- Messages to a run take positions 1, 2, 3, … in its inbox, in commit order.
- A lease belongs to a worker. It ends when it is released, when the worker is known to be dead, or when the worker has
  not called ``beat`` within its time to live. Taking it over raises the run's epoch: changes of the last holder are
  refused from then on.
- Times are microseconds since 1970. The caller gives ``now``, except for the life of workers and what is ``due_now``:
  the store's clock decides that. It is one for all of its handles.

Every operation raises StoreUnavailable where the store does not answer, and OperatorError where a person must act.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.store.admission import Cap, Limits, TenantLimits, WriteLimits
from holdfast.store.audit import AuditPort
from holdfast.store.caps import CAP, CAP_SET, CAP_UNSET, SetCap, SetWriteCap, cap_key, write_cap_key
from holdfast.store.cell_roots import PutRoot, RootRow, Unrooted
from holdfast.store.cells import (
    CellChange,
    CellCursor,
    CellPort,
    CellQuery,
    CellRow,
    DeadLetter,
    DeadRow,
    DropDead,
    HeldChange,
    PutCells,
)
from holdfast.store.changes import (
    Act,
    Advance,
    Advanced,
    Answer,
    Attachable,
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
    Limited,
    Marked,
    Operate,
    OperatedOn,
    Pause,
    Paused,
    Publish,
    Referenced,
    Renew,
    Renewal,
    Renewed,
    Repeated,
    Retired,
    SetReference,
    Start,
    Started,
    Tallied,
    Unknown,
    Unpause,
    VersionTaken,
    Withdraw,
    Withdrawn,
)
from holdfast.store.gate_port import GatePort, OrphanedReceipt
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
from holdfast.store.holding import (
    ActCaller,
    HeldBy,
    Hold,
    HolderRow,
    HolderState,
    HoldFormer,
    Holding,
    SetHolds,
    SettleTaking,
    Stakes,
    TakeBack,
    TookBack,
)
from holdfast.store.items import DropItem, DueNow, ExpectItem, ItemChange, ItemKey, ItemPort, ItemRow, PutItem, Tally
from holdfast.store.lease_port import LeasePort
from holdfast.store.read_port import ReadPort
from holdfast.store.receipts import ReceiptRow, ReceiptState, TakenAct
from holdfast.store.rows import (
    ASKS,
    CheckpointRow,
    ClaimedRuns,
    ClaimedWork,
    Declined,
    Facts,
    Leased,
    Loaded,
    Query,
    QueueLoad,
    Run,
    RunCount,
    StepProgress,
    WorkerRow,
    Workload,
    story_id,
)
from holdfast.store.splits import INHERITS, MarkSplit, heir_of, is_split, split_mark
from holdfast.store.values import (
    CANCEL,
    ENDED,
    FUNCTION,
    MACHINE,
    PAUSED,
    Blobs,
    Code,
    Cursor,
    DefinitionRow,
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
    "CANCEL",
    "CAP",
    "CAP_SET",
    "CAP_UNSET",
    "ENDED",
    "EVIDENCE",
    "FUNCTION",
    "INHERITS",
    "MACHINE",
    "PAUSED",
    "Act",
    "ActCaller",
    "Advance",
    "Advanced",
    "Answer",
    "Attachable",
    "AuditEntry",
    "AuditQuery",
    "Beat",
    "Blobs",
    "Block",
    "CancelTask",
    "Cap",
    "Capped",
    "CellChange",
    "CellCursor",
    "CellPort",
    "CellQuery",
    "CellRow",
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
    "DeadLetter",
    "DeadRow",
    "Declined",
    "DefinitionRow",
    "Deliver",
    "Delivered",
    "DropDead",
    "DropItem",
    "DueNow",
    "Enqueue",
    "Enqueued",
    "Escalation",
    "Exists",
    "ExpectItem",
    "Facts",
    "Fenced",
    "File",
    "FinishWork",
    "Gating",
    "Gone",
    "Governed",
    "HeldBy",
    "HeldChange",
    "Hold",
    "HoldFormer",
    "HolderRow",
    "HolderState",
    "Holding",
    "ItemChange",
    "ItemKey",
    "ItemRow",
    "KeepCode",
    "Kept",
    "KeptFile",
    "Key",
    "Leased",
    "Limited",
    "Limits",
    "Loaded",
    "MarkSplit",
    "Marked",
    "Message",
    "Note",
    "Noted",
    "OpenReceipt",
    "Opened",
    "Operate",
    "OperatedOn",
    "Origin",
    "OrphanedReceipt",
    "Pause",
    "Paused",
    "Projection",
    "Publish",
    "PutCells",
    "PutItem",
    "PutRoot",
    "PutTask",
    "Query",
    "QueueLoad",
    "ReceiptQuery",
    "ReceiptRow",
    "ReceiptState",
    "Received",
    "Referenced",
    "Renew",
    "Renewal",
    "Renewed",
    "Repeated",
    "Retired",
    "RootRow",
    "Run",
    "RunCount",
    "Sealing",
    "Segment",
    "Serves",
    "SetCap",
    "SetHolds",
    "SetReference",
    "SetWriteCap",
    "SettleTaking",
    "SigningKey",
    "Span",
    "Stakes",
    "Standing",
    "Start",
    "Started",
    "Status",
    "StepProgress",
    "Store",
    "TakeBack",
    "Taken",
    "TakenAct",
    "Tallied",
    "Tally",
    "TaskAnswer",
    "TaskKind",
    "TaskQuery",
    "TaskRow",
    "TaskStatus",
    "Tasked",
    "TenantLimits",
    "TookBack",
    "Unknown",
    "Unpause",
    "Unrooted",
    "VersionTaken",
    "Withdraw",
    "Withdrawn",
    "Work",
    "WorkerRow",
    "Workload",
    "WriteLimits",
    "cap_key",
    "heir_of",
    "is_split",
    "split_mark",
    "story_id",
    "write_cap_key",
]


class Store(LeasePort, ReadPort, AuditPort, GatePort, ItemPort, CellPort, Protocol):
    """A store of runs."""

    async def open(self, *, migrate: bool = True) -> None:
        """Connect, and bring the schema up to date under a lock. Raises SchemaTooNew, StoreReadOnly, StoreCorrupt."""
        ...

    def twin(self) -> Store:
        """Another handle on the same store, not opened yet, for use on another event loop."""
        ...

    async def close(self) -> None:
        """Release all resources. Safe to call twice, and before open."""
        ...

    async def commit(self, batch: Sequence[Change]) -> list[Answer]:
        """Apply the changes in order, in one transaction, and answer each."""
        ...

    # -- operating

    async def pause(self, key: Key, reason: str, now: int) -> bool:
        """Stop a run until it is resumed. False where there is no such run or it has ended."""
        ...

    async def unpause(self, key: Key, now: int) -> bool:
        """Resume a paused run, from now."""
        ...

    async def prune(self, ended_before: int, limit: int) -> int:
        """Delete up to ``limit`` runs that ended before then, with all that belongs to them; gives how many.

        A child is kept as long as its parent is there: a retry of the parent may find it again. Governed runs without
        evidence are kept, and so are instances of templates whose story the audit has not (``story_id``): no other
        record of them would remain.
        """
        ...

    async def untold(self, ended_before: int, limit: int) -> list[Run]:
        """Instances of templates that ended before then and whose story the audit has not, the longest ended first."""
        ...

    async def forget_deliveries(self, before: int, limit: int) -> int:
        """Forget up to ``limit`` ids of messages that came before then, oldest first; gives how many.

        A message of a forgotten id counts as a new one.
        """
        ...

    async def identity(self) -> str:
        """A name of the database: the same for every handle and process that uses it, and another for any other one.

        It may tell of hosts and files: it is not shown to anyone.
        """
        ...

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        """Call ``hint`` whenever another process may have changed something; gives a function that ends the watch.

        A hint may come late, twice, for nothing, or not at all: it only saves waiting.
        """
        ...

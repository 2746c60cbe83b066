"""The gate's data in the store: receipts, tasks, the audit's entries and blocks, signing keys, files.

The laws, judged with the others by ``holdfast.testing.stores``:

- A receipt is unique per tenant and idempotency key. Only the holder of its token may close it. Anyone may open a
  failed receipt again; a pending one is replaced only by a change that names its token.
- The opening of a write is counted in the same change, for its run and each run above it. No count passes its limit.
- A task changes only from the version before: of two answers to one version the first is applied, the other refused.
  Only cancelling needs no version: it closes any open task. An open task has the reference of its run.
- An entry of the audit is written with the change it belongs to, and sealed later, once, in blocks that follow each
  other without a gap. An entry with an id is written once, even if it is noted several times.
- Only the last signing key seals. Adding the next one records the end of each chain, and nothing is sealed in between.
- The evidence of a run has all its sealed entries: sealing another makes it due again, and evidence that lacks one is
  not kept. Entries about a pruned run are not added to its evidence.
- All of these outlive the pruning of their runs. A governed run is pruned only with evidence; its id is never reused.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.store.admission import WriteLimits, WritingRun
from holdfast.store.receipts import ReceiptRow, ReceiptState, TakenAct
from holdfast.store.values import Blobs, Cursor, Deliver, Key

TaskKind = Literal["approval", "outcome", "form"]
TaskStatus = Literal["requested", "approved", "rejected", "completed", "expired", "cancelled"]

EVIDENCE: Final = "evidence.zip"
"""The file of this name is a generation's evidence: its hash shows in the run's row."""


class TaskAnswer(msgspec.Struct, frozen=True, gc=False):
    """A person's answer to a task."""

    who: str
    verdict: str
    reason: str
    at: int
    value: bytes | None = None  # the act's result, if the person knows it; the answer to a form


class Escalation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The people who may also answer once a task is overdue."""

    candidates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class TaskRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Work for a person. ``version`` counts its changes from 1. See ``holdfast.tasks``.

    ``kind`` is its subject: to approve an action, to report the outcome of one, or to fill in a form. The terms of the
    author or a policy never change: a task that is escalated keeps its ``candidates`` and ``groups``.
    """

    tenant: str
    id: str
    run: str
    generation: int
    root: bytes
    position: int
    kind: TaskKind
    status: TaskStatus
    version: int
    proposal: bytes  # the hash of the proposed action or of the form: an answer is valid for exactly this
    summary: str
    details: bytes  # canonical CBOR of the facts that the person must see
    tier: str
    two_person: bool
    candidates: tuple[str, ...]
    starter: str | None  # the person who started the run
    policy: str
    rule: str | None
    created_at: int
    expires_at: int | None
    answers: tuple[TaskAnswer, ...] = ()
    delegated_to: str | None = None
    closed_at: int | None = None
    form: bytes = b""  # the JSON Schema of the answer, as canonical CBOR
    groups: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    owner: str | None = None  # the person who has claimed it, or to whom it is assigned
    due_at: int | None = None
    reminders: tuple[int, ...] = ()  # when people are reminded, in order
    reminded: int = 0  # how many of these times are over
    reminded_at: int | None = None
    escalation: Escalation | None = None
    escalated_at: int | None = None
    reference: str | None = None  # of its run: a new version does not change it

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, oldest first."""
        return Cursor(self.created_at, self.tenant, self.id)


class AuditEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a tenant's audit. ``position`` is its place in the chain, None until it is sealed."""

    sequence: int
    tenant: str
    run: str | None
    kind: str
    at: int
    body: bytes
    position: int | None = None

    @property
    def record(self) -> dict[str, Any]:
        """Its body, which is JSON, as data. Raises ValueError where that was altered."""
        return msgspec.json.decode(self.body, type=dict[str, Any])


class Block(msgspec.Struct, frozen=True, gc=False):
    """A sealed part of a tenant's audit: a signed checkpoint. ``digests`` are its entries' hashes, joined.

    ``form`` is how its head follows from them: 1 is a chain, 2 a tree.
    """

    tenant: str
    number: int
    first: int
    count: int
    previous: bytes
    head: bytes
    digests: bytes
    sealed_at: int
    signer: str
    signature: bytes
    form: int = 1


class Sealing(msgspec.Struct, frozen=True, gc=False):
    """A block, and the sequences of the entries that get its positions, in order."""

    block: Block
    sequences: tuple[int, ...]


def holding(blocks: Sequence[Block], places: Sequence[tuple[str, int]]) -> list[Block]:
    """The blocks that hold one of these entries, each of which is named by tenant and position.

    ``blocks`` are those at or before the places.
    """
    positions: dict[str, list[int]] = {}
    for tenant, at in sorted(places):
        positions.setdefault(tenant, []).append(at)
    found = []
    for block in blocks:
        of_tenant = positions.get(block.tenant, [])
        index = bisect_left(of_tenant, block.first)
        if index < len(of_tenant) and of_tenant[index] < block.first + block.count:
            found.append(block)
    return found


class SigningKey(msgspec.Struct, frozen=True, gc=False):
    """A key of the audit. ``private`` is None where it is kept elsewhere. Each key is endorsed by the one before it.

    ``retirement`` is its signature over the blocks up to which the earlier keys are valid: over ``heads``, the root of
    a tree over the last blocks of that many ``chains``. Keys of earlier versions have none.
    """

    number: int
    id: str
    public: bytes
    private: bytes | None
    created_at: int
    endorsement: bytes = b""
    chains: int = 0
    heads: bytes = b""
    retirement: bytes = b""


class ChainEnd(msgspec.Struct, frozen=True, gc=False):
    """The last block of a tenant's chain when a key was added: earlier keys do not sign blocks after it."""

    tenant: str
    number: int
    head: bytes


class KeptFile(msgspec.Struct, frozen=True, gc=False):
    """A file that belongs to a run, by its name."""

    key: Key
    generation: int
    name: str
    sha256: bytes
    size: int
    at: int


class File(msgspec.Struct, frozen=True, gc=False):
    """A kept file and its bytes. ``through`` is the position of the last entry that evidence has, -1 where none."""

    about: KeptFile
    data: bytes
    through: int = -1


class Governed(msgspec.Struct, frozen=True, gc=False):
    """The gate's facts for a worker that takes a run over: its receipts that have not succeeded, the tasks of its
    present generation without cancelled forms, and the receipts that it has taken to undo their acts. Other cancelled
    tasks say how long a call has waited for people."""

    receipts: list[ReceiptRow]
    tasks: list[TaskRow]
    taken: list[TakenAct] = []


class TaskQuery(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a list of tasks, oldest first. All must hold."""

    tenant: str | None = None
    status: TaskStatus | None = None
    run: str | None = None
    kind: TaskKind | None = None
    owner: str | None = None
    reference: str | None = None


class ReceiptQuery(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a list of receipts, oldest first. All must hold."""

    tenant: str | None = None
    run: str | None = None
    state: ReceiptState | None = None
    connector: str | None = None


class AuditQuery(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a list of entries, in the order of the chain, unsealed ones last. All must hold."""

    tenant: str
    run: str | None = None
    kind: str | None = None
    since: int | None = None
    until: int | None = None


class Span(msgspec.Struct, frozen=True, gc=False):
    """The entries of a run, from ``since`` on and before ``until``, of one kind or of all."""

    key: Key
    since: int | None = None
    until: int | None = None
    kind: str | None = None


class Note(msgspec.Struct, frozen=True, gc=False):
    """Append an entry to a tenant's audit. Answered ``Noted``.

    With an id, a second note of that id in the tenant changes nothing and is answered ``Noted`` as well. The id is no
    part of the entry. A note that is attached to a change needs none: the repeated change is recognised.
    """

    tenant: str
    run: str | None
    kind: str
    at: int
    body: bytes
    id: str | None = None


class OpenReceipt(msgspec.Struct, frozen=True, gc=False):
    """Reserve an idempotency key before acting. Answered ``Opened``, or ``Taken`` with the receipt that has the key.

    A failed receipt is replaced. A pending or unknown one is replaced only by an opening that names its token in
    ``instead_of``. An opening repeated with the same token is answered ``Opened`` again while it is not closed.

    With ``limits`` it counts as a write of its run and of every run above it. Where the key is free and one of these
    runs has no write left, it is answered ``Capped``. The caps of items (``caps``) hold as well.

    One that ``reverses`` another takes that one, under its own id. Where it cannot, it is answered ``Taken`` with that
    one, or, if it ``heeds_holders``, ``HeldBy`` an open run, unless it has taken that one before. See ``holding``.
    """

    receipt: ReceiptRow
    instead_of: str | None = None
    limits: WriteLimits | None = None
    heeds_holders: bool = False


class CloseReceipt(msgspec.Struct, frozen=True, gc=False):
    """Keep the outcome of an act. Answered ``Closed``, or ``Fenced`` where no pending or unknown receipt of that key
    has this token. Repeated, it is ``Closed`` again, and the attached changes are not made twice.

    Where the receipt ``reverses`` another and succeeded, that one's ``reversed_by`` is set. See ``orphaned_receipts``.
    """

    receipt: ReceiptRow
    blobs: Blobs = {}
    attached: tuple[Note, ...] = ()


class PutTask(msgspec.Struct, frozen=True, gc=False):
    """Make a task (version 1) or change it from the version before; ``blobs`` are files of an answer, and the task's.
    Answered ``Tasked``, or ``Fenced`` at another version. Repeated, it is ``Tasked``, and nothing is made twice."""

    task: TaskRow
    attached: tuple[Deliver | Note, ...] = ()
    blobs: Blobs = {}


class CancelTask(msgspec.Struct, frozen=True, gc=False):
    """Close a task that nobody needs to answer any more, at any version. Its answers stay.

    Answered ``Tasked`` where it is cancelled, now or before, or ``Fenced`` where it has been answered, has expired or
    does not exist. The attached changes are made only where this change itself cancels it.
    """

    tenant: str
    id: str
    at: int
    attached: tuple[Note, ...] = ()


def capped(line: Iterable[WritingRun], limits: WriteLimits) -> Capped | None:
    """The first run that may not write once more, of a run and those above it."""
    for each in line:
        most = each.most(limits)
        if most is not None and each.writes >= most:
            return Capped(each.run, each.writes, most)
    return None


def cancelled(task: TaskRow, at: int) -> TaskRow:
    """An open task's next version, which ``CancelTask`` makes."""
    return replace(task, version=task.version + 1, status="cancelled", closed_at=at)


class Noted(msgspec.Struct, frozen=True, gc=False):
    pass


class Opened(msgspec.Struct, frozen=True, gc=False):
    pass


class Taken(msgspec.Struct, frozen=True, gc=False):
    """The key belongs to this receipt."""

    receipt: ReceiptRow


class Capped(msgspec.Struct, frozen=True, gc=False):
    """This run, with all runs below it, has no write left."""

    run: str
    writes: int
    most: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    pass


class Tasked(msgspec.Struct, frozen=True, gc=False):
    pass

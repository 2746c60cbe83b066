"""What the gate keeps in the store: receipts, tasks, the audit's entries and blocks, signing keys, files.

The laws, judged with the others by ``holdfast.testing.stores``:

- A receipt is unique per tenant and idempotency key. Only the holder of its token may close it; one that failed may be
  opened anew by anyone, one that is pending only by whoever names its token.
- An opening that is one write more is counted with it, for its run and each run above it. None passes its limit.
- A task changes only from the version before: of two answers to one version the first is applied, the other refused.
  Cancelling alone asks for no version: it closes whatever is still open.
- An entry of the audit is written with the change it belongs to, and sealed later, once, in blocks that follow each
  other without a gap. One that has an id is written once, however often it is noted.
- Only the last signing key seals. Adding the next one notes how far each chain had come: nothing is sealed between.
- The evidence of a run has all its sealed entries: sealing another makes it due again, and evidence that lacks one is
  not kept. Entries about a run that was pruned do not reach its evidence any more.
- All these outlive their runs' pruning. A governed run is pruned only when it has evidence; its id is not used again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.store.admission import WriteLimits
from holdfast.store.values import Blobs, Cursor, Deliver, Key

ReceiptState = Literal["pending", "succeeded", "failed", "unknown"]
TaskKind = Literal["approval", "outcome", "form"]
TaskStatus = Literal["requested", "approved", "rejected", "completed", "expired", "cancelled"]

EVIDENCE: Final = "evidence.zip"
"""The kept of this name is a generation's evidence: its hash shows in the run's row."""


class ReceiptRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What an action attempted and what came of it. ``request`` and ``result`` are canonical CBOR, secrets masked."""

    tenant: str
    key: str
    id: str
    run: str
    root: bytes
    position: int
    attempt: int
    token: str
    state: ReceiptState
    action: str
    connector: str
    operation: str
    target: str
    writes: bool
    risk: str
    proposal: bytes
    request: bytes
    opened_at: int
    actor: str | None = None
    reverse: str | None = None
    reverses: str | None = None
    reversed_by: str | None = None
    task: str | None = None
    result: bytes | None = None
    result_blob: bytes | None = None  # the digest of a result that is too large to be kept here
    error: str | None = None
    cost: dict[str, float | str] | None = None
    closed_at: int | None = None
    abandoned: bool = False  # of an unknown outcome: nobody waits for it, nor finds it out unless another call needs it

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, oldest first."""
        return Cursor(self.opened_at, self.tenant, self.id)


class TaskAnswer(msgspec.Struct, frozen=True, gc=False):
    """What a person said to a task."""

    who: str
    verdict: str
    reason: str
    at: int
    value: bytes | None = None  # what the act gave, where the person knows; what a form was answered with


class Escalation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Who may answer as well once a task is overdue."""

    candidates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class TaskRow(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Work for a person. ``version`` counts its changes from 1. See ``holdfast.tasks``.

    ``kind`` is its subject: to approve an action, to say what became of one, or to fill a form in. What the author or a
    policy asked for never changes: a task that is escalated keeps ``candidates`` and ``groups``, and says when.
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
    proposal: bytes  # the hash of the proposed action, or of what a form asks: an answer is over exactly this
    summary: str
    details: bytes  # canonical CBOR of what the person must see
    tier: str
    two_person: bool
    candidates: tuple[str, ...]
    starter: str | None  # who started the run
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
    owner: str | None = None  # who has claimed it, or was assigned it
    due_at: int | None = None
    reminders: tuple[int, ...] = ()  # when people are reminded, in order
    reminded: int = 0  # how many of these times are over
    reminded_at: int | None = None
    escalation: Escalation | None = None
    escalated_at: int | None = None

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
        """What it says: its body, which is JSON. Raises ValueError where that was altered."""
        return msgspec.json.decode(self.body, type=dict[str, Any])


class Block(msgspec.Struct, frozen=True, gc=False):
    """A sealed stretch of a tenant's audit: a signed checkpoint. ``digests`` are its entries' hashes, end to end.

    ``form`` says how its head follows from them: 1 is a chain, 2 a tree.
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
    """A block, and the sequences of the entries that take its positions, in order."""

    block: Block
    sequences: tuple[int, ...]


def holding(blocks: Sequence[Block], places: Sequence[tuple[str, int]]) -> list[Block]:
    """Those of the blocks that hold one of these entries, each of which is named by tenant and position.

    ``blocks`` are those at or before the places.
    """
    wanted: dict[str, list[int]] = {}
    for tenant, at in sorted(places):
        wanted.setdefault(tenant, []).append(at)
    found = []
    for block in blocks:
        here = wanted.get(block.tenant, [])
        index = bisect_left(here, block.first)
        if index < len(here) and here[index] < block.first + block.count:
            found.append(block)
    return found


class SigningKey(msgspec.Struct, frozen=True, gc=False):
    """A key of the audit. ``private`` is None where it is kept elsewhere. Each is endorsed by the one before it.

    ``retirement`` is its signature over how far the keys before it count: over ``heads``, the root of a tree over the
    last blocks of so many ``chains``. Keys that earlier versions made have none.
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
    """The last block of a tenant's chain when a key was added: blocks behind it are not signed by the keys before."""

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
    """An kept and its bytes. ``through`` is the position of the last entry that evidence has, -1 where none."""

    about: KeptFile
    data: bytes
    through: int = -1


class Governed(msgspec.Struct, frozen=True, gc=False):
    """What a worker that takes a run over must know: its receipts that have not succeeded, and the tasks of its present
    generation that are not cancelled."""

    receipts: list[ReceiptRow]
    tasks: list[TaskRow]


class TaskQuery(msgspec.Struct, frozen=True, gc=False):
    """Which tasks to list: all conditions hold. Oldest first."""

    tenant: str | None = None
    status: TaskStatus | None = None
    run: str | None = None
    kind: TaskKind | None = None
    owner: str | None = None


class ReceiptQuery(msgspec.Struct, frozen=True, gc=False):
    """Which receipts to list: all conditions hold. Oldest first."""

    tenant: str | None = None
    run: str | None = None
    state: ReceiptState | None = None
    connector: str | None = None


class AuditQuery(msgspec.Struct, frozen=True, gc=False):
    """Which entries to list: all conditions hold. In the order of the chain, those not sealed yet last."""

    tenant: str
    run: str | None = None
    kind: str | None = None
    since: int | None = None
    until: int | None = None


class Span(msgspec.Struct, frozen=True, gc=False):
    """Which entries to read: those of a run, from ``since`` on and before ``until``, of one kind or of all."""

    key: Key
    since: int | None = None
    until: int | None = None
    kind: str | None = None


# -- changes -----------------------------------------------------------------------------------------------------------


class Note(msgspec.Struct, frozen=True, gc=False):
    """Append an entry to a tenant's audit. Answered ``Noted``.

    With an id, a second note of that id in the tenant changes nothing and is answered ``Noted`` as well. The id is no
    part of the entry. What is recognised by the change that brings it along needs none.
    """

    tenant: str
    run: str | None
    kind: str
    at: int
    body: bytes
    id: str | None = None


class OpenReceipt(msgspec.Struct, frozen=True, gc=False):
    """Reserve an idempotency key before acting. Answered ``Opened``, or ``Taken`` with the receipt that is in the way.

    A failed receipt gives way. A pending or unknown one gives way only to an opening that names its token in
    ``instead_of``. An opening repeated with the same token is answered ``Opened`` again while it is not closed.

    With ``limits`` it is one write more of its run, of that one's parent, and so on upwards, and is counted when it is
    opened. Where the key could be had and one of these runs has no write left, it is answered ``Capped``.
    """

    receipt: ReceiptRow
    instead_of: str | None = None
    limits: WriteLimits | None = None


class CloseReceipt(msgspec.Struct, frozen=True, gc=False):
    """Keep what came of an act. Answered ``Closed``, or ``Fenced`` where no pending or unknown receipt of that key has
    this token. Repeated, it is ``Closed`` again, and what comes also is not made twice.

    Where the receipt ``reverses`` another and succeeded, that one's ``reversed_by`` is set.
    """

    receipt: ReceiptRow
    blobs: Blobs = {}
    also: tuple[Note, ...] = ()


class PutTask(msgspec.Struct, frozen=True, gc=False):
    """Make a task (version 1) or change it from the version before. Answered ``Tasked``, or ``Fenced`` where it has
    another version already. Repeated as it was, it is ``Tasked`` again, and what comes also is not made twice.
    """

    task: TaskRow
    also: tuple[Deliver | Note, ...] = ()


class CancelTask(msgspec.Struct, frozen=True, gc=False):
    """Close a task that nobody needs to answer any more, whatever its version. What was said to it stays.

    Answered ``Tasked`` where it is cancelled, by this or before, or ``Fenced`` where it has been answered, has expired
    or is not there. What comes also is made only where this very change cancels it.
    """

    tenant: str
    id: str
    at: int
    also: tuple[Note, ...] = ()


def capped(line: Iterable[tuple[str, str, int]], limits: WriteLimits) -> Capped | None:
    """The first run of a line upwards, each with its workflow and writes, that may not write once more."""
    for run, workflow, writes in line:
        most = limits.of(workflow)
        if most is not None and writes >= most:
            return Capped(run, writes, most)
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
    """This run has written as often as it may, with its children."""

    run: str
    writes: int
    most: int


class Closed(msgspec.Struct, frozen=True, gc=False):
    pass


class Tasked(msgspec.Struct, frozen=True, gc=False):
    pass

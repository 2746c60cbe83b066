"""The changes that a store applies, and its answers to them. See ``protocol`` for the laws."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.store.cell_roots import PutRoot
from holdfast.store.cells import DropDead, PutCells
from holdfast.store.governance import (
    CancelTask,
    Capped,
    Closed,
    CloseReceipt,
    Note,
    Noted,
    Opened,
    OpenReceipt,
    PutTask,
    Taken,
    Tasked,
)
from holdfast.store.holding import HeldBy, Hold, Holding, HoldingChange, TookBack
from holdfast.store.items import ItemChange, Tally
from holdfast.store.splits import MarkSplit
from holdfast.store.values import (
    FUNCTION,
    MACHINE,
    Blobs,
    Code,
    DefinitionRow,
    Deliver,
    Key,
    Message,
    Origin,
    Projection,
    Segment,
    Work,
)


class Start(msgspec.Struct, frozen=True, gc=False):
    """Create a run with its first segment: leased to its ``owner`` from the start, or ready for any if ``queued``.

    Answered ``Started``; or ``Exists`` where a run has the ``trigger_key``, or else the id, with the facts that show
    whether it is the same start; or ``Retired`` where the run is deleted and evidence of it or of a child is kept. A
    child's id is its parent's, a ``~`` and more, so children of a new run of this id could get ids that were used. A
    root run that begins with it is answered ``Limited`` where people have set caps in its tenant: there only a claim,
    which counts what is under way, lets a run begin.
    """

    key: Key
    workflow: str
    fingerprint: bytes
    root: bytes
    segment: Segment
    projection: Projection
    parent: str | None = None
    parent_position: int | None = None
    priority: int = 0
    attributes: Mapping[str, str] = {}
    origin: Origin = Origin()
    blobs: Blobs = {}
    owner: str | None = None
    attached: tuple[Attachable, ...] = ()
    program_kind: str = FUNCTION
    code_digest: bytes | None = None
    trigger_key: bytes | None = None

    @property
    def begins(self) -> bool:
        """Whether it is a root run that is leased from the start, or begins with it."""
        return self.parent is None and (self.owner is not None or self.projection.standing != "queued")

    @property
    def begun_at(self) -> int | None:
        """When it counts as begun. A lane needs no place under a cap, so it has begun when it is there."""
        is_queued = self.projection.standing == "queued" and self.program_kind != MACHINE
        return None if is_queued else self.segment.at


class Advance(msgspec.Struct, frozen=True, gc=False):
    """Append one turn to a run that this worker leases. Answered ``Advanced`` or ``Fenced``.

    ``consumed`` is the inbox position up to which messages were taken into this turn; they are deleted. With
    ``release`` the lease is given up, unless more messages have arrived since and the run is not paused. An ended run
    is always released, and its inbox, work and heartbeats are deleted. A turn with a segment sets the count of crashes
    to 0; one without keeps it: a worker that takes a run over makes such a turn before it begins a step that may kill
    it, too.

    A ``checkpoint`` replaces the run's last one, at the version and head of this turn's segment, which must be present.
    An empty checkpoint only deletes the last one. A new generation has none.
    """

    key: Key
    generation: int
    epoch: int
    version: int
    segment: Segment | None
    projection: Projection
    consumed: int
    release: bool
    blobs: Blobs = {}
    attached: tuple[Attachable, ...] = ()
    renewal: Renewal | None = None
    checkpoint: bytes | None = None


class Renewal(msgspec.Struct, frozen=True, gc=False):
    """The first segment of a run's next generation: the same run with a fresh journal."""

    root: bytes
    segment: Segment
    blobs: Blobs = {}


class Renew(msgspec.Struct, frozen=True, gc=False):
    """Begin the next generation of a run that has ended, and make it ready. Answered ``Renewed`` or ``Fenced``."""

    key: Key
    generation: int
    renewal: Renewal
    projection: Projection
    at: int


class Enqueue(msgspec.Struct, frozen=True, gc=False):
    """Offer an attempt to a queue, once, even if it is done; a later attempt replaces it. Answered ``Enqueued``."""

    work: Work


class Withdraw(msgspec.Struct, frozen=True, gc=False):
    """Delete work, leased, done or free; with ``unbegun`` only free work. Answered ``Withdrawn``."""

    key: Key
    position: int
    unbegun: bool = False


class FinishWork(msgspec.Struct, frozen=True, gc=False):
    """Mark leased work done and notify its run. Answered ``Delivered``, or ``Fenced`` where the lease was lost.

    Done work stays until its run withdraws it: a worker that takes the run over offers it again, and it is not redone.
    """

    key: Key
    position: int
    epoch: int
    message: Message


class Beat(msgspec.Struct, frozen=True, gc=False):
    """Keep the last progress report of a long step. Answered ``Enqueued``."""

    key: Key
    position: int
    details: bytes
    at: int


class KeepCode(msgspec.Struct, frozen=True, gc=False):
    """Keep a program's code for a tenant, for good. Answered ``Kept``, also when repeated, or ``CodeMisfit``."""

    tenant: str
    code: Code


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Keep a definition's code, and that its name and version mean this code, for good.

    Refused with ``VersionTaken`` where the name and version mean other code, with ``Kept`` where they mean this code
    already, and with ``CodeMisfit``.
    """

    tenant: str
    version: int
    code: Code
    at: int

    @property
    def row(self) -> DefinitionRow:
        return DefinitionRow(self.tenant, self.code.name, self.version, self.code.digest, self.at)


class SetReference(msgspec.Struct, frozen=True, gc=False):
    """Set the business reference of a run and of its open tasks. Answered ``Referenced``.

    It is attached to the turn that changes the reference. Closed tasks keep the reference that they had.
    """

    key: Key
    reference: str | None


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Stop a run until it is resumed. Answered ``Paused``, or ``Unknown`` or ``Gone`` where it is missing or ended.

    With ``present``, the reason of the pause that it must have now: an act is answered ``Fenced`` where it has another
    one or none.
    """

    key: Key
    reason: str
    at: int
    present: str | None = None


class Unpause(msgspec.Struct, frozen=True, gc=False):
    """Resume a paused run, from ``at``. Answered like ``Pause``; a run that is not paused is unchanged."""

    key: Key
    at: int
    present: str | None = None


class Operate(msgspec.Struct, frozen=True, gc=False):
    """A person's act on runs, tasks, definitions or items, and its note in the audit: both are made, or neither is.

    Answered ``OperatedOn`` where every change could be made. Where one could not, nothing is made, and its refusal is
    the answer. At most one of the changes is a ``Start`` or a ``PutTask``; it is made first.

    The note has an id. If it exists already, the same act was committed before and its answer was lost: then it is
    answered ``Repeated``, and nothing is made twice, even if the runs have changed since.
    """

    note: Note
    changes: tuple[Act, ...]


Act = Deliver | Pause | Unpause | Renew | Publish | Start | PutTask | ItemChange | DropDead | PutRoot | MarkSplit | Hold
Gating = OpenReceipt | CloseReceipt | PutTask | CancelTask | Note | HoldingChange
Attachable = Start | Deliver | Enqueue | Withdraw | KeepCode | SetReference | PutCells | MarkSplit | Gating
Change = (
    Start
    | Advance
    | Renew
    | Deliver
    | Enqueue
    | Withdraw
    | FinishWork
    | Beat
    | KeepCode
    | SetReference
    | PutCells
    | MarkSplit
    | Tally
    | Gating
    | Operate
)


class Started(msgspec.Struct, frozen=True, gc=False):
    epoch: int
    attached: tuple[Answer, ...] = ()


class Exists(msgspec.Struct, frozen=True, gc=False):
    """The id, or the trigger, is that of the run ``run``."""

    workflow: str
    fingerprint: bytes
    run: str


class Limited(msgspec.Struct, frozen=True, gc=False):
    """Refused: a claim decides when the run begins. It can be started as ``queued``."""


class Retired(msgspec.Struct, frozen=True, gc=False):
    """The id was used before, and evidence is kept under it: in the audit it always means that run."""


class Advanced(msgspec.Struct, frozen=True, gc=False):
    """Applied. ``arrived`` is the inbox's last position, ``pause`` the reason why the run is paused, if it is."""

    arrived: int
    pause: str | None
    released: bool
    attached: tuple[Answer, ...] = ()


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """Refused: the lease was lost, or another change came first."""


class Renewed(msgspec.Struct, frozen=True, gc=False):
    generation: int


class Paused(msgspec.Struct, frozen=True, gc=False):
    """Applied: the run is paused, or is no longer paused."""


class OperatedOn(msgspec.Struct, frozen=True, gc=False):
    """Applied, with its note."""


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """It is in the inbox. ``heir`` is the id of the run that got it, where that is another one than it was sent to."""

    position: int
    heir: str | None = None


class Repeated(msgspec.Struct, frozen=True, gc=False):
    """A message of that id was delivered before."""


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """There is no such run."""


class Gone(msgspec.Struct, frozen=True, gc=False):
    """The run has ended."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """The code is in the store."""


class CodeMisfit(msgspec.Struct, frozen=True, gc=False):
    """Refused: the digest does not match the bytes."""


class VersionTaken(msgspec.Struct, frozen=True, gc=False):
    """Refused: the name and version mean the code of this digest."""

    digest: bytes


class Referenced(msgspec.Struct, frozen=True, gc=False):
    """The run has this business reference, if it exists."""


class Marked(msgspec.Struct, frozen=True, gc=False):
    """The run has this mark, if it exists."""


class Tallied(msgspec.Struct, frozen=True, gc=False):
    """The item's version is raised."""


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """It is offered."""


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    """Nothing of the work is there any more, unless it is ``left`` to the worker that leases it, or is done."""

    left: bool = False


Answer = (
    Started
    | Exists
    | Retired
    | Limited
    | Advanced
    | Fenced
    | Renewed
    | Paused
    | OperatedOn
    | Delivered
    | Repeated
    | Unknown
    | Gone
    | Enqueued
    | Kept
    | CodeMisfit
    | VersionTaken
    | Referenced
    | Marked
    | Tallied
    | Withdrawn
    | Noted
    | Opened
    | Taken
    | Capped
    | Closed
    | Tasked
    | Holding
    | TookBack
    | HeldBy
)

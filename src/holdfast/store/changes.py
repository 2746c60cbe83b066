"""The changes that a store applies, and its answers to them. See ``protocol`` for the laws."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

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
from holdfast.store.values import FUNCTION, Blobs, Code, Deliver, Key, Message, Origin, Projection, Segment, Work


class Start(msgspec.Struct, frozen=True, gc=False):
    """Create a run with its first segment. With ``owner`` it is leased to that worker from the start; without one, it
    is ready for any worker if it is ``queued``.

    Answered ``Started``, or ``Exists`` where the id is taken, with what is needed to tell whether it is the same start,
    or ``Retired`` where there is no such run any more and evidence of it or of a child is kept: a child's id is its
    parent's, a ``~`` and more, so the children of another run of this id would have ids that were used.
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
    also: tuple[Also, ...] = ()
    program_kind: str = FUNCTION
    code_digest: bytes | None = None


class Advance(msgspec.Struct, frozen=True, gc=False):
    """Append one turn to a run that this worker leases. Answered ``Advanced`` or ``Fenced``.

    ``consumed`` is the inbox position up to which messages were taken into this turn; they are deleted. With
    ``release`` the lease is given up, unless more messages have arrived meanwhile and the run is not paused. An ended
    run is always released, and its inbox, work and heartbeats are deleted. A turn with a segment ends the row of
    crashes; one without keeps the count: whoever takes a run over makes such a turn before it begins a step that may
    kill it, too.

    A ``checkpoint`` takes the place of the run's last one, at the version and head of this turn's segment, which there
    must be; an empty one only deletes that. A new generation has none.
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
    also: tuple[Also, ...] = ()
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
    """Offer work to a queue. The same attempt offered again changes nothing, even when it is done; a later attempt
    takes its place. Answered ``Enqueued``."""

    work: Work


class Withdraw(msgspec.Struct, frozen=True, gc=False):
    """Delete work, leased, done or free. Answered ``Withdrawn``."""

    key: Key
    position: int


class FinishWork(msgspec.Struct, frozen=True, gc=False):
    """Mark leased work done and tell its run. Answered ``Delivered``, or ``Fenced`` where the lease was lost.

    The work stays, done, until its run withdraws it: so a worker that takes the run over between the two and offers the
    work again cannot have it done twice.
    """

    key: Key
    position: int
    epoch: int
    message: Message


class Beat(msgspec.Struct, frozen=True, gc=False):
    """Keep what a long step last said of its progress. Answered ``Enqueued``."""

    key: Key
    position: int
    details: bytes
    at: int


class KeepCode(msgspec.Struct, frozen=True, gc=False):
    """Keep a program's code for a tenant, for good. Answered ``Kept``, repeated too, or ``CodeMisfit``."""

    tenant: str
    code: Code


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Keep a run from going on. Answered ``Paused``, or ``Unknown`` or ``Gone`` where it is not there or has ended."""

    key: Key
    reason: str
    at: int


class Unpause(msgspec.Struct, frozen=True, gc=False):
    """Let a run go on, from then. Answered as ``Pause``; a run that is not paused stays as it is."""

    key: Key
    at: int


class Operate(msgspec.Struct, frozen=True, gc=False):
    """What a person does to runs, and its note in the audit: both are made, or neither is.

    Answered ``OperatedOn`` where every change could be made. Where one could not, nothing is made, and its refusal is
    the answer. The note has an id: where it is there already, this very act was committed before and its answer was
    lost. It is answered ``Repeated`` then, and nothing is made twice, whatever has happened since.
    """

    note: Note
    changes: tuple[Deliver | Pause | Unpause | Renew, ...]


Gating = OpenReceipt | CloseReceipt | PutTask | CancelTask | Note
Also = Start | Deliver | Enqueue | Withdraw | KeepCode | Gating
Change = Start | Advance | Renew | Deliver | Enqueue | Withdraw | FinishWork | Beat | KeepCode | Gating | Operate


class Started(msgspec.Struct, frozen=True, gc=False):
    epoch: int
    also: tuple[Answer, ...] = ()


class Exists(msgspec.Struct, frozen=True, gc=False):
    """The id is taken."""

    workflow: str
    fingerprint: bytes


class Retired(msgspec.Struct, frozen=True, gc=False):
    """The id was used before, and evidence is kept under it: in the audit it names that run for ever."""


class Advanced(msgspec.Struct, frozen=True, gc=False):
    """Applied. ``arrived`` is the inbox's last position, ``pause`` the reason why the run must not go on, if any."""

    arrived: int
    pause: str | None
    released: bool
    also: tuple[Answer, ...] = ()


class Fenced(msgspec.Struct, frozen=True, gc=False):
    """Refused: the lease was lost, or someone else has changed it since."""


class Renewed(msgspec.Struct, frozen=True, gc=False):
    generation: int


class Paused(msgspec.Struct, frozen=True, gc=False):
    """Applied: the run is paused, or is not any more."""


class OperatedOn(msgspec.Struct, frozen=True, gc=False):
    """Applied, with its note."""


class Delivered(msgspec.Struct, frozen=True, gc=False):
    position: int


class Repeated(msgspec.Struct, frozen=True, gc=False):
    """A message of that id was delivered before."""


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """There is no such run."""


class Gone(msgspec.Struct, frozen=True, gc=False):
    """The run has ended."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """The code is there."""


class CodeMisfit(msgspec.Struct, frozen=True, gc=False):
    """Refused: the digest is not that of the bytes."""


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    pass


class Withdrawn(msgspec.Struct, frozen=True, gc=False):
    pass


Answer = (
    Started
    | Exists
    | Retired
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
    | Withdrawn
    | Noted
    | Opened
    | Taken
    | Capped
    | Closed
    | Tasked
)

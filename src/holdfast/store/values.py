"""The parts of changes, answers and rows: keys, segments, messages, work, projections."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

Status = Literal["queued", "running", "waiting", "paused", "cancelling", "completed", "failed", "cancelled"]
Standing = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
"""The state of a run's journal in its row. A pause or a cancellation is shown in its place."""

FUNCTION: Final = "function"
"""The program kind of Python functions. Their runs are claimed by name, those of other kinds by the kind."""
MACHINE: Final = "machine"
"""The program kind of lanes, which carry the cells of machines."""
PAUSED: Final = "paused by request"
"""The prefix of the reason of a pause by a person. Any other reason means that the engine parked the run."""

CANCEL: Final = "cancel"
"""The kind of the message that asks a run to cancel: a store shows that the run is asked, as soon as it arrives."""
ENDED: Final = frozenset({"completed", "failed", "cancelled"})


Blobs = Mapping[bytes, bytes]
"""Large payloads by the digest of their bytes."""


class Serves(msgspec.Struct, frozen=True, gc=False):
    """The runs that a worker takes: those of these functions, and all of these other kinds of programs."""

    functions: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def takes(self, program_kind: str, name: str) -> bool:
        """Whether it serves a program of that kind and name."""
        return name in self.functions if program_kind == FUNCTION else program_kind in self.kinds


class Code(msgspec.Struct, frozen=True, gc=False):
    """A program's code, kept by the sha256 of its bytes."""

    digest: bytes
    kind: str
    name: str
    data: bytes

    @property
    def fits(self) -> bool:
        """Whether the digest matches the bytes."""
        return hashlib.sha256(self.data).digest() == self.digest


class DefinitionRow(NamedTuple):
    """A published definition: its name and version, and the digest of the code that they mean, for good. ``written`` is
    its author's order as JSON, which the digest does not have."""

    tenant: str
    name: str
    version: int
    digest: bytes
    at: int
    written: str = "{}"


class Key(NamedTuple):
    """A run, by its owner and its id. Tenant leads every key."""

    tenant: str
    run: str


class Cursor(NamedTuple):
    """A place in a list: the time, tenant and id of the last row of a page."""

    at: int
    tenant: str
    id: str

    @property
    def cursor(self) -> Cursor:
        return self


class Segment(msgspec.Struct, frozen=True, gc=False):
    """A part of a journal: the encoded events of one turn, and the hash that chains them to all before."""

    first: int
    count: int
    events: bytes
    head: bytes
    at: int


class Message(msgspec.Struct, frozen=True, gc=False):
    """Something for a run's inbox. With an ``id``, a second one of that id is recognised as a repetition."""

    kind: str
    body: bytes
    at: int
    id: str | None = None


class Received(NamedTuple):
    """A message with its place in the inbox."""

    position: int
    message: Message


class Work(msgspec.Struct, frozen=True, gc=False):
    """An attempt of a queued step, to be leased by any worker that serves the queue."""

    key: Key
    position: int
    queue: str
    name: str
    attempt: int
    body: bytes
    priority: int = 0
    available_at: int = 0
    epoch: int = 1  # the first number of its leases; each lease raises it
    claims: int = 0  # how often this attempt was leased


class Projection(msgspec.Struct, frozen=True, gc=False):
    """The facts from a run's journal that its row shows."""

    standing: Standing
    wake_at: int | None = None
    waiting: str | None = None
    cancelling: bool = False
    error: str | None = None
    pause: str | None = None
    governed: bool = False  # it has proposed an action
    writes: int = 0  # acts that write, so far


class Origin(msgspec.Struct, frozen=True, gc=False):
    """The origin of a run: the person who started it, its workspace, and its trigger."""

    workspace: str = ""
    actor: str | None = None
    trigger_type: str | None = None
    trigger_ref: str | None = None


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Put a message into a run's inbox and make the run ready. With ``unpauses`` a paused run continues with it.

    A message to a ``place`` of a run that was split goes to the heir that has the place (see ``splits``). Its id is
    known to the run that it is addressed to, so that it is recognised whoever gets it.

    Answered ``Delivered``, ``Repeated``, ``Unknown`` or ``Gone``.
    """

    key: Key
    message: Message
    unpauses: bool = False
    place: int | None = None

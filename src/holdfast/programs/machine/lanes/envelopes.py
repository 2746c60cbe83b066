"""What a lane hears: an event for one of its cells, what a person wants done about a cell, how far an effect is, and
orders about itself.

An envelope is canonical CBOR, and strict: what does not encode to itself is refused. The key comes first after the tag,
so that whoever brings a turn its cells finds it without reading the rest. Only a frame of progress has none: it goes to
the cell that asked for the effect, which the lane knows.
"""

from __future__ import annotations

from typing import Final

import cbor2
import msgspec

from holdfast.errors import StoreCorrupt
from holdfast.journal.cbor import canonical
from holdfast.runs.lanes import PROGRESS, ProgressFrame
from holdfast.store.splits import PLACES

HOPS_LIMIT: Final = 1000
"""After so many emits that led to one another an event is a dead letter: machines talk in a circle."""

_DOMAIN: Final = "event"
_RELEASE: Final = "release"
_DROP: Final = "drop"
_ADOPT: Final = "adopt"
_HAND_OVER: Final = "inherit"
_FORWARD: Final = "forward"
_CONTINUE: Final = "continue"
_HELD: Final = "held"
_SPLIT: Final = "split"
_HANDED: Final = "handed"
_GO_ON: Final = "go"

_ORDER_TAGS: Final = tuple(bytes([0x60 + len(tag)]) + tag.encode() for tag in (_SPLIT, _HANDED, _GO_ON))
"""The tags of orders as they are written."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A domain event for one cell. ``hops`` counts the emits that led to it, ``cause`` names what emitted it."""

    key: bytes
    schema: str
    value: bytes
    hops: int = 0
    id: str | None = None
    cause: str = ""
    actor: str | None = None

    def write(self) -> bytes:
        return canonical([_DOMAIN, self.key, self.schema, self.value, self.hops, self.id, self.cause, self.actor])


class Release(msgspec.Struct, frozen=True, gc=False):
    """A parked cell goes on: what was held for it is handled. With ``drop`` the event that parked it is not.

    ``cause`` is the hash of that event, as the cell holds it: a cell that was parked by another one meanwhile stays
    parked, so that a release which is sent twice never drops what nobody has looked at. None is for any.
    """

    key: bytes
    drop: bool = False
    cause: bytes | None = None

    def write(self) -> bytes:
        return canonical([_DROP if self.drop else _RELEASE, self.key, self.cause])


class Adoption(msgspec.Struct, frozen=True, gc=False):
    """A cell comes from elsewhere, with its record there: from a root of another lane. ``source`` says from where."""

    key: bytes
    record: bytes
    source: str

    def write(self) -> bytes:
        return canonical([_ADOPT, self.key, self.record, self.source])


class HandOver(msgspec.Struct, frozen=True, gc=False):
    """A cell comes from the lane that was split, with its record there. ``source`` is the id of that lane."""

    key: bytes
    record: bytes
    source: str

    def write(self) -> bytes:
        return canonical([_HAND_OVER, self.key, self.record, self.source])


class ForwardedReceipt(msgspec.Struct, frozen=True, gc=False):
    """What came of an effect that a cell had asked for before it was handed over, or what it reported. ``receipt`` is
    written as a parked cell holds one."""

    key: bytes
    receipt: bytes

    def write(self) -> bytes:
        return canonical([_FORWARD, self.key, self.receipt])


class Continuation(msgspec.Struct, frozen=True, gc=False):
    """A cell that was released handles more of what is held for it: its lane asks itself for that, turn by turn."""

    key: bytes

    def write(self) -> bytes:
        return canonical([_CONTINUE, self.key])


class HeldPart(msgspec.Struct, frozen=True, gc=False):
    """A part of what is held for a cell that comes from elsewhere, from the number ``first`` on. The cell follows when
    all parts are there: its record proves them."""

    key: bytes
    first: int
    events: list[bytes]

    def write(self) -> bytes:
        return canonical([_HELD, self.key, self.first, self.events])


class SplitOrder(msgspec.Struct, frozen=True, gc=False):
    """The lane hands its cells over: to lanes ``first`` and following, which divide all keys into ``lanes`` stretches.
    Its own heirs are those from ``heirs`` up to before ``end``. In round 0 nothing is handed over: what came with the
    order is handled first. ``begun`` is a cell for which so much is held that it takes several rounds: its key, and
    where its chain began, the number and the link."""

    first: int
    lanes: int
    heirs: int
    end: int
    round: int = 0
    begun: tuple[bytes, int, bytes] | None = None

    def write(self) -> bytes:
        begun = [] if self.begun is None else [list(self.begun)]
        return canonical([_SPLIT, self.first, self.lanes, self.heirs, self.end, self.round, *begun])

    def heir_of(self, place: int) -> int:
        """The lane that gets the key of this place."""
        return self.first + (place * self.lanes >> PLACES)


class Handed(msgspec.Struct, frozen=True, gc=False):
    """The lane that was split has handed over all that it had."""

    def write(self) -> bytes:
        return canonical([_HANDED])


class GoOn(msgspec.Struct, frozen=True, gc=False):
    """There is more in the lane than one turn takes."""

    def write(self) -> bytes:
        return canonical([_GO_ON])


Order = SplitOrder | Handed | GoOn
"""What a lane does as a lane."""

Addressed = Envelope | Release | Continuation | Adoption | HandOver | HeldPart | ForwardedReceipt
"""What is for one cell."""

_KINDS: Final[dict[str, type[Addressed | Order | ProgressFrame]]] = {
    _DOMAIN: Envelope,
    _ADOPT: Adoption,
    _HAND_OVER: HandOver,
    _FORWARD: ForwardedReceipt,
    _CONTINUE: Continuation,
    _HELD: HeldPart,
    _SPLIT: SplitOrder,
    _HANDED: Handed,
    _GO_ON: GoOn,
    PROGRESS: ProgressFrame,
}


def is_order(data: bytes) -> bool:
    """Whether an envelope is an order, by its tag alone."""
    return data[1:].startswith(_ORDER_TAGS)


Heard = Addressed | Order | ProgressFrame


def read_envelope(data: bytes) -> Heard:
    """What was heard. Raises StoreCorrupt."""
    try:
        tag, *fields = cbor2.loads(data)
        if tag in (_RELEASE, _DROP):
            key, cause = fields
            return Release(key, tag == _DROP, cause)
        if tag not in _KINDS:
            raise ValueError(f"unknown tag {tag!r:.40}")
        return _KINDS[tag](*fields)
    except (cbor2.CBORError, ValueError, TypeError) as error:
        raise StoreCorrupt(
            f"a message to a lane cannot be read ({error}): a newer Holdfast wrote it, or it is damaged."
        ) from error


def open_envelope(data: bytes) -> Addressed | ProgressFrame:
    """What was heard, and is no order: those are taken first. Raises StoreCorrupt."""
    heard = read_envelope(data)
    if isinstance(heard, Order):
        raise StoreCorrupt(f"a lane has the order {heard!r:.60} where it cannot take one: restore it from a backup.")
    return heard

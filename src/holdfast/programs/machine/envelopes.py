"""What a lane hears: an event for one of its cells, what a person wants done about a cell, or how far an effect is.

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

HOPS_LIMIT: Final = 1000
"""After so many emits that led to one another an event is a dead letter: machines talk in a circle."""

_DOMAIN: Final = "event"
_RELEASE: Final = "release"
_DROP: Final = "drop"
_ADOPT: Final = "adopt"


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


Heard = Envelope | Release | Adoption | ProgressFrame


def read_envelope(data: bytes) -> Heard:
    """What was heard. Raises StoreCorrupt."""
    try:
        tag, *fields = cbor2.loads(data)
        if tag == _DOMAIN:
            return Envelope(*fields)
        if tag in (_RELEASE, _DROP):
            key, cause = fields
            return Release(key, tag == _DROP, cause)
        if tag == _ADOPT:
            return Adoption(*fields)
        if tag == PROGRESS:
            return ProgressFrame(*fields)
        raise ValueError(f"unknown tag {tag!r:.40}")
    except (cbor2.CBORError, ValueError, TypeError) as error:
        raise StoreCorrupt(
            f"a message to a lane cannot be read ({error}): a newer Holdfast wrote it, or it is damaged."
        ) from error

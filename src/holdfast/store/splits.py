"""Splits: a run whose messages others get from now on, each by its place.

A run that was split keeps what it has and gets no more of what is sent to a place: that goes to its heirs, which divide
all places evenly among themselves. Whoever sends need not know it. The mark of a run says what it is:

    mark           means
    None           it gets what is sent to it
    ``inherits``   so does this, but it has not handled it yet: what its forerunner had comes first
    ``64:128``     it was split: of 128 heirs, whose numbers begin with 64, each has its share of the places

A heir's id is that of its forerunner with its own number behind the last colon.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.store.values import Key

INHERITS: Final = "inherits"
PLACES: Final = 32
"""A place is a number of so many bits."""


class MarkSplit(msgspec.Struct, frozen=True, gc=False):
    """Set the mark of a run. Answered ``Marked``; a run that does not exist stays unmarked.

    As a part of an ``Operate`` it is refused with ``Unknown`` or ``Gone`` where the run is missing or has ended.
    """

    key: Key
    split: str | None


def split_mark(first: int, heirs: int) -> str:
    """The mark of a run that was split into so many heirs, numbered from ``first`` on."""
    return f"{first}:{heirs}"


def is_split(mark: str | None) -> bool:
    """Whether a run of this mark hands on what is sent to a place."""
    return mark is not None and mark != INHERITS


def heir_of(key: Key, mark: str | None, place: int | None) -> Key | None:
    """The run that gets what is sent to a place of this one; None where that is itself."""
    if mark is None or mark == INHERITS or place is None:
        return None
    first, _, heirs = mark.partition(":")
    number = int(first) + (place * int(heirs) >> PLACES)
    return Key(key.tenant, f"{key.run.rpartition(':')[0]}:{number}")

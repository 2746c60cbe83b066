"""What is drawn, as nested parts and without places. Definitions and calls both become these.

====================  ================================================================
``SingleBox``         one box
``Sequence``          parts behind each other
``Split``             a head, branches beside each other, and where they meet again
``Frame``             a part inside a named frame
``Layered``           parts by their dependencies
``Beside``            a part with others at its side: handlers, and what undoes it
====================  ================================================================
"""

from __future__ import annotations

import msgspec

from holdfast.drawing.picture import EdgeKind, Element


class SingleBox(msgspec.Struct, frozen=True):
    """One box. With ``ends`` nothing comes behind it."""

    element: Element
    ends: bool = False


class Sequence(msgspec.Struct, frozen=True):
    """Parts behind each other."""

    parts: tuple[Part, ...]


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """Branches beside each other. With ``bars`` they run in parallel. No branch is empty.

    They meet again unless none of them goes on; with ``meets`` they do in any case.
    """

    head: Element
    branches: tuple[Sequence, ...]
    bars: bool = False
    meets: bool = False


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """A part inside a frame. With ``loops`` an edge leads from its end to its beginning. With ``ends`` nothing comes
    behind it."""

    element: Element
    inside: Part
    loops: bool = False
    ends: bool = False


class Link(msgspec.Struct, frozen=True):
    """A dependency: the positions of two parts of a ``Layered``."""

    source: int
    target: int
    kind: EdgeKind


class Layered(msgspec.Struct, frozen=True):
    """Parts by their dependencies, which must have no cycle. Only inside a frame."""

    parts: tuple[Part, ...]
    links: tuple[Link, ...]


class Side(msgspec.Struct, frozen=True):
    """What stands beside a part: a label and what follows it. With ``returns`` it goes on behind the part."""

    content: Sequence
    kind: EdgeKind
    returns: bool


class Beside(msgspec.Struct, frozen=True):
    """A part, and what stands at its side. ``id`` names where they meet again."""

    id: str
    body: Part
    sides: tuple[Side, ...]


Part = SingleBox | Sequence | Split | Frame | Layered | Beside


def goes_on(part: Part) -> bool:
    """Whether anything can come behind a part."""
    match part:
        case SingleBox(ends=ends) | Frame(ends=ends):
            return not ends
        case Sequence(parts=parts):
            return all(map(goes_on, parts))
        case Split(branches=branches):
            return any(map(goes_on, branches))
        case Beside(body=body, sides=sides):
            return goes_on(body) or any(side.returns for side in sides)
        case Layered():
            return True

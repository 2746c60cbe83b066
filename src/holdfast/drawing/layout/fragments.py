"""A fragment: a part that has been laid out, with places relative to its own corner.

Places are given along the flow (``main``) and across it (``cross``), so that one layout serves both directions. Every
fragment is entered and left on one line along the flow, its ``axis``. From its beginning to its entry and from its exit
to its end that line is free of boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from holdfast.drawing.picture import Box, Direction, Edge, EdgeKind, Element

Place = tuple[int, int]


class Port(NamedTuple):
    """A point on the border of a box. An edge of several may begin so far beside it, on the same border."""

    box: str
    main: int
    cross: int
    room: int = 0

    def moved(self, main: int, cross: int) -> Port:
        return self._replace(main=self.main + main, cross=self.cross + cross)

    @property
    def place(self) -> Place:
        return (self.main, self.cross)


class PlacedBox(NamedTuple):
    """A box in a fragment."""

    element: Element
    main: int
    cross: int
    main_size: int
    cross_size: int


class Wire(NamedTuple):
    """An edge in a fragment."""

    source: str
    target: str
    kind: EdgeKind
    places: list[Place]


class Fragment(msgspec.Struct, kw_only=True):
    """A part with its size. ``hook`` is where edges to what stands beside it begin; ``owner`` is the frame that is
    around everything inside it."""

    main: int
    cross: int
    axis: int
    entry: Port | None = None
    exit: Port | None = None
    hook: Port | None = None
    goes_on: bool = True
    owner: str | None = None
    boxes: list[PlacedBox] = []
    wires: list[Wire] = []
    inside: list[tuple[int, int, Fragment]] = []

    def entry_at(self, main: int, cross: int) -> Port | None:
        """The entry of the fragment if it stands there."""
        return None if self.entry is None else self.entry.moved(main, cross)

    def exit_at(self, main: int, cross: int) -> Port | None:
        """The exit of the fragment if it stands there; None where nothing comes behind it."""
        return None if self.exit is None or not self.goes_on else self.exit.moved(main, cross)


def wire(source: Port, target: Port, kind: EdgeKind, *between: Place) -> Wire:
    """An edge from port to port by these places."""
    return Wire(source.box, target.box, kind, straightened([source.place, *between, target.place]))


def straightened(places: list[Place]) -> list[Place]:
    """The same line without places that it does not turn at."""
    kept: list[Place] = []
    for place in places:
        if kept and place == kept[-1]:
            continue
        if len(kept) > 1 and _on_line(kept[-2], kept[-1], place):
            kept.pop()
        kept.append(place)
    return kept


def _on_line(first: Place, middle: Place, last: Place) -> bool:
    """Whether a line goes straight on in the middle. Only for lines along an axis: that is enough, and exact."""
    return first[0] == middle[0] == last[0] or first[1] == middle[1] == last[1]


class Flat(NamedTuple):
    """Everything in a fragment, with places from one corner."""

    boxes: list[Box]
    edges: list[Edge]


def flat(fragment: Fragment, direction: Direction, x: int, y: int) -> Flat:
    """The boxes and edges of a fragment whose corner is at this point."""
    down, found = direction == "down", Flat([], [])
    corner = (y, x) if down else (x, y)
    for main, cross, each, parent in _all(fragment, *corner):
        for box in each.boxes:
            found.boxes.append(_box(box, main, cross, parent, down))
        for one in each.wires:
            places = ((main + a, cross + b) for a, b in one.places)
            points = tuple((b, a) if down else (a, b) for a, b in places)
            found.edges.append(Edge(source=one.source, target=one.target, kind=one.kind, points=points))
    return found


def _all(fragment: Fragment, main: int, cross: int) -> Iterator[tuple[int, int, Fragment, str | None]]:
    waiting: list[tuple[int, int, Fragment, str | None]] = [(main, cross, fragment, None)]
    while waiting:
        main, cross, each, parent = waiting.pop()
        yield main, cross, each, parent
        inner = each.owner or parent
        waiting.extend((main + a, cross + b, part, inner) for a, b, part in reversed(each.inside))


def _box(placed: PlacedBox, main: int, cross: int, parent: str | None, down: bool) -> Box:
    a, b = main + placed.main, cross + placed.cross
    x, y, width, height = (
        (b, a, placed.cross_size, placed.main_size) if down else (a, b, placed.main_size, placed.cross_size)
    )
    fields = {name: getattr(placed.element, name) for name in placed.element.__struct_fields__}
    return Box(**fields, x=x, y=y, width=width, height=height, parent=parent)

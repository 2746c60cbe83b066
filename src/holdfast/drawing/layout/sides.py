"""What stands beside a part: handlers and what undoes it, behind each other in a row of their own."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.drawing.layout.fragments import Fragment, PlacedBox, Port, wire
from holdfast.drawing.measures import DOT, RAIL, SIDE_GAP, STACK_GAP
from holdfast.drawing.picture import EdgeKind, Element


class PlacedSide(NamedTuple):
    """A side that has been laid out. ``label`` is its first box: edges come to it from the body."""

    label: Fragment
    whole: Fragment
    kind: EdgeKind
    returns: bool


def beside(body: Fragment, sides: list[PlacedSide], dot: Element) -> Fragment:
    """The body, and its sides beside it. Those that return are last, so that few edges must go around."""
    sides = sorted(sides, key=lambda side: side.returns)
    hook = body.hook
    if hook is None:
        raise AssertionError("a node has a place for its handlers")
    cross, main = body.cross + SIDE_GAP, hook.main - sides[0].label.main // 2
    if main < 0:  # the first label is larger than the body: their middles stay on one line
        return beside(_later(body, -main), sides, dot)
    found = Fragment(
        main=body.main,
        cross=cross + max(side.whole.cross for side in sides),
        axis=body.axis,
        entry=body.entry,
        exit=body.exit,
        goes_on=body.goes_on,
        boxes=[],
        wires=[],
        inside=[(0, 0, body)],
    )
    places = []
    for side in sides:
        _attach(found, hook, side, (main, cross))
        places.append((main, side))
        main += side.whole.main + STACK_GAP
    found.main = max(body.main, main - STACK_GAP)
    if any(side.returns for side in sides):
        _return(found, body, [(at, side) for at, side in places if side.returns], cross, dot)
    return found


def _later(body: Fragment, main: int) -> Fragment:
    """The body further along the flow."""
    return Fragment(
        main=body.main + main,
        cross=body.cross,
        axis=body.axis,
        entry=None if body.entry is None else body.entry.moved(main, 0),
        exit=None if body.exit is None else body.exit.moved(main, 0),
        hook=None if body.hook is None else body.hook.moved(main, 0),
        goes_on=body.goes_on,
        inside=[(main, 0, body)],
    )


def _attach(found: Fragment, hook: Port, side: PlacedSide, place: tuple[int, int]) -> None:
    """Put a side in its place, with an edge from the body to its label."""
    label, (main, cross) = side.label, place
    row = main + label.main // 2
    left = cross + side.whole.axis - label.axis
    rail = cross - SIDE_GAP // 2
    target = Port(_id(label), row, left)
    found.inside.append((main, cross, side.whole))
    found.wires.append(wire(hook, target, side.kind, (hook.main, rail), (row, rail)))


def _return(found: Fragment, body: Fragment, sides: list[tuple[int, PlacedSide]], cross: int, dot: Element) -> None:
    """Let the sides come back to the flow behind the body. All but the last go around those below them."""
    level, half, axis = found.main + RAIL, DOT // 2, body.axis
    found.boxes.append(PlacedBox(dot, level - half, axis - half, DOT, DOT))
    around = found.cross + RAIL
    for at, side in sides:
        source = side.whole.exit_at(at, cross)
        if source is None:
            continue
        target = Port(dot.id, level, axis + half)
        turns = [(level, source.cross)]
        if side is not sides[-1][1]:
            below = at + side.whole.main + STACK_GAP // 2
            turns = [(below, source.cross), (below, around), (level, around)]
            found.cross = around + RAIL // 2
        found.wires.append(wire(source, target, "return", *turns))
    source = body.exit_at(0, 0)
    if source is not None:
        found.wires.append(wire(source, Port(dot.id, level - half, axis), "next"))
    found.main = level + half
    found.exit = Port(dot.id, level + half, axis)
    found.goes_on = True


def _id(label: Fragment) -> str:
    if label.entry is None:
        raise AssertionError("a label is a box")
    return label.entry.box

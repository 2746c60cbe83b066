"""A part inside a named frame, with an edge back to its beginning where it is a loop."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.drawing.layout.fragments import Fragment, PlacedBox, Port, Wire, wire
from holdfast.drawing.measures import FRAME_PAD, RAIL, STACK_OFFSET, Measured
from holdfast.drawing.picture import Direction


class _Pads(NamedTuple):
    """The room between a frame and what is inside it."""

    main_start: int
    main_end: int
    cross_start: int
    cross_end: int


def framed(header: Measured, inner: Fragment, direction: Direction, *, loops: bool, ends: bool) -> Fragment:
    """The fragment inside a frame whose header is at its top, whatever the direction."""
    element, down = header.element, direction == "down"
    loops = loops and inner.entry is not None and inner.exit_at(0, 0) is not None
    pads = _pads(header.height, down, loops, STACK_OFFSET if element.shape == "stack" else 0)
    main = pads.main_start + inner.main + pads.main_end
    cross = pads.cross_start + inner.cross + pads.cross_end
    spare = max(0, header.width + 2 * 6 - (cross if down else main))
    spare += spare % 2
    main, cross = (main, cross + spare) if down else (main + spare, cross)
    place = (
        (pads.main_start, pads.cross_start + spare // 2) if down else (pads.main_start + spare // 2, pads.cross_start)
    )
    axis = place[1] + inner.axis
    return Fragment(
        main=main,
        cross=cross,
        axis=axis,
        entry=Port(element.id, 0, axis),
        exit=Port(element.id, main, axis),
        hook=Port(element.id, min(22, main // 2), cross),
        goes_on=not ends,
        boxes=[PlacedBox(element, 0, 0, main, cross)],
        inside=[(0, 0, _content(inner, place, element.id, loops))],
    )


def _pads(header: int, down: bool, loops: bool, offset: int) -> _Pads:
    main = RAIL if loops else 0
    rail = 2 * RAIL if loops else 0
    top, side = header + 6, FRAME_PAD
    if down:
        return _Pads(top + main, side + main + offset, side, side + rail + offset)
    return _Pads(side + main, side + main + offset, top, side + rail + offset)


def _content(inner: Fragment, place: tuple[int, int], owner: str, loops: bool) -> Fragment:
    """What is inside, as a fragment of its own: its parent is the frame."""
    return Fragment(
        main=0,
        cross=0,
        axis=0,
        owner=owner,
        inside=[(0, 0, Fragment(main=0, cross=0, axis=0, wires=_loop(inner, place, loops), inside=[(*place, inner)]))],
    )


def _loop(inner: Fragment, place: tuple[int, int], loops: bool) -> list[Wire]:
    source, target = inner.exit_at(*place), inner.entry_at(*place)
    if not loops or source is None or target is None:
        return []
    before, behind = place[0] - RAIL, place[0] + inner.main + RAIL
    rail = place[1] + inner.cross + RAIL
    turns = ((behind, source.cross), (behind, rail), (before, rail), (before, target.cross))
    return [wire(source, target, "loop", *turns)]

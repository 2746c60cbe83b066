"""Branches beside each other: a head, a row of branches, and a bar or a dot where they meet again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.drawing.layout.fragments import Fragment, PlacedBox, Port, Wire, wire
from holdfast.drawing.measures import BAR, BRANCH_GAP, DOT, RAIL, STEP_GAP
from holdfast.drawing.picture import Element

_OVERHANG = 20
"""How far a bar reaches beyond the outermost branches."""


class _Row(NamedTuple):
    """Branches beside each other: the cross place of each, and the axis of the whole."""

    branches: list[tuple[int, Fragment]]
    axis: int
    cross: int
    main: int

    def axes(self) -> list[int]:
        return [cross + branch.axis for cross, branch in self.branches]


def _row(branches: Sequence[Fragment], room: int) -> _Row:
    """The branches from the left; the axis is that of the middle one, and has so much room on either side."""
    placed, cross = [], 0
    for branch in branches:
        placed.append((cross, branch))
        cross += branch.cross + BRANCH_GAP
    axes = [at + branch.axis for at, branch in placed]
    middle = len(axes) // 2
    axis = axes[middle] if len(axes) % 2 else (axes[middle - 1] + axes[middle]) // 2
    shift = max(0, room - axis)
    wide = max(cross - BRANCH_GAP + shift, axis + shift + room)
    main = max(branch.main for branch in branches)
    return _Row([(at + shift, branch) for at, branch in placed], axis + shift, wide, main)


def meeting(head: Fragment, branches: Sequence[Fragment], dot: Element | None) -> Fragment:
    """Branches of which one is taken. Without a dot they do not meet again."""
    row = _row(branches, max(head.axis, head.cross - head.axis))
    start = head.main + STEP_GAP
    found = _begun(head, row, start)
    turn = head.main + STEP_GAP // 2
    source = _exit_of(head, row.axis)
    for cross, branch in row.branches:
        target = branch.entry_at(start, cross)
        if target is not None:
            found.wires.append(wire(source, target, "case", (turn, row.axis), (turn, target.cross)))
    if dot is not None:
        _meet(found, row, start, dot)
    return found


def _meet(found: Fragment, row: _Row, start: int, dot: Element) -> None:
    level = start + row.main + RAIL
    half = DOT // 2
    found.boxes.append(PlacedBox(dot, level - half, row.axis - half, DOT, DOT))
    for cross, branch in row.branches:
        source = branch.exit_at(start, cross)
        if source is not None:
            found.wires.append(_into_dot(source, dot.id, level, row.axis))
    found.main = level + half
    found.exit = Port(dot.id, level + half, row.axis)


def _into_dot(source: Port, dot: str, level: int, axis: int) -> Wire:
    if source.cross == axis:
        return wire(source, Port(dot, level - DOT // 2, axis), "next")
    side = -DOT // 2 if source.cross < axis else DOT // 2
    return wire(source, Port(dot, level, axis + side), "next", (level, source.cross))


def parallel(head: Fragment, branches: Sequence[Fragment], fork: Element, join: Element) -> Fragment:
    """Branches that run beside each other, between two bars."""
    row = _row(branches, max(head.axis, head.cross - head.axis))
    first = head.main + STEP_GAP // 2 + 2
    start = first + BAR + STEP_GAP
    found = _begun(head, row, start)
    left = min(row.axis, *row.axes()) - _OVERHANG
    long = max(row.axis, *row.axes()) + _OVERHANG - left
    last = start + row.main + STEP_GAP
    if left < 0:  # narrow branches: the bar needs the room
        return parallel(head, [_wider(branch, -left) for branch in branches], fork, join)
    found.boxes += [PlacedBox(fork, first, left, BAR, long), PlacedBox(join, last, left, BAR, long)]
    found.wires.append(wire(_exit_of(head, row.axis), Port(fork.id, first, row.axis), "next"))
    for cross, branch in row.branches:
        target, source = branch.entry_at(start, cross), branch.exit_at(start, cross)
        if target is not None:
            found.wires.append(wire(Port(fork.id, first + BAR, target.cross), target, "next"))
        if source is not None:
            found.wires.append(wire(source, Port(join.id, last, source.cross), "next"))
    found.cross = max(found.cross, left + long)
    found.main = last + BAR
    found.exit = Port(join.id, last + BAR, row.axis)
    return found


def _wider(branch: Fragment, room: int) -> Fragment:
    return Fragment(
        main=branch.main,
        cross=branch.cross + 2 * room,
        axis=branch.axis + room,
        entry=branch.entry_at(0, room),
        exit=branch.exit_at(0, room),
        goes_on=branch.goes_on,
        inside=[(0, room, branch)],
    )


def _begun(head: Fragment, row: _Row, start: int) -> Fragment:
    """The head and the row of branches, not yet connected."""
    cross = row.axis - head.axis
    return Fragment(
        main=start + row.main,
        cross=row.cross,
        axis=row.axis,
        entry=head.entry_at(0, cross),
        hook=None if head.hook is None else head.hook.moved(0, cross),
        goes_on=any(branch.goes_on for _, branch in row.branches),
        boxes=[],
        wires=[],
        inside=[(0, cross, head), *((start, at, branch) for at, branch in row.branches)],
    )


def _exit_of(head: Fragment, axis: int) -> Port:
    if head.exit is None:
        raise AssertionError("a head has an exit")
    return head.exit.moved(0, axis - head.axis)

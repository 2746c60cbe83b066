"""Parts behind each other, on one axis; and long sequences folded into columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.drawing.layout.fragments import Fragment, Wire, wire
from holdfast.drawing.measures import COLUMN_GAP, RAIL, STEP_GAP

FOLDED_BEYOND: Final = {"down": 1500, "across": 2200}
"""Sequences that are longer than this get columns (or rows, where the flow goes across)."""

MOST_COLUMNS: Final = 16
_RATIO: Final = 1.5
"""The width that a folded picture should have for its height."""


def in_line(parts: Sequence[Fragment]) -> Fragment:
    """The fragments behind each other."""
    if len(parts) == 1:
        return parts[0]
    axis = max((part.axis for part in parts), default=0)
    inside, wires, main = [], [], 0
    for at, part in enumerate(parts):
        inside.append((main, axis - part.axis, part))
        if at + 1 < len(parts):
            wires += _between(inside[-1], (main + part.main + STEP_GAP, axis - parts[at + 1].axis, parts[at + 1]))
        main += part.main + STEP_GAP
    return Fragment(
        main=max(0, main - STEP_GAP),
        cross=axis + max((part.cross - part.axis for part in parts), default=0),
        axis=axis,
        entry=inside[0][2].entry_at(*inside[0][:2]) if inside else None,
        exit=inside[-1][2].exit_at(*inside[-1][:2]) if inside else None,
        goes_on=all(part.goes_on for part in parts),
        wires=wires,
        inside=inside,
    )


def _between(first: tuple[int, int, Fragment], second: tuple[int, int, Fragment]) -> list[Wire]:
    source, target = first[2].exit_at(*first[:2]), second[2].entry_at(*second[:2])
    return [] if source is None or target is None else [wire(source, target, "next")]


def folded(parts: Sequence[Fragment], direction: str) -> Fragment:
    """The fragments behind each other; in columns where one line would be too long to be looked at."""
    line = in_line(parts)
    if line.main <= FOLDED_BEYOND[direction] or len(parts) < 4:
        return line
    best = min(_foldings(parts), key=lambda found: _badness(found, direction))
    return line if len(best.inside) == 1 else best


def _foldings(parts: Sequence[Fragment]) -> Iterator[Fragment]:
    for count in range(1, min(MOST_COLUMNS, len(parts) // 2) + 1):
        yield _columns([in_line(column) for column in _dealt(parts, count)])


def _badness(found: Fragment, direction: str) -> float:
    width, height = (found.cross, found.main) if direction == "down" else (found.main, found.cross)
    return abs(math.log(max(1, width) / max(1, height) / _RATIO))


def _dealt(parts: Sequence[Fragment], count: int) -> list[list[Fragment]]:
    """The parts in so many columns of about the same length."""
    aim = sum(part.main + STEP_GAP for part in parts) / count
    columns: list[list[Fragment]] = [[]]
    length = 0.0
    for part in parts:
        if columns[-1] and length + (part.main + STEP_GAP) / 2 > aim and len(columns) < count:
            columns.append([])
            length = 0
        columns[-1].append(part)
        length += part.main + STEP_GAP
    return columns


def _columns(columns: list[Fragment]) -> Fragment:
    """Columns beside each other. The line leaves one at its end and enters the next at its beginning."""
    top, bottom = 2 * RAIL, 2 * RAIL + max(column.main for column in columns) + RAIL
    inside: list[tuple[int, int, Fragment]] = []
    wires, cross = [], 0
    for column in columns:
        here = (top, cross, column)
        if inside:
            before = inside[-1]
            source, target = before[2].exit_at(*before[:2]), column.entry_at(top, cross)
            if source is not None and target is not None:
                rail = cross - COLUMN_GAP // 2
                turns = ((bottom, source.cross), (bottom, rail), (RAIL, rail), (RAIL, target.cross))
                wires.append(wire(source, target, "next", *turns))
        inside.append(here)
        cross += column.cross + COLUMN_GAP
    wide = cross - COLUMN_GAP
    return Fragment(main=bottom + RAIL, cross=wide, axis=wide // 2, wires=wires, inside=inside)

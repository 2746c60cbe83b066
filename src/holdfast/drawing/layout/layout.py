"""The one layout: parts to a picture, recursively and exactly."""

from __future__ import annotations

from holdfast.drawing.layout.fragments import Fragment, PlacedBox, Port, flat
from holdfast.drawing.layout.frames import framed
from holdfast.drawing.layout.layers import layered
from holdfast.drawing.layout.sequences import folded, in_line
from holdfast.drawing.layout.sides import PlacedSide, beside
from holdfast.drawing.layout.splits import meeting, parallel
from holdfast.drawing.measures import PORT_MARGIN, header, measure
from holdfast.drawing.parts import Beside, Frame, Layered, Part, Sequence, SingleBox, Split, goes_on
from holdfast.drawing.picture import Box, Direction, Element, Heading, Picture, State
from holdfast.drawing.text_widths import plain, width_of

MARGIN = 24
_HEADING = 52
_LEGEND = 40
LEGEND_ITEM = 96
"""The room of one state in the legend."""


def lay_out(part: Sequence, heading: Heading, direction: Direction = "down") -> Picture:
    """The picture of a part."""
    heading = Heading(title=plain(heading.title), subtitle=plain(heading.subtitle))
    whole = folded([_Layout(direction).fragment(each) for each in part.parts], direction)
    content = flat(whole, direction, MARGIN, MARGIN + _HEADING)
    legend = _legend(content.boxes)
    right = max((box.x + box.width for box in content.boxes), default=0)
    right = max([right, *(x for edge in content.edges for x, _ in edge.points)])
    bottom = max((box.y + box.height for box in content.boxes), default=_HEADING)
    bottom = max([bottom, *(y for edge in content.edges for _, y in edge.points)])
    words = max(width_of(heading.title, 18, bold=True), width_of(heading.subtitle, 12), len(legend) * LEGEND_ITEM)
    return Picture(
        heading=heading,
        direction=direction,
        width=max(right, MARGIN + round(words)) + MARGIN,
        height=bottom + MARGIN + (_LEGEND if legend else 0),
        boxes=tuple(content.boxes),
        edges=tuple(content.edges),
        legend=legend,
    )


def _legend(boxes: list[Box]) -> tuple[State, ...]:
    order: tuple[State, ...] = (
        "running", "waiting", "retrying", "success", "failed", "skipped", "cancelled", "pending",
    )  # fmt: skip
    present = {box.state for box in boxes}
    return tuple(state for state in order if state in present)


class _Layout:
    def __init__(self, direction: Direction) -> None:
        self._direction = direction

    def fragment(self, part: Part) -> Fragment:
        match part:
            case SingleBox(element=element):
                return self._leaf(element, goes_on(part))
            case Sequence(parts=parts):
                return in_line([self.fragment(each) for each in parts])
            case Split():
                return self._split(part)
            case Frame():
                return self._frame(part)
            case Layered(parts=parts, links=links):
                return layered([self.fragment(each) for each in parts], links)
            case Beside():
                return self._beside(part)

    def _leaf(self, element: Element, goes_on: bool = True) -> Fragment:
        found = measure(element)
        main, cross = (found.height, found.width) if self._direction == "down" else (found.width, found.height)
        room = max(0, cross // 2 - PORT_MARGIN) if found.element.shape in ("card", "stack") else 0
        return Fragment(
            main=main,
            cross=cross,
            axis=cross // 2,
            entry=Port(element.id, 0, cross // 2, room),
            exit=Port(element.id, main, cross // 2, room),
            hook=Port(element.id, main // 2, cross),
            goes_on=goes_on,
            boxes=[PlacedBox(found.element, 0, 0, main, cross)],
        )

    def _split(self, part: Split) -> Fragment:
        head, branches = self._leaf(part.head), [self.fragment(branch) for branch in part.branches]
        name = part.head.id
        if part.bars:
            bars = [Element(id=f"{name}:{end}", kind="bar", shape="bar") for end in ("fork", "join")]
            return parallel(head, branches, bars[0], bars[1])
        meets = part.meets or goes_on(part)
        return meeting(head, branches, _dot(name) if meets else None)

    def _frame(self, part: Frame) -> Fragment:
        inside = part.inside
        if isinstance(inside, Sequence):
            inner = folded([self.fragment(each) for each in inside.parts], self._direction)
        else:
            inner = self.fragment(inside)
        return framed(header(part.element), inner, self._direction, loops=part.loops, ends=part.ends)

    def _beside(self, part: Beside) -> Fragment:
        sides = [
            PlacedSide(self.fragment(side.content.parts[0]), self.fragment(side.content), side.kind, side.returns)
            for side in part.sides
        ]
        return beside(self.fragment(part.body), sides, _dot(f"{part.id}:after"))


def _dot(name: str) -> Element:
    return Element(id=f"{name}:merge", kind="merge", shape="dot")

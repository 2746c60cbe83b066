"""What is wrong with a picture, measured: boxes that overlap, edges that run through boxes, texts that do not fit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from holdfast.drawing.measures import BOLD, FONT_SIZES
from holdfast.drawing.picture import Box, Edge, Picture, Point
from holdfast.drawing.text_widths import width_of

CLEAR = 6
"""How far boxes that are not in each other stand apart, at least. Bars and dots may be nearer to a line than this."""


def faults(picture: Picture) -> list[str]:
    """Everything that breaks a law."""
    boxes = {box.id: box for box in picture.boxes}
    found = [] if len(boxes) == len(picture.boxes) else ["two boxes have one id"]
    inner = {box.id: set(_frames(box, boxes)) for box in picture.boxes}
    found += _outside(picture, boxes)
    found += _overlaps(picture, inner)
    for edge in picture.edges:
        found += _edge_faults(edge, boxes, inner)
    return found + [text for box in picture.boxes for text in _misfits(box)]


def bends_of(edge: Edge) -> int:
    """How often an edge turns."""
    return len(edge.points) - 2


def bends(picture: Picture) -> int:
    return sum(map(bends_of, picture.edges))


def crossings(picture: Picture) -> int:
    """How often two edges cross."""
    pieces = [(edge, *piece) for edge in picture.edges for piece in itertools.pairwise(edge.points)]
    return sum(
        one is not other and _cut(first, last, begin, end)
        for (one, first, last), (other, begin, end) in itertools.combinations(pieces, 2)
    )


def _cut(first: Point, last: Point, begin: Point, end: Point) -> bool:
    """Whether two pieces have a point in common that is no end of them."""

    def side(one: Point, other: Point, point: Point) -> int:
        return (other[0] - one[0]) * (point[1] - one[1]) - (other[1] - one[1]) * (point[0] - one[0])

    apart = side(first, last, begin) * side(first, last, end) < 0
    return apart and side(begin, end, first) * side(begin, end, last) < 0


def _frames(box: Box, boxes: dict[str, Box]) -> Iterator[str]:
    while box.parent is not None:
        yield box.parent
        box = boxes[box.parent]


def _outside(picture: Picture, boxes: dict[str, Box]) -> Iterator[str]:
    whole = Box(id="", x=0, y=0, width=picture.width, height=picture.height)
    for box in picture.boxes:
        around = whole if box.parent is None else boxes[box.parent]
        if not _contains(around, (box.x, box.y)) or not _contains(around, (box.x + box.width, box.y + box.height)):
            yield f"{box.id} is not inside {around.id}"


def _overlaps(picture: Picture, inner: dict[str, set[str]]) -> Iterator[str]:
    ordered = sorted(picture.boxes, key=lambda box: box.x)
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if other.x >= one.x + one.width + CLEAR:
                break
            apart = other.y >= one.y + one.height + CLEAR or one.y >= other.y + other.height + CLEAR
            if not apart and one.id not in inner[other.id] and other.id not in inner[one.id]:
                yield f"{one.id} overlaps {other.id}"


def _edge_faults(edge: Edge, boxes: dict[str, Box], inner: dict[str, set[str]]) -> Iterator[str]:
    source, target = boxes[edge.source], boxes[edge.target]
    name = f"the edge {edge.source} → {edge.target}"
    if source.parent != target.parent:
        yield f"{name} leaves its frame"
    if not _on_border(source, edge.points[0]) or not _on_border(target, edge.points[-1]):
        yield f"{name} does not touch its boxes"
    around = inner[edge.source]
    for frame in around:
        if not all(_contains(boxes[frame], point) for point in edge.points):
            yield f"{name} leaves {frame}"
    for first, last in zip(edge.points, edge.points[1:], strict=False):
        for box in boxes.values():
            if box.id not in around and _crosses(box, first, last):
                yield f"{name} runs through {box.id}"


def _contains(box: Box, point: Point) -> bool:
    return box.x <= point[0] <= box.x + box.width and box.y <= point[1] <= box.y + box.height


def _on_border(box: Box, point: Point) -> bool:
    edges = (box.x, box.x + box.width), (box.y, box.y + box.height)
    return _contains(box, point) and (point[0] in edges[0] or point[1] in edges[1])


def _crosses(box: Box, first: Point, last: Point) -> bool:
    """Whether a segment, or the bounding box of a slanted one, has a point inside the box."""
    left, right = sorted((first[0], last[0]))
    top, bottom = sorted((first[1], last[1]))
    return left < box.x + box.width and right > box.x and top < box.y + box.height and bottom > box.y


def _misfits(box: Box) -> Iterator[str]:
    for line in box.texts:
        if width_of(line.text, FONT_SIZES[line.style], bold=line.style in BOLD) > box.width - 8:
            yield f"a text of {box.id} does not fit: {line.text}"

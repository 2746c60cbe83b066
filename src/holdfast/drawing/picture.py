"""A finished picture: boxes with exact places, and edges with points. What every writer reads.

Boxes form a tree: ``parent`` is the frame that a box stands in. Two boxes are apart, or one is a frame around the
other. An edge joins two boxes of one parent, stays inside it, and runs through no box.
All coordinates are whole pixels, from the top left corner.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Direction = Literal["down", "across"]
TextStyle = Literal["name", "title", "detail", "note"]
Kind = Literal["node", "frame", "label", "undo", "bar", "merge", "start", "end"]
Shape = Literal["card", "round", "diamond", "event", "frame", "stack", "chip", "bar", "dot", "ring"]
EdgeKind = Literal["next", "case", "handler", "return", "undo", "needs", "after", "loop"]
State = Literal["", "pending", "running", "waiting", "retrying", "success", "failed", "skipped", "cancelled"]
Point = tuple[int, int]


class TextLine(msgspec.Struct, frozen=True):
    """One line of text in a box."""

    text: str
    style: TextStyle


class Element(msgspec.Struct, frozen=True, kw_only=True):
    """What a box shows, before it has a place. ``verb`` is the word of the format, or of the call."""

    id: str
    kind: Kind = "node"
    shape: Shape = "card"
    verb: str = ""
    texts: tuple[TextLine, ...] = ()
    tip: str = ""
    state: State = ""


class Box(Element, frozen=True, kw_only=True):
    """An element in its place. ``texts`` are cut to what fits; ``tip`` has them whole."""

    x: int
    y: int
    width: int
    height: int
    parent: str | None = None


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A line from a box to another. A slanted segment may be drawn as a curve: its bounding box is free of boxes."""

    source: str
    target: str
    kind: EdgeKind = "next"
    points: tuple[Point, ...]


class Heading(msgspec.Struct, frozen=True, kw_only=True):
    """What stands above a picture."""

    title: str
    subtitle: str = ""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Boxes, those of a parent behind it, and edges."""

    heading: Heading
    direction: Direction
    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    legend: tuple[State, ...] = ()

"""A picture as SVG: one document without scripts, fonts or links, for a browser, a page or a print.

Every node is a group with the id ``node-`` and its name, a title that a browser shows as a tooltip, and classes for its
shape, verb and state. ``style_of`` has the rules; a page with its own style sheet asks for none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from holdfast.drawing.layout.layout import LEGEND_ITEM, MARGIN
from holdfast.drawing.measures import CARD_PAD, ICON_SPACE, LINE_HEIGHTS, STACK_OFFSET, text_height
from holdfast.drawing.picture import Box, Edge, Picture, Point, TextLine
from holdfast.drawing.writers.signs import SIGNS, group_of, icon_of
from holdfast.drawing.writers.style import Theme, style_of

_CORNER: Final = 7
_ARROW: Final = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto" markerUnits="userSpaceOnUse"><path class="arrow" d="M0.5 0.8 L7.5 4 L0.5 7.2 Z"/></marker>'
)


def svg_of(picture: Picture, *, theme: Theme = "auto", styled: bool = True) -> str:
    """The SVG document. Without ``styled`` the page that shows it must bring the style sheet."""
    heading = picture.heading
    size = f'width="{picture.width}" height="{picture.height}" viewBox="0 0 {picture.width} {picture.height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="picture-title picture-text">',
        f'<title id="picture-title">{_text(heading.title)}</title>',
        f'<desc id="picture-text">{_text(_description(picture))}</desc>',
        *([f"<style>\n{escape(style_of(theme))}</style>"] if styled else []),
        f"<defs>{_ARROW}</defs>",
        f'<rect class="page" width="{picture.width}" height="{picture.height}"/>',
        f'<text class="heading" x="{MARGIN}" y="{MARGIN + 14}">{_text(heading.title)}</text>',
        f'<text class="muted" x="{MARGIN}" y="{MARGIN + 34}">{_text(heading.subtitle)}</text>',
        *_drawn(picture),
        *_legend(picture),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _description(picture: Picture) -> str:
    """The picture in one sentence, for those who do not see it."""
    nodes = [box for box in picture.boxes if box.kind in ("node", "frame")]
    parts = [f"{len(nodes)} nodes"]
    parts += [f"{count} {state}" for state in picture.legend if (count := sum(box.state == state for box in nodes))]
    return f"{picture.heading.subtitle}. {', '.join(parts)}.".lstrip(". ")


def _drawn(picture: Picture) -> Iterator[str]:
    """Frames lie below edges, and edges below everything else."""
    small = {box.id for box in picture.boxes if box.kind in ("merge", "bar")}
    yield from (_box(box) for box in picture.boxes if box.kind == "frame")
    down = picture.direction == "down"
    yield from (_edge(edge, down, arrow=edge.target not in small) for edge in picture.edges)
    yield from (_box(box) for box in picture.boxes if box.kind != "frame")


# -- boxes -------------------------------------------------------------------------------------------------------------


def _box(box: Box) -> str:
    classes: list[str] = [box.shape if box.shape != "stack" else "frame", *([box.kind] if box.kind == "undo" else [])]
    classes += [f"{group_of(box.verb)}-group"] if box.verb else []
    classes += [box.state] if box.state else []
    tip = f"<title>{_text(box.tip)}</title>" if box.tip else ""
    inner = "".join([tip, *_shape(box), *_icon(box), *_texts(box), *_sign(box)])
    return f'<g id={quoteattr("node-" + box.id)} class="{" ".join(dict.fromkeys(classes))}">{inner}</g>'


def _shape(box: Box) -> Iterator[str]:
    x, y, width, height = box.x, box.y, box.width, box.height
    match box.shape:
        case "diamond" | "event":
            yield _diamond(box, 0)
            if box.shape == "event":
                yield _diamond(box, 6)
        case "dot" | "ring":
            inset = 1.5 if box.shape == "ring" else 0
            radius = width / 2 - inset
            yield f'<circle class="box" cx="{x + width / 2:g}" cy="{y + height / 2:g}" r="{radius:g}"/>'
        case "stack":
            for offset in (STACK_OFFSET, STACK_OFFSET // 2, 0):
                yield _rect(x + offset, y + offset, width - STACK_OFFSET, height - STACK_OFFSET, 8)
        case "round" | "chip":
            yield _rect(x, y, width, height, min(height // 2, 20))
        case _:
            yield _rect(x, y, width, height, {"bar": 2, "frame": 8}.get(box.shape, 6))
            if box.shape == "card":
                yield f'<rect class="stripe" x="{x}" y="{y + 6}" width="3" height="{height - 12}" rx="1.5"/>'


def _rect(x: int, y: int, width: int, height: int, radius: int) -> str:
    return f'<rect class="box" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>'


def _diamond(box: Box, inset: int) -> str:
    a, b = box.x + box.width // 2, box.y + box.height // 2
    wide = round(inset * box.width / box.height)
    left, right, top, bottom = box.x + wide, box.x + box.width - wide, box.y + inset, box.y + box.height - inset
    return f'<path class="box" d="M{a} {top} L{right} {b} L{a} {bottom} L{left} {b} Z"/>'


def _icon(box: Box) -> Iterator[str]:
    if box.verb and box.shape not in ("diamond", "event", "chip"):
        place = f"translate({box.x + CARD_PAD} {box.y + CARD_PAD})"
        yield f'<path class="icon" transform="{place}" d="{icon_of(box.verb)}"/>'


def _texts(box: Box) -> Iterator[str]:
    centred = box.shape in ("diamond", "event", "chip")
    x = box.x + box.width // 2 if centred else box.x + CARD_PAD + ICON_SPACE
    y = box.y + CARD_PAD - 1
    if centred:
        signed = 9 if box.state and box.shape != "chip" else 0
        y = box.y + (box.height - text_height(box.texts)) // 2 + signed
    for line in box.texts:
        y += LINE_HEIGHTS[line.style]
        yield _line(line, x, y - 4, centred)


def _line(line: TextLine, x: int, y: int, centred: bool) -> str:
    middle = " middle" if centred else ""
    return f'<text class="{line.style}{middle}" x="{x}" y="{y}">{_text(line.text)}</text>'


def _sign(box: Box) -> Iterator[str]:
    if box.state not in SIGNS or not box.texts:
        return
    inset = STACK_OFFSET if box.shape == "stack" else 0
    x, y = box.x + box.width - inset - CARD_PAD - 14, box.y + CARD_PAD - 1
    if box.shape in ("diamond", "event"):
        x, y = box.x + box.width // 2 - 8, box.y + (box.height - text_height(box.texts)) // 2 - 9
    yield _disc(box.state, x, y)


def _disc(state: str, x: int, y: int) -> str:
    disc = f'<circle cx="8" cy="8" r="8"/><path d="{SIGNS[state]}"/>'
    return f'<g class="sign" transform="translate({x} {y})">{disc}</g>'


def _legend(picture: Picture) -> Iterator[str]:
    y = picture.height - MARGIN - 16
    for at, state in enumerate(picture.legend):
        x = MARGIN + at * LEGEND_ITEM
        word = f'<text class="detail" x="{x + 22}" y="{y + 12}">{state}</text>'
        yield f'<g class="{state}">{_disc(state, x, y)}{word}</g>'


# -- edges -------------------------------------------------------------------------------------------------------------


def _edge(edge: Edge, down: bool, *, arrow: bool) -> str:
    kind = "undo-edge" if edge.kind == "undo" else edge.kind
    tip = ' marker-end="url(#arrow)"' if arrow else ""
    ends = f"data-from={quoteattr(edge.source)} data-to={quoteattr(edge.target)}"
    return f'<path class="edge {kind}" d="{_path(edge.points, down)}" {ends}{tip}/>'


def _path(points: tuple[Point, ...], down: bool) -> str:
    """The line with round corners. A slanted piece becomes a curve that stays in its bounding box."""
    made = [f"M{points[0][0]} {points[0][1]}"]
    slanted = [a[0] != b[0] and a[1] != b[1] for a, b in itertools.pairwise(points)]
    for at in range(1, len(points)):
        here, before = points[at], points[at - 1]
        if slanted[at - 1]:
            made.append(_curve(before, here, down))
        elif at + 1 < len(points) and not slanted[at]:
            made.append(_corner(before, here, points[at + 1]))
        else:
            made.append(f"L{here[0]} {here[1]}")
    return " ".join(made)


def _corner(before: Point, here: Point, behind: Point) -> str:
    radius = min(_CORNER, _length(before, here) / 2, _length(here, behind) / 2)
    first, last = _toward(here, before, radius), _toward(here, behind, radius)
    return f"L{first[0]:g} {first[1]:g} Q{here[0]} {here[1]} {last[0]:g} {last[1]:g}"


def _curve(first: Point, last: Point, down: bool) -> str:
    """An S from point to point that begins and ends along the flow."""
    if down:
        middle = (first[1] + last[1]) / 2
        return f"C{first[0]} {middle:g} {last[0]} {middle:g} {last[0]} {last[1]}"
    middle = (first[0] + last[0]) / 2
    return f"C{middle:g} {first[1]} {middle:g} {last[1]} {last[0]} {last[1]}"


def _length(a: Point, b: Point) -> float:
    return float(abs(a[0] - b[0]) + abs(a[1] - b[1]))


def _toward(here: Point, there: Point, distance: float) -> tuple[float, float]:
    long = _length(here, there) or 1.0
    return (here[0] + (there[0] - here[0]) * distance / long, here[1] + (there[1] - here[1]) * distance / long)


def _text(text: str) -> str:
    """The text for XML, without characters that it does not have."""
    return escape("".join(each if _is_legal(each) else " " for each in text))


def _is_legal(character: str) -> bool:
    code = ord(character)
    return character in "\n\t" or (code >= 0x20 and not 0xD800 <= code < 0xE000 and code not in (0xFFFE, 0xFFFF))

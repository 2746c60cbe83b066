"""How large boxes are, and the distances between them. All of them are even, so that middles are whole pixels."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from holdfast.drawing.picture import Element, TextLine, TextStyle
from holdfast.drawing.text_widths import fitted, plain, width_of

FONT_SIZES: Final[dict[TextStyle, int]] = {"name": 13, "title": 12, "detail": 12, "note": 11}
LINE_HEIGHTS: Final[dict[TextStyle, int]] = {"name": 18, "title": 16, "detail": 16, "note": 16}
BOLD: Final[frozenset[TextStyle]] = frozenset({"name"})

STEP_GAP: Final = 30
"""Between two boxes behind each other."""
BRANCH_GAP: Final = 32
SIDE_GAP: Final = 40
STACK_GAP: Final = 24
RAIL: Final = 18
"""How far a line that turns stays away from boxes."""
PORT_GAP: Final = 14
"""Between two edges that leave a box at one side, where it has the room."""
PORT_MARGIN: Final = 14
"""Between such an edge and the corner."""
DOT: Final = 8
BAR: Final = 6
FRAME_PAD: Final = 18
STACK_OFFSET: Final = 6
COLUMN_GAP: Final = 64

CARD_PAD: Final = 10
ICON_SPACE: Final = 24
SIGN_SPACE: Final = 22
NARROWEST: Final = 112
WIDEST: Final = 264
_CHIP_HEIGHT: Final = 26
_CHIP_PAD: Final = 12
_DIAMOND_PAD: Final = 16
_FIXED: Final = {"dot": DOT, "ring": 20}


class Measured(msgspec.Struct, frozen=True):
    """An element with its texts cut to what fits, and its size."""

    element: Element
    width: int
    height: int


def measure(element: Element) -> Measured:
    """The size of an element that stands alone. Bars are as long as their branches need: see the split."""
    match element.shape:
        case "dot" | "ring":
            side = 14 if element.kind == "start" else _FIXED[element.shape]
            return Measured(element, side, side)
        case "chip":
            return _chip(element)
        case "diamond" | "event":
            return _diamond(element)
        case _:
            return _card(element)


def header(element: Element) -> Measured:
    """The size of a frame's header."""
    return _card(element)


def text_height(texts: tuple[TextLine, ...]) -> int:
    """The height of lines below each other."""
    return sum(LINE_HEIGHTS[line.style] for line in texts)


def _card(element: Element) -> Measured:
    around = 2 * CARD_PAD + ICON_SPACE + (SIGN_SPACE if element.state else 0)
    texts = _cut(element.texts, WIDEST - around)
    width = max(NARROWEST, _even(_widest(texts) + around))
    return Measured(_with(element, texts), width, _even(text_height(texts) + 2 * CARD_PAD - 2))


def _chip(element: Element) -> Measured:
    texts = _cut(element.texts, WIDEST - 2 * _CHIP_PAD)
    return Measured(_with(element, texts), max(40, _even(_widest(texts) + 2 * _CHIP_PAD)), _CHIP_HEIGHT)


def _diamond(element: Element) -> Measured:
    """A diamond around the rectangle of its texts. With half diagonals a and b, w/2a + h/2b may be at most 1."""
    texts = _cut(element.texts, WIDEST - 60)
    wide, high = _widest(texts), text_height(texts) + (SIGN_SPACE if element.state else 0)
    height = _even(high * 2 + 2 * _DIAMOND_PAD)
    width = _even((wide + _DIAMOND_PAD) / (1 - high / height))
    return Measured(_with(element, texts), max(96, width), height)


def _cut(texts: tuple[TextLine, ...], limit: float) -> tuple[TextLine, ...]:
    return tuple(
        TextLine(fitted(plain(line.text), FONT_SIZES[line.style], limit, bold=line.style in BOLD), line.style)
        for line in texts
    )


def _widest(texts: tuple[TextLine, ...]) -> float:
    widths = [width_of(line.text, FONT_SIZES[line.style], bold=line.style in BOLD) for line in texts]
    return max(widths, default=0)


def _with(element: Element, texts: tuple[TextLine, ...]) -> Element:
    return msgspec.structs.replace(element, texts=texts)


def _even(size: float) -> int:
    return 2 * math.ceil(size / 2)

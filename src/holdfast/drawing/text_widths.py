"""How wide a text is, and texts cut to a width.

The widths are those of DejaVu Sans, one of the widest common typefaces. A text that fits by them fits in the fonts that
a browser is likely to choose as well. Nothing is asked of the machine, so a picture is the same everywhere.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

ELLIPSIS: Final = "…"

# fmt: off
_REGULAR: Final = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
)
"""Thousandths of an em for the printable characters of ASCII, from the space on."""

_BOLD: Final = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696,
    696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995,
    837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716,
    678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712,
    365, 712, 838,
)
# fmt: on

_FIRST: Final = 32
_EM: Final = 1000
_OTHER_LETTER: Final = 860
_LAST_NARROW: Final = 0x530
"""Behind the Latin, Greek and Cyrillic letters; what comes later is as wide as an em."""


def width_of(text: str, size: int, *, bold: bool = False) -> float:
    """The width of a text at a font size, in pixels."""
    return sum(_width(character, bold) for character in text) * size / _EM


def fitted(text: str, size: int, limit: float, *, bold: bool = False) -> str:
    """The text, cut so that it is at most so wide. An ellipsis shows that something is missing."""
    if width_of(text, size, bold=bold) <= limit:
        return text
    left = limit * _EM / size - _width(ELLIPSIS, bold)
    kept = 0
    for character in text:
        left -= _width(character, bold)
        if left < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS


def plain(text: str) -> str:
    """The text on one line, without characters that cannot be shown."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())


@lru_cache(4096)
def _width(character: str, bold: bool) -> int:
    at = ord(character) - _FIRST
    table = _BOLD if bold else _REGULAR
    if 0 <= at < len(table):
        return table[at]
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    narrow = ord(character) < _LAST_NARROW and unicodedata.east_asian_width(character) not in ("W", "F")
    return _OTHER_LETTER if narrow else _EM

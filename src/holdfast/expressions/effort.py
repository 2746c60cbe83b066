"""Estimates how long the parts of an expression take the engine, in nanoseconds: at most, on a machine of the present.

They are of the sizes of the operands alone. The engine looks for a text in another by trying each place, reads a
pattern anew each time, and copies the list that `map` and `filter` have made so far for each item.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

PART: Final = 100
"""Any part of an expression, and a round of a macro."""
GATHERED: Final = 40
"""Each item that `map` and `filter` may have made before, for each item."""

_READ: Final = 4  # a character that is read, or made
_COMPARED: Final = 5  # a unit of values that are compared
_SPAN_READ: Final = 16  # a character of a duration
_PLACE: Final = 16  # a place at which one text is looked for in another
_CHANGED: Final = 30  # a character that is decoded and made again
_MADE: Final = 600  # a text that is cut out, put in or joined
_FORMATTED: Final = 120  # a character of a format

_CHANGING: Final = frozenset(
    {"charAt", "substring", "lowerAscii", "upperAscii", "trim", "reverse", "quote", "encode", "decode"}
)

_REPEATED: Final = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_CLASS: Final = re.compile(r"\\[pP]|\[:")
_MOST_REPEATED: Final = 1_000  # the library refuses more, of all that stand within each other together
_CLASS_READ: Final = 1_500_000
_CLASSES_READ: Final = 150  # so many fill its memory; of the others it only reads the names
_CLASS_SKIPPED: Final = 150_000
_CHARACTER_READ: Final = 2_000
_INSTRUCTION: Final = 16  # what a character of a pattern costs for each character of the text
_CLASS_MATCHED: Final = 400
_MOST_MATCHED: Final = 3_000_000  # a pattern that fills the library's memory


def of_operation(operator: str, left: int, right: int) -> int:
    """An operator over operands of so many units."""
    match operator:
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return _COMPARED * min(left, right)
        case "in":
            return _READ * left + _COMPARED * right
        case "+":
            return _READ * (left + right)
        case _:
            return 0


def of_function(name: str, given: Sequence[int], pattern: str | None) -> int:
    """A function of arguments of so many units; the pattern of ``matches`` where the expression has it."""
    match name, given:
        case "contains" | "indexOf" | "lastIndexOf", (text, part, *_):
            return text * (_PLACE + part // 6)
        case "replace" | "split", (text, part, *rest):
            return text * (_PLACE + part // 6 + _MADE) + _CHANGED * sum(rest)
        case "join", (items, *between):
            return items * (_MADE // 8 + _READ * sum(between))
        case "format", (text, items):
            return _FORMATTED * text + (_MADE // 8) * items
        case "matches", (text, length):
            reading, matching = _of_unknown(length) if pattern is None else _of_pattern(pattern)
            return reading + text * min(matching, _MOST_MATCHED)
        case _ if name in _CHANGING:
            return _CHANGED * sum(given)
        case _:
            return (_SPAN_READ if name == "duration" else _READ) * sum(given)


def of_key(units: int) -> int:
    """A key that is looked up, or of a map that is made."""
    return _READ * units


def _of_unknown(length: int) -> tuple[int, int]:
    """What reading and each character cost of a pattern of which only the length is known."""
    repeats = _MOST_REPEATED if length > len("a{9}") else 1
    return _reading(length * repeats // 100, length // 3), length * repeats * (_INSTRUCTION + _CLASS_MATCHED // 3)


def _of_pattern(pattern: str) -> tuple[int, int]:
    repeats = 1
    for found in _REPEATED.findall(pattern):
        repeats = min(repeats * max(1, *map(_count, found)), _MOST_REPEATED)
    length, classes = len(pattern) * repeats, len(_CLASS.findall(pattern)) * repeats
    return _reading(length, classes), length * _INSTRUCTION + classes * _CLASS_MATCHED


def _count(digits: str) -> int:
    """A number of repetitions, as far as it matters: one of very many digits would take long to read."""
    digits = digits.lstrip("0")
    return int(digits or 0) if len(digits) < len(str(_MOST_REPEATED)) else _MOST_REPEATED


def _reading(length: int, classes: int) -> int:
    return (
        length * (_CHARACTER_READ + 2 * min(length, 50_000))
        + min(classes, _CLASSES_READ) * _CLASS_READ
        + classes * _CLASS_SKIPPED
    )

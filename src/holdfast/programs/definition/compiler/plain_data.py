"""Documents are plain data: what JSON can say. One that Python made is brought to that, or refused with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown

DEEPEST: Final = 150
"""How deep values may stand inside each other."""

LEAST_INTEGER: Final = -(2**63)
MOST_INTEGER: Final = 2**63 - 1
LONGEST_INTEGER: Final = 64
"""How many digits of a number are looked at, zeros in front included."""


def plain_data(value: Any, faults: FaultList, trail: Trail = (), depth: int = 0) -> Any:
    """The value with dicts, lists, texts, numbers, truths and None alone. Whole numbers as names are their text."""
    if depth > DEEPEST:
        faults.add(trail, f"values stand more than {DEEPEST} deep inside each other")
        return None
    if isinstance(value, Mapping):
        return {
            name: plain_data(item, faults, (*trail, name), depth + 1)
            for key, item in value.items()
            if (name := _name(key, faults, trail)) is not None
        }
    if isinstance(value, list | tuple):
        return [plain_data(item, faults, (*trail, at), depth + 1) for at, item in enumerate(value)]
    problem = _problem(value)
    if problem:
        faults.add(trail, problem)
        return None
    return value


def _name(key: object, faults: FaultList, trail: Trail) -> str | None:
    if isinstance(key, str):
        return key
    if type(key) is int:
        return str(key)
    faults.add(trail, f"a name in a map is a text, not {shown(key)}")
    return None


def _problem(value: object) -> str:
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return "" if value.isascii() or _is_unicode(value) else f"{shown(value)} has half of a character in it"
    if type(value) is int:
        return (
            "" if LEAST_INTEGER <= value <= MOST_INTEGER else "a whole number has at most 64 bits: write it as a text"
        )
    if type(value) is float:
        return "" if math.isfinite(value) else f"{value} is no number that JSON has"
    return f"a definition is plain data (texts, numbers, truths, lists and maps), and this is {shown(value)}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

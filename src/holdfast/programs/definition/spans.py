"""Durations and times as definitions write them: ``90s``, ``1h30m``, ``10d``, or ISO 8601 without years and months.

Durations are whole microseconds inside the engine. A day is 24 hours.
"""

from __future__ import annotations

import datetime
import re
from typing import Final

_UNITS: Final = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_PART: Final = r"(?<!\d)(\d+(?:\.\d+)?)(ms|us|[wdhms])"
_PLAIN: Final = re.compile(rf"(?:{_PART})+")
_NUMBER: Final = r"(\d+(?:[.,]\d+)?)"
_ISO: Final = re.compile(
    rf"P(?=.)(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
LONGEST: Final = 100 * 366 * _UNITS["d"]


def read_span(text: str) -> int:
    """The microseconds of a duration. Raises ValueError with a remedy."""
    total = _microseconds(text)
    if total is None:
        raise ValueError(f"a duration is written as 90s, 2h, 1h30m, 10d or PT30M, not {text!r:.60}")
    if total > LONGEST:
        raise ValueError(f"a duration is at most 100 years, not {text!r:.60}")
    return total


def span_of(value: object) -> int:
    """The microseconds of a duration that an expression gave: a text, or a number of seconds. Raises ValueError."""
    if isinstance(value, str):
        return read_span(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"a duration is a text such as 2h, or a number of seconds from 0 on, not {value!r:.60}")
    if value > LONGEST / 1e6:
        raise ValueError(f"a duration is at most 100 years, not {value!r:.60} seconds")
    return round(value * 1e6)


def read_moment(text: object) -> datetime.datetime:
    """A time with its zone. Raises ValueError with a remedy."""
    try:
        time = datetime.datetime.fromisoformat(text)  # type: ignore[arg-type]  # what is no text raises
    except (ValueError, TypeError):
        raise ValueError(f"a time is written as 2030-01-31T09:00:00Z, not {text!r:.60}") from None
    if time.tzinfo is None:
        raise ValueError(f"a time needs its zone, as in 2030-01-31T09:00:00Z: {text!r:.60} has none")
    return time


def _microseconds(text: str) -> int | None:
    if len(text) > 60:
        return None
    if _PLAIN.fullmatch(text):
        return sum(_times(number, _UNITS[unit]) for number, unit in re.findall(_PART, text))
    iso = _ISO.fullmatch(text)
    if iso is None:
        return None
    return sum(_times(number, _UNITS[unit]) for number, unit in zip(iso.groups(), "wdhms", strict=True) if number)


def _times(number: str, unit: int) -> int:
    whole, _, fraction = number.replace(",", ".").partition(".")
    return int(whole) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def write_span(microseconds: int) -> str:
    """The one text of a duration: the largest units first, none of them with a fraction."""
    rest, parts = microseconds, []
    for name, unit in _UNITS.items():
        if name != "w" and rest >= unit:
            parts.append(f"{rest // unit}{name}")
            rest %= unit
    return "".join(parts) or "0s"

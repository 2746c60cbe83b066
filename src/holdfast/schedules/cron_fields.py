"""A cron line, read: which seconds, minutes, hours and days it names.

Five fields are minute, hour, day of month, month and day of week; six begin with the second. A field is a list of
``*``, values and ranges, each with a step (``*/15``, ``8-18/2``). Months and days of the week may have their English
names, and 0 and 7 are Sunday. Of days there are more: ``L`` is the last of the month, ``LW`` its last working day,
``5L`` the last Friday, ``1#2`` the second Monday. Where both kinds of days are named, a day is one that either of them
names; where one of them begins with ``*``, both must fit.
"""

from __future__ import annotations

import calendar
import datetime
import re
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest

LONGEST: Final = 1_000
"""How many characters a line may have."""

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_PART: Final = re.compile(r"(?P<first>\*|[0-9]+|[A-Z]{3})(?:-(?P<last>[0-9]+|[A-Z]{3}))?(?:/(?P<step>[0-9]+))?")
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Field(msgspec.Struct, frozen=True):
    """What one field may hold."""

    name: str
    lowest: int
    highest: int
    names: tuple[str, ...] = ()
    first_name: int = 0


SECOND: Final = Field("second", 0, 59)
MINUTE: Final = Field("minute", 0, 59)
HOUR: Final = Field("hour", 0, 23)
DAY: Final = Field("day of month", 1, 31)
MONTH: Final = Field("month", 1, 12, _MONTHS, 1)
WEEKDAY: Final = Field("day of week", 0, 7, _DAYS)


class CronLine(msgspec.Struct, frozen=True):
    """A cron line. ``nth`` are pairs of a day of the week (Monday is 0) and its number in the month; -1 is the last.

    With ``elapsed`` it follows the time that passes: it runs in both hours where a clock is set back, and not in one
    that is left out. Else it is for a time of day, and runs once for it.
    """

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    last_day: bool
    last_working_day: bool
    either: bool
    elapsed: bool

    def has_date(self, date: datetime.date) -> bool:
        """Whether the line names this day."""
        if date.month not in self.months:
            return False
        by_month, by_week = self._by_month(date), self._by_week(date)
        return by_month or by_week if self.either else by_month and by_week

    def _by_month(self, date: datetime.date) -> bool:
        if date.day in self.days or not (self.last_day or self.last_working_day):
            return date.day in self.days
        last = calendar.monthrange(date.year, date.month)[1]
        if self.last_day and date.day == last:
            return True
        return self.last_working_day and date.day == _last_working_day(date, last)

    def _by_week(self, date: datetime.date) -> bool:
        weekday = date.weekday()
        if weekday in self.weekdays:
            return True
        if (weekday, (date.day - 1) // 7 + 1) in self.nth:
            return True
        return (weekday, -1) in self.nth and date.day + 7 > calendar.monthrange(date.year, date.month)[1]


def _last_working_day(date: datetime.date, last: int) -> int:
    weekday = date.replace(day=last).weekday()
    return last - max(0, weekday - 4)


def read_cron(text: str) -> CronLine:
    """A cron line. Raises InvalidRequest, which says what is wrong and where."""
    if len(text) > LONGEST:
        raise InvalidRequest(f"a cron line is a text of at most {LONGEST} characters")
    given = text.strip()
    if given.startswith("@") and given.lower() not in NICKNAMES:
        raise InvalidRequest(f"there is no {given!r:.40} in cron: use one of {', '.join(NICKNAMES)}, or five fields")
    fields = NICKNAMES.get(given.lower(), given).upper().split()
    if len(fields) not in (5, 6):
        raise InvalidRequest(
            f"a cron line has five fields, or six with seconds first, and {text!r:.60} has {len(fields)}"
        )
    second, (minute, hour, day, month, weekday) = fields[0] if len(fields) == 6 else "0", fields[-5:]
    days, last_day, last_working_day = _days(day)
    weekdays, nth = _weekdays(weekday)
    line = CronLine(
        text=given,
        seconds=_values(second, SECOND),
        minutes=_values(minute, MINUTE),
        hours=_values(hour, HOUR),
        days=days,
        months=frozenset(_values(month, MONTH)),
        weekdays=weekdays,
        nth=nth,
        last_day=last_day,
        last_working_day=last_working_day,
        either=not day.startswith("*") and not weekday.startswith("*"),
        elapsed=len(fields) == 6 or minute.startswith("*") or hour.startswith("*"),
    )
    _check_possible(line)
    return line


def _days(field: str) -> tuple[frozenset[int], bool, bool]:
    parts = field.split(",")
    plain = [part for part in parts if part not in ("L", "LW")]
    found = frozenset(_values(",".join(plain), DAY)) if plain else frozenset[int]()
    return found, "L" in parts, "LW" in parts


def _weekdays(field: str) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    plain: list[str] = []
    nth: set[tuple[int, int]] = set()
    for part in field.split(","):
        if re.fullmatch(r"[0-7]L", part):
            nth.add((_monday_first(int(part[0])), -1))
        elif found := re.fullmatch(r"([0-9]|[A-Z]{3})#([1-5])", part):
            nth.add((_monday_first(_number(found[1], WEEKDAY, field)), int(found[2])))
        else:
            plain.append(part)
    values = _values(",".join(plain), WEEKDAY) if plain else ()
    return frozenset(map(_monday_first, values)), frozenset(nth)


def _monday_first(day: int) -> int:
    return (day - 1) % 7


def _values(text: str, field: Field) -> tuple[int, ...]:
    """All values of a field, in order. Raises InvalidRequest."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match["first"] == "*" and match["last"]):
            raise InvalidRequest(
                f"{part!r:.40} is no {field.name} of a cron line: write *, 5, 1-5, */15 or a list of these"
            )
        step = int(match["step"] or 1)
        if step == 0 or len(match["step"] or "") > 4:
            raise InvalidRequest(f"the step of {part!r:.40} is no number of steps of the {field.name}")
        if match["first"] == "*":
            first, last = field.lowest, field.highest
        else:
            first = _number(match["first"], field, part)
            last = field.highest if match["step"] and not match["last"] else first
            last = _number(match["last"], field, part) if match["last"] else last
        if last < first:
            raise InvalidRequest(f"{part!r:.40} goes backwards: write the smaller {field.name} first")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def _number(text: str, field: Field, part: str) -> int:
    if text in field.names:
        return field.names.index(text) + field.first_name
    if not text.isdecimal() or len(text) > 4 or not field.lowest <= int(text) <= field.highest:
        raise InvalidRequest(f"{part!r:.40}: the {field.name} is {field.lowest} to {field.highest}")
    return int(text)


def _check_possible(line: CronLine) -> None:
    """Raises InvalidRequest for a line that names no day of any year."""
    if line.either or line.last_day or line.last_working_day:
        return
    if not any(day <= _LONGEST_MONTHS[month - 1] for month in line.months for day in line.days):
        raise InvalidRequest(f"{line.text!r:.60} never comes: none of its months has such a day")

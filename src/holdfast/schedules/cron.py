"""The times of a cron line in a time zone.

What happens where clocks change is Debian's rule. A line whose minute or hour begins with ``*``, and one with seconds,
follows the time that passes. Any other is for a time of day and runs once for it: where that time is left out, as the
gap ends; where it comes twice, the first time.

A day is a list of stretches of time with one offset from UTC each. Within a stretch local time and UTC go together, so
the next time is looked up and not searched for. No line makes this run long: days are looked at for at most as long as
the calendar takes to repeat itself.
"""

from __future__ import annotations

import bisect
import datetime
import zoneinfo
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.errors import InvalidRequest
from holdfast.schedules.cron_fields import CronLine

SECOND: Final = datetime.timedelta(seconds=1)
HOUR: Final = datetime.timedelta(hours=1)
DAY: Final = datetime.timedelta(days=1)
_WIDEST: Final = 15 * HOUR  # more than any zone is away from UTC
_CYCLE: Final = 146_097 * DAY
"""After that the calendar repeats itself, with its days of the week."""
_END: Final = datetime.date(9999, 11, 1)
COUNTED_DAYS: Final = 4_000
"""Over a longer time the times of a line are not counted."""


class Stretch(NamedTuple):
    """A stretch of time with one offset: from ``begin`` to before ``end``, in UTC."""

    begin: datetime.datetime
    end: datetime.datetime
    offset: datetime.timedelta


class DayPart(NamedTuple):
    """A part of a day in which a line's times are looked up, from ``first`` to before ``last`` on local clocks.

    ``gap_end`` is when the line runs for times that are left out before this part.
    """

    gap_end: datetime.datetime | None
    first: datetime.datetime
    last: datetime.datetime
    offset: datetime.timedelta


def zone_named(name: str) -> datetime.tzinfo:
    """A time zone. Raises InvalidRequest where there is none of that name."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(f"there is no time zone {name!r:.60}: use one such as Europe/Vienna or UTC") from None


def times(line: CronLine, zone: datetime.tzinfo, after: datetime.datetime) -> Iterator[datetime.datetime]:
    """The times of a line after this one, in UTC and in order."""
    at: datetime.datetime | None = after
    while at is not None and (at := next_time(line, zone, at)) is not None:
        yield at


def next_time(line: CronLine, zone: datetime.tzinfo, after: datetime.datetime) -> datetime.datetime | None:
    """The first time of a line after this one, in UTC; None where there is none before the calendar repeats or ends."""
    if after.tzinfo is None:
        raise InvalidRequest("a time needs its zone: 2027-03-28T00:00:00Z")
    now = after.astimezone(datetime.UTC).replace(microsecond=0)
    first = _local(now, zone).date() - DAY  # a clock that is set back over midnight shows a day twice
    last = first + min(_CYCLE, _END - first)
    date: datetime.date | None = first
    while date is not None:
        found = [at for day in (date, date + DAY) if (at := _on(line, zone, day, now)) is not None]
        if found:
            return min(found)
        date = _next_date(line, date, last)
    return None


def _next_date(line: CronLine, date: datetime.date, last: datetime.date) -> datetime.date | None:
    """The day before the next one that the line names, or the next day where the one after it is named."""
    while date < last:
        date += DAY
        if date.month not in line.months:  # to the last of the month
            date = (date.replace(day=28) + 4 * DAY).replace(day=1) - DAY
        if line.has_date(date) or line.has_date(date + DAY):
            return date
    return None


def last_time(
    line: CronLine, zone: datetime.tzinfo, after: datetime.datetime, until: datetime.datetime
) -> datetime.datetime | None:
    """The last time of a line after one time and not after another; found by halving, so it takes few steps."""
    found = next_time(line, zone, after)
    if found is None or found > until:
        return None
    begin, end = found, until
    while end - begin > SECOND:
        middle = begin + ((end - begin) / 2 // SECOND) * SECOND
        following = next_time(line, zone, middle)
        if following is None or following > until:
            end = middle
        else:
            begin = found = following
    following = next_time(line, zone, begin)
    return following if following is not None and following <= until else found


def count_times(
    line: CronLine, zone: datetime.tzinfo, after: datetime.datetime, until: datetime.datetime
) -> int | None:
    """How many times a line has after one time and not after another; None where that is too long to be counted.

    They are counted day by day and not one by one: a line of each second has as many as one of each day.
    """
    since, last = (at.astimezone(datetime.UTC).replace(microsecond=0) for at in (after, until))
    if last - since > COUNTED_DAYS * DAY:
        return None
    date, end = _local(since, zone).date() - DAY, _local(last, zone).date() + DAY
    count = 0
    gap_ends: set[datetime.datetime] = set()
    while date <= end:
        if line.has_date(date):
            for part in _parts(line, zone, date):
                if part.gap_end is not None and since < part.gap_end <= last and not _names(line, part):
                    gap_ends.add(part.gap_end)
                first = max(part.first, since + SECOND + part.offset)
                count += _count_in(line, first, min(part.last, last + SECOND + part.offset))
        date += DAY
    return count + len(gap_ends)


def _names(line: CronLine, part: DayPart) -> bool:
    """Whether the line names the time at which the gap before a part ends: then it has that time anyway."""
    if part.gap_end is None:
        return False
    local = part.gap_end + part.offset
    return line.has_date(local.date()) and _time_in(line, local, local + SECOND) is not None


def _count_in(line: CronLine, first: datetime.datetime, last: datetime.datetime) -> int:
    """How many times of day the line names within a stretch of one day; ``last`` is not part of it."""
    if first >= last:
        return 0
    end = _rank(line, last) if last.date() == first.date() else _rank(line, None)
    return end - _rank(line, first)


def _rank(line: CronLine, at: datetime.datetime | None) -> int:
    """How many times of day the line names before this one; all of the day where it is None."""
    hours, minutes, seconds = line.hours, line.minutes, line.seconds
    if at is None:
        return len(hours) * len(minutes) * len(seconds)
    before = bisect.bisect_left(hours, at.hour) * len(minutes) * len(seconds)
    if at.hour not in hours:
        return before
    before += bisect.bisect_left(minutes, at.minute) * len(seconds)
    return before + bisect.bisect_left(seconds, at.second) if at.minute in minutes else before


def _on(
    line: CronLine, zone: datetime.tzinfo, date: datetime.date, after: datetime.datetime
) -> datetime.datetime | None:
    """The first time of a line on one day of the zone's calendar, after a time."""
    if not line.has_date(date):
        return None
    for part in _parts(line, zone, date):
        if part.gap_end is not None and part.gap_end > after:
            return part.gap_end
        found = _time_in(line, max(part.first, after + SECOND + part.offset), part.last)
        if found is not None:
            return found - part.offset
    return None


def _parts(line: CronLine, zone: datetime.tzinfo, date: datetime.date) -> Iterator[DayPart]:
    """A day of the zone's calendar, in the order of time."""
    midnight = datetime.datetime.combine(date, datetime.time(), datetime.UTC)
    covered = midnight  # what local clocks have shown so far; local times are kept as if they were UTC
    for stretch in _stretches(zone, midnight):
        first, last = max(stretch.begin + stretch.offset, midnight), min(stretch.end + stretch.offset, midnight + DAY)
        gap_end = None
        if not line.elapsed:
            left_out = min(stretch.begin + stretch.offset, midnight + DAY)
            if covered < left_out and _time_in(line, covered, left_out) is not None:
                gap_end = stretch.begin
            first = max(first, covered)
        yield DayPart(gap_end, first, last, stretch.offset)
        covered = max(covered, last)


@lru_cache(maxsize=4096)
def _stretches(zone: datetime.tzinfo, midnight: datetime.datetime) -> tuple[Stretch, ...]:
    """The stretches of one offset around a day."""
    begin, end = midnight - _WIDEST, midnight + DAY + _WIDEST
    found: list[Stretch] = []
    offset, at = _offset(zone, begin), begin
    while at < end:
        following = min(at + HOUR, end)
        if (other := _offset(zone, following)) != offset:
            change = _change(zone, at, following, offset)
            found.append(Stretch(begin, change, offset))
            begin, offset = change, other
        at = following
    return (*found, Stretch(begin, end, offset))


def _change(
    zone: datetime.tzinfo, begin: datetime.datetime, end: datetime.datetime, offset: datetime.timedelta
) -> datetime.datetime:
    """When within an hour the offset changes, to the second."""
    seconds = range(round((end - begin) / SECOND))
    return (
        begin + bisect.bisect_left(seconds, True, key=lambda at: _offset(zone, begin + at * SECOND) != offset) * SECOND
    )


def _offset(zone: datetime.tzinfo, at: datetime.datetime) -> datetime.timedelta:
    return at.astimezone(zone).utcoffset() or datetime.timedelta()


def _local(at: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    return at + _offset(zone, at)


def _time_in(line: CronLine, first: datetime.datetime, last: datetime.datetime) -> datetime.datetime | None:
    """The first time of day that the line names within a stretch of one day; ``last`` is not part of it."""
    if first >= last:
        return None
    hours, minutes, seconds = line.hours, line.minutes, line.seconds
    midnight = first.replace(hour=0, minute=0, second=0)
    at = (first.hour, first.minute, first.second)
    for hour in hours[bisect.bisect_left(hours, at[0]) :]:
        since = at[1] if hour == at[0] else 0
        for minute in minutes[bisect.bisect_left(minutes, since) :]:
            begin = at[2] if (hour, minute) == at[:2] else 0
            index = bisect.bisect_left(seconds, begin)
            if index < len(seconds):
                found = midnight + datetime.timedelta(hours=hour, minutes=minute, seconds=seconds[index])
                return found if found < last else None
    return None

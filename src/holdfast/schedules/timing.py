"""The times of a schedule: of a cron line, an interval, or one time. A time that it names is a tick.

Times are microseconds since 1970. Nothing here depends on how long ago something was: a search takes few steps however
many ticks lie between two times.
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.schedules.cron import count_times, last_time, next_time, zone_named
from holdfast.schedules.cron_fields import CronLine, read_cron

SECOND: Final = 1_000_000
SHORTEST: Final = SECOND
"""The shortest interval."""
LATEST: Final = 253_370_764_800 * SECOND
"""The year 9999 begins: no schedule goes further."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


class Cron(msgspec.Struct, frozen=True, tag="cron", tag_field="kind", omit_defaults=True):
    """The times of a cron line on the clocks of a time zone."""

    line: str
    timezone: str = "UTC"


class Interval(msgspec.Struct, frozen=True, tag="interval", tag_field="kind"):
    """``begin``, and every so many microseconds after it."""

    every: int
    begin: int


class Once(msgspec.Struct, frozen=True, tag="once", tag_field="kind"):
    """One time."""

    at: int


Timing = Cron | Interval | Once


def check_timing(timing: Timing) -> None:
    """Raises InvalidRequest where it cannot be followed: a line that is none, a zone that does not exist."""
    match timing:
        case Cron():
            _read(timing.line)
            zone_named(timing.timezone)
        case Interval():
            if timing.every < SHORTEST or timing.every > LATEST:
                raise InvalidRequest("an interval is 1 second or more, and less than 8,000 years")
        case Once():
            if not 0 <= timing.at < LATEST:
                raise InvalidRequest("the time of a schedule is between 1970 and 9999")


def next_tick(timing: Timing, after: int) -> int | None:
    """The first tick after a time; None where there is none."""
    after = max(after, 0)
    match timing:
        case Cron() if after < LATEST:
            return _next_of_line(timing.line, timing.timezone, after)
        case Interval() if after < LATEST:
            return timing.begin + max(0, (after - timing.begin) // timing.every + 1) * timing.every
        case Once() if timing.at > after:
            return timing.at
    return None


def last_tick(timing: Timing, after: int, until: int) -> int | None:
    """The last tick after one time and not after another; None where there is none."""
    after, until = max(after, 0), min(until, LATEST)
    if until <= after:
        return None
    match timing:
        case Cron():
            found = last_time(_read(timing.line), zone_named(timing.timezone), moment(after), moment(until))
            return None if found is None else microseconds(found)
        case Interval():
            tick = timing.begin + (until - timing.begin) // timing.every * timing.every
            return tick if tick > after and tick >= timing.begin else None
        case Once():
            return timing.at if after < timing.at <= until else None


def count_ticks(timing: Timing, after: int, until: int) -> int | None:
    """How many ticks are after one time and not after another; None where a cron line has them over many years."""
    after, until = max(after, 0), min(until, LATEST)
    if until <= after:
        return 0
    match timing:
        case Cron():
            return count_times(_read(timing.line), zone_named(timing.timezone), moment(after), moment(until))
        case Interval():
            return max(0, (until - timing.begin) // timing.every + 1) - max(
                0, (after - timing.begin) // timing.every + 1
            )
        case Once():
            return 1 if after < timing.at <= until else 0


@lru_cache(maxsize=4096)  # a plan asks several times for the same one
def _next_of_line(line: str, timezone: str, after: int) -> int | None:
    found = next_time(_read(line), zone_named(timezone), moment(after))
    return None if found is None else microseconds(found)


@lru_cache(maxsize=4096)
def _read(line: str) -> CronLine:
    return read_cron(line)


def moment(at: int) -> datetime.datetime:
    """A time in UTC."""
    return _EPOCH + at * _MICROSECOND


def microseconds(at: datetime.datetime) -> int:
    """A time as the store keeps it. Raises InvalidRequest where it has no zone."""
    if at.tzinfo is None:
        raise InvalidRequest("a time needs its zone: 2027-03-28T00:00:00Z")
    return (at - _EPOCH) // _MICROSECOND


@lru_cache(maxsize=4096)
def written(at: int) -> str:
    """A time as people read it: 2027-03-28T01:00:00Z, with the fraction of a second where it has one."""
    found = moment(at)
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if found.microsecond else "%Y-%m-%dT%H:%M:%SZ")

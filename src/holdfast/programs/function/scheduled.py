"""The schedule that a decorator declares: ``@workflow(schedule="0 3 * * *", timezone="Europe/Vienna")``."""

from __future__ import annotations

import datetime

from holdfast.errors import InvalidFunction, InvalidRequest
from holdfast.programs.function.values import Signature
from holdfast.schedules.declarations import DeclaredSchedule
from holdfast.schedules.timing import Cron, Interval, Timing, check_timing


def declaration(
    name: str, signature: Signature, schedule: str | datetime.timedelta | None, timezone: str | None
) -> DeclaredSchedule:
    """What a workflow declares. Raises InvalidFunction where it cannot be followed."""
    try:
        signature.write((), {})
        timing = _timing(schedule, timezone)
        check_timing(timing)
    except InvalidRequest as error:
        raise InvalidFunction(f"the schedule of {name}: {error}") from error
    except TypeError as error:
        raise InvalidFunction(
            f"a schedule starts {name} without arguments, and it needs some ({error}): give them defaults, or make the "
            "schedule with app.schedules.create()."
        ) from error
    return DeclaredSchedule(name=name, timing=timing, program="")


def _timing(schedule: str | datetime.timedelta | None, timezone: str | None) -> Timing:
    if isinstance(schedule, str):
        return Cron(schedule, "UTC" if timezone is None else timezone)
    if not isinstance(schedule, datetime.timedelta):
        raise InvalidRequest(f"schedule= is a cron line or a timedelta, not {schedule!r:.60}")
    if timezone is not None:
        raise InvalidRequest("a time zone goes with a cron line: an interval needs none")
    return Interval(schedule // datetime.timedelta(microseconds=1), 0)

"""What a definition says of when it starts by itself: that it comes, and that it can be started so."""

from __future__ import annotations

from holdfast.errors import InvalidRequest
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList
from holdfast.programs.definition.declared_schedule import ScheduleDeclaration
from holdfast.programs.definition.schema_values import start_problems
from holdfast.schedules.cron import zone_named
from holdfast.schedules.cron_fields import read_cron
from holdfast.schedules.timing import SHORTEST


def check_schedule(definition: m.Definition, faults: FaultList) -> None:
    """A cron line or an interval, and an input that fits what the definition is started with."""
    schedule = definition.schedule
    if schedule is None:
        return
    if bool(schedule.cron) == bool(schedule.every):
        faults.add(("schedule",), "it has `cron:` (a line such as 0 3 * * *) or `every:` (a duration such as 15m)")
        return
    try:
        if schedule.cron:
            read_cron(schedule.cron)
    except InvalidRequest as error:
        faults.add(("schedule", "cron"), str(error))
    try:
        zone_named(schedule.timezone)
    except InvalidRequest as error:
        faults.add(("schedule", "timezone"), str(error))
    if schedule.every and schedule.every < SHORTEST:
        faults.add(("schedule", "every"), "an interval is 1 second or more")
    if schedule.every and schedule.timezone != "UTC":
        faults.add(("schedule", "timezone"), "a time zone goes with a cron line: an interval needs none")
    _check_input(definition, schedule, faults)


def _check_input(definition: m.Definition, schedule: ScheduleDeclaration, faults: FaultList) -> None:
    start = {} if schedule.input is None else schedule.input
    if faults.found:  # what is no schema cannot be held against anything
        return
    for place, problem in start_problems(definition.start, start):
        faults.add(("schedule", "input"), f"it cannot be started with this: {place or '/'}: {problem}")

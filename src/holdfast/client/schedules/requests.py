"""What a caller says of a schedule, read: its timing, its target and its other settings."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.errors import InvalidRequest
from holdfast.programs.function.bound import Bound
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.birth import check_text
from holdfast.schedules.schedule import CatchUp, Overlap, Schedule
from holdfast.schedules.timing import SECOND, Cron, Interval, Once, Timing, microseconds
from holdfast.templates.start import called_with
from holdfast.templates.template import RESERVED

Seconds = float | datetime.timedelta
"""A length of time: in seconds, or a timedelta."""

Target = Workflow[..., Any] | Bound[Any] | str
"""What a schedule starts: a workflow, one with its arguments, or the name of a workflow or a definition."""


class Settings(TypedDict, total=False):
    """How a schedule behaves; each has a default."""

    overlap: Overlap | UnsetType
    catch_up: CatchUp | UnsetType
    catch_up_window: Seconds | UnsetType | None
    jitter: Seconds | UnsetType
    workspace: str | UnsetType
    priority: int | UnsetType
    attributes: Mapping[str, str] | UnsetType
    owner: str | UnsetType | None


_FIELDS: Final = ("overlap", "catch_up", "workspace", "priority", "owner")


def with_settings(schedule: Schedule, settings: Settings) -> Schedule:
    """The schedule with those settings that are given. Raises InvalidRequest."""
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not UNSET}
    changes: dict[str, Any] = {name: given[name] for name in _FIELDS if name in given}
    if "catch_up_window" in given:
        window = given["catch_up_window"]
        changes["window"] = None if window is None else span(window, "the catch-up window")
    if "jitter" in given:
        changes["jitter"] = span(given["jitter"], "jitter")
    if "attributes" in given:
        changes["attributes"] = _attributes(given["attributes"])
    if not isinstance(changes.get("priority", 0), int):
        raise InvalidRequest(f"priority is a whole number, not {changes['priority']!r:.60}")
    check_text(changes.get("workspace", ""), "the workspace")
    return replace(schedule, **changes)


def _attributes(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        raise InvalidRequest("attributes are texts by name: convert numbers and dates to text")
    if taken := [name for name in RESERVED if name in given]:
        raise InvalidRequest(f"the attribute {taken[0]!r} is for runs that a template starts: use another name")
    return dict(given)


def read_timing(
    cron: str | None, every: Seconds | None, at: datetime.datetime | None, timezone: str | None, now: int
) -> Timing | None:
    """The timing of one of these; None where none is given. Raises InvalidRequest."""
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) > 1:
        raise InvalidRequest(f"give one of cron, every and at, not {' and '.join(given)}")
    if timezone is not None and cron is None:
        raise InvalidRequest("a time zone goes with a cron line: a time has its own, and an interval needs none")
    if cron is not None:
        return Cron(check_text(cron, "the cron line"), check_text("UTC" if timezone is None else timezone, "the zone"))
    if every is not None:
        return Interval(span(every, "the interval"), now)
    if at is not None:
        if not isinstance(at, datetime.datetime):
            raise InvalidRequest(f"the time is a datetime with its zone, not {at!r:.60}")
        return Once(microseconds(at))
    return None


def read_target(what: Target | None, input: object) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The name of what is started, and its arguments. Raises InvalidRequest."""
    if isinstance(what, Bound):
        if input is not None:
            raise InvalidRequest("the arguments are bound already: give no input beside bind()")
        return what.workflow.name, what.args, what.kwargs
    name = what.name if isinstance(what, Workflow) else check_text(what, "the workflow")
    return name, *called_with(input)


def span(length: object, what: str) -> int:
    """A length of time in microseconds. Raises InvalidRequest."""
    if isinstance(length, datetime.timedelta):
        return length // datetime.timedelta(microseconds=1)
    if isinstance(length, bool) or not isinstance(length, int | float) or not abs(length) < 1e12:
        raise InvalidRequest(f"{what} is a number of seconds or a timedelta, not {length!r:.60}")
    return round(length * SECOND)

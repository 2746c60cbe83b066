"""Options that the commands about schedules share."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar, get_args

import click

from holdfast.cli import options
from holdfast.cli.options import F
from holdfast.errors import InvalidRequest
from holdfast.schedules.schedule import CatchUp, Overlap

T = TypeVar("T")


class Time(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A time in ISO 8601; UTC where it names no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            found = datetime.datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise InvalidRequest(f"a time is written as 2027-03-28T00:00:00Z, not {value!r:.60}") from None
        return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


class Window(options.Duration):
    """A duration, or ``none``."""

    name = "window"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == NO_WINDOW else super().convert(value, param, ctx)


NO_WINDOW = "none"


def one_schedule(function: F) -> F:
    """A schedule's id, and its store and tenant."""
    return click.argument("id")(options.tenant(options.store(function)))


def settings(function: F) -> F:
    """When it starts something, and how it behaves."""
    found = function
    for option in reversed(_SETTINGS):
        found = option(found)
    return found


_SETTINGS = (
    click.option("--template", metavar="ID", help="Start this template, in place of a workflow."),
    click.option("--input", "input", metavar="JSON", help="The arguments: an object by name, or the only one."),
    click.option("--cron", metavar="LINE", help="A cron line of five fields, or six with seconds first."),
    click.option("--timezone", metavar="ZONE", help="With --cron: the zone whose clocks it follows; UTC by default."),
    click.option("--every", type=options.Duration(), metavar="TIME", help="An interval, as 15m."),
    click.option("--at", type=Time(), help="One time, as 2027-03-28T00:00:00Z."),
    click.option("--overlap", type=click.Choice(get_args(Overlap)), help="While the run before is under way. [skip]"),
    click.option("--catch-up", type=click.Choice(get_args(CatchUp)), help="Of late ticks. [latest]"),
    click.option("--catch-up-window", type=Window(), metavar="TIME", help="How late a tick may be; `none` for any."),
    click.option("--jitter", type=options.Duration(), metavar="TIME", help="Spread starts over this time."),
    click.option("--workspace", metavar="NAME", help="Where its runs belong."),
    click.option("--priority", type=int, help="Of its runs; higher goes first."),
    click.option("--attribute", "attributes", type=options.Pair(), multiple=True, metavar="K=V", help="Of its runs."),
    click.option("--app", metavar="APP", help="The code: its signatures check the arguments."),
)


def given(
    template: str | None,
    input: str | None,
    attributes: tuple[tuple[str, str], ...],
    catch_up_window: float | str | None,
    **others: Any,
) -> dict[str, Any]:
    """The settings that were given, as the client takes them."""
    found: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
    if template is not None:
        found["template"] = template
    if input is not None:
        found["input"] = options.value_of(input)
    if attributes:
        found["attributes"] = dict(attributes)
    if catch_up_window is not None:
        found["catch_up_window"] = None if catch_up_window == NO_WINDOW else catch_up_window
    return found

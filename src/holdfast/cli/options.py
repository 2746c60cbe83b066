"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import datetime
import getpass
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

DEFAULT_STORE: Final = "sqlite:///holdfast.db"

UNNAMED: Final = "unnamed"
WAKEUPS: Final = "holdfast.wakeups"
"""Where a command's context keeps ``--wakeups``."""

F = TypeVar("F", bound=Callable[..., Any])


def operator() -> str:
    """The name of the user, as the operating system has it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user id has no name, as in some containers
        return UNNAMED


_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION: Final = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)([smhdw])")

store_url = click.option(
    "--store", envvar="HOLDFAST_STORE", metavar="URL", help=f"The store. [HOLDFAST_STORE; default {DEFAULT_STORE}]"
)
_wakeups = click.option(
    "--wakeups",
    envvar="HOLDFAST_WAKEUPS",
    metavar="URL",
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.__setitem__(WAKEUPS, value),
    help="Hints between processes, beside the store's own: redis://HOST:6379/0. [HOLDFAST_WAKEUPS]",
)
_tenant = click.option(
    "--tenant", envvar="HOLDFAST_TENANT", default="default", metavar="NAME", help="The tenant. [HOLDFAST_TENANT]"
)
any_tenant = click.option(
    "--tenant", envvar="HOLDFAST_TENANT", metavar="NAME", help="One tenant only; all by default. [HOLDFAST_TENANT]"
)
as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
app = click.option("--app", metavar="APP", help="The code: module:attribute or file.py:attribute.")
definitions = click.option(
    "--definitions",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Accept the definitions in this file or folder, too.",
)
definitions_mode = click.option(
    "--definitions-mode",
    type=click.Choice(["strict", "warn"]),
    help="Whether an invalid definition ends the start, or is only unavailable; the app's own mode if not given.",
)
dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
limit = click.option(
    "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="At most so many; 0 for all."
)
after = click.option(
    "--after", metavar="CURSOR", help="Continue where an earlier list ended: that list names the cursor."
)
policy = click.option(
    "--policy", envvar="HOLDFAST_POLICY", metavar="FILE", help="The policy that judges actions. [HOLDFAST_POLICY]"
)
secrets_table = click.option(
    "--secrets-table",
    envvar="HOLDFAST_SECRETS_TABLE",
    metavar="FILE",
    help="Which tenant may use which secret, and for what. [HOLDFAST_SECRETS_TABLE]",
)
steered_by = click.option(
    "--as", "who", default=operator, metavar="NAME", help="Who does it: kept in the audit. By default the user's name."
)
tracing = click.option(
    "--tracing", is_flag=True, envvar="HOLDFAST_TRACING", help="Make spans for OpenTelemetry. [HOLDFAST_TRACING]"
)
why = click.option("--reason", default="", metavar="TEXT", help="Why: kept in the audit.")
_answered_by = click.option("--as", "who", required=True, metavar="NAME", help="Who answers: kept in the audit.")


in_group = click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="A group that you are in; may be repeated."
)


def store(function: F) -> F:
    """``--store``, ``--wakeups`` and ``--json``. The session reads the second one by itself."""
    return store_url(_wakeups(as_json(function)))


def one_run(function: F) -> F:
    """A run's id, and its store and tenant."""
    return click.argument("run")(_tenant(store(function)))


def tenant(function: F) -> F:
    return _tenant(function)


def answer(function: F) -> F:
    """The options of every answer: who gives it, why, and the store and tenant of the task."""
    return _answered_by(why(_tenant(store(function))))


def done_by(function: F) -> F:
    """As ``answer``, for commands on a task of any kind: ``--by`` is the client's name for it."""
    who = click.option("--as", "--by", "who", required=True, metavar="NAME", help="Who does it: kept in the audit.")
    return who(why(_tenant(store(function))))


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``90s``, ``15m``, ``36h``, ``30d``, ``2w``, or several together: ``1d12h``. Gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        if not re.fullmatch(f"({_DURATION.pattern})+", text):
            self.fail(f"{value!r} is no duration: write 90s, 15m, 36h, 30d or 2w.", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A time in ISO 8601 (UTC where it names no zone), or a duration: so long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        text = str(value).strip()
        if re.fullmatch(f"({_DURATION.pattern})+", text):
            ago = datetime.timedelta(seconds=Duration().convert(text, param, ctx))
            return datetime.datetime.now(datetime.UTC) - ago
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{value!r} is no time: write 2026-05-01T12:00:00Z, 2026-05-01, or 2h for two hours ago.", param, ctx
            )
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


class Pair(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``NAME=VALUE``, or of what else the ``form`` tells."""

    name = "pair"

    def __init__(self, form: str = "NAME=VALUE") -> None:
        self._form = form

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, mark, text = str(value).partition("=")
        if not mark or not name:
            self.fail(f"{value!r} is not {self._form}.", param, ctx)
        return name, text


class TypedReference(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """``TYPE:REF``; the reference may hold more colons."""

    name = "reference"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        kind, _, reference = str(value).partition(":")
        if not kind or not reference:
            self.fail(f"{value!r} is not TYPE:REF: write, for example, webhook:INC-42.", param, ctx)
        return kind, reference


settle = click.option(
    "--settle",
    type=Duration(),
    metavar="TIME",
    help="Wait until the run waits again or has ended, at most so long, and write how it stands: status, state, tasks.",
)


def value_of(text: str) -> Any:
    """JSON where it is JSON, else plain text: ``3``, ``true``, ``{"a": 1}``, ``hello``.

    A text that begins like an object, a list or a quoted text must be JSON: else a typing error would pass as text.
    Raises BadParameter.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "[", '"'):
            raise click.BadParameter(f"{text!r} is not valid JSON: {error}") from error
        return text


def object_of(text: str, what: str, example: str = '{"gift": true}') -> dict[str, Any]:
    """A JSON object. Raises BadParameter."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{what} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.BadParameter(f"{what} is a JSON object like {example}, not {text}")
    return value

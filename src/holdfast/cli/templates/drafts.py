"""``templates create`` and ``new-version``: what authors say of a template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli import options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.definitions.kept import source_of
from holdfast.client.engine import Holdfast
from holdfast.client.views.templates import TemplateInfo, template_record
from holdfast.templates.template import TRIGGERS, EventRoute, TemplateCaps

F = TypeVar("F", bound=Callable[..., Any])

_WHAT = (
    click.option("--definition", metavar="NAME[@VERSION]", help="A published definition."),
    click.option("--workflow", metavar="NAME", help="A Python workflow, by its name."),
    click.option("--file", "file", metavar="FILE", help="A definition's file (`-` for stdin): it is published."),
    click.option("--name", metavar="TEXT", help="The template's name for people."),
    click.option("--trigger", type=click.Choice(TRIGGERS), help="What starts it; by default people do."),
    click.option("--max-concurrency", type=click.IntRange(min=0), metavar="N", help="Instances under way at once."),
    click.option("--max-runs-per-min", type=click.IntRange(min=0), metavar="N", help="Starts in any minute."),
    click.option("--max-writes-per-run", type=click.IntRange(min=0), metavar="N", help="Writing actions of each."),
    click.option("--no-caps", is_flag=True, help="Take the caps away that it has."),
    click.option("--input", "input", metavar="JSON", help="What an instance gets where the start says nothing else."),
    click.option("--event", metavar="NAME", help="Start an instance for each event of this name."),
    click.option("--filter", "filter", default="", metavar="EXPRESSION", help="Only where this holds, over `event`."),
    click.option("--event-input", default="", metavar="EXPRESSION", help="The input; by default `event.data`."),
    click.option("--app", metavar="APP", help="Import this module first: what the program calls must be in it."),
    options.steered_by,
    options.tenant,
    options.store,
)


def _authored(function: F) -> F:
    for option in reversed(_WHAT):
        function = option(function)
    return click.argument("id")(function)


@click.command()
@_authored
def create(id: str, **said: Any) -> None:
    """Make a template with this ID; it is a draft until it is activated."""
    _write(_author(id, "create", said), said["as_json"], "create")


@click.command("new-version")
@_authored
def new_version(id: str, **said: Any) -> None:
    """Change a template: what is not given stays. Instances keep the program that they were started with."""
    _write(_author(id, "new_version", said), said["as_json"], "new_version")


def _write(info: TemplateInfo, as_json: bool, action: str) -> None:
    if as_json:
        output.emit({**template_record(info), "action": action})
    else:
        output.say(f"template {info.id} is {info.status}, version {info.version} of {info.program}")


def _author(id: str, method: str, said: dict[str, Any]) -> TemplateInfo:
    programs = [said[name] for name in ("definition", "workflow", "file") if said[name] is not None]
    if len(programs) > 1:
        raise click.UsageError("give one of --definition, --workflow and --file.")
    if (said["filter"] or said["event_input"]) and said["event"] is None:
        raise click.UsageError("--filter and --event-input are for --event NAME.")
    engine = None if said["app"] is None else load_app(said["app"])
    file = said["file"]
    given: dict[str, Any] = {
        "source": None if file is None else source_of(file),
        "name": said["name"],
        "trigger": said["trigger"],
        "caps": _caps(said),
        "input": None if said["input"] is None else options.value_of(said["input"]),
        "route": None if said["event"] is None else EventRoute(said["event"], said["filter"], said["event_input"]),
        "check_uses": engine is not None,
        "tenant": said["tenant"],
        "by": said["who"],
    }

    async def work(app: Holdfast) -> TemplateInfo:
        if engine is not None:
            app.adopt(engine)
        making = getattr(app.templates, method)(id, said["definition"] or said["workflow"], **given)
        info: TemplateInfo = await session.patiently(app, making)
        return info

    return session.on_store(session.url_of(said["store"], engine), work, create=True)


def _caps(said: dict[str, Any]) -> TemplateCaps | None:
    caps = TemplateCaps(**{name: said[name] for name in TemplateCaps.__struct_fields__})
    if not said["no_caps"]:
        return None if caps == TemplateCaps() else caps
    if caps != TemplateCaps():
        raise click.UsageError("--no-caps takes the caps away: give none beside it.")
    return caps

"""``templates``: the group, and what is done to a template that is there."""

from __future__ import annotations

from typing import Any, Final

import click

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.pages import note_rest, read_list
from holdfast.cli.templates.drafts import create, new_version
from holdfast.cli.templates.instances import instances, start
from holdfast.client.engine import Holdfast
from holdfast.client.views.templates import TemplateInfo, template_record
from holdfast.client.views.times import clock
from holdfast.templates.template import STATUSES


@click.group(cls=ListingGroup)
def templates() -> None:
    """Offer programs to be started, and start them (`templates start`).

    `templates` is short for `templates list`, whose help has its options.
    """


for command in (create, new_version, start, instances):
    templates.add_command(command)


@templates.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those with this status.")
@options.limit
@options.after
@options.tenant
@options.store
def list_templates(status: Any, limit: int, after: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """List the templates of a tenant, by id."""
    page = read_list(
        store,
        lambda app, size, place: app.templates.page(status=status, limit=size, after=place, tenant=tenant),
        limit,
        after,
        template_record if as_json else None,
    )
    if as_json:
        return
    if not page.items:
        output.note("no templates match: `holdfast templates create ID` makes one.")
        return
    rows: list[list[output.Part]] = [
        [each.id, each.status, str(each.version), each.trigger, str(each.program), output.one_line(each.name)]
        for each in page.items
    ]
    output.table(["id", "status", "version", "trigger", "program", "name"], rows)
    note_rest(page, limit, "the first")


@templates.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show a template."""

    async def work(app: Holdfast) -> TemplateInfo:
        return await app.templates.show(id, tenant=tenant)

    write_template_info(session.on_store(session.url_of(store), work), as_json)


def write_template_info(info: TemplateInfo, as_json: bool, action: str | None = None) -> None:
    """Write a template, with what was done to it."""
    if as_json:
        output.emit({**template_record(info), **({} if action is None else {"action": action})})
        return
    if action is not None:
        output.say(f"template {info.id} is {info.status}, version {info.version} of {info.program}")
        return
    caps, route = info.caps, info.route
    rows: list[tuple[str, str]] = [
        ("template", info.id),
        ("name", info.name),
        ("status", info.status),
        ("version", str(info.version)),
        ("program", f"{info.program.kind} {info.program}"),
        ("trigger", info.trigger),
        ("owner", info.owner or "nobody"),
        *((name, "no limit" if (cap := getattr(caps, name)) is None else str(cap)) for name in caps.__struct_fields__),
        ("changed", clock(info.changed_at)),
    ]
    if route is not None:
        rows += [("event", route.event), ("filter", route.filter or "all"), ("input", route.input or "event.data")]
    output.table((), rows)


_REASONED: Final = {"pause", "archive"}


def _steering(name: str, text: str) -> None:
    def run(id: str, who: str, tenant: str, store: str | None, as_json: bool, **reason: str) -> None:
        async def work(app: Holdfast) -> TemplateInfo:
            act = getattr(app.templates, name)(id, tenant=tenant, by=who, **reason)
            info: TemplateInfo = await session.patiently(app, act)
            return info

        write_template_info(session.on_store(session.url_of(store), work), as_json, name)

    run.__doc__ = text
    command = options.steered_by(options.tenant(options.store(run)))
    templates.command(name)(click.argument("id")(options.why(command) if name in _REASONED else command))


_steering("activate", "Let a draft start instances.")
_steering("pause", "Let an active template start nothing until it is resumed. Instances go on.")
_steering("resume", "Let a paused template start instances again.")
_steering("archive", "Let a template start nothing, for good. Instances go on.")

"""``workspaces``: the parts of a tenant that its runs belong to."""

from __future__ import annotations

import click

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.people.tenants import caps_options, caps_words
from holdfast.client.engine import Holdfast
from holdfast.client.views.people import WorkspaceInfo, record


@click.group(cls=ListingGroup)
def workspaces() -> None:
    """Make, list, limit and archive workspaces of a tenant. `workspaces` alone lists them."""


@workspaces.command("list")
@options.tenant
@options.store
def list_workspaces(tenant: str, store: str | None, as_json: bool) -> None:
    """List a tenant's workspaces."""

    async def work(app: Holdfast) -> list[WorkspaceInfo]:
        return [workspace async for workspace in app.workspaces.list(tenant=tenant)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for workspace in found:
            output.emit(record(workspace))
    elif not found:
        output.note("there are no workspaces: runs may name any.")
    else:
        rows = [[each.name, each.title, "archived" if each.archived else "open", caps_words(each)] for each in found]
        output.table(("name", "title", "state", "caps"), rows)


@workspaces.command()
@click.argument("name")
@click.option("--title", default="", metavar="TEXT", help="Its name for people.")
@options.steered_by
@options.why
@options.tenant
@options.store
def create(name: str, title: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Make workspace NAME. From the first one on, users start runs in workspaces that are there."""

    async def work(app: Holdfast) -> WorkspaceInfo:
        made = app.workspaces.create(name, title=title, tenant=tenant, by=who, reason=reason)
        return await session.patiently(app, made)

    _write(session.on_store(session.url_of(store), work), f"workspace {name} of tenant {tenant} is there", as_json)


@workspaces.command()
@click.argument("name")
@caps_options
@options.steered_by
@options.why
@options.tenant
@options.store
def limit(name: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool, **caps: int | None) -> None:
    """Set the caps of workspace NAME, all of them anew: what is not given is not set any more."""

    async def work(app: Holdfast) -> WorkspaceInfo:
        made = app.workspaces.limit(name, **caps, tenant=tenant, by=who, reason=reason)
        return await session.patiently(app, made)

    found = session.on_store(session.url_of(store), work)
    _write(found, f"workspace {name} of tenant {tenant}: {caps_words(found)}", as_json)


@workspaces.command()
@click.argument("name")
@options.steered_by
@options.why
@options.tenant
@options.store
def archive(name: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let no more runs start in workspace NAME. Its runs go on."""

    async def work(app: Holdfast) -> WorkspaceInfo:
        return await session.patiently(app, app.workspaces.archive(name, tenant=tenant, by=who, reason=reason))

    _write(session.on_store(session.url_of(store), work), f"workspace {name} of tenant {tenant} is archived", as_json)


def _write(workspace: WorkspaceInfo, sentence: str, as_json: bool) -> None:
    if as_json:
        output.emit(record(workspace))
    else:
        output.say(sentence)

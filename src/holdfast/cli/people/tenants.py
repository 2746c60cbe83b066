"""``tenants``: who owns runs, and their caps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.client.engine import Holdfast
from holdfast.client.views.people import TenantInfo, WorkspaceInfo, record
from holdfast.people.tenants import TenantQuota

F = TypeVar("F", bound=Callable[..., Any])

CAPS = {
    "max_concurrency": "How many runs may be under way at once.",
    "max_runs_per_min": "How many runs may begin in any minute.",
    "max_writes_per_run": "How many writing actions a run and its children may take.",
    "weight": "Its share where several compete.",
}


def caps_options(function: F) -> F:
    """The options of caps."""
    for name, text in reversed(CAPS.items()):
        function = click.option(f"--{name.replace('_', '-')}", name, type=int, metavar="N", help=text)(function)
    return function


@click.group(cls=ListingGroup)
def tenants() -> None:
    """Make, list and change tenants. `tenants` alone lists them."""


@tenants.command("list")
@options.store
def list_tenants(store: str | None, as_json: bool) -> None:
    """List the tenants, with the caps that the policy's file does not decide."""

    async def work(app: Holdfast) -> list[TenantInfo]:
        return [tenant async for tenant in app.tenants.list()]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for tenant in found:
            output.emit(record(tenant))
    elif not found:
        output.note("there are no tenants: `holdfast init` or `holdfast tenants create` makes them.")
    else:
        output.table(("name", "title", "caps"), [[tenant.name, tenant.title, caps_words(tenant)] for tenant in found])


@tenants.command()
@click.argument("name")
@click.option("--title", default="", metavar="TEXT", help="Its name for people.")
@caps_options
@options.steered_by
@options.why
@options.store
def create(name: str, title: str, who: str, reason: str, store: str | None, as_json: bool, **caps: int | None) -> None:
    """Make tenant NAME. Only the operator of the installation can."""

    async def work(app: Holdfast) -> TenantInfo:
        made = app.tenants.create(name, title=title, limits=TenantQuota(**caps), by=who, reason=reason)
        return await session.patiently(app, made)

    _write(session.on_store(session.url_of(store), work), f"tenant {name} is there", as_json)


@tenants.command()
@click.argument("name")
@click.option("--title", metavar="TEXT", help="Its name for people.")
@caps_options
@click.option("--no-caps", is_flag=True, help="Leave all caps that are not given to the policy's file.")
@options.steered_by
@options.why
@options.store
def change(
    name: str,
    title: str | None,
    no_caps: bool,
    who: str,
    reason: str,
    store: str | None,
    as_json: bool,
    **caps: int | None,
) -> None:
    """Change the title or the caps of tenant NAME. What is not given stays."""
    given = {cap: value for cap, value in caps.items() if value is not None}

    async def work(app: Holdfast) -> TenantInfo:
        before = (await app.tenants.get(name)).limits
        limits = msgspec.structs.replace(TenantQuota() if no_caps else before, **given)
        made = app.tenants.change(name, title=title, limits=limits, by=who, reason=reason)
        return await session.patiently(app, made)

    _write(session.on_store(session.url_of(store), work), f"tenant {name} is changed", as_json)


def _write(tenant: TenantInfo, sentence: str, as_json: bool) -> None:
    if as_json:
        output.emit(record(tenant))
    else:
        output.say(sentence)


def caps_words(owner: TenantInfo | WorkspaceInfo) -> str:
    """The caps that are set, in words."""
    said = {name: getattr(owner, name) for name in CAPS}
    return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None) or "by the policy"

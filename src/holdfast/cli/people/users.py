"""``users``: the people and services of a tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.pages import note_rest, read_list
from holdfast.client.engine import Holdfast
from holdfast.client.people.users import Users
from holdfast.client.views.people import UserInfo, record
from holdfast.errors import UserNotFound

_groups = click.option("--group", "groups", multiple=True, metavar="NAME", help="A group; may be repeated.")


@click.group(cls=ListingGroup)
def users() -> None:
    """Make, list and change the users of a tenant. `users` alone lists them."""


@users.command("list")
@options.limit
@options.after
@options.tenant
@options.store
def list_users(limit: int, after: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """List a tenant's users, by name."""
    page = read_list(
        store,
        lambda app, size, place: app.users.page(limit=size, after=place, tenant=tenant),
        limit,
        after,
        record if as_json else None,
    )
    if as_json:
        return
    if not page.items:
        output.note(f"tenant {tenant} has no users: `holdfast init` or `holdfast users create` makes them.")
        return
    rows = [[user.name, str(user.level), ", ".join(user.groups), _state(user)] for user in page.items]
    output.table(("name", "level", "groups", "state"), rows)
    note_rest(page, limit, "the first")


@users.command()
@click.argument("name")
@click.option("--level", type=click.IntRange(1, 6), required=True, help="What they may do: 1 see … 6 keep users.")
@_groups
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def create(
    name: str,
    level: int,
    groups: tuple[str, ...],
    dry_run: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Make user NAME of a tenant."""

    async def change(all_: Users) -> UserInfo:
        return await all_.create(name, level=level, groups=groups, tenant=tenant, by=who, reason=reason)

    if dry_run:
        _would_create(name, tenant, store, as_json)
        return
    _change(store, change, f"user {name} of tenant {tenant} has level {level}", as_json)


@users.command("set-level")
@click.argument("name")
@click.argument("level", type=click.IntRange(1, 6))
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def set_level(
    name: str, level: int, dry_run: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Give user NAME another LEVEL, from 1 to 6. It counts at once."""

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.set_level(name, level, tenant=tenant, by=who, reason=reason)

    has = "would have" if dry_run else "has"
    _change(store, change, f"user {name} of tenant {tenant} {has} level {level}", as_json, dry_run=dry_run)


@users.command("set-groups")
@click.argument("name")
@_groups
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def set_groups(
    name: str,
    groups: tuple[str, ...],
    dry_run: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Put user NAME into these groups, and out of all others; without --group out of all."""

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.set_groups(name, groups, tenant=tenant, by=who, reason=reason)

    named = ", ".join(groups) or "no group"
    is_in = "would be in" if dry_run else "is in"
    _change(store, change, f"user {name} of tenant {tenant} {is_in} {named}", as_json, dry_run=dry_run)


@users.command()
@click.argument("name")
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def disable(name: str, dry_run: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let user NAME do nothing from now on, with any of their tokens. What they did stays."""

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.disable(name, tenant=tenant, by=who, reason=reason)

    is_ = "would be" if dry_run else "is"
    _change(store, change, f"user {name} of tenant {tenant} {is_} disabled", as_json, dry_run=dry_run)


@users.command()
@click.argument("name")
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def enable(name: str, dry_run: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let user NAME, who was disabled, act again."""

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.enable(name, tenant=tenant, by=who, reason=reason)

    is_ = "would be" if dry_run else "is"
    _change(store, change, f"user {name} of tenant {tenant} {is_} enabled", as_json, dry_run=dry_run)


@users.command()
@click.argument("name")
@click.option("--issuer", metavar="URL", help="The provider of identities, as its tokens name it.")
@click.option("--subject", metavar="TEXT", help="The user's account there: `sub` of its tokens.")
@click.option("--login", metavar="SPELLING", help="Another spelling of NAME that a provider or a proxy gives the user.")
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def link(
    name: str,
    issuer: str | None,
    subject: str | None,
    login: str | None,
    dry_run: bool,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Let user NAME log in with an account of a provider of identities, or with another spelling of the name.

    Give --issuer and --subject, or --login, or all three. Users of level 5 and 6 log in with a provider only after
    that. `holdfast doctor` lists who waits for it.
    """
    if (issuer is None) != (subject is None) or issuer is login is None:
        raise click.UsageError("give --issuer and --subject, or --login: `holdfast doctor` lists what is missing")

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.link(name, issuer=issuer, subject=subject, login=login, tenant=tenant, by=who, reason=reason)

    ways = [f"as {login}"] if login is not None else []
    ways += [f"with account {subject} of {issuer}"] if issuer is not None else []
    logs_in = "would log in" if dry_run else "logs in"
    _change(store, change, f"user {name} of tenant {tenant} {logs_in} {' and '.join(ways)}", as_json, dry_run=dry_run)


@users.command()
@click.argument("name")
@click.option("--login", metavar="SPELLING", help="Take this other spelling of NAME off, not the account.")
@options.dry_run
@options.steered_by
@options.why
@options.tenant
@options.store
def unlink(
    name: str, login: str | None, dry_run: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool
) -> None:
    """Take the link of user NAME to an account of a provider of identities off, or with --login another spelling.

    Below level 5 the next account that logs in as NAME is linked instead; from level 5 on `users link` is needed.
    """

    async def change(all_: Users) -> UserInfo:
        if dry_run:
            return await all_.get(name, tenant=tenant)
        return await all_.unlink(name, login=login, tenant=tenant, by=who, reason=reason)

    if login is None:
        sentence = f"{'would be' if dry_run else 'is'} linked to no account"
    else:
        sentence = f"{'would no longer log in' if dry_run else 'no longer logs in'} as {login}"
    _change(store, change, f"user {name} of tenant {tenant} {sentence}", as_json, dry_run=dry_run)


def _change(
    store: str | None,
    change: Callable[[Users], Awaitable[UserInfo]],
    sentence: str,
    as_json: bool,
    *,
    dry_run: bool = False,
) -> None:
    async def work(app: Holdfast) -> UserInfo:
        return await session.patiently(app, change(app.users))

    user = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**record(user), "dry_run": dry_run})
    else:
        output.say(sentence)


def _would_create(name: str, tenant: str, store: str | None, as_json: bool) -> None:
    async def work(app: Holdfast) -> bool:
        await app.tenants.get(tenant)
        try:
            await app.users.get(name, tenant=tenant)
        except UserNotFound:
            return True
        return False

    if not session.on_store(session.url_of(store), work):
        raise click.UsageError(f"there is a user {name!r} in tenant {tenant!r} already")
    if as_json:
        output.emit({"name": name, "tenant": tenant, "dry_run": True})
    else:
        output.say(f"user {name} of tenant {tenant} would be made")


def _state(user: UserInfo) -> str:
    return "disabled" if user.disabled else "enabled"

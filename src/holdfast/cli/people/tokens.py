"""``tokens``: secrets that stand for users."""

from __future__ import annotations

import click

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.pages import note_rest, read_list
from holdfast.client.engine import Holdfast
from holdfast.client.views.people import MintedToken, TokenInfo, record
from holdfast.client.views.times import clock
from holdfast.people.tokens import DEFAULT_DAYS


@click.group(cls=ListingGroup)
def tokens() -> None:
    """Make, list and revoke tokens of users. `tokens` alone lists them."""


@tokens.command("list")
@click.option("--user", metavar="NAME", help="Only those of this user.")
@options.limit
@options.after
@options.tenant
@options.store
def list_tokens(user: str | None, limit: int, after: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """List a tenant's tokens, by id, without their secrets."""
    page = read_list(
        store,
        lambda app, size, place: app.tokens.page(user=user, limit=size, after=place, tenant=tenant),
        limit,
        after,
        record if as_json else None,
    )
    if not as_json:
        _write_list(page.items, "there are no tokens: `holdfast tokens mint USER` makes one.")
        note_rest(page, limit, "the first")


@tokens.command()
@options.tenant
@options.store
def own(tenant: str, store: str | None, as_json: bool) -> None:
    """List your own tokens: those of the user of HOLDFAST_TOKEN, --token or --as."""
    del tenant  # it is read where --as is

    async def work(app: Holdfast) -> list[TokenInfo]:
        return [token async for token in app.tokens.own()]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for token in found:
            output.emit(record(token))
    else:
        _write_list(found, "you have no tokens: a user of level 6 makes one with `holdfast tokens mint USER`.")


def _write_list(found: list[TokenInfo], nothing: str) -> None:
    if not found:
        output.note(nothing)
        return
    output.table(("id", "user", "level", "state", "last used", "scope", "purpose"), [_row(token) for token in found])


@tokens.command()
@click.argument("user")
@click.option("--level", type=click.IntRange(1, 6), help="Below the user's own. [the user's own]")
@click.option("--scope", multiple=True, metavar="OPERATION", help="For this alone, as runs.start; may be repeated.")
@click.option("--days", type=float, default=DEFAULT_DAYS, show_default=True, help="How long it is good.")
@click.option("--no-expiry", is_flag=True, help="It is good for ever.")
@click.option("--purpose", default="", metavar="TEXT", help="What it is for.")
@options.steered_by
@options.why
@options.tenant
@options.store
def mint(
    user: str,
    level: int | None,
    scope: tuple[str, ...],
    days: float,
    no_expiry: bool,
    purpose: str,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Make a token for USER and print it. It is shown only now: the store keeps its hash."""

    async def work(app: Holdfast) -> MintedToken:
        made = app.tokens.mint(
            user,
            level=level,
            scope=scope,
            days=None if no_expiry else days,
            purpose=purpose,
            tenant=tenant,
            by=who,
            reason=reason,
        )
        return await session.patiently(app, made)

    minted = session.on_store(session.url_of(store), work)
    write_minted(minted, as_json)


def write_minted(minted: MintedToken, as_json: bool) -> None:
    """The token on stdout, and what there is to say of it beside that."""
    if as_json:
        output.emit({**record(minted.token), "token": minted.text})
        return
    output.say(minted.text)
    until = "for ever" if minted.token.expires_at is None else f"until {clock(minted.token.expires_at)}"
    output.note(f"keep it now, it is not shown again. It is good {until}: export HOLDFAST_TOKEN={minted.text[:6]}…")


@tokens.command()
@click.argument("id")
@click.option("--own", is_flag=True, help="It is a token of your own: every user may revoke those.")
@options.steered_by
@options.why
@options.tenant
@options.store
def revoke(id: str, own: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let token ID, the part between the underscores, be good for nothing from now on."""

    async def work(app: Holdfast) -> TokenInfo:
        if own:
            return await session.patiently(app, app.tokens.revoke_own(id, reason=reason))
        return await session.patiently(app, app.tokens.revoke(id, tenant=tenant, by=who, reason=reason))

    token = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(record(token))
    else:
        output.say(f"token {id} of {token.user} is revoked")


def _row(token: TokenInfo) -> list[str]:
    used = "never" if token.last_used_at is None else clock(token.last_used_at)
    return [token.id, token.user, str(token.level), _state(token), used, ", ".join(token.scope) or "all", token.purpose]


def _state(token: TokenInfo) -> str:
    if token.revoked:
        return "revoked"
    if token.problem is not None and not token.expired:
        return token.problem
    if token.expires_at is None:
        return "good for ever"
    return f"{'expired' if token.expired else 'good until'} {clock(token.expires_at)}"

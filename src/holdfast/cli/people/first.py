"""``init``: a store, a tenant, and its first user of level 6 with a token."""

from __future__ import annotations

import click

from holdfast.cli import options, output, session
from holdfast.cli.people.tokens import write_minted
from holdfast.client.engine import Holdfast
from holdfast.client.views.people import MintedToken
from holdfast.errors import NameTaken, TenantNotFound
from holdfast.people.permissions import RULE


@click.command()
@click.argument("name", default=options.operator)
@click.option("--days", type=float, default=90, show_default=True, help="How long the token is good.")
@options.tenant
@options.store
def init(name: str, days: float, tenant: str, store: str | None, as_json: bool) -> None:
    """Make the store and a tenant where they are not there yet, and its first user NAME, and print a token.

    The user has level 6: they make the other users of the tenant. NAME is your own by default.
    """

    async def work(app: Holdfast) -> MintedToken:
        try:
            await app.tenants.get(tenant)
        except TenantNotFound:
            await app.tenants.create(tenant, by=name)
        if [user async for user in app.users.list(tenant=tenant)]:
            raise NameTaken(
                f"tenant {tenant!r} has users already: one of level {RULE} makes more, with `users create`."
            )
        await app.users.create(name, level=RULE, tenant=tenant, by=name)
        return await app.tokens.mint(name, tenant=tenant, days=days, purpose="the first", by=name)

    minted = session.on_store(session.url_of(store), work, create=True)
    if not as_json:
        output.note(f"tenant {tenant} is there, and {name} is its first user, with level {RULE}. Their token:")
    write_minted(minted, as_json)

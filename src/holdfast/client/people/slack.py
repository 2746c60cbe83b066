"""``app.slack``: where a tenant's approvals are shown in Slack, and which accounts there are which users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.client.items import Change, all_items, change_item, found
from holdfast.client.people.permission import operation, require_later
from holdfast.client.people.tenants import no_tenant
from holdfast.client.views.slack import SlackAccountInfo, SlackInfo, account_info
from holdfast.errors import UserNotFound
from holdfast.people import slack
from holdfast.people.tenants import tenant_key
from holdfast.people.users import read_user, user_key
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class SlackAccounts:
    """The channels and accounts of one engine's tenants. Every change is one commit with its note in the audit."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("users.see")
    async def show(self, *, tenant: str | None = None) -> SlackInfo:
        """A tenant's channel and the accounts that stand for users. Raises TenantNotFound."""
        tenant = self._app.tenant_of(tenant)
        found(await self._app.store.item(tenant_key(tenant)), no_tenant(tenant))
        channel = slack.read_channel(await self._app.store.item(slack.channel_key(tenant)))
        rows = all_items(self._app, slack.ACCOUNT, tenant=tenant, status=slack.MAPPED)
        return SlackInfo(tenant=tenant, channel=channel, accounts=[account_info(row) async for row in rows])

    @operation("users.change")
    async def use(
        self, channel: str | None, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> SlackInfo:
        """Show the tenant's approvals in this channel from now on; None shows no new ones.

        Cards that are there already stay in their channel, and are still edited. Raises InvalidRequest, TenantNotFound.
        """
        tenant = self._app.tenant_of(tenant)
        found(await self._app.store.item(tenant_key(tenant)), no_tenant(tenant))
        body = msgspec.json.encode(slack.SlackChannel("" if channel is None else slack.check_channel(channel)))
        change = Change(
            body, slack.UNUSED if channel is None else slack.USED, details={"channel": channel or slack.UNUSED}
        )
        await change_item(
            self._app, slack.channel_key(tenant), slack.SET_CHANNEL, lambda _: change, by=by, reason=reason
        )
        return await self.show(tenant=tenant)

    @operation("users.change")
    async def map(
        self, account: str, user: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> SlackAccountInfo:
        """Let a Slack account stand for one user of the tenant. Raises UserNotFound, InvalidRequest."""
        tenant = self._app.tenant_of(tenant)
        key = slack.account_key(tenant, slack.check_account(account))
        row = await self._app.store.item(user_key(tenant, user))
        if row is None:
            raise UserNotFound(f"there is no user {user!r} in tenant {tenant!r}: look with `holdfast users list`.")
        await require_later(self._app, f"Slack account {account}", ["tasks.answer"])
        name = read_user(row).name
        change = Change(msgspec.json.encode(slack.SlackAccount(name)), slack.MAPPED, details={"user": name})
        made = await change_item(self._app, key, slack.MAP_ACCOUNT, lambda _: change, by=by, reason=reason)
        return account_info(made)

    @operation("users.change")
    async def unmap(
        self, account: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> SlackAccountInfo:
        """Let a Slack account stand for nobody from now on. Raises UserNotFound where it stands for nobody."""
        tenant = self._app.tenant_of(tenant)
        key = slack.account_key(tenant, slack.check_account(account))

        def change(present: p.ItemRow | None) -> Change:
            user = slack.read_account(present)
            if present is None or user is None:
                raise UserNotFound(f"Slack account {account} stands for no user of tenant {tenant!r}.")
            return Change(present.body, slack.UNMAPPED, details={"user": user})

        return account_info(await change_item(self._app, key, slack.UNMAP_ACCOUNT, change, by=by, reason=reason))

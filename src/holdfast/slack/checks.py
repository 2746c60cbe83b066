"""Whether Slack can be used as it is set up: the token, the channel, the accounts, and how presses come back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.people.permissions import ANSWER
from holdfast.slack.settings import APP_TOKEN, SIGNING_SECRET, SlackSettings
from holdfast.slack.web_api import SlackApi, SlackRefused, SlackTrouble

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

SECRET_LENGTH: Final = 32


class SlackFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at. ``good`` means that nothing is broken, ``warning`` that something is missing."""

    name: str
    good: bool
    detail: str
    warning: bool = False


async def findings(app: Holdfast, settings: SlackSettings, tenant: str | None) -> AsyncIterator[SlackFinding]:
    """Look at everything that cards and presses need. Nothing is posted."""
    api = SlackApi(settings)
    try:
        yield await _token(api)
        yield await _channel(app, api, tenant)
    finally:
        await api.close()
    yield await _presses(settings)
    yield await _accounts(app, tenant)


async def _token(api: SlackApi) -> SlackFinding:
    try:
        found = await api.call("auth.test")
    except SlackTrouble as trouble:
        return SlackFinding("token", good=False, detail=str(trouble))
    return SlackFinding("token", good=True, detail=f"{found.get('user')} in {found.get('team')}")


async def _channel(app: Holdfast, api: SlackApi, tenant: str | None) -> SlackFinding:
    channel = (await app.slack.show(tenant=tenant)).channel
    if channel is None:
        words = "the tenant has none, so nothing is shown: `holdfast slack use CHANNEL`"
        return SlackFinding("channel", good=True, detail=words, warning=True)
    try:
        found = (await api.ask("conversations.info", {"channel": channel})).get("channel", {})
    except SlackRefused as refused:
        if refused.word == "missing_scope":
            words = f"{channel} cannot be looked at without the scopes channels:read and groups:read"
            return SlackFinding("channel", good=True, detail=words, warning=True)
        return SlackFinding("channel", good=False, detail=f"{channel}: {refused}")
    except SlackTrouble as trouble:
        return SlackFinding("channel", good=False, detail=str(trouble))
    name = f"{channel} (#{found.get('name', '?')})"
    if found.get("is_archived"):
        return SlackFinding("channel", good=False, detail=f"{name} is archived")
    if not found.get("is_member", found.get("is_im", False)):
        return SlackFinding("channel", good=False, detail=f"the app is not in {name}: invite it there")
    return SlackFinding("channel", good=True, detail=name)


async def _presses(settings: SlackSettings) -> SlackFinding:
    """How presses come back. Whether the signing secret is the right one shows with the first press."""
    ways = []
    if settings.app_token is not None:
        api = SlackApi(settings, settings.app_token)
        try:
            await api.call("apps.connections.open")
        except SlackTrouble as trouble:
            return SlackFinding("presses", good=False, detail=f"{APP_TOKEN}: {trouble}")
        finally:
            await api.close()
        ways.append("through Socket Mode")
    if (secret := settings.signing_secret) is not None:
        if len(secret) != SECRET_LENGTH or any(sign not in "0123456789abcdef" for sign in secret):
            words = f"{SIGNING_SECRET} is not {SECRET_LENGTH} hexadecimal digits: is it that of the app?"
            return SlackFinding("presses", good=True, detail=words, warning=True)
        ways.append("signed, to /slack/actions of `holdfast serve`")
    if not ways:
        words = f"nothing takes them here: set {SIGNING_SECRET} or {APP_TOKEN} for some process"
        return SlackFinding("presses", good=True, detail=words, warning=True)
    return SlackFinding("presses", good=True, detail=" and ".join(ways))


async def _accounts(app: Holdfast, tenant: str | None) -> SlackFinding:
    accounts = (await app.slack.show(tenant=tenant)).accounts
    if not accounts:
        words = "none stands for a user, so nobody can answer in Slack: `holdfast slack map ACCOUNT USER`"
        return SlackFinding("accounts", good=True, detail=words, warning=True)
    useless = []
    for each in accounts:
        assert each.user is not None
        try:
            user = await app.users.get(each.user, tenant=tenant)
        except HoldfastError as error:
            useless.append(f"{each.account}: {error}")
            continue
        if user.disabled or user.level < ANSWER:
            state = "is disabled" if user.disabled else f"has level {user.level}, and answering needs {ANSWER}"
            useless.append(f"{each.account} is {user.name}, who {state}")
    if useless:
        return SlackFinding("accounts", good=True, detail="; ".join(useless), warning=True)
    return SlackFinding("accounts", good=True, detail=f"{len(accounts)} stand for users")

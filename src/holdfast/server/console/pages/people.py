"""Users and tokens: who may do what, the accounts that stand for them, when a token was last used, and ending it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.datastructures import FormData

from holdfast.errors import InvalidRequest
from holdfast.people.names import person
from holdfast.people.permissions import LEAST, OPERATE, in_scope
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.typed import number_of, reason_of, text_of

LEVELS: Final = {
    1: "see",
    2: "answer tasks",
    3: "assign tasks, see the audit",
    4: "start and steer runs",
    5: "write templates, definitions and webhooks",
    6: "keep users and tokens",
}


class Permission(msgspec.Struct, frozen=True):
    """An operation, the level that it needs, and whether somebody may."""

    operation: str
    needed: int
    allowed: bool


async def load(call: RouteCall[Any, None]) -> Context:
    client, tenant = call.client, call.tenant
    sees_tokens = await _may_see_tokens(call)
    return {
        "users": [user async for user in client.users.list(tenant=tenant)],
        "tokens": [token async for token in client.tokens.list(tenant=tenant)] if sees_tokens else [],
        "sees_tokens": sees_tokens,
        "slack": await client.slack.show(tenant=tenant),
        "levels": LEVELS,
    }


async def load_user(call: RouteCall[Any, None]) -> Context:
    client, tenant = call.client, call.tenant
    user = await client.users.get(call.path["user"], tenant=tenant)
    sees_tokens = await _may_see_tokens(call)
    tokens = [token async for token in client.tokens.list(tenant=tenant, user=user.name)] if sees_tokens else []
    level = 0 if user.disabled else user.level
    slack = await client.slack.show(tenant=tenant)
    return {
        "identity": await client.users.identity(user.name, tenant=tenant),
        "accounts": [each for each in slack.accounts if person(each.user or "") == person(user.name)],
        "user": user,
        "tokens": tokens,
        "sees_tokens": sees_tokens,
        "levels": LEVELS,
        "permissions": permissions_of(level),
        "token_permissions": {
            token.id: sum(each.allowed for each in permissions_of(min(level, token.level), token.scope))
            for token in tokens
        },
    }


def permissions_of(level: int, scope: tuple[str, ...] = ()) -> list[Permission]:
    """All operations of a tenant, and which of them a user of this level, or a token of this scope, may ask for."""
    return [
        Permission(name, needed, level >= needed and in_scope(name, scope))
        for name, needed in LEAST.items()
        if needed < OPERATE
    ]


async def _may_see_tokens(call: RouteCall[Any, None]) -> bool:
    caller = await call.client.whoami()
    return caller is None or (caller.level >= LEAST["tokens.see"] and in_scope("tokens.see", caller.scope))


def _level(typed: FormData) -> int:
    text = text_of(typed, "level")
    if text not in map(str, LEVELS):
        raise InvalidRequest("a level is a number from 1 to 6.")
    return int(text)


def _groups(typed: FormData) -> list[str]:
    return [each.strip() for each in text_of(typed, "groups").split(",") if each.strip()]


async def create_user(call: RouteCall[Any, None], typed: FormData) -> Done:
    name = text_of(typed, "name")
    made = await call.client.users.create(
        name,
        level=_level(typed),
        groups=_groups(typed),
        tenant=call.tenant,
        by=call.by,
        reason=reason_of(typed),
    )
    return Done(path=("people", made.name), words=f"{made.name} was made. Make a token for them now.")


async def change_user(call: RouteCall[Any, None], typed: FormData) -> Done:
    users, name, reason = call.client.users, call.path["user"], reason_of(typed)
    present = await users.get(name, tenant=call.tenant)
    level, groups, is_disabled = _level(typed), _groups(typed), typed.get("disabled") is not None
    if level != present.level:
        await users.set_level(name, level, tenant=call.tenant, by=call.by, reason=reason)
    if groups != list(present.groups):
        await users.set_groups(name, groups, tenant=call.tenant, by=call.by, reason=reason)
    if is_disabled != present.disabled:
        change = users.disable if is_disabled else users.enable
        await change(name, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people", present.name), words=f"{present.name} was changed. It counts at once.")


async def mint(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    days = number_of(typed, "days", "for how many days the token is good")
    if days is None:
        raise InvalidRequest("say for how many days the token is good.")
    minted = await call.client.tokens.mint(
        call.path["user"],
        days=float(days),
        scope=text_of(typed, "scope").replace(",", " ").split(),
        purpose=text_of(typed, "purpose"),
        tenant=call.tenant,
        by=call.by,
        reason=reason_of(typed),
    )
    return ShownInstead(template="minted.html", context={"minted": minted})


async def revoke(call: RouteCall[Any, None], typed: FormData) -> Done:
    tokens, reason = call.client.tokens, reason_of(typed)
    over = await tokens.revoke(call.path["token"], tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people", over.user), words="The token is good for nothing any more.")


async def link(call: RouteCall[Any, None], typed: FormData) -> Done:
    issuer, subject, login = (text_of(typed, name) or None for name in ("issuer", "subject", "login"))
    user = await call.client.users.link(
        call.path["user"],
        issuer=issuer,
        subject=subject,
        login=login,
        tenant=call.tenant,
        by=call.by,
        reason=reason_of(typed),
    )
    return Done(path=("people", user.name), words=f"{user.name} can log in like this from now on.")


async def unlink(call: RouteCall[Any, None], typed: FormData) -> Done:
    name, login, reason = call.path["user"], text_of(typed, "login") or None, reason_of(typed)
    user = await call.client.users.unlink(name, login=login, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people", user.name), words=f"{user.name} can no longer log in like this.")


async def use_channel(call: RouteCall[Any, None], typed: FormData) -> Done:
    channel, reason = text_of(typed, "channel") or None, reason_of(typed)
    await call.client.slack.use(channel, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people",), words=f"Approvals are shown in {channel}." if channel else "No new ones are shown.")


async def map_account(call: RouteCall[Any, None], typed: FormData) -> Done:
    account, user, reason = text_of(typed, "account"), text_of(typed, "user"), reason_of(typed)
    made = await call.client.slack.map(account, user, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people",), words=f"{made.account} stands for {made.user}.")


async def unmap_account(call: RouteCall[Any, None], typed: FormData) -> Done:
    account, reason = call.path["account"], reason_of(typed)
    await call.client.slack.unmap(account, tenant=call.tenant, by=call.by, reason=reason)
    return Done(path=("people",), words=f"{account} stands for nobody any more.")


PEOPLE = ConsolePage(
    path="/people",
    operation="users.see",
    words="Who may do what, and the tokens that prove it.",
    load=load,
    template="people.html",
    data="/v1/users",
)
USER = ConsolePage(
    path="/people/{user}",
    operation="users.see",
    words="A user: what exactly they may do, and their tokens.",
    load=load_user,
    template="user.html",
    data="/v1/users/{user}",
)
PAGES = (PEOPLE, USER)
FORMS = (
    ConsoleForm(path="/people", operation="users.change", words="Make a user.", act=create_user, page=PEOPLE),
    ConsoleForm(
        path="/people/{user}",
        operation="users.change",
        words="Give a user another level or other groups, or disable them.",
        act=change_user,
        page=USER,
    ),
    ConsoleForm(path="/people/{user}/tokens", operation="tokens.change", words="Make a token.", act=mint, page=USER),
    ConsoleForm(
        path="/people/{user}/link",
        operation="users.change",
        words="Link an account of the provider, or another spelling of the name.",
        act=link,
        page=USER,
    ),
    ConsoleForm(
        path="/people/{user}/unlink",
        operation="users.change",
        words="Take the link to an account of the provider off, or another spelling of the name.",
        act=unlink,
        page=USER,
    ),
    ConsoleForm(
        path="/slack/channel",
        operation="users.change",
        words="Show approvals in a channel, or no new ones.",
        act=use_channel,
        page=PEOPLE,
    ),
    ConsoleForm(
        path="/slack/accounts",
        operation="users.change",
        words="Let a Slack account stand for a user.",
        act=map_account,
        page=PEOPLE,
    ),
    ConsoleForm(
        path="/slack/accounts/{account}/unmap",
        operation="users.change",
        words="Let a Slack account stand for nobody.",
        act=unmap_account,
        page=PEOPLE,
    ),
    ConsoleForm(
        path="/tokens/{token}/revoke", operation="tokens.change", words="End a token.", act=revoke, page=PEOPLE
    ),
)

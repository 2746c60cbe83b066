"""Users and tokens: who may do what, when a token was last used, and ending it."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData

from holdfast.errors import InvalidRequest
from holdfast.people.permissions import LEAST
from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done, ShownInstead
from holdfast.server.console.reasons import reason_of

LEVELS = {
    1: "see",
    2: "answer tasks",
    3: "assign tasks, see the audit",
    4: "start and steer runs",
    5: "publish definitions",
    6: "keep users and tokens",
}


async def load(call: RouteCall[Any, None]) -> Context:
    client, tenant = call.client, call.tenant
    is_ruler = await _may_see_tokens(call)
    return {
        "users": [user async for user in client.users.list(tenant=tenant)],
        "tokens": [token async for token in client.tokens.list(tenant=tenant)] if is_ruler else [],
        "is_ruler": is_ruler,
        "levels": LEVELS,
        "operations": {level: sorted(name for name, least in LEAST.items() if least == level) for level in LEVELS},
    }


async def _may_see_tokens(call: RouteCall[Any, None]) -> bool:
    caller = await call.client.whoami()
    return caller is None or caller.level >= LEAST["tokens.see"]


def _level(typed: FormData) -> int:
    text = str(typed.get("level", ""))
    if text not in map(str, LEVELS):
        raise InvalidRequest("a level is a number from 1 to 6.")
    return int(text)


def _groups(typed: FormData) -> list[str]:
    return [each.strip() for each in str(typed.get("groups", "")).split(",") if each.strip()]


async def create_user(call: RouteCall[Any, None], typed: FormData) -> Done:
    name = str(typed.get("name", "")).strip()
    await call.client.users.create(
        name,
        level=_level(typed),
        groups=_groups(typed),
        tenant=call.tenant,
        by=call.by,
        reason=reason_of(typed),
    )
    return Done(path=("people",), words=f"{name} was made. Make a token for them now.")


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
    return Done(path=("people",), words=f"{name} was changed. It counts at once.")


async def mint(call: RouteCall[Any, None], typed: FormData) -> ShownInstead:
    days = str(typed.get("days", "90"))
    if not days.isdecimal():
        raise InvalidRequest("say for how many days the token is good.")
    minted = await call.client.tokens.mint(
        str(typed.get("user", "")),
        days=float(days),
        purpose=str(typed.get("purpose", "")).strip(),
        tenant=call.tenant,
        by=call.by,
        reason=reason_of(typed),
    )
    return ShownInstead(template="minted.html", context={"minted": minted})


async def revoke(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tokens.revoke(call.path["token"], tenant=call.tenant, by=call.by, reason=reason_of(typed))
    return Done(path=("people",), words="The token is good for nothing any more.")


PEOPLE = ConsolePage(
    path="/people",
    operation="users.see",
    words="Who may do what, and the tokens that prove it.",
    load=load,
    template="people.html",
    data="/v1/users",
)
PAGES = (PEOPLE,)
FORMS = (
    ConsoleForm(path="/people", operation="users.change", words="Make a user.", act=create_user, page=PEOPLE),
    ConsoleForm(
        path="/people/users/{user}",
        operation="users.change",
        words="Give a user another level or other groups, or disable them.",
        act=change_user,
        page=PEOPLE,
    ),
    ConsoleForm(path="/people/tokens", operation="tokens.change", words="Make a token.", act=mint, page=PEOPLE),
    ConsoleForm(
        path="/people/tokens/{token}", operation="tokens.change", words="End a token.", act=revoke, page=PEOPLE
    ),
)

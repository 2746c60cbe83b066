"""``doctor``'s check of logins: who must be linked by a person, and by which command.

It reads what the store has: users, links, the spellings with which sessions began, and refused logins. The spelling
that a trusted proxy names is known from its first refusal on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from holdfast.cli.checks import Check
from holdfast.client.engine import Holdfast
from holdfast.client.items import all_items
from holdfast.client.people.refused_logins import REFUSED_LOGINS, RefusedLogin, read_refused_logins
from holdfast.people.identities import (
    IDENTITY,
    LINKED,
    LINKED_BY_PEOPLE,
    PERSON,
    Identity,
    link_command,
    may_log_in,
    read_identity,
)
from holdfast.people.names import person
from holdfast.people.sessions import SESSION, read_session
from holdfast.people.users import USER, User, read_user

SHOWN: Final = 20
KEPT_DAYS: Final = 30
"""A refused login that is older is not listed."""

Person = tuple[str, str]
"""A tenant, and the form by which people are compared."""


class Unlinked(msgspec.Struct, frozen=True):
    """What a person should look at, and the command that links it."""

    tenant: str
    user: str
    why: str
    command: str


async def examine_logins(app: Holdfast) -> Check:
    """List the logins that need a person: none of them is a fault of the installation."""
    users = {(row.tenant, row.id): read_user(row) async for row in all_items(app, USER)}
    links = {(row.tenant, row.id): read_identity(row) async for row in all_items(app, IDENTITY, status=LINKED)}
    found = {each.command: each for each in _links(users, links)}
    async for each in _spellings(app, users, links):
        found.setdefault(each.command, each)
    detail = (
        f"{len(found)} to be linked by a person of level 6, if it is that user" if found else "none waits for a person"
    )
    for each in list(found.values())[:SHOWN]:
        detail += f"\n{each.user} of tenant {each.tenant}: {each.why}: {each.command}"
    if len(found) > SHOWN:
        detail += f"\nand {len(found) - SHOWN} more: --json lists all"
    facts = {"unlinked": [msgspec.to_builtins(each) for each in found.values()]}
    return Check("logins", good=True, detail=detail, facts=facts, warning=bool(found))


def _links(users: dict[Person, User], links: dict[Person, Identity]) -> list[Unlinked]:
    """Users of level 5 and 6 whose account no person has linked."""
    found = []
    for key, link in links.items():
        user = users.get(key)
        if user is None or user.disabled or user.level < LINKED_BY_PEOPLE or link.made_by == PERSON:
            continue
        why = "a login linked their account" if link.made_by else "an older version linked their account, unasked"
        found.append(_account(key[0], user, link.issuer, link.subject, f"level {user.level}, and {why}"))
    return found


async def _spellings(
    app: Holdfast, users: dict[Person, User], links: dict[Person, Identity]
) -> AsyncIterator[Unlinked]:
    async for tenant, login, is_refused in _logins(app):
        key = tenant, person(login.login)
        user = users.get(key)
        if user is None or user.disabled:
            continue
        if not user.logs_in_as(login.login):
            where = "was refused" if is_refused else "has a session from before"
            why = f"{login.login!r} ({login.login!a}) {where}, another spelling of {user.name!r}"
            yield _unlinked(tenant, user, why, "--login", login.login)
        link = links.get(key)
        is_other = link is not None and link.account != (login.issuer, login.subject)
        if login.level is not None and not is_other and not may_log_in(user, login.level, link):
            why = f"level {max(user.level, login.level)}, and an account that no person has linked was refused"
            yield _account(tenant, user, login.issuer, login.subject, why)


async def _logins(app: Holdfast) -> AsyncIterator[tuple[str, RefusedLogin, bool]]:
    """Names with which somebody logged in or was refused, by tenant, and whether they were refused."""
    since = int((time.time() - KEPT_DAYS * 86_400) * 1e6)
    async for row in all_items(app, REFUSED_LOGINS):
        for login in read_refused_logins(row):
            if login.at >= since:
                yield row.tenant, login, True
    async for row in all_items(app, SESSION):
        yield row.tenant, RefusedLogin(read_session(row).user, row.changed_at), False


def _account(tenant: str, user: User, issuer: str, subject: str, why: str) -> Unlinked:
    return _unlinked(tenant, user, why, "--issuer", issuer, "--subject", subject)


def _unlinked(tenant: str, user: User, why: str, *ways: str) -> Unlinked:
    return Unlinked(tenant, user.name, why, link_command(tenant, user.name, *ways))

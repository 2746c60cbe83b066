"""People who answer tasks: users, where the tenant has users; else whoever the caller names.

Where there are users, their groups are those that the engine knows, and an answer is committed on condition that the
user is as they were judged: somebody who is disabled or demoted meanwhile has not answered.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import InvalidRequest, TaskForbidden
from holdfast.people.names import NAME, is_name
from holdfast.people.permissions import ANSWER
from holdfast.people.users import USER, read_user, user_key
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class Colleague(msgspec.Struct, frozen=True):
    """Somebody who answers a task or is given one, and the conditions by which that was judged."""

    name: str
    groups: tuple[str, ...] = ()
    conditions: tuple[p.ExpectItem, ...] = ()


async def answerer(app: Holdfast, tenant: str, by: str | None, groups: Collection[str]) -> Colleague:
    """Who answers. Raises TaskForbidden where they are no user who may, and InvalidRequest where nobody is named."""
    name = app.person_of(by)
    if name is None:
        raise InvalidRequest("say who answers: by='their name'")
    return await colleague(app, tenant, name, groups)


async def colleague(app: Holdfast, tenant: str, name: str, groups: Collection[str]) -> Colleague:
    """A person by name, with their groups. Raises TaskForbidden where the tenant has users and this is none who may
    answer. What the caller says of groups counts only where the tenant has no users."""
    if not is_name(name):
        raise InvalidRequest(f"say who it is: {NAME}, not {name!a:.60}")
    if not await app.store.items(USER, 1, tenant=tenant):
        return Colleague(name, tuple(groups))
    key = user_key(tenant, name)
    row = await app.store.item(key)
    if row is None:
        raise TaskForbidden(f"{name} is no user of tenant {tenant!r}: `holdfast users list` shows who is.")
    user = read_user(row)
    if user.disabled:
        raise TaskForbidden(f"{name} is disabled in tenant {tenant!r}, and may not answer tasks.")
    if user.level < ANSWER:
        raise TaskForbidden(f"{name} has level {user.level}, and answering tasks needs level {ANSWER}.")
    return Colleague(user.name, user.groups, (p.ExpectItem(key, row.version),))

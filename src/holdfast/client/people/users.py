"""``app.users``: the people and services of a tenant. Every change is one commit with its note in the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.items import Change, all_items, change_item, found, item_finder
from holdfast.client.operators import operator_note
from holdfast.client.pages import PAGE, page_of
from holdfast.client.people.permission import operation
from holdfast.client.people.tenants import no_tenant
from holdfast.client.views.cursors import Page
from holdfast.client.views.people import IdentityInfo, UserInfo, user_info
from holdfast.client.views.times import moment
from holdfast.errors import EngineError, InvalidRequest, NameTaken, UserNotFound
from holdfast.people.identities import (
    LINK,
    LINKED,
    UNLINK,
    UNLINKED,
    Identity,
    check_account,
    identity_details,
    identity_key,
    read_identity,
    write_identity,
)
from holdfast.people.tenants import tenant_key
from holdfast.people.users import (
    CHANGE_USER,
    CREATE_USER,
    USER,
    User,
    check_groups,
    check_level,
    check_login,
    check_rulers,
    check_user_name,
    first_user_key,
    read_user,
    user_details,
    user_key,
    user_subject,
    write_user,
)
from holdfast.runs.birth import check_no_dots
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

Edit = Callable[[User | None], User]


class Users:
    """The users of one engine's tenants. No user is deleted: one who is gone is disabled."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("users.see")
    async def list(self, *, tenant: str | None = None) -> AsyncIterator[UserInfo]:
        """A tenant's users, by name."""
        async for row in all_items(self._app, USER, tenant=self._app.tenant_of(tenant)):
            yield user_info(row)

    @operation("users.see")
    async def page(self, *, limit: int = PAGE, after: str | None = None, tenant: str | None = None) -> Page[UserInfo]:
        """One page of a tenant's users, by name, with a cursor for the rest."""
        find = item_finder(self._app, USER, tenant=self._app.tenant_of(tenant))
        return await page_of("users", find, limit, after, user_info)

    @operation("users.see")
    async def get(self, name: str, *, tenant: str | None = None) -> UserInfo:
        """One user, by any spelling of the name. Raises UserNotFound."""
        tenant = self._app.tenant_of(tenant)
        row = await self._app.store.item(user_key(tenant, name))
        return user_info(found(row, _missing(name, tenant)))

    @operation("users.change")
    async def create(
        self,
        name: str,
        *,
        level: int,
        groups: Sequence[str] = (),
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> UserInfo:
        """Make a user of a tenant. Raises NameTaken where there is one of that name in any spelling, TenantNotFound
        where there is no such tenant, and InvalidRequest where the name, level or groups cannot be used."""
        user = User(check_no_dots(check_user_name(name), "the user"), check_level(level), check_groups(groups))

        def edit(present: User | None) -> User:
            if present is not None:
                raise NameTaken(f"there is a user {present.name!r} in tenant {self._app.tenant_of(tenant)!r} already.")
            return user

        return await self._change(name, tenant, CREATE_USER, edit, by, reason)

    @operation("users.change")
    async def set_level(
        self, name: str, level: int, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> UserInfo:
        """Give a user another level, which counts from the next operation on. Raises UserNotFound or LastRuler."""
        check_level(level)
        return await self._edit(name, tenant, by, reason, level=level)

    @operation("users.change")
    async def set_groups(
        self, name: str, groups: Sequence[str], *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> UserInfo:
        """Put a user into these groups, and out of all others. Raises UserNotFound."""
        return await self._edit(name, tenant, by, reason, groups=check_groups(groups))

    @operation("users.change")
    async def disable(
        self, name: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> UserInfo:
        """Let a user do nothing from now on; what they did stays. Raises UserNotFound or LastRuler."""
        return await self._edit(name, tenant, by, reason, disabled=True)

    @operation("users.change")
    async def enable(
        self, name: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> UserInfo:
        """Let a disabled user act again. Raises UserNotFound."""
        return await self._edit(name, tenant, by, reason, disabled=False)

    @operation("users.see")
    async def identity(self, name: str, *, tenant: str | None = None) -> IdentityInfo | None:
        """The account of a provider of identities that a user is linked to; None where there is none. Raises
        UserNotFound."""
        user = await self.get(name, tenant=tenant)
        row = await self._app.store.item(identity_key(user.tenant, user.name))
        if row is None or row.status != LINKED:
            return None
        found, at = read_identity(row), moment(row.changed_at)
        return IdentityInfo(
            user=user.name,
            tenant=user.tenant,
            issuer=found.issuer,
            subject=found.subject,
            linked_at=at,
            made_by=found.made_by,
        )

    @operation("users.change")
    async def link(
        self,
        name: str,
        *,
        issuer: str | None = None,
        subject: str | None = None,
        login: str | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> UserInfo:
        """Say how a user logs in: with the account ``subject`` of the provider ``issuer``, instead of any other one;
        or with ``login``, another spelling of the name that a provider or a trusted proxy gives them.

        Both together are two changes, each with its note in the audit; the same again changes nothing. Raises
        UserNotFound, and InvalidRequest where neither is given or ``login`` is another name.
        """
        account = None if issuer is None and subject is None else check_account(issuer, subject)
        if account is None and login is None:
            raise InvalidRequest("say what to link: an issuer and a subject, or another spelling of the name.")
        user = await self.get(name, tenant=tenant)
        if login is not None:
            user = await self._edit(name, tenant, by, reason, lambda user: _with_login(user, login))
        key = identity_key(user.tenant, user.name)
        present = await self._app.store.item(key)
        if account is None or (present is not None and _link_of(present) == account):
            return user
        change = Change(write_identity(account), LINKED, details=identity_details(account))
        await change_item(self._app, key, LINK, lambda _: change, by=by, reason=reason)
        return user

    @operation("users.change")
    async def unlink(
        self,
        name: str,
        *,
        login: str | None = None,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> UserInfo:
        """Take a user's link to an account of a provider of identities off; with ``login`` instead this other spelling
        of the name.

        Below level 5 the next account that logs in as this user is linked; from level 5 on ``link`` is needed. Nothing
        happens where there is no such link. Raises UserNotFound.
        """
        if login is not None:
            return await self._edit(name, tenant, by, reason, lambda user: _without_login(user, login))
        app, user = self._app, await self.get(name, tenant=tenant)
        key = identity_key(user.tenant, user.name)
        present = await app.store.item(key)
        if present is None or present.status != LINKED:
            return user

        def change(row: p.ItemRow | None) -> Change:
            return Change(b"" if row is None else row.body, UNLINKED)

        await change_item(app, key, UNLINK, change, by=by, reason=reason)
        return user

    async def _edit(
        self,
        name: str,
        tenant: str | None,
        by: str | None,
        reason: str,
        change: Callable[[User], User] = lambda user: user,
        **fields: object,
    ) -> UserInfo:
        def edit(present: User | None) -> User:
            if present is None:
                raise _missing(name, self._app.tenant_of(tenant))
            return msgspec.structs.replace(change(present), **fields)

        return await self._change(name, tenant, CHANGE_USER, edit, by, reason)

    async def _change(
        self, name: str, asked: str | None, act: str, edit: Edit, by: str | None, reason: str
    ) -> UserInfo:
        """Give a user the next version; the same again changes nothing. Where another change came first, look again."""
        app, tenant = self._app, self._app.tenant_of(asked)
        key = user_key(tenant, name)
        while True:
            place = await app.store.item(tenant_key(tenant))  # before the users: a change of them since shows in it
            if place is None:
                raise no_tenant(tenant)
            present = await app.store.item(key)
            before = None if present is None else read_user(present)
            after = edit(before)
            if present is not None and after == before:
                return user_info(present)
            now = app.clock.now()
            row = p.ItemRow(*key, 1 if present is None else present.version + 1, write_user(after), after.status)
            row = msgspec.structs.replace(row, changed_at=now)
            note = operator_note(app, tenant, act, by, user_subject(name), reason, user_details(after))
            rulers = await self._rulers(place, key, before, after, now)
            answer = await app.committer.commit(p.Operate(note, (*app.conditions(), p.PutItem(row), *rulers)))
            if isinstance(answer, p.OperatedOn | p.Repeated):
                app.wake_sealer()
                return user_info(row)
            if not isinstance(answer, p.Fenced):
                raise EngineError(f"{act} of user {name} was answered {answer!r}")

    async def _rulers(
        self, place: p.ItemRow, key: p.ItemKey, before: User | None, after: User, now: int
    ) -> tuple[p.PutItem | p.ExpectItem, ...]:
        """The change of the tenant's item, where one of its users stops being of level 6. Raises LastRuler."""
        if before is None or not before.rules or after.rules:
            return () if before is not None else await self._first(place, after, now)
        others = [read_user(row) async for row in all_items(self._app, USER, tenant=key.tenant) if row.id != key.id]
        check_rulers(key.tenant, before, after, others)
        return (p.PutItem(msgspec.structs.replace(place, version=place.version + 1, changed_at=now)),)

    async def _first(self, place: p.ItemRow, user: User, now: int) -> tuple[p.PutItem | p.ExpectItem, ...]:
        """What is committed with a new user: the tenant is there, and the first user is named."""
        expected = p.ExpectItem(place.key, place.version)
        key = first_user_key(place.tenant)
        if await self._app.store.item(key) is not None:
            return (expected,)
        return expected, p.PutItem(p.ItemRow(*key, 1, user.name.encode(), changed_at=now))


def _with_login(user: User, login: str) -> User:
    if user.logs_in_as(check_login(user, login)):
        return user
    return msgspec.structs.replace(user, logins=(*user.logins, login))


def _without_login(user: User, login: str) -> User:
    return msgspec.structs.replace(user, logins=tuple([each for each in user.logins if each != login]))


def _link_of(row: p.ItemRow) -> Identity | None:
    return read_identity(row) if row.status == LINKED else None


def _missing(name: str, tenant: str) -> UserNotFound:
    return UserNotFound(f"there is no user {name!r} in tenant {tenant!r}: look with `holdfast users list`.")

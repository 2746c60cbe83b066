"""Identities: people for whom a provider vouches, and the users whom they are.

The first login as a user links that user to the provider's account, by issuer and subject. From then on nobody with
another account is let in as that user, even where the provider has given the name to somebody else. Level and groups
that the provider vouches for are the user's from that login on; each change has its note in the audit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.items import Change, change_item
from holdfast.client.people.refusals import REFUSE
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.errors import LoginRefused, NameTaken, ServerReadOnly
from holdfast.people.identities import LINKED, Identity, identity_key, read_identity, write_identity
from holdfast.people.tenants import tenant_key
from holdfast.people.users import User, read_user, user_key
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

BY: Final = "OpenID Connect"
"""Who changes users at a login, in the audit."""


class Vouched(msgspec.Struct, frozen=True):
    """Whom a provider vouches for. ``level`` and ``groups`` are None where they are not the provider's to say."""

    tenant: str
    user: str
    issuer: str
    subject: str
    level: int | None = None
    groups: tuple[str, ...] | None = None


class Identities:
    """Logs in people for whom a provider vouches. The engine must be bound to nobody."""

    def __init__(self, engine: Holdfast) -> None:
        self._engine = engine
        self._sessions = ConsoleSessions(engine)

    async def begin(self, vouched: Vouched, *, make: bool, read_only: bool = False) -> str:
        """Log somebody in; gives the new session's secret. With ``make`` a user who is not there is made.

        Raises LoginRefused where there is no such user or the user is another account's, NotPermitted where the user is
        disabled, LastRuler where the claims would leave the tenant without a user of level 6, and ServerReadOnly where
        something must be changed first.
        """
        _check_same(await self._identity(vouched), vouched)
        user = await self._user(vouched)
        if user is not None:
            await self._engine.acting_as(vouched.user, tenant=vouched.tenant).whoami()  # a disabled user is refused
        elif not make:
            raise _refused(vouched, f"tenant {vouched.tenant!r} has no user {vouched.user!r}.")
        elif await self._engine.whole_store.item(tenant_key(vouched.tenant)) is None:
            raise _refused(vouched, f"there is no tenant {vouched.tenant!r} yet.")
        if read_only and (user is None or _differs(user, vouched)):
            raise ServerReadOnly("your account has changed, and this server changes nothing: log in at another one.")
        if not read_only:
            await self._link(vouched)  # first: of two accounts with one name, one alone may change the user
            await self._make_or_change(user, vouched)
        return await self._sessions.begin_for(vouched.tenant, vouched.user, vouched.issuer)

    async def end(self, secret: str) -> None:
        """End the session that somebody had before: each login has a new one."""
        await self._sessions.end(secret)

    async def note_refusal(self, tenant: str, reason: str, details: dict[str, str]) -> None:
        """Keep in a tenant's audit that somebody was not let in."""
        from holdfast.audit.notes import note
        from holdfast.audit.records import Operated

        engine = self._engine
        record = Operated(engine.clock.now(), REFUSE, BY, None, reason, details)
        await engine.committer.commit(msgspec.structs.replace(note(tenant, None, record), id=engine.token()))
        engine.wake_sealer()

    async def _user(self, vouched: Vouched) -> User | None:
        row = await self._engine.whole_store.item(user_key(vouched.tenant, vouched.user))
        return None if row is None else read_user(row)

    async def _make_or_change(self, user: User | None, vouched: Vouched) -> None:
        if user is None:
            assert vouched.level is not None  # the settings see to it
            try:
                await self._engine.users.create(
                    vouched.user,
                    level=vouched.level,
                    groups=vouched.groups or (),
                    tenant=vouched.tenant,
                    by=BY,
                    reason=_reason(vouched),
                )
            except NameTaken:  # another login of the same account was quicker
                user = await self._user(vouched)
        if user is not None:
            await self._follow(user, vouched)

    async def _follow(self, user: User, vouched: Vouched) -> None:
        """Give the user the level and the groups that the provider vouches for. Raises LastRuler."""
        users, reason = self._engine.users, _reason(vouched)
        if vouched.level not in (None, user.level):
            assert vouched.level is not None
            await users.set_level(user.name, vouched.level, tenant=vouched.tenant, by=BY, reason=reason)
        if vouched.groups is not None and set(vouched.groups) != set(user.groups):
            await users.set_groups(user.name, vouched.groups, tenant=vouched.tenant, by=BY, reason=reason)

    async def _identity(self, vouched: Vouched) -> p.ItemRow | None:
        return await self._engine.whole_store.item(identity_key(vouched.tenant, vouched.user))

    async def _link(self, vouched: Vouched) -> None:
        row = await self._identity(vouched)
        _check_same(row, vouched)
        if row is not None and row.status == LINKED:
            return
        body = write_identity(Identity(vouched.issuer, vouched.subject))

        def change(present: p.ItemRow | None) -> Change:
            _check_same(present, vouched)
            return Change(body, LINKED, details={"issuer": vouched.issuer, "subject": vouched.subject})

        key = identity_key(vouched.tenant, vouched.user)
        await change_item(self._engine, key, "link_identity", change, by=BY, reason=_reason(vouched))


def _check_same(row: p.ItemRow | None, vouched: Vouched) -> None:
    if row is None or row.status != LINKED:
        return
    if read_identity(row) != Identity(vouched.issuer, vouched.subject):
        raise _refused(
            vouched,
            f"user {vouched.user!r} is linked to another account of the provider. If that account is gone, "
            f"`holdfast users unlink {vouched.user}` lets the next one in.",
        )


def _differs(user: User, vouched: Vouched) -> bool:
    groups = user.groups if vouched.groups is None else vouched.groups
    return vouched.level not in (None, user.level) or set(groups) != set(user.groups)


def _reason(vouched: Vouched) -> str:
    return f"claims of {vouched.issuer}"


def _refused(vouched: Vouched, why: str) -> LoginRefused:
    return LoginRefused(why, tenant=vouched.tenant, user=vouched.user)

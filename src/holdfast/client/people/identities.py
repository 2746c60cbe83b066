"""Identities: people for whom a provider vouches, and the users whom they are.

A login finds a user by the spelling of the name that is stored, or that was linked to the user. The first login as a
user links that user to the provider's account, by issuer and subject; a user of level 5 or 6 is linked by a person
before, and claims give these levels only to users who are. From then on no other account is let in as that user, even
if the provider has given the name to somebody else. Level and groups that the provider vouches for are the user's from
that login on; each change has its note in the audit.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.items import Change, change_item
from holdfast.client.people.refusals import REFUSE
from holdfast.client.people.refused_logins import RefusedLogin, note_login
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.errors import LoginRefused, NameTaken, ServerReadOnly
from holdfast.people.identities import (
    LINK,
    LINKED,
    LINKED_BY_PEOPLE,
    LOGIN,
    Identity,
    identity_details,
    identity_key,
    link_command,
    may_log_in,
    read_identity,
    write_identity,
)
from holdfast.people.tenants import tenant_key
from holdfast.people.users import User, read_user, unknown_login, user_key
from holdfast.runs.addresses import has_dots
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

    async def begin(self, vouched: Vouched, *, make: bool, read_only: bool = False, proved_at: int = 0) -> str:
        """Log somebody in who authenticated at ``proved_at``; gives the new session's secret.

        With ``make`` a user who is not there is made.

        Raises LoginRefused where there is no user of this very spelling, the user is another account's, or a person
        must link the account first; NotPermitted where the user is disabled, LastRuler where the claims would leave the
        tenant without a user of level 6, and ServerReadOnly where something must be changed first.
        """
        user = await self._user(vouched)
        if user is None and not make:
            raise _refused(vouched, unknown_login(vouched.tenant, vouched.user))
        _check_link(user, await self._identity(vouched), vouched)
        if user is not None:
            await self._engine.acting_as(user.name, tenant=vouched.tenant).whoami()  # a disabled user is refused
        elif has_dots(vouched.user):
            raise _refused(vouched, f"no user is made of {vouched.user!r:.100}: the name has a segment '.' or '..'.")
        elif await self._engine.whole_store.item(tenant_key(vouched.tenant)) is None:
            raise _refused(vouched, f"there is no tenant {vouched.tenant!r} yet.")
        if read_only and (user is None or _differs(user, vouched)):
            raise ServerReadOnly("your account has changed, and this server changes nothing: log in at another one.")
        if not read_only:
            await self._link(user, vouched)  # first: of two accounts with one name, one alone may change the user
            await self._make_or_change(user, vouched)
        return await self._sessions.begin_for(
            vouched.tenant, vouched.user if user is None else user.name, vouched.issuer, proved_at
        )

    async def end(self, secret: str) -> None:
        """End the session that somebody had before: each login has a new one."""
        await self._sessions.end(secret)

    async def note_refusal(self, error: LoginRefused, tenant: str, issuer: str, subject: str) -> None:
        """Keep in a tenant's audit that an account was not let in, and with whose name."""
        from holdfast.audit.notes import note
        from holdfast.audit.records import Operated

        engine, now = self._engine, self._engine.clock.now()
        if error.user is not None and await engine.whole_store.item(user_key(tenant, error.user)) is not None:
            refused = RefusedLogin(error.user, now, issuer, subject, error.level)
            await note_login(engine, tenant, refused, BY, str(error))
            return
        record = Operated(now, REFUSE, BY, None, str(error), {"issuer": issuer, "subject": subject})
        await engine.committer.commit(msgspec.structs.replace(note(tenant, None, record), id=engine.token()))
        engine.wake_sealer()

    async def _user(self, vouched: Vouched) -> User | None:
        """The user whom the claims name. Raises LoginRefused where the name only looks like a user's."""
        row = await self._engine.whole_store.item(user_key(vouched.tenant, vouched.user))
        user = None if row is None else read_user(row)
        if user is not None and not user.logs_in_as(vouched.user):
            raise _refused(vouched, unknown_login(vouched.tenant, vouched.user))
        return user

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
                _check_link(user, await self._identity(vouched), vouched)
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

    async def _link(self, user: User | None, vouched: Vouched) -> None:
        row = await self._identity(vouched)
        _check_link(user, row, vouched)
        if row is not None and row.status == LINKED:
            return
        link = Identity(vouched.issuer, vouched.subject, LOGIN)

        def change(present: p.ItemRow | None) -> Change:
            _check_link(user, present, vouched)
            return Change(write_identity(link), LINKED, details=identity_details(link))

        key = identity_key(vouched.tenant, vouched.user)
        await change_item(self._engine, key, LINK, change, by=BY, reason=_reason(vouched))


def _check_link(user: User | None, row: p.ItemRow | None, vouched: Vouched) -> None:
    """Raises LoginRefused where the user is linked to another account, or to none and no login may link them."""
    link = None if row is None or row.status != LINKED else read_identity(row)
    name, tenant = shlex.quote(vouched.user), shlex.quote(vouched.tenant)
    if link is not None and link.account != (vouched.issuer, vouched.subject):
        raise _refused(
            vouched,
            f"user {vouched.user!r} is linked to another account of the provider. If that account is gone, "
            f"`holdfast users unlink {name} --tenant {tenant}` takes it off.",
        )
    if not may_log_in(user, vouched.level, link):
        ways = ("--issuer", vouched.issuer, "--subject", vouched.subject)
        making = "" if user is not None else f"`holdfast users create {name} --level N --tenant {tenant}` and then "
        raise _refused(
            vouched,
            f"users of level {LINKED_BY_PEOPLE} and more are linked to their account by a user of level 6 or the "
            f"operator, not by a login: {making}`{link_command(vouched.tenant, vouched.user, *ways)}`.",
            vouched.level or (user.level if user is not None else None),
        )


def _differs(user: User, vouched: Vouched) -> bool:
    groups = user.groups if vouched.groups is None else vouched.groups
    return vouched.level not in (None, user.level) or set(groups) != set(user.groups)


def _reason(vouched: Vouched) -> str:
    return f"claims of {vouched.issuer}"


def _refused(vouched: Vouched, why: str, level: int | None = None) -> LoginRefused:
    return LoginRefused(why, tenant=vouched.tenant, user=vouched.user, level=level)

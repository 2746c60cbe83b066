"""Who a bound client acts for: a user by name, or by a token. Both are read anew for each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.operators import operator_note
from holdfast.client.people.makers import makers_of
from holdfast.client.people.refusals import Cause, Refusals
from holdfast.client.people.refused_logins import note_spelling
from holdfast.errors import InvalidRequest, InvalidToken, NotPermitted, UserNotFound
from holdfast.people import tokens, users
from holdfast.people.caller import Caller
from holdfast.people.names import is_name
from holdfast.people.permissions import LEAST, OPERATE, Refusal, judge
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

USE_TOKEN: Final = "use_token"  # noqa: S105  # a word of the audit
TOKEN_USE: Final = "token_use"  # noqa: S105  # the kind of an item
USE_SECONDS: Final = 3600
"""The last use of a token is known to this precision: it is no commit for each call."""


class Binding:
    """A client's user. ``tenant`` is known from the start, or for a token from its first use on. With ``login`` the
    user must log in by this very spelling; else any spelling of the name will do."""

    def __init__(
        self,
        engine: Holdfast,
        tenant: str | None,
        user: str,
        token: tokens.Presented | None = None,
        *,
        login: bool = False,
    ) -> None:
        self._engine = engine
        self._is_login = login
        self._user = user
        self._token = token
        self._tenant = tenant
        self._known: Caller | None = None
        self._refusals = Refusals(engine)

    @property
    def engine(self) -> Holdfast:
        """The engine that the client was made of."""
        return self._engine

    @property
    def tenant(self) -> str:
        """Raises InvalidRequest where the tenant of a token is not known yet."""
        if self._tenant is None:
            raise InvalidRequest("whose token this is shows with its first use: `await app.whoami()` first.")
        return self._tenant

    @property
    def known_tenant(self) -> str | None:
        return self._tenant

    @property
    def caller(self) -> Caller:
        """The user as last judged. Raises InvalidRequest where nothing was asked for yet."""
        if self._known is None:
            raise InvalidRequest("the caller is known after an operation: `await app.whoami()` first.")
        return self._known

    async def judge(self, operation: str, tenant: str | None = None) -> Caller:
        """The caller as of now, who may do this. Raises NotPermitted, InvalidToken or UserNotFound, each audited.

        What is asked of another tenant is not refused here: nothing of it is found, and nothing in it is changed.
        """
        caller = self._known = await self._look(operation)
        refusal = judge(caller, operation, tenant or caller.tenant)
        if refusal is not None:
            foreign = {"tenant": tenant} if refusal.hidden and tenant is not None else {}
            await self._refusals.note(caller, _cause(refusal), operation, describe(refusal, caller), foreign)
            if not refusal.hidden:
                raise _refused(refusal, caller)
        if self._token is not None:
            await self._note_use(caller, self._token.id)
        return caller

    async def check_later(self, caller: Caller, operation: str, thing: str) -> None:
        """The caller may do what a thing of theirs will do later. Raises NotPermitted, audited."""
        if (refusal := judge(caller, operation, caller.tenant)) is None:
            return
        reason = describe(refusal, caller)
        await self._refusals.note(caller, _cause(refusal), operation, reason, {"later": thing})
        remedy = (
            f"use a token that has {operation} in its scope, too" if refusal.out_of_scope else "let another user do it"
        )
        raise NotPermitted(
            f"{reason}, and {thing} would do that in your name: {remedy}.", operation=operation, needed=refusal.needed
        )

    def judge_known(self, operation: str) -> Caller:
        """The same by what is known, for plain methods: nothing is read or written."""
        if LEAST[operation] >= OPERATE and self._known is None:
            raise NotPermitted(f"{operation} is for the operator of the installation.", operation=operation)
        caller = self.caller
        if (refusal := judge(caller, operation, caller.tenant)) is not None:
            raise _refused(refusal, caller)
        return caller

    def conditions(self, caller: Caller) -> tuple[p.ExpectItem, ...]:
        """What must still hold when an act of the caller is committed."""
        user = p.ExpectItem(users.user_key(caller.tenant, caller.user), caller.version)
        if caller.token is None:
            return (user,)
        token = p.ExpectItem(tokens.token_key(caller.tenant, caller.token), caller.token_version)
        makers = [each for each in caller.makers if each.key != user.key]
        return (user, token, *dict.fromkeys(makers))

    async def _look(self, operation: str) -> Caller:
        if self._token is None:
            return await self._user_of(self.tenant, self._user, operation)
        row = await self._token_row(self._token)
        token = None if row is None else tokens.read_token(row)
        if not tokens.fits(self._token, token) or row is None or token is None:
            raise InvalidToken(tokens.UNUSABLE)
        self._tenant = row.tenant
        caller = await self._user_of(row.tenant, token.user, operation)
        now = self._engine.clock.now()
        makers = await makers_of(self._engine.whole_store, row.tenant, token, now)
        if (problem := tokens.problem_of(token, now) or makers.problem) is not None:
            reason = f"the token cannot be used: {problem}"
            await self._refusals.note(caller, "token", operation, reason, {"token": row.id})
            raise InvalidToken(f"token {row.id} cannot be used: {problem}. Have another one made.")
        return msgspec.structs.replace(
            caller,
            level=min(caller.level, token.level, makers.level),
            token=row.id,
            scope=token.scope,
            token_version=row.version,
            makers=makers.versions,
        )

    async def _token_row(self, token: tokens.Presented) -> p.ItemRow | None:
        store = self._engine.whole_store
        if self._tenant is not None:
            return await store.item(tokens.token_key(self._tenant, token.id))
        found = await store.items(tokens.TOKEN, 1, id=token.id)
        return found[0] if found else None

    async def _user_of(self, tenant: str, name: str, operation: str) -> Caller:
        row = await self._engine.whole_store.item(users.user_key(tenant, name))
        if self._is_login:
            await self._check_login(row, tenant, name)
        if row is None:
            raise UserNotFound(f"there is no user {name!r} in tenant {tenant!r}: look with `holdfast users list`.")
        user = users.read_user(row)
        caller = Caller(tenant, user.name, user.level, user.groups, version=row.version)
        if user.disabled:
            await self._refusals.note(caller, "disabled", operation, "the user is disabled")
            raise NotPermitted(
                f"user {user.name} of tenant {tenant!r} is disabled: a user of level 6 can enable them.",
                operation=operation,
            )
        return caller

    async def _check_login(self, row: p.ItemRow | None, tenant: str, login: str) -> None:
        if row is not None and users.read_user(row).logs_in_as(login):
            return
        if row is not None and is_name(login):
            await note_spelling(self._engine, tenant, login, "it is another spelling than that of the user")
        raise NotPermitted(
            f"{users.unknown_login(tenant, login)} Ask one of its users of level 6 to make one of that name, or to "
            "link this spelling to yours with `holdfast users link`."
        )

    async def _note_use(self, caller: Caller, token: str) -> None:
        """Keep that the token was used, at most once in ``USE_SECONDS``."""
        engine, now = self._engine, self._engine.clock.now()
        if now - engine.token_uses.get(token, 0) < USE_SECONDS * 1_000_000:
            return
        engine.token_uses[token] = now
        key = p.ItemKey(caller.tenant, TOKEN_USE, token)
        row = await engine.whole_store.item(key)
        if row is not None and now - row.changed_at < USE_SECONDS * 1_000_000:
            engine.token_uses[token] = row.changed_at
            return
        used = p.ItemRow(*key, 1 if row is None else row.version + 1, b"", changed_at=now)
        note = operator_note(engine, caller.tenant, USE_TOKEN, caller.user, None, "", {"token": token})
        await engine.committer.commit(p.Operate(note, (p.PutItem(used),)))  # refused where another process was first


def bind(engine: Holdfast, who: str | Caller, tenant: str | None, *, login: bool = False) -> Binding:
    """Who it is about. Raises InvalidRequest where that is no name, and InvalidToken where it is no whole token."""
    if isinstance(who, Caller):
        return Binding(engine, who.tenant, who.user)
    if not isinstance(who, str):
        raise InvalidRequest(f"a client acts for a user's name or a token, not for {who!r:.60}")
    if tokens.is_token(who):
        return Binding(engine, None, "", tokens.read_text(who))
    return Binding(engine, engine.tenant_of(tenant), who, login=login)


def _cause(refusal: Refusal) -> Cause:
    if refusal.hidden:
        return "tenant"
    return "scope" if refusal.out_of_scope else "level"


def describe(refusal: Refusal, caller: Caller) -> str:
    """Why an operation is refused, in words."""
    if refusal.hidden:
        return f"{refusal.operation} was asked for in another tenant"
    if refusal.out_of_scope:
        return f"{refusal.operation} is not in the scope of the token"
    if refusal.needed >= OPERATE:
        return f"{refusal.operation} is for the operator of the installation"
    return f"{refusal.operation} needs level {refusal.needed}, and {caller.user} has level {caller.level}"


def _refused(refusal: Refusal, caller: Caller) -> NotPermitted:
    return NotPermitted(f"{describe(refusal, caller)}.", operation=refusal.operation, needed=refusal.needed)

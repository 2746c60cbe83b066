"""``app.tokens``: secrets that stand for users. Only a hash of each is kept."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.client.items import Change, change_item, item_finder
from holdfast.client.operators import UNNAMED, operator_note
from holdfast.client.pages import PAGE, Find, page_of, rows_of
from holdfast.client.people.binding import TOKEN_USE
from holdfast.client.people.makers import MOST_MAKERS, makers_of
from holdfast.client.people.permission import CallerChanged, operation
from holdfast.client.views.cursors import Page
from holdfast.client.views.people import MintedToken, TokenInfo, token_info
from holdfast.errors import EngineError, InvalidRequest, NotPermitted, TokenNotFound, UserNotFound
from holdfast.people import tokens
from holdfast.people.caller import Caller
from holdfast.people.permissions import in_scope, is_scope
from holdfast.people.users import check_level, read_user, user_key
from holdfast.runs.birth import check_text
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

DAY: Final = 86_400_000_000


class Tokens:
    """The tokens of one engine's tenants."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    @operation("tokens.see")
    async def list(self, *, tenant: str | None = None, user: str | None = None) -> AsyncIterator[TokenInfo]:
        """A tenant's tokens, by id, also those that are over; with ``user`` those of one user."""
        async for row in rows_of(self._finder(self._app.tenant_of(tenant), user)):
            yield await self._info(row)

    @operation("tokens.see")
    async def page(
        self, *, user: str | None = None, limit: int = PAGE, after: str | None = None, tenant: str | None = None
    ) -> Page[TokenInfo]:
        """One page of a tenant's tokens, by id, with a cursor for the rest."""
        page = await page_of("tokens", self._finder(self._app.tenant_of(tenant), user), limit, after, lambda row: row)
        return Page([await self._info(row) for row in page.items], page.next)

    @operation("tokens.see_own")
    async def own(self) -> AsyncIterator[TokenInfo]:
        """The caller's own tokens, by id, also those that are over. Raises InvalidRequest where nobody is bound."""
        caller = self._bound()
        async for row in rows_of(self._finder(caller.tenant, caller.user)):
            yield await self._info(row)

    @operation("tokens.change")
    async def mint(
        self,
        user: str,
        *,
        level: int | None = None,
        scope: Sequence[str] = (),
        days: float | None = tokens.DEFAULT_DAYS,
        purpose: str = "",
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MintedToken:
        """Make a token for a user, which is shown only now. Without ``level`` it has the user's, and never more.

        ``scope`` are the operations that it is for, such as ``runs.start`` or all of ``tasks``; none means all.
        ``days`` is how long it is good; None is for ever. A bound caller is its maker: it is never worth more than the
        caller and the token by which they act, ends with that token at the latest, and is over when that is revoked or
        the caller is disabled. Raises UserNotFound, InvalidRequest, and NotPermitted where its level is above the
        caller's, or its scope beyond that of the caller's own token.
        """
        app, tenant = self._app, self._app.tenant_of(tenant)
        self._check_scope(scope)
        while True:
            row = await app.store.item(user_key(tenant, user))
            if row is None:
                raise UserNotFound(f"there is no user {user!r} in tenant {tenant!r}: look with `holdfast users list`.")
            secret, now = secrets.token_bytes(32), app.clock.now()
            token = tokens.Token(
                user=row.id,
                sha256=tokens.digest_of(secret).hex(),
                level=self._level(level, read_user(row).level),
                made_at=now,
                made_by=app.person_of(by) or UNNAMED,
                expires_at=_expiry(days, now),
                scope=tuple(dict.fromkeys(scope)),
                purpose=check_text(purpose, "the purpose"),
            )
            made = await self._keep(tenant, await self._bounded(token), row, by, reason)
            if made is not None:
                return MintedToken(text=tokens.make_text(made.id, secret), token=await self._info(made))

    async def _bounded(self, token: tokens.Token) -> tokens.Token:
        """The token with its maker, and no longer life than the maker's token. Raises InvalidRequest if it would have
        too many makers."""
        if (caller := self._app.caller) is None:
            return token
        maker = user_key(caller.tenant, caller.user).id
        if caller.token is None:
            return msgspec.structs.replace(token, maker=maker)
        row = await self._app.store.item(tokens.token_key(caller.tenant, caller.token))
        if row is None:
            raise CallerChanged  # it was deleted just now
        own = tokens.read_token(row)
        if sum(each.key.kind == tokens.TOKEN for each in caller.makers) >= MOST_MAKERS - 1:
            raise InvalidRequest(
                f"your token is the last of {MOST_MAKERS} that were minted one with the other: use an earlier one."
            )
        ends = [each for each in (token.expires_at, own.expires_at) if each is not None]
        return msgspec.structs.replace(
            token, maker=maker, minted_with=caller.token, expires_at=min(ends) if ends else None
        )

    async def _keep(
        self, tenant: str, token: tokens.Token, owner: p.ItemRow, by: str | None, reason: str
    ) -> p.ItemRow | None:
        """The new token's item; None where its user was changed since, or its id is taken."""
        app, id = self._app, secrets.token_hex(tokens.ID_LENGTH // 2)
        if await app.whole_store.items(tokens.TOKEN, 1, id=id):  # tokens are found by their ids alone
            return None
        row = p.ItemRow(*tokens.token_key(tenant, id), 1, tokens.write_token(token), token.status)
        row = msgspec.structs.replace(row, due_at=token.deleted_at, changed_at=token.made_at)
        details = {"token": id, **tokens.token_details(token)}
        note = operator_note(app, tenant, tokens.MINT, by, None, reason, details)
        expected = p.ExpectItem(owner.key, owner.version)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), expected, p.PutItem(row))))
        if not isinstance(answer, p.OperatedOn | p.Repeated | p.Fenced):
            raise EngineError(f"a new token was answered {answer!r}")
        app.wake_sealer()
        return None if isinstance(answer, p.Fenced) else row

    @operation("tokens.change")
    async def revoke(self, id: str, *, tenant: str | None = None, by: str | None = None, reason: str = "") -> TokenInfo:
        """Let a token be good for nothing from now on, for good. Raises TokenNotFound."""
        return await self._revoke(tokens.token_key(self._app.tenant_of(tenant), id), None, by, reason)

    @operation("tokens.revoke_own")
    async def revoke_own(self, id: str, *, reason: str = "") -> TokenInfo:
        """The same for a token of the caller's own. Raises TokenNotFound where it is none of theirs, and InvalidRequest
        where nobody is bound."""
        caller = self._bound()
        owner = user_key(caller.tenant, caller.user).id
        return await self._revoke(tokens.token_key(caller.tenant, id), owner, None, reason)

    async def _revoke(self, key: p.ItemKey, owner: str | None, by: str | None, reason: str) -> TokenInfo:
        def change(present: p.ItemRow | None) -> Change:
            token = None if present is None else tokens.read_token(present)
            if token is None or owner not in (None, token.user):
                whose = f"you have no token {key.id!r}" if owner else f"tenant {key.tenant!r} has no token {key.id!r}"
                raise TokenNotFound(f"{whose}: `holdfast tokens {'own' if owner else 'list'}` shows what there is.")
            over_at = self._app.clock.now() + tokens.KEPT_SECONDS * 1_000_000
            due_at = min(over_at, token.deleted_at or over_at)
            token = msgspec.structs.replace(token, revoked=True)
            return Change(tokens.write_token(token), token.status, due_at, {"user": token.user})

        return await self._info(await change_item(self._app, key, tokens.REVOKE, change, by=by, reason=reason))

    async def _info(self, row: p.ItemRow) -> TokenInfo:
        store, now = self._app.store, self._app.clock.now()
        used = await store.item(p.ItemKey(row.tenant, TOKEN_USE, row.id))
        makers = await makers_of(store, row.tenant, tokens.read_token(row), now)
        return token_info(row, None if used is None else used.changed_at, now, makers)

    def _finder(self, tenant: str, user: str | None) -> Find[p.ItemRow]:
        """Reads pages of a tenant's tokens, or of one user's."""
        owner = None if user is None else user_key(tenant, user).id
        return item_finder(
            self._app, tokens.TOKEN, tenant=tenant, wanted=lambda row: owner in (None, tokens.read_token(row).user)
        )

    def _bound(self) -> Caller:
        caller = self._app.caller
        if caller is None:
            raise InvalidRequest("these are the tokens of whoever is bound: app.acting_as(…).tokens, or tokens.list().")
        return caller

    def _most(self) -> int:
        caller = self._app.caller
        return tokens.HIGHEST if caller is None else caller.level

    def _level(self, asked: int | None, owners: int) -> int:
        """The token's level. Raises InvalidRequest or NotPermitted where it is above the user's or the caller's."""
        if asked is None:
            return min(owners, self._most())
        if check_level(asked) > owners:
            raise InvalidRequest(f"the user has level {owners}, and a token of theirs cannot have level {asked}.")
        if asked > self._most():
            raise NotPermitted(
                f"you act with level {self._most()}, and cannot make a token of level {asked}.",
                operation="tokens.change",
                needed=asked,
            )
        return asked

    def _check_scope(self, scope: Sequence[str]) -> None:
        if isinstance(scope, str):
            raise InvalidRequest(f"a scope is a list of operations, not the text {scope!r:.60}")
        if unknown := [name for name in scope if not is_scope(name)]:
            raise InvalidRequest(f"{unknown[0]!r:.60} is no operation: say for example runs.start, or tasks for all.")
        caller = self._app.caller
        if caller is None or not caller.scope:
            return
        if not scope or not all(name in caller.scope or in_scope(name, caller.scope) for name in scope):
            raise NotPermitted(
                f"you act with a token for {', '.join(caller.scope)}, and cannot make one for more.",
                operation="tokens.change",
            )


def _expiry(days: float | None, now: int) -> int | None:
    if days is None:
        return None
    if isinstance(days, bool) or not 0 < days <= tokens.LONGEST_DAYS:
        raise InvalidRequest(f"a token is good for up to {tokens.LONGEST_DAYS} days, not for {days!r:.60}")
    return now + int(days * DAY)

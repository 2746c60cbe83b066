"""Sessions: people who are logged in to the console. The store keeps them, so they outlive a restart of the server.

A session is an item whose id is the SHA-256 of a secret that only the person's browser has. It stands for the token
with which they logged in, or for a user alone where somebody else vouched for them. Nothing is decided by it: user and
token are read and judged anew for every operation, so a token that is revoked ends its sessions, too.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.client.items import Change, change_item
from holdfast.client.people.binding import Binding
from holdfast.client.people.permission import operating
from holdfast.people import tokens
from holdfast.people.sessions import (
    ENDED,
    LOG_IN,
    LOG_OUT,
    OPEN,
    SESSION,
    ConsoleSession,
    read_session,
    session_details,
    write_session,
)
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

SESSION_SECONDS: Final = 12 * 3600
"""How long a session is good: a working day."""
KEPT_SECONDS: Final = 86_400
"""So long its item is kept after it is over."""


class FoundSession(NamedTuple):
    """A session that is good, with a client that acts for whoever has it."""

    client: Holdfast
    session: ConsoleSession


class ConsoleSessions:
    """The sessions of one engine. The engine must be bound to nobody."""

    def __init__(self, engine: Holdfast) -> None:
        self._engine = engine

    async def begin(self, token: str) -> str:
        """Log in with a token; gives the new session's secret. Raises InvalidToken or NotPermitted."""
        presented = tokens.read_text(token)
        client = self._engine.acting_as(token)
        async with operating(client, "users.see_self"):
            caller = client.caller
        assert caller is not None
        now = self._engine.clock.now()
        session = ConsoleSession(caller.user, _end(now), presented.id, presented.digest.hex(), proved_at=now)
        return await self._keep(caller.tenant, session)

    async def begin_for(self, tenant: str, user: str, issuer: str, proved_at: int = 0) -> str:
        """Log a user in for whom a provider of identities vouches, and who authenticated there at this time. Gives the
        secret."""
        end = _end(self._engine.clock.now())
        return await self._keep(tenant, ConsoleSession(user, end, issuer=issuer, proved_at=proved_at))

    async def find(self, secret: str) -> FoundSession | None:
        """The session with this secret; None where it is over, or there is none."""
        row = await self._row(secret)
        if row is None or row.status != OPEN:
            return None
        session = read_session(row)
        if session.expires_at <= self._engine.clock.now():
            return None
        from holdfast.client.people.bound_client import ActingHoldfast

        presented = tokens.Presented(session.token, bytes.fromhex(session.digest)) if session.token else None
        binding = Binding(self._engine, row.tenant, session.user, presented)
        return FoundSession(ActingHoldfast(self._engine, binding), session)

    async def end(self, secret: str) -> ConsoleSession | None:
        """Log out; gives the session that was ended. Nothing happens where there is no such session."""
        row = await self._row(secret)
        if row is None or row.status != OPEN:
            return None
        session = read_session(row)
        ended = Change(row.body, ENDED, self._engine.clock.now() + KEPT_SECONDS * 1_000_000)
        await change_item(self._engine, row.key, LOG_OUT, lambda _: ended, by=session.user)
        return session

    async def _keep(self, tenant: str, session: ConsoleSession) -> str:
        secret = secrets.token_hex(32)
        key = p.ItemKey(tenant, SESSION, _id_of(secret))

        due_at = session.expires_at + KEPT_SECONDS * 1_000_000
        fresh = Change(write_session(session), OPEN, due_at, session_details(session))
        await change_item(self._engine, key, LOG_IN, lambda _: fresh, by=session.user)
        return secret

    async def _row(self, secret: str) -> p.ItemRow | None:
        found = await self._engine.whole_store.items(SESSION, 1, id=_id_of(secret))
        return found[0] if found else None


def _end(now: int) -> int:
    return now + SESSION_SECONDS * 1_000_000


def _id_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Step-up: whoever logged in some time ago proves again who they are, for what would do the most harm.

A browser that was left open, or a cookie that was taken, acts as the user. So changes of users, tokens and signing
keys, and of a task of tier high, need a proof that is younger than ``ServerSettings.step_up_seconds``:

- a login with a token: the same token again;
- a login with a provider of identities: another login, at which the provider asks for the password again and says when;
- the operator's key: the key again, or its link.

A request that carries its proof itself (a token as ``Authorization: Bearer``) is not asked, and a user whom a proxy
names in a header cannot be: only the proxy knows them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response

from holdfast.errors import LoginTooOld

if TYPE_CHECKING:
    from holdfast.server.call import RouteCall

ASKED_AGAIN: Final = frozenset({"keys.rotate", "tokens.change", "tokens.revoke_own", "users.change"})
"""The operations that need a fresh proof. Of tasks, those of tier high do."""
HIGH: Final = "high"
PROOF: Final = "login_proof"
"""The field of a form with the proof."""

GiveCookie = Callable[[Response, HTTPConnection], Awaitable[None]]
"""Lets a browser keep what its renewed login is known by, and ends the login before it."""


class ProvedLogin(msgspec.Struct, frozen=True):
    """How and when the person in front of a browser proved who they are.

    ``renew`` takes the proof again; None if it is not given here, but at a provider. It raises CallerError.
    """

    at: int
    way: Literal["token", "provider", "key"]
    renew: Callable[[str], Awaitable[GiveCookie]] | None = None

    def is_fresh(self, now: int, seconds: float) -> bool:
        return not seconds or 0 <= now - self.at <= seconds * 1_000_000


async def check_login(call: RouteCall[Any, Any], operation: str, *, changes: bool) -> None:
    """Raises LoginTooOld if this needs a fresher proof than the login's."""
    login, seconds = call.acting.login, call.settings.step_up_seconds
    if not changes or login is None or login.is_fresh(call.engine.clock.now(), seconds):
        return
    if operation in ASKED_AGAIN or await _is_high(call):
        raise LoginTooOld(
            f"you last proved who you are more than {seconds / 60:g} minutes ago, and this needs it anew."
        )


async def _is_high(call: RouteCall[Any, Any]) -> bool:
    """Whether it is about a task of tier high. Raises TaskNotFound."""
    id = call.path.get("task")
    return id is not None and (await call.client.tasks.get(id, tenant=call.tenant)).tier == HIGH

"""Sessions of the console: which user has logged in, and how.

A session's item has the SHA-256 of the browser's secret as its id. It stands for the token with which somebody logged
in, or for a user alone where a provider of identities vouched for them.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.store.items import ItemRow

SESSION: Final = "session"
LOG_IN: Final = "login"
LOG_OUT: Final = "logout"
"""The audit's words for changes of sessions."""
OPEN: Final = "open"
ENDED: Final = "ended"


class ConsoleSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session's item says. ``token`` is the id of the token, ``digest`` the SHA-256 of its secret, as hex;
    ``issuer`` is who vouched for the user where there is no token. ``proved_at`` is when the person showed the token,
    or authenticated at the provider; 0 if that is not known."""

    user: str
    expires_at: int
    token: str = ""
    digest: str = ""
    issuer: str = ""
    proved_at: int = 0


_decoder = msgspec.json.Decoder(ConsoleSession)


def read_session(row: ItemRow) -> ConsoleSession:
    return _decoder.decode(row.body)


def write_session(session: ConsoleSession) -> bytes:
    return msgspec.json.encode(session)


def session_details(session: ConsoleSession) -> dict[str, str]:
    """A session as the audit's note of the login says; its user is who did it."""
    via = {"token": session.token} if session.token else {"issuer": session.issuer}
    return {**via, "expires_at": str(session.expires_at), "proved_at": str(session.proved_at)}

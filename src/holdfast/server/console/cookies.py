"""The console's cookies: who is logged in, and what the last form said."""

from __future__ import annotations

import hmac
from functools import partial
from typing import Final
from urllib.parse import quote, unquote

from starlette.requests import HTTPConnection
from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.client.people.sessions import SESSION_SECONDS, ConsoleSessions
from holdfast.errors import InvalidToken
from holdfast.people import tokens
from holdfast.people.sessions import ConsoleSession
from holdfast.server.call import Acting
from holdfast.server.step_up import GiveCookie, ProvedLogin

_SESSION: Final = "holdfast-session"
_LOGIN: Final = "holdfast-login"
_SAID: Final = "holdfast-said"
_KEY: Final = "holdfast-key"
LOGIN_SECONDS: Final = 600
"""How long a login with a provider may take."""
_LONGEST: Final = 600


def _named(connection: HTTPConnection, name: str) -> str:
    """The cookie's name. Browsers keep ``__Host-`` for this very host, and take it over https alone."""
    return f"__Host-{name}" if connection.url.scheme == "https" else name


def give_session(response: Response, connection: HTTPConnection, secret: str) -> None:
    """Let the browser keep a session."""
    _set(response, connection, _named(connection, _SESSION), secret, SESSION_SECONDS)


def session_of(connection: HTTPConnection) -> str | None:
    """The secret of the session that the browser has."""
    return connection.cookies.get(_named(connection, _SESSION))


def take_session(response: Response, connection: HTTPConnection) -> None:
    """Let the browser forget its session."""
    _set(response, connection, _named(connection, _SESSION), "", 0)


def keep_login(response: Response, connection: HTTPConnection, text: str) -> None:
    """Let the browser keep what the login is known by that it begins with a provider."""
    _set(response, connection, _named(connection, _LOGIN), text, LOGIN_SECONDS)


def login_of(connection: HTTPConnection) -> str | None:
    """What the login is known by that this browser has begun."""
    return connection.cookies.get(_named(connection, _LOGIN))


def forget_login(response: Response, connection: HTTPConnection) -> None:
    """That login is over."""
    _set(response, connection, _named(connection, _LOGIN), "", 0)


def give_key(response: Response, connection: HTTPConnection, text: str) -> None:
    """Let the browser keep that it has shown the operator's key."""
    _set(response, connection, _key_name(connection), text, SESSION_SECONDS)


def key_of(connection: HTTPConnection) -> str | None:
    """What the browser has since it showed the operator's key."""
    return connection.cookies.get(_key_name(connection))


def _key_name(connection: HTTPConnection) -> str:
    """The cookie's name. It has the port: a browser has one set of cookies for all servers on a host."""
    url = connection.url
    return _named(connection, f"{_KEY}-{url.port or {'https': 443}.get(url.scheme, 80)}")


def say(response: Response, connection: HTTPConnection, words: str) -> None:
    """Have the next page say this once."""
    _set(response, connection, _named(connection, _SAID), quote(words[:_LONGEST]), 30)


def said(connection: HTTPConnection) -> str:
    """What the last form said."""
    return unquote(connection.cookies.get(_named(connection, _SAID), ""))[:_LONGEST]


def unsay(response: Response, connection: HTTPConnection) -> None:
    """It was said."""
    if (name := _named(connection, _SAID)) in connection.cookies:
        _set(response, connection, name, "", 0)


def _set(response: Response, connection: HTTPConnection, name: str, value: str, seconds: int) -> None:
    is_secure = connection.url.scheme == "https"
    response.set_cookie(name, value, max_age=seconds, path="/", secure=is_secure, httponly=True, samesite="lax")


class SessionCookies:
    """An authenticator: whoever is logged in to the console."""

    is_open_to_all = False

    def __init__(self, app: Holdfast) -> None:
        self._sessions = ConsoleSessions(app)

    async def authenticate(self, connection: HTTPConnection) -> Acting | None:
        """Whoever has the session; None without one, or where it is over."""
        secret = session_of(connection)
        found = None if not secret else await self._sessions.find(secret)
        if not secret or found is None:
            return None
        session = found.session
        login = ProvedLogin(session.proved_at, "provider")
        if session.token:
            login = ProvedLogin(session.proved_at, "token", partial(self._renew, secret, session))
        return Acting(found.client, f"session:{secret}", proof="cookie", login=login)

    async def _renew(self, secret: str, session: ConsoleSession, token: str) -> GiveCookie:
        """A new session with the same token, in place of the one before. Raises InvalidToken and NotPermitted."""
        presented = tokens.read_text(token)
        if presented.id != session.token or not hmac.compare_digest(presented.digest.hex(), session.digest):
            raise InvalidToken("this is not the token with which you logged in.")
        fresh = await self._sessions.begin(token)

        async def give(response: Response, connection: HTTPConnection) -> None:
            give_session(response, connection, fresh)
            await self._sessions.end(secret)

        return give

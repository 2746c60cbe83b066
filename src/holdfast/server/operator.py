"""``Operator``: a server without users, for the operator alone, who is proved by one key.

The key is in the link that the server prints when it starts. A browser that opens the link keeps the key in a cookie; a
program sends it as ``Authorization: Bearer …``. The key is the proof. A request must also come from this host without a
proxy, so a key that was given away is of no use elsewhere.

The cookie has the time at which the link was opened, and a MAC of it with the key: the key is not in it.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Final

from msgspec.structs import replace
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.engine import Holdfast
from holdfast.client.people.sessions import SESSION_SECONDS
from holdfast.errors import NotTheOperator
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.server.call import Acting
from holdfast.server.console import cookies
from holdfast.server.console.returns import local_path
from holdfast.server.operator_key import check_key, new_key
from holdfast.server.protection.proxies import foreign_signs
from holdfast.server.router import path_of
from holdfast.server.step_up import GiveCookie, ProvedLogin

_KEY: Final = "key"
_HOW: Final = "open the link that the server printed when it started; `holdfast link` prints it again"


class Operator:
    """Anyone who has the key is the operator of this process, who may do everything. It is the last way of a server,
    and usually the only one.

    Without ``key`` the key is made anew; ``kept_key`` gives one that is the same after a restart. Raises InvalidRequest
    for one that could be guessed.
    """

    is_open_to_all = True

    def __init__(self, app: Holdfast, name: str, tenant: str = DEFAULT_TENANT, *, key: str | None = None) -> None:
        self._by_key = Acting(app, "operator", by=name, tenant=tenant)
        self._by_cookie = Acting(app, "operator", by=name, tenant=tenant, proof="key")
        self._clock = app.clock
        self.key = new_key() if key is None else key
        check_key(self.key)

    def link(self, address: str) -> str:
        """The link with the key, for a server or a page of it at ``address``."""
        return link_to(address, self.key)

    async def authenticate(self, connection: HTTPConnection) -> Acting:
        """The operator. Raises NotTheOperator."""
        if signs := foreign_signs(connection):
            raise NotTheOperator(
                f"this server answers its operator alone, at 127.0.0.1 and without a proxy, and {signs[0]} is not that."
            )
        header = connection.headers.get("authorization")
        if header is not None:
            scheme, _, given = header.partition(" ")
            if scheme.lower() == "bearer" and self._is_key(given.strip()):
                return self._by_key
            raise NotTheOperator("the request has another key than the operator's: `holdfast link --key` prints that.")
        if (kept := cookies.key_of(connection)) is None:
            raise NotTheOperator(f"the request does not have the operator's key: {_HOW}.")
        if (at := self._opened_at(kept)) is None:
            raise NotTheOperator(f"the browser opened the link of an earlier server, or long ago: {_HOW}.")
        return replace(self._by_cookie, login=ProvedLogin(at, "key", self._renew))

    def open_link(self, request: Request, key: str) -> Response | None:
        """The answer to a link with the right key: the cookie, and the way to the same page. None for any other."""
        if request.method not in ("GET", "HEAD") or foreign_signs(request) or not self._is_key(key):
            return None
        path, query = path_of(request.scope), request.url.query
        response = RedirectResponse(local_path(request, f"{path}?{query}" if query else path), 303)
        cookies.give_key(response, request, self._cookie())
        return response

    async def _renew(self, key: str) -> GiveCookie:
        """A new cookie for who shows the key again. Raises NotTheOperator."""
        if not self._is_key(key):
            raise NotTheOperator("this is not the operator's key: `holdfast link --key` prints it.")

        async def give(response: Response, connection: HTTPConnection) -> None:
            cookies.give_key(response, connection, self._cookie())

        return give

    def _cookie(self) -> str:
        at = str(self._clock.now())
        return f"{at}.{self._mac(at)}"

    def _opened_at(self, cookie: str) -> int | None:
        """When the link was opened for this cookie; None if it is not of this key, or over."""
        at, _, mac = cookie.partition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(at).encode()):
            return None
        return int(at) if self._clock.now() - int(at) <= SESSION_SECONDS * 1_000_000 else None

    def _mac(self, at: str) -> str:
        return hmac.new(self.key.encode(), f"holdfast.operator.cookie.1 {at}".encode(), sha256).hexdigest()

    def _is_key(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.key.encode())


class OperatorLinks:
    """Lets a browser in that opens a link with the operator's key.

    It takes the key out of the address of every request, before anything else reads it: no page shows it, and the
    access log of an ASGI server, which is written later from the same scope, does not have it.
    """

    def __init__(self, app: ASGIApp, operator: Operator) -> None:
        self._app = app
        self._operator = operator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] == "http" and (key := _take_key(scope)) is not None:
            answer = self._operator.open_link(Request(scope), key)
        await (self._app if answer is None else answer)(scope, receive, send)


def link_to(address: str, key: str) -> str:
    """An address with the operator's key."""
    return f"{address}?{_KEY}={key}"


def _take_key(scope: Scope) -> str | None:
    """The key in the address of a request, which has none afterwards."""
    parts = scope.get("query_string", b"").split(b"&")
    found = [part for part in parts if part.startswith(f"{_KEY}=".encode())]
    if not found:
        return None
    scope["query_string"] = b"&".join(part for part in parts if part not in found)
    given: bytes = found[-1]
    return given.partition(b"=")[2].decode("latin-1")

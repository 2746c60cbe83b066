"""Who sends a request. Each way to prove that is an authenticator, and they are asked in order.

An authenticator that finds nothing of its own in a request gives None, so that the next is asked. One that finds
something which proves nobody raises. Where all give None, the request is refused.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import HTTPConnection

from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidRequest, InvalidToken, NotAuthenticated
from holdfast.people.names import is_name
from holdfast.people.tokens import is_token
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.server.call import Acting
from holdfast.server.protection.proxies import TrustedProxies, peer_of

MOST_CLIENTS: Final = 1000
"""Clients of tokens that are kept."""

_BEARER: Final = "bearer "
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")


class Authenticator(Protocol):
    """One way to prove who sends a request. With ``is_open_to_all`` the server listens on this host alone."""

    is_open_to_all: bool

    async def authenticate(self, connection: HTTPConnection) -> Acting | None:
        """Whoever this proves; None where the request has nothing of this kind. Raises CallerError."""
        ...


class BearerTokens:
    """``Authorization: Bearer hf_…``. Whether the token is good is judged with the operation, as of then.

    The clients of tokens that were used last are kept, by a hash of the token: to make one costs more than to judge it.
    """

    is_open_to_all = False

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kept: OrderedDict[str, Acting] = OrderedDict()

    async def authenticate(self, connection: HTTPConnection) -> Acting | None:
        header = connection.headers.get("authorization")
        if header is None:
            return None
        if not header.lower().startswith(_BEARER):
            raise NotAuthenticated("the only scheme of Authorization is Bearer: send `Authorization: Bearer hf_…`.")
        token = header[len(_BEARER) :].strip()
        if not token.startswith("hf_"):
            raise InvalidToken("a token begins with hf_: look whether it is whole.")
        key = "token:" + hashlib.sha256(token.encode()).hexdigest()
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = Acting(self._app.acting_as(token), key)
            if len(self._kept) > MOST_CLIENTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found


class TrustedHeader:
    """A user whom a proxy in front names in a header, such as ``X-Forwarded-User``.

    The header counts only where the other end of the TCP connection is one of ``proxies``, whatever the request says of
    its origin; from anywhere else such a request is refused. The proxy must remove the header that a client sends. The
    user must be one of ``tenant``, in the spelling that is stored or linked to the user, and enabled: a name that looks
    alike may be another person's. A token beside the header must be the same user's, and then it counts.
    """

    is_open_to_all = False

    def __init__(self, app: Holdfast, header: str, proxies: Sequence[str], tenant: str = DEFAULT_TENANT) -> None:
        if not _HEADER.fullmatch(header):
            raise InvalidRequest(f"a trusted header has a name such as X-Forwarded-User, not {header!r:.60}.")
        if not proxies:
            raise InvalidRequest("a trusted header needs the addresses of the proxies that may send it.")
        self._app = app
        self._header = header
        self._proxies = TrustedProxies(proxies)
        self._tenant = tenant
        self._tokens = BearerTokens(app)

    async def authenticate(self, connection: HTTPConnection) -> Acting | None:
        values = connection.headers.getlist(self._header)
        if not values:
            return None
        if (peer := peer_of(connection)) not in self._proxies:
            raise NotAuthenticated(f"{self._header} is for trusted proxies alone, and {peer or 'the sender'} is none.")
        client = self._app.acting_as(self._named(values), tenant=self._tenant, login=True)
        user = await client.whoami()
        assert user is not None
        acting = await self._tokens.authenticate(connection)
        if acting is None:
            return Acting(client, f"user:{user.user}", proof="header")
        caller = await acting.client.whoami()
        if caller is None or (caller.tenant, caller.user) != (user.tenant, user.user):
            raise NotAuthenticated("the token is not of the user whom the proxy names: send one of the two.")
        return acting

    def _named(self, values: Sequence[str]) -> str:
        """The user. Raises NotAuthenticated where the header does not name exactly one."""
        try:
            user = values[0].encode("latin-1").decode().strip()
        except UnicodeError:
            user = ""
        if len(values) > 1 or not is_name(user) or "," in user or is_token(user):
            raise NotAuthenticated(f"{self._header} must name one user.")
        return user


async def authenticate(ways: Sequence[Authenticator], connection: HTTPConnection) -> Acting:
    """Who sends the request. Raises NotAuthenticated where it does not say."""
    for way in ways:
        acting = await way.authenticate(connection)
        if acting is not None:
            return acting
    raise NotAuthenticated("say who you are: send a token, as `Authorization: Bearer hf_…`.")

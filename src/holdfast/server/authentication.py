"""Who sends a request. Each way to prove that is an authenticator, and they are asked in order.

An authenticator that finds nothing of its own in a request gives None, so that the next is asked. One that finds
something which proves nobody raises. Where all give None, the request is refused.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from holdfast.client.engine import Holdfast
from holdfast.errors import InvalidToken, NotAuthenticated
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.server.call import Acting
from holdfast.server.protection.origins import is_loopback

MOST_CLIENTS: Final = 1000
"""Clients of tokens that are kept."""

_BEARER: Final = "bearer "


class Authenticator(Protocol):
    """One way to prove who sends a request. With ``is_open_to_all`` it proves nothing: such a server is for this host
    alone."""

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


class Operator:
    """Everybody is the operator of this process, who may do everything: for a server that only this host can reach.

    The request must name this host: a name of somebody else's that leads here would let a page of theirs act.
    """

    is_open_to_all = True

    def __init__(self, app: Holdfast, name: str, tenant: str = DEFAULT_TENANT) -> None:
        self._acting = Acting(app, "operator", by=name, tenant=tenant, proof="place")

    async def authenticate(self, connection: HTTPConnection) -> Acting | None:
        host = urlsplit(f"//{connection.headers.get('host', '')}").hostname or ""
        if not is_loopback(host):
            raise NotAuthenticated(
                f"this server asks nobody who they are, so it answers to 127.0.0.1, not to {host!r}."
            )
        return self._acting


async def authenticate(ways: Sequence[Authenticator], connection: HTTPConnection) -> Acting:
    """Who sends the request. Raises NotAuthenticated where it does not say."""
    for way in ways:
        acting = await way.authenticate(connection)
        if acting is not None:
            return acting
    raise NotAuthenticated("say who you are: send a token, as `Authorization: Bearer hf_…`.")

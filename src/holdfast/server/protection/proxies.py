"""Proxies in front of the server: whose word counts for where a request comes from.

The peer is the other end of the TCP connection; nobody can choose it. What a proxy says in ``X-Forwarded-For`` and
``X-Forwarded-Proto`` counts only where the peer is a trusted proxy: else anybody could hide behind another address, or
have a cookie for https given over http.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.errors import InvalidRequest
from holdfast.server.protection.origins import is_loopback

THIS_HOST: Final = ("127.0.0.0/8", "::1")
_PEER: Final = "holdfast.peer"
_LONGEST: Final = 60
_LAST_PORT: Final = 65535
_NAMED_HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::([0-9]{1,5}))?", re.IGNORECASE)
_PASSED_ON: Final = re.compile(r"via|forwarded|x-forwarded(?:-.*)?|x-real-ip|.*-client-ip|.*-connecting-ip")
"""Headers that proxies add. A client that talks to the server directly sends none of them."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The addresses of proxies. Raises InvalidRequest where one is neither an address nor a network."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [_network(each) for each in networks]

    def __contains__(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)


class ForwardedRequests:
    """Lets a request have the address and the scheme that a trusted proxy names, and keeps its peer."""

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(self._seen_through(scope) if scope["type"] == "http" else scope, receive, send)

    def _seen_through(self, scope: Scope) -> Scope:
        peer = scope["client"][0] if scope.get("client") else ""
        scope = {**scope, _PEER: peer}
        if peer not in self._proxies:
            return scope
        headers = Headers(scope=scope)
        scheme = _last(headers, "x-forwarded-proto").lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme
        if (client := self._client(headers)) is not None:
            scope["client"] = client, 0
        return scope

    def _client(self, headers: Headers) -> str | None:
        """The last address that is no proxy's: those before it are the sender's own words."""
        named = [_without_port(each) for line in headers.getlist("x-forwarded-for") for each in line.split(",")]
        return next((each for each in reversed(named) if each not in self._proxies), named[0] if named else None)


def peer_of(connection: HTTPConnection) -> str:
    """The other end of the TCP connection; empty where it is not known."""
    client = connection.client
    found = connection.scope.get(_PEER, client.host if client is not None else "")
    return str(found)


def foreign_signs(connection: HTTPConnection) -> list[str]:
    """The signs that a request does not come directly from this host: the name that it asks for, its peer, a proxy's
    header, or HTTP/1.0, which proxies speak.

    A page of another site can ask for a name of its own that leads here; a proxy here passes others' requests on. A
    proxy can be set up to leave no sign, so this alone proves nothing.
    """
    hosts = connection.headers.getlist("host")
    found = _NAMED_HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    host = "" if found is None or int(found[3] or 0) > _LAST_PORT else (found[1] or found[2]).lower()
    signs = [] if is_loopback(host) else [f"the host {', '.join(hosts)!r:.100}"]
    if not is_loopback(peer := peer_of(connection)):
        signs.append(f"the peer {peer!r:.60}")
    if connection.scope.get("http_version") == "1.0":
        signs.append("HTTP/1.0")
    return signs + [f"the header {name!r:.60}" for name in connection.headers if _PASSED_ON.fullmatch(name)]


def sender_of(connection: HTTPConnection) -> str:
    """What failures of a request are counted by."""
    return counted_as(connection.client.host if connection.client is not None else "")


def counted_as(host: str) -> str:
    """What is counted for an address: itself; of IPv6 its network, since one host has as many as it likes."""
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host[:_LONGEST] if address is None else str(address)


def _without_port(named: str) -> str:
    """An address as proxies write it: some add the port, and put one of IPv6 in brackets."""
    named = named.strip()
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0] if named.count(":") == 1 else named


def _last(headers: Headers, name: str) -> str:
    lines = headers.getlist(name)
    return lines[-1].rpartition(",")[2].strip() if lines else ""


def _address(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InvalidRequest(f"a proxy is an address or a network, such as 10.0.0.0/8, not {text!r:.60}.") from None

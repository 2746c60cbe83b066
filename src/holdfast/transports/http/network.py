"""Connections: every address is looked at before it is connected to, and what was looked at is what is connected to.

A name is resolved once. The connection goes to an address that was found there, so that a name which changes between
the look and the connection leads nowhere else. Requests that a call names and those that a redirect leads to have pools
of their own: a connection that the one may use must not be found by the other.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

import httpcore
import httpx

from holdfast.errors import AddressRefused
from holdfast.transports.hosts import PRIVATE_HOSTS, is_public_address, may_reach

MOST_CONNECTIONS: Final = 100
MOST_IDLE: Final = 20
IDLE_SECONDS: Final = 30.0

ADDRESS_SECONDS: Final = 3.0
"""How long one address of several is tried before the next: one may be of a network that leads nowhere."""

Reachable = Callable[[str, str], bool]
"""Whether a host may be reached at an address."""


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that may be reached, and to no others."""

    def __init__(self, reachable: Reachable, why: str) -> None:
        self._reachable = reachable
        self._why = why
        self._plain = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = [each for each in await _addresses(host, port) if self._reachable(host, each)]
        if not addresses:
            raise AddressRefused(f"{host} has a private address, and {self._why}", members={"host": host})
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(ADDRESS_SECONDS):
                    return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except (TimeoutError, httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._plain.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise AddressRefused("a socket of this machine is no address of a request")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _addresses(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(f"the name {host} cannot be resolved ({error})") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class GuardedPool(httpx.AsyncBaseTransport):
    """Connections that are kept and used again, over a guarded backend."""

    def __init__(self, reachable: Reachable, why: str, context: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MOST_CONNECTIONS,
            max_keepalive_connections=MOST_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=GuardedBackend(reachable, why),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises httpcore's errors, and AddressRefused."""
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Stream(answer), request=request)

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Stream(httpx.AsyncByteStream):
    """The body of an answer, from the connection that it comes by."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._answer.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class Pools:
    """The connections of one event loop: for what calls name, and for where redirects lead.

    An attempt enters it, so that it is not closed under its hands.
    """

    def __init__(self) -> None:
        context = httpx.create_ssl_context()
        self.named = GuardedPool(
            may_reach, f"a private address is called only where {PRIVATE_HOSTS} lists the host or its network", context
        )
        self.redirected = GuardedPool(
            lambda _, address: is_public_address(address), "no redirect may lead to a private address", context
        )

        self._users = 0
        self._is_closing = False

    async def __aenter__(self) -> Pools:
        self._users += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._users -= 1
        if self._is_closing:
            await self.close()

    async def close(self) -> None:
        """Close the connections; where attempts use them, the last one does."""
        self._is_closing = True
        if not self._users:
            await self.named.aclose()
            await self.redirected.aclose()

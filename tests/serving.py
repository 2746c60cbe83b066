"""A real server on loopback, in the test's own loop, and people with tokens who use it."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import uvicorn
from starlette.types import ASGIApp
from uvicorn.config import LOGGING_CONFIG

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings


@asynccontextmanager
async def listening(application: ASGIApp, *, root_path: str = "", access_log: bool = False) -> AsyncIterator[str]:
    """Serve an application with uvicorn on a free port of loopback; gives its address."""
    listener = _bound()
    config = uvicorn.Config(
        application,
        log_level="info" if access_log else "warning",
        lifespan="off",
        root_path=root_path,
        access_log=access_log,
        proxy_headers=False,
        log_config=None if access_log else LOGGING_CONFIG,
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup([listener])
    await server.on_tick(0)  # makes the header with the date
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await _stop(server)


def _bound() -> socket.socket:
    """A socket on a free port that says that it is TCP's, as ``socket.create_server`` does not: asyncio sets
    TCP_NODELAY only there, and without it each answer of two parts would wait 40 ms for an acknowledgement."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


async def _stop(server: uvicorn.Server) -> None:
    """Close it like ``shutdown``, which sleeps for a while in any case: here, at most as long as something is open."""
    for each in server.servers:
        each.close()
    state = server.server_state
    for connection in list(state.connections):
        connection.shutdown()
    deadline = time.monotonic() + 0.2
    while (state.connections or state.tasks) and time.monotonic() < deadline:  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.001)


@asynccontextmanager
async def served(
    app: Holdfast, *, settings: ServerSettings | None = None, server: Server | None = None
) -> AsyncIterator[str]:
    """The address of a server of this engine, which is open."""
    server = server or Server(app, settings=settings)
    async with listening(server.asgi) as address:
        try:
            yield address
        finally:
            await server.stop_streams()


def person(address: str, token: str | None) -> httpx.AsyncClient:
    """A client of somebody with this token."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    # It speaks no TLS: to read the certificates of the system would take longer than most tests.
    return httpx.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False, verify=False)


async def token_of(
    app: Holdfast, tenant: str, name: str, level: int, *, groups: Sequence[str] = (), scope: Sequence[str] = ()
) -> str:
    """Make a user of a tenant, and a token for them."""
    known = [each.name async for each in app.tenants.list()]
    if tenant not in known:
        await app.tenants.create(tenant, by="root")
    await app.users.create(name, level=level, groups=groups, tenant=tenant, by="root")
    return (await app.tokens.mint(name, scope=scope, tenant=tenant, by="root")).text

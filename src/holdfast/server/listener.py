"""The listener: uvicorn on one address, inside a loop that somebody else runs.

It installs no signal handlers, so whoever runs the loop decides when it stops. It stops in this order: no new
connections, all streams end at once, requests that wait are answered, and then what is left is cut off. Its limits for
connections and requests are in ``protection/connections.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator
from typing import Final, Protocol

import uvicorn
from starlette.types import ASGIApp

from holdfast.errors import AddressTaken, InvalidRequest
from holdfast.server.protection.connections import Connections
from holdfast.server.protection.origins import is_loopback
from holdfast.server.settings import ServerSettings

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8420
GRACE_SECONDS: Final = 10

WAITING: Final = 512
"""Connections that the system keeps until they are accepted."""


class _Quiet(uvicorn.Server):
    """uvicorn without its own handling of signals, with limits for its connections."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        self._connections.check(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listened(Protocol):
    """What a listener serves."""

    @property
    def asgi(self) -> ASGIApp: ...
    @property
    def is_open_to_all(self) -> bool:
        """Whether it asks nobody who they are: then it must not be reached from elsewhere."""
        ...

    @property
    def settings(self) -> ServerSettings: ...

    async def stop_streams(self) -> None:
        """End what would not end by itself."""
        ...


class Listener:
    """Serves a server's application on one address."""

    def __init__(
        self, server: Listened, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, *, root_path: str = ""
    ) -> None:
        self._server = server
        self._socket = _bound(host, port, is_open=server.is_open_to_all)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self.connections = Connections(server.settings)
        config = uvicorn.Config(
            server.asgi,
            http=self.connections.protocol,  # type: ignore[arg-type]  # it is called as the class would be
            ws="none",
            lifespan="off",
            backlog=self.connections.accepted_at_once,
            log_config=None,
            access_log=False,
            proxy_headers=False,  # whose word counts is for the server to say: see protection/proxies.py
            server_header=False,
            root_path=root_path.rstrip("/"),
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # the command says the rest
        self._uvicorn = _Quiet(config, self.connections)
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """Where it is to be found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self._uvicorn.config.root_path}/"

    async def start(self) -> None:
        """Begin to answer. The engine must be open."""
        self._task = asyncio.create_task(self._uvicorn.serve([self._socket]), name="holdfast-listener")
        while not self._uvicorn.started and not self._task.done():  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.005)
        self._socket.listen(WAITING)  # uvicorn makes it as short as what it accepts at once

    async def stop(self) -> None:
        """Stop answering. Safe to call twice, and before ``start``."""
        await self._server.stop_streams()
        self._uvicorn.should_exit = True
        if self._task is not None:
            await self._task
        self._socket.close()


def _bound(host: str, port: int, *, is_open: bool) -> socket.socket:
    """A socket on the address. Raises AddressTaken, and InvalidRequest for one that must not be open to all."""
    if is_open and not is_loopback(host):
        raise InvalidRequest(
            f"a server that asks nobody who they are listens on 127.0.0.1 only, not on {host}: make users and tokens, "
            "and leave --no-auth out."
        )
    found: socket.socket | None = None
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(WAITING)
    except OSError as error:
        if found is not None:
            found.close()
        taken = error.errno == errno.EADDRINUSE
        reason = "another process listens there: stop it, or choose another --port" if taken else str(error)
        raise AddressTaken(f"{host}:{port} cannot be listened on: {reason}.") from error
    found.setblocking(False)
    return found

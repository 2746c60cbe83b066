"""Raw connections to a server on a real listener."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings
from holdfast.server.listener import Listener
from tests.serving import token_of
from tests.unit.server.test_runs import WORKFLOWS

KIB = 1024
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


class Caller:
    """One raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        """Send each part by itself, as far as the other end reads it."""
        for part in parts:
            self.writer.write(part)
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()
            await asyncio.sleep(0)

    def reset(self) -> None:
        """Leave at once, without a proper end."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def answer(self) -> tuple[int, bytes]:
        """The next answer: its status and body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """All that still comes, until the other end closes the connection."""
        return await self.reader.read()


class Served:
    """A server on a real listener."""

    def __init__(self, server: Server, listener: Listener, token: str) -> None:
        self.server = server
        self.listener = listener
        self.port = listener.port
        self._token = token.encode()

    def signed(self, parts: Iterable[bytes]) -> list[bytes]:
        """The parts of a request with a real token in the place of TOKEN."""
        return [part.replace(b"TOKEN", self._token) for part in parts]

    @asynccontextmanager
    async def caller(self, from_address: str = "127.0.0.1", **options: Any) -> AsyncIterator[Caller]:
        local = (from_address, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=local, **options)
        try:
            yield Caller(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def has_connections(self, count: int) -> None:
        """Wait until so many are open."""
        while len(self.listener.connections) != count:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.005)

    async def is_idle(self) -> None:
        """Wait until no request is worked on, and none has left anything."""
        await self.has_connections(0)
        while self._is_busy:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.005)

    @property
    def _is_busy(self) -> bool:
        tasks = any("run_asgi" in repr(each) for each in asyncio.all_tasks())
        return tasks or self.server.watcher.open_streams > 0

    async def is_well(self) -> bool:
        async with self.caller() as other:
            await other.send(GET + b"\r\n")
            return (await other.answer())[0] == 200


@asynccontextmanager
async def listening(**settings: Any) -> AsyncIterator[Served]:
    """A listener with these settings; its answers come within some seconds."""
    async with Holdfast("memory://", workflows=WORKFLOWS) as app, asyncio.timeout(20):
        token = await token_of(app, "acme", "ann", 4)
        server = Server(app, settings=msgspec.convert(settings, ServerSettings))
        listener = Listener(server, port=0)
        await listener.start()
        try:
            yield Served(server, listener, token)
        finally:
            await listener.stop()


def in_parts(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]

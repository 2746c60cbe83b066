"""A way to a PostgreSQL server that tests cut and mend: the network between one process and the server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

SOCKET = ".s.PGSQL.5432"


class Proxy:
    """Listens in a folder of its own, which is a host in a URL, and passes everything on to a server's folder."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder = folder
        self._server = server
        self._open = asyncio.Event()
        self._open.set()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None

    async def __aenter__(self) -> Proxy:
        self.folder.mkdir(exist_ok=True)
        self._listening = await asyncio.start_unix_server(self._serve, self.folder / SOCKET)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listening is not None
        self._listening.close()
        self.cut(silently=False)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, *, silently: bool) -> None:
        """Cut the network. ``silently``, nothing arrives any more; otherwise connections are closed, and refused."""
        self._open.clear()
        self._refuses = not silently
        if not silently:
            self._close_all()

    def mend(self) -> None:
        """What was on its way in a silent network is lost: such connections are closed, and new ones work."""
        self._close_all()
        self._refuses = False
        self._open.set()

    def _close_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._pass(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            return
        await self._open.wait()  # a silent network: the connection stands, and nothing comes of it
        if writer.is_closing():
            return
        behind, ahead = await asyncio.open_unix_connection(self._server / SOCKET)
        self._writers.add(ahead)
        try:
            ways = [asyncio.ensure_future(self._pipe(reader, ahead)), asyncio.ensure_future(self._pipe(behind, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._writers.discard(ahead)
            ahead.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()

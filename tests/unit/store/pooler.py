"""A small connection pooler for tests: it gives sessions with a real server to clients, by session or by transaction.

It speaks as much of PostgreSQL's protocol as it takes to see where a transaction ends, and shares as pgbouncer does:
the session that was used last is the first to be given again. It knows no passwords.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

Mode = Literal["session", "transaction"]


class Session(NamedTuple):
    """The pooler's own session with the server, and the server's first messages."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    greeting: bytes


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next message: its kind, and all of its bytes."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(struct.unpack("!i", head[1:])[0] - 4)


class Client:
    """A client, and the session that it has at the moment."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.session: Session | None = None
        self.answers: asyncio.Task[None] | None = None


class Pooler:
    """Sits in front of one database of the server whose socket is in ``folder``."""

    def __init__(self, folder: str, database: str, mode: Mode) -> None:
        self._path = f"{folder}/.s.PGSQL.5432"
        self._database = database
        self._mode = mode
        self._free: list[Session] = []
        self._all: list[Session] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client, until it leaves."""
        client = Client(writer)
        try:
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            await reader.readexactly(length - 4)
            session = await self._take()
            self._free.append(session)
            writer.write(session.greeting)
            while True:
                kind, sent = await message(reader)
                if kind == b"X":
                    return
                if client.session is None:
                    client.session = await self._take()
                    client.answers = asyncio.create_task(self._answer(client, client.session))
                client.session.writer.write(sent)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if client.answers is not None:
                client.answers.cancel()
            if client.session is not None:
                client.session.writer.close()

    async def close(self) -> None:
        for session in self._all:
            session.writer.close()
            with suppress(ConnectionError):
                await session.writer.wait_closed()

    async def _answer(self, client: Client, session: Session) -> None:
        """Pass on the server's messages. At the end of a transaction another client may get the session."""
        while True:
            kind, data = await message(session.reader)
            ended = kind == b"Z" and data[-1:] == b"I" and self._mode == "transaction"
            if ended:
                client.session = None
                self._free.append(session)
            client.writer.write(data)
            if ended:
                return

    async def _take(self) -> Session:
        if self._free:
            return self._free.pop()
        reader, writer = await asyncio.open_unix_connection(self._path)
        parameters = f"user\0postgres\0database\0{self._database}\0client_encoding\0UTF8\0\0".encode()
        writer.write(struct.pack("!ii", len(parameters) + 8, 196608) + parameters)
        greeting = b""
        while True:
            kind, data = await message(reader)
            greeting += data
            if kind == b"Z":
                made = Session(reader, writer, greeting)
                self._all.append(made)
                return made


@asynccontextmanager
async def pooled(server: str, database: str, folder: Path, mode: Mode) -> AsyncIterator[str]:
    """The URL of a database through a pooler, whose socket is in ``folder``."""
    pooler = Pooler(server, database, mode)
    listening = await asyncio.start_unix_server(pooler.serve, f"{folder}/.s.PGSQL.5432")
    try:
        yield f"postgresql://postgres@/{database}?host={folder}"
    finally:
        listening.close()
        await pooler.close()

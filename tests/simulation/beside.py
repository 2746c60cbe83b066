"""SQLite and PostgreSQL beside the store in memory: see ``lockstep``. Their leases go by the virtual clock, too.

``STORE=sqlite`` or ``STORE=postgres`` with ``make sim``, ``sagas``, ``mixtures`` and ``definitions`` plays seeds so.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from holdfast.runs.lanes import parse_lane
from holdfast.store import protocol as p
from holdfast.store.postgres.connection import driver
from holdfast.store.postgres.sql import SQL as POSTGRES
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite import usual_deliveries, usual_turns
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.postgres import PostgresServer, server
from tests.simulation.lockstep import Clock, compared

ANSWER_SECONDS: Final = 60.0
REAL_CLOCK: Final = "clock_timestamp()"
VIRTUAL_CLOCK: Final = "virtual_now()"
MAKE_CLOCK: Final = """
CREATE TABLE virtual_clock (at bigint NOT NULL);
INSERT INTO virtual_clock VALUES (0);
CREATE FUNCTION virtual_now() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$ SELECT timestamptz 'epoch' + at * interval '1 microsecond' FROM virtual_clock $$;
"""

NOT_NOTED: Final = "NOT EXISTS (SELECT FROM audit WHERE audit.tenant = given.tenant AND audit.id = given.id)"
"""Entries that are there already take no number, as in memory: else the numbers of later ones are others."""


class SqliteBeside:
    """SQLite in a file. On a virtual loop it has no thread."""

    def __init__(self, path: Path) -> None:
        self._store = SqliteStore(str(path))

    async def ask(self, operation: str, *args: Any, **named: Any) -> Any:
        return await getattr(self._store, operation)(*args, **named)

    def order(self, batch: Sequence[p.Change]) -> list[list[int]]:
        """Usual deliveries come last."""
        return [sorted(range(len(batch)), key=lambda at: type(batch[at]) is p.Deliver)]

    def set_checkpoint(self, key: p.Key, data: bytes | None) -> None:
        drop, change = "DELETE FROM checkpoints", "UPDATE checkpoints SET data = :data"
        statement = f"{drop if data is None else change} WHERE tenant = :tenant AND run = :run"
        with contextlib.closing(sqlite3.connect(self._store.path)) as connection, connection:
            assert connection.execute(statement, {**key._asdict(), "data": data}).rowcount == 1

    def end(self) -> None:
        for connection in (self._store._writer, self._store._reader):
            if connection is not None:
                connection.close()


class PostgresBeside:
    """PostgreSQL, on a loop of its own in another thread: a virtual loop does no I/O. Whoever asks stands still."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = clock
        self._told = -1
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._store = PostgresStore(url)
        self._side = self._wait(driver().connect(url, timeout=ANSWER_SECONDS))
        self._wait(self._side.execute(MAKE_CLOCK))

    def _wait(self, work: Awaitable[Any]) -> Any:
        async def done() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(ANSWER_SECONDS)

    async def ask(self, operation: str, *args: Any, **named: Any) -> Any:
        now = self._clock()
        if now != self._told:
            self._wait(self._side.execute("UPDATE virtual_clock SET at = $1", now))
            self._told = now
        return self._wait(getattr(self._store, operation)(*args, **named))

    def order(self, batch: Sequence[p.Change]) -> list[list[int]]:
        """What concerns one run, or lanes of one machine, is in several parts: a set is made kind by kind."""
        parts: list[list[int]] = []
        seen: set[tuple[str, str]] = set()
        for at, change in enumerate(batch):
            concerned = set(_concerned(change))
            if not parts or concerned & seen:
                parts.append([])
                seen = set()
            parts[-1].append(at)
            seen |= concerned
        return parts

    def set_checkpoint(self, key: p.Key, data: bytes | None) -> None:
        where = "WHERE tenant = $1 AND run = $2"
        if data is None:
            done = self._wait(self._side.execute(f"DELETE FROM checkpoints {where}", *key))
        else:
            done = self._wait(self._side.execute(f"UPDATE checkpoints SET data = $3 {where}", *key, data))
        assert done.endswith(" 1")

    def end(self) -> None:
        self._wait(self._store.close())
        self._wait(self._side.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _concerned(change: p.Change | p.Act) -> Iterator[tuple[str, str]]:
    """The runs that a change is about. Lanes of a machine are one: messages are forwarded between them."""
    key = getattr(change, "key", None)
    if isinstance(key, p.Key):
        lane = parse_lane(key.run)
        yield key.tenant, key.run if lane is None else lane[0]
    for each in (*getattr(change, "attached", ()), *getattr(change, "changes", ())):
        yield from _concerned(each)


@contextlib.contextmanager
def beside_sqlite(seed: int) -> Iterator[None]:
    """Compare with SQLite. By the seed, few turns and deliveries of a batch are usual, or many. Raises StoresDiffer."""
    few = random.Random(seed).choice((1, 2, 8))
    clocks: list[Clock] = []
    virtual = SimpleNamespace(time_ns=lambda: clocks[-1]() * 1000, monotonic=time.monotonic)

    def make(clock: Clock) -> SqliteBeside:
        clocks.append(clock)
        return SqliteBeside(Path(folder) / f"{len(clocks)}.db")

    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(sqlite_store, "time", virtual),
        mock.patch.object(usual_turns, "FEWEST", few),
        mock.patch.object(usual_deliveries, "FEWEST", few),
        compared(make),
    ):
        yield


@contextlib.contextmanager
def beside_postgres(postgres: PostgresServer) -> Iterator[None]:
    """Compare with PostgreSQL. Raises StoresDiffer."""
    changed = {name: text.replace(REAL_CLOCK, VIRTUAL_CLOCK) for name, text in POSTGRES.items() if REAL_CLOCK in text}
    changed["note_once"] = POSTGRES["note_once"].replace("ORDER BY ordinal", f"WHERE {NOT_NOTED} ORDER BY ordinal")
    with mock.patch.dict(POSTGRES, changed), compared(lambda clock: PostgresBeside(postgres.schema_url(), clock)):
        yield


@contextlib.contextmanager
def chosen_store(seed: int) -> Iterator[None]:
    """As the environment says: in memory alone, or with another store beside it."""
    with contextlib.ExitStack() as stack:
        match os.environ.get("STORE"):
            case "sqlite":
                stack.enter_context(beside_sqlite(seed))
            case "postgres":
                stack.enter_context(beside_postgres(stack.enter_context(server())))
        yield

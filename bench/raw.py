"""The raw limit: W1's events appended by a bare loop that encodes and group-commits them, without an engine.

There is one task for each run. It appends one segment per turn, ten turns of five events, and waits until a segment is
durable before it appends the next, as a step must wait for its intent. There is no kernel, program, lease or hash.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.journal import events as e
from holdfast.journal.codec import encode_segment
from holdfast.journal.payload import Ok, Payload, RetryPolicy
from holdfast.journal.promise import PromiseId

TABLE = "CREATE TABLE segments (run TEXT, first BIGINT, count BIGINT, events {bytes}, PRIMARY KEY (run, first))"

Row = tuple[str, int, int, bytes]


class SqliteLog:
    """Appends to a file in WAL mode with ``synchronous=FULL``."""

    async def open(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        self._connection = sqlite3.connect(f"/{path.lstrip('/')}", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(TABLE.format(bytes="BLOB"))
        self._thread = ThreadPoolExecutor(1)

    async def append(self, rows: list[Row]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO segments VALUES (?, ?, ?, ?)", rows)
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.execute, "COMMIT")


class PostgresLog:
    """Appends sets of rows, one statement each, with the server's default durability."""

    async def open(self, url: str) -> None:
        import asyncpg

        self._connection: Any = await asyncpg.connect(url)
        await self._connection.execute(TABLE.format(bytes="BYTEA"))

    async def append(self, rows: list[Row]) -> None:
        await self._connection.execute(
            "INSERT INTO segments SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])",
            *zip(*rows, strict=True),
        )


class Group:
    """Group commit: while one commit is under way, rows are gathered for the next."""

    def __init__(self, log: SqliteLog | PostgresLog) -> None:
        self._log = log
        self._waiting: list[tuple[Row, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self.commits = 0

    async def append(self, row: Row) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._waiting.append((row, done))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._commit())
        await done

    async def _commit(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            await self._log.append([row for row, _ in group])
            self.commits += 1
            for _, done in group:
                done.set_result(None)


def turn_events(root: PromiseId, position: int) -> list[e.Event]:
    """The journal's events for the completion of one step and the intent of the next."""
    promise, following = root.child(position), root.child(position + 1)
    return [
        e.InvokeCompleted(promise, Ok(Payload(b"\x01")), 1),
        e.ExecutionResumed(),
        e.InvokeScheduled(following, "step", "work", Payload(b"\x82\x81\x01\xa0"), RetryPolicy()),
        e.InvokeStarted(following, 1),
        e.ExecutionAwaiting((following,), e.Single()),
    ]


async def append_all(group: Group, runs: int, steps: int) -> None:
    async def one(number: int) -> None:
        root = PromiseId.of_run("digest", None, f"run-{number}")
        for step in range(steps):
            now = time.time_ns() // 1000
            segment = encode_segment([(now, event) for event in turn_events(root, step)], now)
            await group.append((f"run-{number}", step * 5, 5, segment))

    await asyncio.gather(*(one(number) for number in range(runs)))


async def main(parameters: dict[str, Any]) -> dict[str, float]:
    url, runs, steps = parameters["url"], parameters["runs"], parameters["steps"]
    log = SqliteLog() if url.startswith("sqlite") else PostgresLog()
    await log.open(url)
    group = Group(log)
    begun = time.perf_counter()
    await append_all(group, runs, steps)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "steps_per_second": runs * steps / seconds, "commits": group.commits}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[2])))), flush=True)

"""Two engines on one store: whatever carries the hints, each learns at once what the other did.

Nobody looks at the store without a hint here: the looks that make up for lost hints come after an hour. Where a driver
is judged, the store itself hints nobody, as behind a pooler that swallows LISTEN.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, WorkerOptions, receive, step, workflow
from holdfast.client import waiters
from holdfast.store.memory import MemoryStore
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.protocol import Store
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.redis import RedisServer
from holdfast.wakeups.driver import Wakeups
from holdfast.worker.roles import claimer
from holdfast.worker.steps import taker
from tests.unit.wakeups.board import Board, BoardWakeups

SECONDS = 60.0


class SilentMemory(MemoryStore):
    """A memory store that hints nobody."""

    def twin(self) -> SilentMemory:
        twin = SilentMemory(self._clock)
        twin._tables = self._tables
        return twin

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class SilentSqlite(SqliteStore):
    """A SQLite store that hints nobody."""

    def twin(self) -> SilentSqlite:
        return SilentSqlite(self.path)

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class SilentPostgres(PostgresStore):
    """A PostgreSQL store that hints nobody."""

    def watch(self, hint: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


@workflow
async def wakeups_add(number: int) -> int:
    return number + 1


@workflow
async def wakeups_wait() -> str:
    return await receive("go", str)


@step(queue="wakeups")
async def wakeups_queued(number: int) -> int:
    return number * 2


@workflow
async def wakeups_queue(number: int) -> int:
    return await wakeups_queued(number)


_begun: list[int] = []


@step
async def wakeups_held() -> str:
    _begun.append(1)
    if len(_begun) > 1:
        return "done by another"
    await asyncio.Event().wait()
    raise AssertionError("nobody ends this wait")


@workflow
async def wakeups_hold() -> str:
    return await wakeups_held()


@pytest.fixture(autouse=True)
def _nobody_looks_without_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (claimer, taker, waiters):
        monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)


CARRIERS = ["memory", "sqlite", "postgres", "board+memory", "redis+memory", "redis+sqlite", "redis+postgres"]


@pytest.fixture(params=CARRIERS)
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer, redis: RedisServer
) -> Callable[..., Holdfast]:
    carrier, _, named = request.param.rpartition("+")
    silent = bool(carrier)
    board, memory = Board(), SilentMemory() if silent else MemoryStore()
    path, url = str(tmp_path / "holdfast.db"), postgres.schema_url() if named == "postgres" else ""

    def store() -> Store:
        match named:
            case "memory":
                return memory.twin()
            case "sqlite":
                return SilentSqlite(path) if silent else SqliteStore(path)
            case _:
                return SilentPostgres(url) if silent else PostgresStore(url)

    def wakeups() -> str | Wakeups | None:
        match carrier:
            case "redis":
                return redis.url
            case "board":
                return BoardWakeups(board)
            case _:
                return None

    def make(**options: Any) -> Holdfast:
        return Holdfast(store(), wakeups=wakeups(), **options)

    return make


def _run(main: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await main

    asyncio.run(bounded())


def test_a_run_started_in_one_process_is_done_in_another_and_its_end_is_heard(engine: Callable[..., Holdfast]) -> None:
    """Both ways: the idle worker is woken, and so is whoever waits for the result. Twice, so that it was idle once."""

    async def main() -> None:
        async with engine() as _, engine(worker=False) as client:
            for number in (1, 2):
                run = await client.start(wakeups_add, number)
                assert await run.result() == number + 1

    _run(main())


def test_a_signal_and_a_cancellation_reach_the_worker_of_another_process(engine: Callable[..., Holdfast]) -> None:
    """Whatever a client changes."""

    async def main() -> None:
        async with engine() as _, engine(worker=False) as client:
            one = await client.start(wakeups_wait, id="one")
            other = await client.start(wakeups_wait, id="other")
            for run in (one, other):
                while await run.status() != "waiting":
                    await client.changed(0.05)
            await one.signal("go", "on")
            assert await one.result() == "on"
            await other.cancel()
            while await other.status() != "cancelled":
                await client.changed(0.05)

    _run(main())


def test_queued_work_goes_to_the_worker_that_serves_the_queue_and_back(engine: Callable[..., Holdfast]) -> None:
    """Between two workers."""

    async def main() -> None:
        body = engine(options=WorkerOptions(queues={}))
        hands = engine(options=WorkerOptions(queues={"wakeups": 4}), workflows=[])
        async with body, hands, engine(worker=False) as client:
            assert await (await client.start(wakeups_queue, 21)).result() == 42

    _run(main())


def test_what_a_worker_gives_back_is_taken_by_another(engine: Callable[..., Holdfast]) -> None:
    """A worker that stops announces it."""

    async def main() -> None:
        _begun.clear()
        first, second = engine(options=WorkerOptions(queues={})), engine(options=WorkerOptions(queues={}))
        async with engine(worker=False) as client:
            await first.open()
            run = await client.start(wakeups_hold)
            while not _begun:
                await client.changed(0.05)
            async with second:
                await first.close(0)
                assert await run.result() == "done by another"

    _run(main())


@pytest.mark.parametrize("how", ["lost", "doubled", "late"])
def test_hints_that_are_lost_doubled_or_late_change_nothing_but_latency(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run ends as it should, once."""
    for module in (claimer, taker, waiters):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.2)

    async def main() -> None:
        board, store = Board(), SilentMemory()
        setattr(board, how, 0.8)
        async with (
            Holdfast(store.twin(), wakeups=BoardWakeups(board)),
            Holdfast(store.twin(), wakeups=BoardWakeups(board)),
            Holdfast(store.twin(), wakeups=BoardWakeups(board), worker=False) as client,
        ):
            runs = [await client.start(wakeups_queue, number) for number in range(20)]
            assert [await run.result() for run in runs] == [2 * number for number in range(20)]
            counts = await client.counts()
            assert [(count.status, count.count) for count in counts] == [("completed", 20)]

    _run(main())


def test_many_commits_are_few_messages() -> None:
    """Three hundred starts one after the other, and no message for most of them."""

    async def main() -> None:
        board, store = Board(), SilentMemory()
        async with Holdfast(store, wakeups=BoardWakeups(board), worker=False) as client:
            for number in range(300):
                await client.start(wakeups_add, number)
            assert client.committer.commits >= 300
        assert 1 <= len(board.messages) <= client.committer.commits / 2
        assert board.most_under_way == 1

    _run(main())


def test_a_driver_that_hangs_or_fails_delays_no_commit() -> None:
    """Neither the commit nor its answer waits for it."""

    async def main() -> None:
        board, store = Board(), SilentMemory()
        board.seconds = 3600.0
        client = Holdfast(store.twin(), wakeups=BoardWakeups(board), worker=False)
        await client.open()
        board.refusal = RuntimeError("a driver with a defect")
        for number in range(50):
            await client.start(wakeups_add, number)
        assert board.messages == []
        await client.close()

    _run(main())


def test_two_databases_on_one_broker_do_not_wake_each_other(redis: RedisServer, tmp_path: Path) -> None:
    """Whoever shares the database is woken, and nobody else."""

    async def main() -> None:
        paths = [str(tmp_path / f"{name}.db") for name in ("one", "two")]
        heard = asyncio.Event()
        async with (
            Holdfast(SilentSqlite(paths[0]), wakeups=redis.url, worker=False) as one,
            Holdfast(SilentSqlite(paths[0]), wakeups=redis.url, worker=False) as neighbour,
            Holdfast(SilentSqlite(paths[1]), wakeups=redis.url, worker=False) as stranger,
        ):
            for engine, hints in ((neighbour, neighbour_hints := []), (stranger, stranger_hints := [])):
                _count(engine, hints, heard)
                await _heard(heard)
            before = len(stranger_hints)
            await one.start(wakeups_add, 1)
            await _heard(heard)
            assert len(neighbour_hints) == 2
            assert len(stranger_hints) == before

    async def _heard(event: asyncio.Event) -> None:
        await event.wait()
        event.clear()

    def _count(engine: Holdfast, hints: list[int], event: asyncio.Event) -> None:
        exchange = engine.neighbours.exchange
        assert exchange is not None
        exchange._hint = lambda: (hints.append(1), event.set())
        engine.neighbours.listen()

    _run(main())

"""What only PostgreSQL brings with it: crashes of the server, locks, notifications, sets instead of single rows."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.errors import SchemaTooNew, StoreReadOnly, StoreUnavailable, UnsupportedStore
from holdfast.store import protocol as p
from holdfast.store.postgres.changes import SET_SIZE, Writer, apply
from holdfast.store.postgres.connection import connect
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.postgres import PostgresServer, server
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    RUNNING,
    WORKFLOW,
    begun,
    commit,
    deliver,
    key,
    leased,
    renewal,
    row,
    start,
    turn,
    work,
    worker,
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server that may be stopped."""
    with server(own=True) as running:
        yield running


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.schema_url()


@asynccontextmanager
async def opened(*urls: str, pool_size: int = 6) -> AsyncIterator[list[PostgresStore]]:
    stores = [PostgresStore(url, pool_size=pool_size) for url in urls]
    try:
        for store in stores:
            await store.open()
        yield stores
    finally:
        for store in stores:
            await store.close()


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """Ask again until it is so; the test's own time limit ends it otherwise."""
    while not await condition():  # noqa: ASYNC110  # what is asked for lives in another process
        await asyncio.sleep(0.02)


async def raw(url: str, statement: str, *values: Any) -> list[Any]:
    connection = await connect(url)
    try:
        found: list[Any] = await connection.fetch(statement, *values)
        return found
    finally:
        await connection.close()


# -- the server comes and goes -------------------------------------------------------------------------------------


def test_a_store_outlives_a_crash_of_its_server(postgres: PostgresServer, url: str) -> None:
    """While the server is away every operation is StoreUnavailable; afterwards all that was answered is there."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.register(worker(), 3600)
            run = await leased(store)
            postgres.stop("immediate")
            try:
                for operation in (
                    store.commit([turn(run)]),
                    store.get([key()]),
                    store.beat("ann", 1),
                    store.rescue(NOW),
                ):
                    with pytest.raises(StoreUnavailable):
                        await operation
            finally:
                postgres.start()
            assert await store.beat("ann", 3600)
            assert await row(store) == run
            assert isinstance(await commit(store, turn(run)), p.Advanced)

    asyncio.run(judge())


def test_a_crash_of_the_server_costs_no_worker_its_life(postgres: PostgresServer, url: str) -> None:
    """All locks are lost at once, and nobody who is about to take his again is taken for dead."""

    async def judge() -> None:
        async with opened(url, url) as (ann, bob):
            await ann.register(worker("ann"), 3600)
            await bob.register(worker("bob"), 3600)
            await raw(url, "UPDATE workers SET beat_at = 0")
            postgres.stop("immediate")
            with pytest.raises(StoreUnavailable):
                await bob.rescue(NOW)
            postgres.start()
            assert await bob.rescue(NOW) == []
            await until(lambda: held(url, "ann"))
            await until(lambda: held(url, "bob"))

    asyncio.run(judge())


def test_a_watch_goes_on_after_the_server_was_away(postgres: PostgresServer, url: str) -> None:
    """What was announced meanwhile is lost, so the watcher is hinted at as soon as it hears again."""

    async def judge() -> None:
        async with opened(url, url) as (store, other):
            hinted = asyncio.Event()
            store.watch(hinted.set)
            await hinted.wait()
            hinted.clear()
            postgres.stop("immediate")
            postgres.start()
            await hinted.wait()
            hinted.clear()
            await until(lambda: _answers(other))
            await commit(other, start())
            await hinted.wait()

    asyncio.run(judge())


async def _answers(store: PostgresStore) -> bool:
    try:
        await store.workers()
    except StoreUnavailable:
        return False
    return True


def test_a_cancelled_caller_leaves_the_pool_whole(url: str) -> None:
    """Whatever is cut off, at whatever point, the next operation finds a connection that works."""

    async def judge() -> None:
        async with opened(url, pool_size=1) as (store,):
            await leased(store)
            for delay in range(30):
                batch = [deliver(), p.Enqueue(work(delay)), start(f"child {delay}")]
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(delay / 10_000):
                        await store.commit(batch)
                        await asyncio.Event().wait()
            assert (await row(store)).arrived == len((await store.messages([key()]))[key()])
            assert (await store.facts()).runs["queued"] == len(await store.find(p.Query(), 100))

    asyncio.run(judge())


# -- opening -------------------------------------------------------------------------------------------------------


def test_a_newer_schema_is_refused(url: str) -> None:
    """What a newer Holdfast wrote is left alone, with migrations or without."""

    async def judge() -> None:
        async with opened(url):
            await raw(url, "INSERT INTO holdfast_schema (number, name) VALUES (1000, 'later')")
        for migrate in (True, False):
            with pytest.raises(SchemaTooNew):
                await PostgresStore(url).open(migrate=migrate)

    asyncio.run(judge())


def test_workers_may_open_an_empty_database_together(url: str) -> None:
    """The schema is made once, under a lock."""

    async def judge() -> None:
        stores = [PostgresStore(url) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        assert [row[0] for row in await raw(url, "SELECT number FROM holdfast_schema")] == [1]
        for store in stores:
            await store.close()

    asyncio.run(judge())


def test_an_empty_database_is_not_opened_without_migrations(url: str) -> None:
    """A client changes nothing: it says that nothing is there."""
    with pytest.raises(UnsupportedStore, match="start a worker"):
        asyncio.run(PostgresStore(url).open(migrate=False))


def test_an_unknown_database_says_what_to_do(url: str) -> None:
    """That is for the operator, and never simply tried again."""
    with pytest.raises(UnsupportedStore, match="create the database"):
        asyncio.run(PostgresStore(url.replace("/holdfast_", "/no_such_")).open())


def test_a_database_that_refuses_writes_says_so(url: str) -> None:
    """A standby or a read-only session can be read, and writing is an OperatorError."""

    async def judge() -> None:
        async with opened(url):
            store = PostgresStore(f"{url}&default_transaction_read_only=on")
            await store.open(migrate=False)
            with pytest.raises(StoreReadOnly):
                await commit(store, start())
            assert await store.find(p.Query(), 1) == []
            await store.close()

    asyncio.run(judge())


def test_without_the_driver_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL is an extra."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(UnsupportedStore, match=r"pip install holdfast\[postgres\]"):
        asyncio.run(PostgresStore("postgresql://localhost/holdfast").open())


# -- other processes -----------------------------------------------------------------------------------------------


def test_announcements_stay_in_their_schema(postgres: PostgresServer) -> None:
    """A commit wakes the other stores of its schema: not itself, and not the neighbours in the same database."""

    async def judge() -> None:
        url = postgres.url()
        await raw(url, "CREATE SCHEMA neighbour")
        heard: list[str] = []
        arrived = asyncio.Event()
        async with opened(url, url, f"{url}&search_path=neighbour") as (here, there, elsewhere):
            for name, store in (("here", here), ("elsewhere", elsewhere), ("there", there)):
                ready = asyncio.Event()
                stop = store.watch(ready.set)
                await ready.wait()
                stop()
                store.watch(lambda name=name: (heard.append(name), arrived.set()))  # type: ignore[misc]
            await commit(here, start())
            await arrived.wait()
            # Notifications come in the order of commits: whoever hears a later one has heard the first, or never will.
            arrived.clear()
            await commit(elsewhere, start())
            await commit(there, start("two"))
            while "here" not in heard:
                await arrived.wait()
                arrived.clear()
            assert heard == ["there", "here"]

    asyncio.run(judge())


_WORKER = """
import asyncio, sys
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.stores.samples import leased, worker

async def live():
    store = PostgresStore(sys.argv[1])
    await store.open()
    await store.register(worker("doomed"), 3600)
    await leased(store, owner="doomed")
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(live())
"""


def test_a_killed_worker_is_rescued_long_before_it_expires(url: str) -> None:
    """The server drops the lock with the session of a process that died; one whose session stands is left alone."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.register(worker("ann"), 3600)
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", _WORKER, url, stdout=subprocess.PIPE)
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            assert await store.rescue(NOW) == []
            process.send_signal(signal.SIGKILL)
            await process.wait()
            rescued: list[str] = []

            async def found() -> bool:
                rescued.extend(await store.rescue(NOW))
                return bool(rescued)

            await until(found)
            assert rescued == ["doomed"]
            assert ((await row(store)).owner, (await row(store)).crashes) == (None, 1)

    asyncio.run(judge())


def test_a_lost_session_is_taken_up_again(url: str) -> None:
    """A worker that lives stays present: its next beat at the latest holds the lock again."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.register(worker("ann"), 3600)
            assert await held(url, "ann")
            await raw(url, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
            assert await store.beat("ann", 3600)
            await until(lambda: held(url, "ann"))
            await raw(url, "UPDATE workers SET beat_at = beat_at - 1100000")
            assert await store.rescue(NOW) == []

    asyncio.run(judge())


async def held(url: str, name: str) -> bool:
    """Whether somebody holds a worker's lock, tried out by taking it."""
    taken = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))"
    return not (await raw(url, taken, name))[0][0]


def test_workers_that_claim_together_share_the_runs(url: str) -> None:
    """Every run is leased once, whoever asks and however often at the same time."""

    async def judge() -> None:
        async with opened(url, url, url) as stores:
            await stores[0].commit([start(f"run {number}") for number in range(300)])

            async def claim(number: int) -> list[str]:
                mine: list[str] = []
                while claimed := (await stores[number % 3].claim(f"worker {number}", [WORKFLOW], 7, NOW)).runs:
                    mine += [run.key.run for run in claimed]
                return mine

            shares = await asyncio.gather(*(claim(number) for number in range(9)))
            everything = [run for share in shares for run in share]
            assert len(everything) == len(set(everything)) == 300

    asyncio.run(judge())


def test_batches_in_opposite_order_never_wait_in_a_circle(postgres: PostgresServer) -> None:
    """Rows are locked in the order of their keys, whatever the order and the kinds of the changes."""

    async def judge() -> None:
        url = postgres.url()
        async with opened(url, url) as stores:
            runs = [await leased(stores[0], f"run {number:02}") for number in range(20)]

            async def send(number: int, store: PostgresStore) -> None:
                for turn_number in range(25):
                    mine = runs if number else runs[::-1]
                    batch: list[p.Change] = [deliver(run.key.run) for run in mine]
                    if turn_number % 2:
                        batch += [p.Beat(run.key, 1, b"half", NOW) for run in mine[::-1]]
                    await store.commit(batch)

            async def advance() -> None:
                present = runs
                for _ in range(25):
                    await stores[0].commit([turn(run) for run in present[::-1]])
                    present = await stores[0].get([run.key for run in runs])

            await asyncio.gather(send(0, stores[0]), send(1, stores[1]), advance())
            assert {run.arrived for run in await stores[0].get([run.key for run in runs])} == {50}
        # The server counts a session's deadlocks when the session ends.
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database()"
        )
        await until(lambda: _alone(url, query))
        ((deadlocks,),) = await raw(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert deadlocks == 0

    asyncio.run(judge())


async def _alone(url: str, query: str) -> bool:
    return (await raw(url, query))[0][0] == 1


def test_a_message_that_comes_while_its_run_ends_leaves_nothing_behind(url: str) -> None:
    """The ending turn waits for the delivery's lock, and clears what it could not see when it began."""

    async def judge() -> None:
        async with opened(url) as (store,):
            run = await leased(store)
            other = await connect(url)
            async with other.transaction():
                assert await apply(Writer(other, "channel", "other"), [deliver()]) == [p.Delivered(1)]
                ending = asyncio.create_task(commit(store, turn(run, COMPLETED)))
                waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
                await until(lambda: raw(url, waiting))
            await other.close()
            assert await ending == p.Advanced(1, None, True)
            assert await store.messages([key()]) == {key(): []}

    asyncio.run(judge())


# -- sets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "batch"),
    [
        ("start", [start(f"new {number}") for number in range(50)]),
        ("deliver", [deliver(f"run {number % 50}") for number in range(100)]),
        ("enqueue", [p.Enqueue(work(number)) for number in range(50)]),
        ("advance", None),
    ],
)
def test_a_plain_batch_is_one_statement(url: str, kind: str, batch: list[p.Change] | None) -> None:
    """However many changes: one round trip, which is its own transaction."""

    async def judge() -> None:
        async with opened(url, pool_size=1) as (store,):
            await store.commit([start(f"run {number}", owner="ann") for number in range(50)])
            runs = await store.find(p.Query(), 50)
            said: list[str] = []
            async with store._pool.acquire() as connection:
                under = connection._con
            under.add_query_logger(lambda record: said.append(record.query))
            await store.commit(batch if batch is not None else [turn(run, COMPLETED) for run in runs])
            await until(lambda: asyncio.sleep(0, bool(said)))
            assert len(said) == 1, said

    asyncio.run(judge())


def test_a_batch_larger_than_a_set_is_still_one_transaction(url: str) -> None:
    """The answers come in order, and the inbox has the order of the batch."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await begun(store, start())
            count = SET_SIZE * 2 + 1
            answers = await store.commit([deliver(body=str(number)) for number in range(count)])
            assert answers == [p.Delivered(number + 1) for number in range(count)]
            inbox = (await store.messages([key()]))[key()]
            assert [received.message.body for received in inbox] == [str(number).encode() for number in range(count)]
            assert len(await raw(url, "SELECT DISTINCT xmin::text FROM inbox")) == 1

    asyncio.run(judge())


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_answers_as_if_its_changes_came_one_by_one(postgres: PostgresServer, seed: int) -> None:
    """Grouping into sets is not to be seen: answers and rows equal those of the same changes in batches of one."""

    async def judge() -> None:
        async with opened(postgres.schema_url(), postgres.schema_url()) as (together, apart):
            chance = random.Random(seed)
            for store in (together, apart):
                await store.commit([start(name, owner="ann") for name in ("one", "two")])
            for _ in range(8):
                rows = await together.get([key(name) for name in _NAMES])
                batch = [_any_change(chance, rows) for _ in range(chance.randint(2, 12))]
                singly = [answer for change in batch for answer in await apart.commit([change])]
                assert await together.commit(batch) == singly, batch
                assert await _everything(together) == await _everything(apart), batch

    asyncio.run(judge())


_NAMES = ("one", "two", "three")


def _any_change(chance: random.Random, rows: list[p.Run], *, also: bool = True) -> Any:
    name, position = chance.choice(_NAMES), chance.randint(1, 2)
    message = deliver(name, id=chance.choice([None, "x", "y"])).message
    more = tuple(_any_change(chance, rows, also=False) for _ in range(chance.randint(0, 2))) if also else ()
    choices: list[p.Change] = [
        start(name, owner=chance.choice(["ann", None]), also=more, blobs={b"d": b"data"} if also else {}),
        p.Deliver(key(name), message),
        p.Enqueue(work(position, name, attempt=chance.randint(1, 3), body=str(chance.random()))),
        p.Withdraw(key(name), position),
    ]
    if also:
        choices += [
            p.FinishWork(key(name), position, 1, message),
            p.Beat(key(name), position, str(chance.random()).encode(), NOW),
            p.Renew(key(name), chance.randint(0, 1), renewal(), RUNNING, NOW),
        ]
        for run in rows:
            again = renewal(run.generation + 1) if chance.random() < 0.2 else None
            projection = COMPLETED if chance.random() < 0.2 else RUNNING
            release = chance.random() < 0.3
            choices.append(turn(run, projection, also=more, release=release, renewal=again, mark=str(chance.random())))
    return chance.choice(choices)


async def _everything(store: PostgresStore) -> tuple[object, ...]:
    keys = [key(name) for name in _NAMES]
    work_of = [await store.work_of(run) for run in keys]
    progress = [await store.progress_of(run) for run in keys]
    return await store.get(keys), await store.load(keys), work_of, progress

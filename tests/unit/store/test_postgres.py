"""PostgreSQL's own matters: crashes of the server, locks, notifications, sets instead of single rows."""

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
from msgspec.structs import astuple, replace

from holdfast.errors import SchemaTooNew, StoreReadOnly, StoreUnavailable, UnsupportedStore
from holdfast.store import protocol as p
from holdfast.store.postgres.audit import seal as seal_within
from holdfast.store.postgres.changes import apply
from holdfast.store.postgres.cluster import connect
from holdfast.store.postgres.connection import shown
from holdfast.store.postgres.run_list import run_list
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.postgres.writer import SET_SIZE, Writer
from holdfast.store.statements import load_migrations
from holdfast.testing.postgres import PostgresServer, server
from holdfast.testing.stores.governance.files import governed_end, keep, kept_file
from holdfast.testing.stores.governance.samples import block, note, noted, receipt, seal, task
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    RUNNING,
    SERVES,
    TENANT,
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
from tests.scope import each_seed


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
    """Poll until the condition holds; the test's own time limit ends it otherwise."""
    while not await condition():  # noqa: ASYNC110  # the condition is in another process
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
    """While the server is away every operation raises StoreUnavailable; afterwards every answered change is there."""

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


@pytest.mark.long
def test_a_crash_of_the_server_costs_no_worker_its_life(postgres: PostgresServer, url: str) -> None:
    """All locks are lost at once, and a worker that is about to take its lock again is not considered dead."""

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
    """Announcements during the outage are lost, so the watcher gets a hint as soon as it listens again."""

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
    """After a cut at any point of any operation, the next operation gets a working connection."""

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
    """The data of a newer Holdfast are left alone, with migrations or without."""

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
        numbers = [migration.number for migration in load_migrations("holdfast.store.postgres")]
        assert [row[0] for row in await raw(url, "SELECT number FROM holdfast_schema")] == numbers
        for store in stores:
            await store.close()

    asyncio.run(judge())


async def with_schema(url: str, number: int) -> Any:
    """A connection to a database that has the first migrations, up to this number."""
    connection = await connect(url)
    await connection.execute(SQL["make_schema"])
    for migration in load_migrations("holdfast.store.postgres")[:number]:
        await connection.execute(migration.sql)
        await connection.execute(SQL["note_migration"], migration.number, migration.name)
    return connection


def test_runs_of_the_first_schema_are_brought_forward(url: str) -> None:
    """A run that had begun gets its creation as the time of its begin; a queued run must still pass the caps."""

    async def judge() -> None:
        other = await with_schema(url, 1)
        await other.executemany(
            "INSERT INTO runs (tenant, id, workflow, root, version, head, standing, fingerprint, created_at, updated_at"
            ") VALUES ($1, $2, 'greet', 'r', 1, 'h', $2, 'f', $3, $3)",
            [(TENANT, "queued", NOW), (TENANT, "waiting", NOW + 1)],
        )
        await other.close()
        async with opened(url) as (store,):
            runs = await store.get([key("queued"), key("waiting")])
            assert [run.begun_at for run in runs] == [None, NOW + 1]
            assert [(run.workspace, run.actor, run.governed, run.writes) for run in runs] == [("", None, False, 0)] * 2

    asyncio.run(judge())


def test_entries_of_the_second_schema_are_brought_forward(url: str) -> None:
    """They stay, sealed or not; new ones may have an id, and are then written once."""

    async def judge() -> None:
        other = await with_schema(url, 2)
        await other.executemany(
            "INSERT INTO audit (tenant, run, kind, at, body, position) VALUES ($1, 'one', 'decided', 0, $2, $3)",
            [(TENANT, b"sealed", 1), (TENANT, b"not sealed", None), (TENANT, b"not sealed", None)],
        )
        await other.close()
        async with opened(url) as (store,):
            await store.commit([note("named", id="n"), note("named", id="n")])
            entries = await store.entries(p.AuditQuery(TENANT), 10)
            assert [entry.body for entry in entries] == [b"sealed", b"not sealed", b"not sealed", b"named"]

    asyncio.run(judge())


def test_receipts_of_the_third_schema_are_brought_forward(url: str) -> None:
    """The end of the error showed that nobody waited for it any more; now it has a field for that."""
    errors = {"left": "went away; nobody waited for its outcome any more", "asked about": "went away"}

    async def judge() -> None:
        async with opened(url) as (store,):
            for name, error in errors.items():
                old = replace(receipt(name), error=error)
                await store.commit([p.OpenReceipt(old), p.CloseReceipt(replace(old, state="unknown"))])
        other = await connect(url)
        await other.execute(load_migrations("holdfast.store.postgres")[3].sql)
        await other.close()
        async with opened(url) as (store,):
            found = await store.receipts(p.ReceiptQuery(TENANT), 10)
            assert {each.key: each.error for each in found} == errors
            assert {each.key: each.abandoned for each in found} == {"left": True, "asked about": False}

    asyncio.run(judge())


@pytest.mark.parametrize(
    "changed", ["key = 'x'", "id = 'x'", "run = 'x'", "root = 'x'", "position = 9", "state = 'x'", "token = 'x'",
                "opened_at = 9", "body = '{'", "body = replace(body, 'pending', 'failed')"]
)  # fmt: skip
def test_a_receipt_that_is_not_kept_under_what_it_says_is_found(url: str, changed: str) -> None:
    """Each column by which it is found, and the body itself."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.commit([p.OpenReceipt(receipt(f"key {number}")) for number in range(3)])
            assert await store.misfiled(TENANT) is None
            await raw(url, f"UPDATE receipts SET {changed} WHERE key = 'key 1' RETURNING 1")
            assert await store.misfiled(TENANT) is not None
            assert await store.misfiled("bolt") is None

    asyncio.run(judge())


def test_blocks_of_the_fifth_schema_are_brought_forward(url: str) -> None:
    """They get the first form; others follow them."""
    first, second = replace(block(1, 1, 1), form=1), block(2, 2, 1)

    async def judge() -> None:
        other = await with_schema(url, 5)
        sealed = "INSERT INTO audit (tenant, run, kind, at, body, position) VALUES ($1, 'one', 'decided', 0, 'a', 1)"
        await other.execute(sealed, TENANT)
        *values, _ = astuple(first)
        places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        await other.execute(f"INSERT INTO blocks VALUES ({places})", *values)
        await other.close()
        async with opened(url) as (store,):
            (entry,) = await noted(store, "b")
            assert await seal(store, second, [entry.sequence])
            assert await store.blocks(TENANT, 1, 10) == [first, second]

    asyncio.run(judge())


def test_an_empty_database_is_not_opened_without_migrations(url: str) -> None:
    """A client changes nothing: it reports that there are no tables."""
    with pytest.raises(UnsupportedStore, match="start a worker"):
        asyncio.run(PostgresStore(url).open(migrate=False))


def test_an_unknown_database_says_what_to_do(url: str) -> None:
    """That is for the operator, and not tried again."""
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
        hinted: list[str] = []
        arrived = asyncio.Event()
        async with opened(url, url, f"{url}&search_path=neighbour") as (here, there, elsewhere):
            for name, store in (("here", here), ("elsewhere", elsewhere), ("there", there)):
                ready = asyncio.Event()
                stop = store.watch(ready.set)
                await ready.wait()
                stop()
                store.watch(lambda name=name: (hinted.append(name), arrived.set()))  # type: ignore[misc]
            await commit(here, start())
            await arrived.wait()
            # Notifications come in the order of commits: after a later one the first has arrived, or never will.
            arrived.clear()
            await commit(elsewhere, start())
            await commit(there, start("two"))
            while "here" not in hinted:
                await arrived.wait()
                arrived.clear()
            assert hinted == ["there", "here"]

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
    """The server drops the lock with the session of a dead process; a worker whose session lives is left alone."""

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
    """A living worker stays present: it holds the lock again after its next beat or earlier."""

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
    """Whether somebody holds a worker's lock, found out by trying to take it."""
    taken = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/' || $1, 0))"
    return not (await raw(url, taken, name))[0][0]


def test_workers_that_claim_together_share_the_runs(url: str) -> None:
    """Every run is leased once, even with many claims at the same time."""

    async def judge() -> None:
        async with opened(url, url, url) as stores:
            await stores[0].commit([start(f"run {number}") for number in range(300)])

            async def claim(number: int) -> list[str]:
                mine: list[str] = []
                while claimed := (await stores[number % 3].claim(f"worker {number}", SERVES, 7, NOW)).runs:
                    mine += [run.key.run for run in claimed]
                return mine

            shares = await asyncio.gather(*(claim(number) for number in range(9)))
            everything = [run for share in shares for run in share]
            assert len(everything) == len(set(everything)) == 300

    asyncio.run(judge())


def test_batches_in_opposite_order_never_wait_in_a_circle(postgres: PostgresServer) -> None:
    """Rows are locked in the order of their keys, for any order and kinds of changes."""

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
        assert await _deadlocks(url) == 0

    asyncio.run(judge())


async def _deadlocks(url: str) -> int:
    """The number of deadlocks in a database. The server counts those of a session when the session ends."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast' AND datname = current_database()"
    await until(lambda: _alone(url, query))
    ((deadlocks,),) = await raw(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(deadlocks)


async def _alone(url: str, query: str) -> bool:
    return bool((await raw(url, query))[0][0] == 1)


_WAITING = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def test_a_message_that_comes_while_its_run_ends_leaves_nothing_behind(url: str) -> None:
    """The ending turn waits for the delivery's lock, and deletes the message that it could not see when it began."""

    async def judge() -> None:
        async with opened(url) as (store,):
            run = await leased(store)
            other = await connect(url)
            async with other.transaction():
                assert await apply(Writer(other, "channel", "other"), [deliver()]) == [p.Delivered(1)]
                ending = asyncio.create_task(commit(store, turn(run, COMPLETED)))
                await until(lambda: raw(url, _WAITING))
            await other.close()
            assert await ending == p.Advanced(1, None, True)
            assert await store.messages([key()]) == {key(): []}

    asyncio.run(judge())


# -- the gate ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_comes_through", [True, False])
def test_of_two_transactions_that_meet_at_a_key_one_has_it(url: str, first_comes_through: bool) -> None:
    """The second waits for the first and gets its receipt; where the first is rolled back, the key is free."""

    async def judge() -> None:
        async with opened(url) as (store,):
            run = await leased(store)
            mine, late = receipt("shared"), receipt("shared", token="second", id="late")
            attached = (p.OpenReceipt(receipt("before")), p.OpenReceipt(late))
            other = await connect(url)
            first = other.transaction()
            await first.start()
            assert await apply(Writer(other, "channel", "other"), [p.OpenReceipt(mine)]) == [p.Opened()]
            meeting = asyncio.create_task(commit(store, turn(run, attached=attached)))
            await until(lambda: raw(url, _WAITING))
            await (first.commit() if first_comes_through else first.rollback())
            await other.close()
            expected = p.Taken(mine) if first_comes_through else p.Opened()
            assert await meeting == p.Advanced(0, None, False, (p.Opened(), expected))
            holder = mine if first_comes_through else late
            assert await store.receipt(TENANT, holder.id) == holder

    asyncio.run(judge())


def test_a_receipt_taken_over_while_it_is_closed_is_fenced(url: str) -> None:
    """The closing waits for the takeover, and then judges the new row."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await commit(store, p.OpenReceipt(receipt()))
            takeover = p.OpenReceipt(receipt(token="second"), instead_of="first")
            other = await connect(url)
            async with other.transaction():
                assert await apply(Writer(other, "channel", "other"), [takeover]) == [p.Opened()]
                closing = asyncio.create_task(
                    commit(store, p.CloseReceipt(receipt(state="succeeded"), attached=(note(),)))
                )
                await until(lambda: raw(url, _WAITING))
            await other.close()
            assert await closing == p.Fenced()
            assert await store.unsealed(10) == []

    asyncio.run(judge())


def test_openings_in_opposite_order_never_wait_in_a_circle(postgres: PostgresServer) -> None:
    """Receipts and tasks are locked in the order of their keys, for any order of changes in a batch."""

    async def judge() -> None:
        url = postgres.url()
        async with opened(url, url) as stores:
            names = [f"key {number:02}" for number in range(12)]

            async def act(number: int, store: PostgresStore) -> None:
                mine = names if number % 2 else names[::-1]
                for attempt in range(15):
                    token = f"{number} {attempt}"
                    opening: list[p.Change] = [p.OpenReceipt(receipt(name, token=token)) for name in mine]
                    answers = await store.commit([*opening, p.PutTask(task(f"task {number % 2}")), p.PutTask(task())])
                    closing: list[p.Change] = [
                        p.CloseReceipt(receipt(name, token=token, state="failed"))
                        for name, answer in zip(mine, answers, strict=False)
                        if answer == p.Opened()
                    ]
                    assert await store.commit(closing[::-1]) == [p.Closed()] * len(closing)

            await asyncio.gather(*(act(number, stores[number % 2]) for number in range(4)))
        assert await _deadlocks(url) == 0

    asyncio.run(judge())


def test_a_batch_that_waits_for_a_receipt_holds_none_behind_it(url: str) -> None:
    """All receipts are locked before the first is changed: closing one and opening another cannot deadlock."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.commit([p.OpenReceipt(receipt(name)) for name in "ab"])
            other = await connect(url)
            async with other.transaction():
                await other.execute("SELECT FROM receipts WHERE key = 'a' FOR UPDATE")
                batch = [p.CloseReceipt(receipt("b", state="failed")), p.OpenReceipt(receipt("a", token="second"))]
                waiting = asyncio.create_task(store.commit(batch))
                await until(lambda: raw(url, _WAITING))
                await other.execute("SELECT FROM receipts WHERE key = 'b' FOR UPDATE NOWAIT")
            await other.close()
            assert await waiting == [p.Closed(), p.Taken(receipt("a"))]

    asyncio.run(judge())


def test_sealers_that_race_make_one_chain(url: str) -> None:
    """Every entry is sealed once, and every number and position is given once, in any order of the sealers."""

    async def judge() -> None:
        async with opened(url, url, url) as stores:
            await noted(stores[0], *(str(number) for number in range(60)))

            together = asyncio.Barrier(6)

            async def work(store: PostgresStore) -> int:
                refused, is_first = 0, True
                while entries := await store.unsealed(7):
                    last = await store.blocks(TENANT, -1, 1)
                    number, first = (last[0].number + 1, last[0].first + last[0].count) if last else (1, 1)
                    made = block(number, first, len(entries))
                    if is_first:
                        is_first = await together.wait() < 0  # all have read the same end of the chain
                    refused += not await seal(store, made, [entry.sequence for entry in entries])
                return refused

            refusals = await asyncio.gather(*(work(store) for store in stores for _ in range(2)))
            chain = await stores[0].blocks(TENANT, 1, 100)
            assert [made.number for made in chain] == list(range(1, len(chain) + 1))
            assert sum(made.count for made in chain) == 60
            entries = await stores[0].entries(p.AuditQuery(TENANT), 100)
            assert [entry.position for entry in entries] == list(range(1, 61))
            assert sum(refusals) >= 5

    asyncio.run(judge())


class Counting:
    """A connection that counts its statements."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.statements = 0

    def __getattr__(self, name: str) -> Any:
        self.statements += 1
        return getattr(self._connection, name)


def test_blocks_of_many_tenants_are_sealed_with_as_many_statements_as_one(url: str) -> None:
    """A round trip for each tenant would take minutes with thousands of tenants."""

    async def judge() -> None:
        async with opened(url) as (store,):
            counts = []
            for tenants in (1, 60):
                names = [f"t{number}" for number in range(tenants)]
                await store.commit([note("a", tenant=name) for name in names])
                at = {head.tenant: head.number + 1 for head in await store.heads(names)}
                sealings = [
                    p.Sealing(block(at.get(e.tenant, 1), at.get(e.tenant, 1), 1, tenant=e.tenant), (e.sequence,))
                    for e in await store.unsealed(100)
                ]
                connection = await connect(url)
                counting = Counting(connection)
                async with connection.transaction():
                    assert await seal_within(counting, sealings) == [True] * tenants
                await connection.close()
                counts.append(counting.statements)
            assert counts[0] == counts[1] <= 7
            assert await store.unsealed(1) == []

    asyncio.run(judge())


def test_of_two_sealers_of_one_number_the_second_waits(url: str) -> None:
    """It sees that the number is taken once the first has committed, and leaves no trace."""

    async def judge() -> None:
        async with opened(url) as (store,):
            one, two = await noted(store, "one", "two")
            other = await connect(url)
            async with other.transaction():
                await other.execute("INSERT INTO blocks VALUES ('acme', 1, 1, 1, '', '', '', 0, '', '')")
                sealing = asyncio.create_task(seal(store, block(1, 1, 2), [one.sequence, two.sequence]))
                await until(lambda: raw(url, _WAITING))
            await other.close()
            assert await sealing is False
            assert await store.unsealed(10) == [one, two]

    asyncio.run(judge())


def test_evidence_waits_for_what_is_being_sealed(url: str) -> None:
    """The entry is not visible yet, and the evidence lacks it: the evidence is refused once the entry is visible."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await governed_end(store)
            (entry,) = await noted(store, "late")
            other = await connect(url)
            async with other.transaction():
                await seal_within(other, [p.Sealing(block(), (entry.sequence,))])
                keeping = asyncio.create_task(keep(store, kept_file(p.EVIDENCE), b"data"))
                await until(lambda: raw(url, _WAITING))
            await other.close()
            assert await keeping is False
            assert await store.files(key()) == []

    asyncio.run(judge())


def test_files_are_kept_in_the_order_in_which_runs_are_locked(url: str) -> None:
    """By key, in any order of the files: otherwise a batch that locks the same runs could deadlock with it."""
    lock = "SELECT FROM runs WHERE tenant = $1 AND id = $2 FOR NO KEY UPDATE NOWAIT"

    async def judge() -> None:
        async with opened(url) as (store,):
            for name in ("b", "a"):
                await governed_end(store, name)
            files = [p.File(kept_file(p.EVIDENCE, run=name), b"data") for name in ("b", "a")]
            other = await connect(url)
            async with other.transaction():
                await other.fetch(lock, *key("a"))
                keeping = asyncio.create_task(store.keep_files(files))
                await until(lambda: raw(url, _WAITING))
                await other.fetch(lock, *key("b"))
            await other.close()
            assert await keeping == [True, True]

    asyncio.run(judge())


def test_sealing_waits_for_evidence_that_is_being_kept(url: str) -> None:
    """Its hash is not visible in the row yet, and must not stay there."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await governed_end(store)
            (entry,) = await noted(store, "late")
            other = await connect(url)
            async with other.transaction():
                await other.fetch(SQL["share_chains"])
                kept = (*key(), 0, p.EVIDENCE, b"hash", 4, NOW, b"data", True, -1)
                assert await other.fetch(SQL["keep_artefacts"], *([value] for value in kept))
                sealing = asyncio.create_task(seal(store, block(), [entry.sequence]))
                await until(lambda: raw(url, _WAITING))
            await other.close()
            assert await sealing is True
            assert (await row(store)).evidence is None

    asyncio.run(judge())


def test_pruning_looks_at_nothing_that_waits_for_evidence(url: str) -> None:
    """Its index leaves them out; retired ids are looked up by key."""

    async def judge() -> None:
        async with opened(url):
            connection = await connect(url)
            await connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")  # as for a large table
            explaining = Explaining(connection)
            await explaining.fetch(SQL["prunable"], NOW, 10)
            answers = await apply(Writer(explaining, "channel", "other"), [start()])
            await connection.close()
            assert answers == [p.Started(1)]
            prunable, started = explaining.plans
            assert "Index Scan using runs_prunable on runs" in prunable
            assert started.count("Index Only Scan using artefacts_pkey on artefacts") == 2, started
            assert started.count("(run = ") + started.count("(run > ") == 2, started

    asyncio.run(judge())


def test_claimers_within_limits_never_exceed_a_cap(url: str) -> None:
    """With many claims at the same time, each sees the runs that the others have begun."""

    async def judge() -> None:
        async with opened(url, url, url) as stores:
            await stores[0].commit([start(f"run {number:02}") for number in range(40)])
            limits = p.Limits(p.TenantLimits(p.Cap(max_concurrency=11)))

            async def claim(number: int) -> list[str]:
                claim = await stores[number % 3].claim(f"worker {number}", SERVES, 3, NOW, limits)
                return [run.key.run for run in claim.runs]

            shares = await asyncio.gather(*(claim(number) for number in range(12)))
            assert sorted(run for share in shares for run in share) == [f"run {number:02}" for number in range(11)]

    asyncio.run(judge())


def test_a_governed_batch_costs_as_many_round_trips_as_one_turn(url: str) -> None:
    """Openings, closings, tasks and notes are one statement each, for any number of turns."""

    async def judge() -> None:
        async with opened(url, pool_size=1) as (store,):
            # BEGIN, the locks, the turns, closings, openings, tasks, entries, the hint for the tasks, COMMIT.
            assert [await _round_trips(store, count) for count in (1, 2, 30)] == [9, 9, 9]

    asyncio.run(judge())


async def _round_trips(store: PostgresStore, count: int) -> int:
    """The statements of a commit of governed turns, each of which ends an action, begins another and asks people."""
    names = [f"{number} of {count}" for number in range(count)]
    await store.commit([start(name, owner="ann") for name in names])
    await store.commit([p.OpenReceipt(receipt(name)) for name in names])
    batch: list[p.Change] = [
        turn(
            run,
            attached=(
                p.CloseReceipt(receipt(run.key.run, state="succeeded"), attached=(note(), note("more"))),
                note("decided"),
                p.OpenReceipt(receipt(f"{run.key.run}, next")),
                p.PutTask(task(run.key.run), attached=(note("asked"),)),
            ),
        )
        for run in await store.get([key(name) for name in names])
    ]
    queries: list[str] = []
    async with store._connection() as under:
        pass

    def log(record: Any) -> None:
        queries.append(record.query)

    under.add_query_logger(log)
    answers = await store.commit(batch)
    # A query is logged in the loop's next turn.
    await until(lambda: asyncio.sleep(0, any("COMMIT" in query for query in queries)))
    under.remove_query_logger(log)
    expected = (p.Closed(), p.Noted(), p.Opened(), p.Tasked())
    assert answers == [p.Advanced(0, None, False, expected)] * count
    return len(queries)


def test_entries_keep_the_order_of_their_batch(url: str) -> None:
    """They are written together, and numbered as if their changes had been made one by one."""

    async def judge() -> None:
        async with opened(url) as (store,):
            one, two = await leased(store, "one"), await leased(store, "two")
            await commit(store, p.OpenReceipt(receipt("a")))
            closing = p.CloseReceipt(receipt("a", state="failed"), attached=(note("3"), note("4")))
            fenced = p.CloseReceipt(receipt("b", state="failed"), attached=(note("never"),))
            batch: list[p.Change] = [
                note("1"),
                turn(one, attached=(note("2"), p.OpenReceipt(receipt("c")))),
                turn(two, attached=(closing, fenced, note("5"))),
                p.PutTask(task(), attached=(deliver(), note("1"))),
                note("7"),
            ]
            await store.commit(batch)
            assert [entry.body for entry in await store.unsealed(10)] == [b"1", b"2", b"3", b"4", b"5", b"1", b"7"]

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
    """Any number of changes is one round trip, which is its own transaction."""

    async def judge() -> None:
        async with opened(url, pool_size=1) as (store,):
            await store.commit([start(f"run {number}", owner="ann") for number in range(50)])
            runs = await store.find(p.Query(), 50)
            queries: list[str] = []
            async with store._connection() as under:
                pass
            under.add_query_logger(lambda record: queries.append(record.query))
            await store.commit(batch if batch is not None else [turn(run, COMPLETED) for run in runs])
            await until(lambda: asyncio.sleep(0, bool(queries)))
            assert len(queries) == 1, queries

    asyncio.run(judge())


class Explaining:
    """A connection that asks for the plan of each statement before it runs it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.plans: list[str] = []

    async def fetch(self, query: str, *values: Any) -> Any:
        plan = await self._connection.fetch(f"EXPLAIN {query}", *values)
        self.plans.append("\n".join(line[0] for line in plan))
        return await self._connection.fetch(query, *values)


def test_what_is_read_of_many_runs_and_blocks_is_found_by_index(url: str) -> None:
    """Not through the whole audit in the order of its sequences, even for a few rows."""

    async def judge() -> None:
        async with opened(url):
            connection = await connect(url)
            explaining = Explaining(connection)
            one = (["t"], ["r"])
            await explaining.fetch(SQL["entries_in"], *one, [None], [None], [None], 2000, 0)
            await explaining.fetch(SQL["entries_of_tasks"], "t", ["f-1"])
            await explaining.fetch(SQL["blocks_before"], ["t"], [1])
            await explaining.fetch(SQL["kept_evidence"], *one, p.EVIDENCE, 1000)
            await connection.close()
            entries, of_tasks, blocks, kept = explaining.plans
            assert "audit_of_run" in entries
            assert "audit_of_task" in of_tasks
            assert "blocks_first" in blocks
            assert "blocks_pkey" in blocks
            assert "artefacts_pkey" in kept

    asyncio.run(judge())


def test_pages_of_runs_are_read_from_the_indexes_of_their_filters(url: str) -> None:
    """In order, without sorting, whatever they are filtered by: also of several standings, and of all tenants."""
    asked = (
        (p.Query(tenant=TENANT, workflow="rare"), "runs_of_workflow"),
        (p.Query(tenant=TENANT, workspace="rare"), "runs_of_workspace"),
        (p.Query(tenant=TENANT, actor="rare"), "runs_of_actor"),
        (p.Query(tenant=TENANT, status="failed"), "runs_standing"),
        (p.Query(tenant=TENANT, standings=("queued", "waiting")), "runs_standing"),
        (p.Query(tenant=TENANT, parked=True), "runs_held_up"),
        (p.Query(status="failed"), "runs_standing"),
        (p.Query(tenant=TENANT, ended_after=NOW + 10**9), "runs_prunable"),
    )

    async def judge() -> None:
        async with opened(url) as (store,):
            await store.commit([turn(await leased(store, "old"), COMPLETED)])
            columns = "workflow, root, version, head, standing, fingerprint, updated_at"
            await raw(
                url,
                f"INSERT INTO runs (tenant, id, {columns}, created_at, ended_at) SELECT tenant, 'old ' || n, {columns},"
                " created_at + n, ended_at + n FROM runs, generate_series(1, 5000) AS n",
            )
            await raw(url, "VACUUM ANALYZE runs")
            connection = await connect(url)
            explaining = Explaining(connection)
            for query, index in asked:
                statement, values = run_list(query, 50, None)
                await explaining.fetch(statement, *values)
                assert index in explaining.plans[-1], (query, explaining.plans[-1])
                assert "Seq Scan" not in explaining.plans[-1]
            await explaining.fetch(SQL["counts_up_to"], TENANT, 100)
            assert "Seq Scan" not in explaining.plans[-1]
            await connection.close()

    asyncio.run(judge())


def test_turns_find_their_runs_by_key_however_many_have_ended(url: str) -> None:
    """Statistics without any leased run must not make the plan read all leases for each row of a batch."""

    async def judge() -> None:
        async with opened(url) as (store,):
            old = [await leased(store, "old")]
            await store.commit([turn(old[0], COMPLETED)])
            every = "tenant, 'old ' || n, workflow, root, version, head, standing, fingerprint, created_at, updated_at"
            await raw(
                url,
                "INSERT INTO runs (tenant, id, workflow, root, version, head, standing, fingerprint, created_at, "
                f"updated_at, ended_at) SELECT {every}, ended_at FROM runs, generate_series(1, 5000) AS n",
            )
            await raw(url, "ANALYZE runs")
            await store.commit([start(f"run {number}", owner="ann") for number in range(100)])
            runs = await store.get([key(f"run {number}") for number in range(100)])
            connection = await connect(url)
            explaining = Explaining(connection)
            answers = await apply(Writer(explaining, "channel", "other"), [turn(run) for run in runs])
            await connection.close()
            assert {type(answer) for answer in answers} == {p.Advanced}
            (plan,) = explaining.plans
            assert plan.count("Index Scan using runs_pkey on runs") == 2, plan
            assert "runs_owner" not in plan

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


@each_seed(0.5)
def test_a_batch_answers_as_if_its_changes_came_one_by_one(postgres: PostgresServer, seed: int) -> None:
    """Grouping into sets is invisible: answers and rows equal those of the same changes in batches of one."""

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


def _any_change(chance: random.Random, rows: list[p.Run], *, attach: bool = True) -> Any:
    name, position = chance.choice(_NAMES), chance.randint(1, 2)
    message = deliver(name, id=chance.choice([None, "x", "y"])).message
    more = tuple(_any_change(chance, rows, attach=False) for _ in range(chance.randint(0, 2))) if attach else ()
    choices: list[p.Change] = [
        start(name, owner=chance.choice(["ann", None]), attached=more, blobs={b"d": b"data"} if attach else {}),
        p.Deliver(key(name), message),
        p.Enqueue(work(position, name, attempt=chance.randint(1, 3), body=str(chance.random()))),
        p.Withdraw(key(name), position),
        *_gate_changes(chance, message, name),
    ]
    if attach:
        choices += [
            p.FinishWork(key(name), position, 1, message),
            p.Beat(key(name), position, str(chance.random()).encode(), NOW),
            p.Renew(key(name), chance.randint(0, 1), renewal(), RUNNING, NOW),
        ]
        for run in rows:
            again = renewal(run.generation + 1) if chance.random() < 0.2 else None
            projection = COMPLETED if chance.random() < 0.2 else RUNNING
            release = chance.random() < 0.3
            choices.append(
                turn(run, projection, attached=more, release=release, renewal=again, mark=str(chance.random()))
            )
    return chance.choice(choices)


def _gate_changes(chance: random.Random, message: p.Message, name: str) -> list[p.Change]:
    """Over few keys and tokens, so that they meet."""
    entry = note(str(chance.randint(0, 3)), id=chance.choice([None, None, "n"]))
    label, token, other = chance.choice("ab"), chance.choice("xy"), chance.choice(["x", "y", None])
    state = chance.choice(("succeeded", "failed", "failed", "unknown"))
    reverses = receipt(chance.choice("ab")).id if chance.random() < 0.3 else None
    attached = (p.Deliver(key(name), message), entry)
    return [
        entry,
        p.OpenReceipt(receipt(label, token=token), other),
        p.CloseReceipt(receipt(label, token=token, state=state, reverses=reverses), {b"d": b"data"}, (entry, entry)),
        p.PutTask(task(label, chance.randint(1, 3), run=name), chance.choice([(), attached])),
        p.CancelTask(TENANT, label, NOW + chance.randint(0, 1), (entry,)),
    ]


async def _everything(store: PostgresStore) -> tuple[object, ...]:
    keys = [key(name) for name in _NAMES]
    work_of = [await store.work_of(run) for run in keys]
    progress = [await store.progress_of(run) for run in keys]
    receipts, tasks = await store.receipts(p.ReceiptQuery(), 100), await store.tasks(p.TaskQuery(), 100)
    entries = [entry.body for entry in await store.entries(p.AuditQuery(TENANT), 1000)]
    return await store.get(keys), await store.load(keys), work_of, progress, receipts, tasks, entries


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:word@db.example:5433/shop?sslmode=require", "postgresql://db.example:5433/shop"),
        ("postgresql://db.example/shop", "postgresql://db.example/shop"),
        ("postgresql://me:word@[::1]:5433/shop", "postgresql://[::1]:5433/shop"),
        ("postgresql:///shop?host=/run/postgresql", "postgresql:///shop"),
        ("postgresql://me:wo@rd@db/shop", "postgresql://db/shop"),
        ("postgresql://me:wo/rd@db/shop", "postgresql://…"),
        ("postgresql://me:wo?rd@db/shop", "postgresql://…"),
        ("postgresql://me:wo#rd@db/shop", "postgresql://…"),
        ("postgresql://me:word@db:port/shop", "postgresql://db:port/shop"),
    ],
)
def test_messages_name_host_and_port_and_never_the_password(url: str, place: str) -> None:
    """Several servers on one host differ only in their port. An unquoted password stays secret, too."""
    assert shown(url) == place


def test_claims_find_ready_runs_by_their_indexes(url: str) -> None:
    """Among many that are ready, by functions and by kinds of programs, with caps and without: nothing is sorted."""

    async def judge() -> None:
        async with opened(url) as (store,):
            await commit(store, start("first"))
            every = "tenant, 'old ' || n, workflow || n % 50, root, version, head, standing, fingerprint, created_at"
            await raw(
                url,
                "INSERT INTO runs (tenant, id, workflow, root, version, head, standing, fingerprint, created_at, "
                f"updated_at, ready_at) SELECT {every}, updated_at, ready_at + n "
                "FROM runs, generate_series(1, 5000) AS n",
            )
            await raw(url, "ANALYZE runs")
            connection = await connect(url)
            explaining = Explaining(connection)
            for kinds in ([], ["definition"]):
                await explaining.fetch(SQL["candidates"], list(SERVES.functions), 5, kinds)
                await explaining.fetch(SQL["claim"], "ann", list(SERVES.functions), 5, NOW, kinds)
            await connection.close()
            for plan in explaining.plans[0::2]:
                assert plan.count("using runs_queued on runs") == 3, plan
            for plan in explaining.plans[1::2]:
                assert "Index Scan using runs_ready on runs" in plan, plan

    asyncio.run(judge())

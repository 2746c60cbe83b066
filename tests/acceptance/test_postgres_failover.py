"""A primary is lost and a standby takes its place: real servers, which lag, freeze, are killed and promoted."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast, WorkerOptions, step, workflow
from holdfast.cli.main import main
from holdfast.errors import StoreReadOnly, StoreUnavailable
from holdfast.store import protocol as p
from holdfast.store.postgres import connection, doubt
from holdfast.store.postgres.store import PostgresStore
from holdfast.testing.replication import STANDBY, Replicated, Standby, joint_url, pair
from holdfast.testing.stores.governance.samples import task
from holdfast.testing.stores.samples import COMPLETED, NOW, deliver, key, leased, start, turn, worker
from tests.acceptance.together import watched_loop
from tests.scope import one_stays

RECOVERY_SECONDS = 5.0
"""The limit for work to continue after a promotion; what delays a plain sleep here does not count."""

Pair = tuple[Replicated, Standby]


@pytest.fixture
def servers() -> Iterator[Pair]:
    with pair() as both:
        yield both


@pytest.fixture(scope="module")
def lasting() -> Iterator[Pair]:
    """Servers of which none is promoted."""
    with pair() as both:
        yield both


@pytest.fixture
def unpromoted(lasting: Pair) -> Pair:
    primary, standby = lasting
    primary.start()
    standby.start()
    primary.wait_for()
    asyncio.run(until(lambda: primary.execute("SELECT FROM pg_stat_replication WHERE state = 'streaming'")))
    return lasting


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is abandoned after one second instead of thirty."""
    monkeypatch.setattr(connection, "COMMAND_SECONDS", 1.0)
    monkeypatch.setattr(doubt, "CONFIRM_SECONDS", 1.0)


def synchronise(servers: Pair) -> Pair:
    """From now on the primary acknowledges a commit only when the standby has it."""
    primary, _ = servers
    primary.wait_for(STANDBY)
    asyncio.run(until(lambda: primary.execute("SELECT FROM pg_stat_replication WHERE sync_state = 'sync'")))
    return servers


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def answered(call: Callable[[], Awaitable[object]], seconds: float) -> bool:
    """Whether the call succeeds within so many seconds, with any number of tries."""
    try:
        async with asyncio.timeout(seconds):
            await with_retries(call)
    except TimeoutError:
        return False
    return True


async def with_retries(call: Callable[[], Awaitable[object]]) -> None:
    while True:
        try:
            await call()
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        else:
            return


async def until(condition: Callable[[], object]) -> None:
    while not await asyncio.to_thread(condition):  # noqa: ASYNC110  # the condition is in another process
        await asyncio.sleep(0.02)


def waiting(primary: Replicated) -> list[tuple[object, ...]]:
    """The sessions whose commits wait for the standby."""
    return primary.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")


def runs_on(server: Replicated, url: str) -> set[object]:
    """The runs in this server's table, read without Holdfast."""
    return {id for (id,) in server.execute("SELECT id FROM runs", joint_url(url, server))}


async def caught_up(primary: Replicated, standby: Standby) -> None:
    """Wait until the standby has all that the primary has committed."""
    ((position,),) = primary.execute("SELECT pg_current_wal_lsn()::text")
    query = f"SELECT WHERE pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
    await until(lambda: standby.execute(query))


# -- a synchronous standby out of reach ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.usefixtures("hurried")
def test_what_was_acknowledged_survives_the_loss_of_a_primary_with_a_synchronous_standby(servers: Pair) -> None:
    """While the standby is away, nothing is acknowledged, to no process and at no repetition."""
    primary, standby = synchronise(servers)
    url = primary.url()

    async def acknowledged() -> list[str]:
        async with opened(url) as one, opened(url) as another:
            await one.commit([start("before")])
            await asyncio.to_thread(standby.stop)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "a start": lambda: one.commit([start("a")]),
                "the same start, by another": lambda: another.commit([start("a")]),
                "an operation": lambda: one.pause(key("before"), "because", NOW),
                "what may be leased since": lambda: one.leased("ann"),
            }
            answers = [name for name, call in calls.items() if await answered(call, 1.5)]
            # Commands that take too long are not cancelled: that would make changes visible that the standby lacks. And
            # not every try leaves another waiting session: the first commits do, and at most one query of each session.
            assert runs_on(primary, url) == {"before"}
            assert len(waiting(primary)) <= 6
            await asyncio.to_thread(primary.stop)
            return answers

    assert asyncio.run(acknowledged()) == []
    standby.start()
    standby.promote()
    assert "before" in runs_on(standby, url)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("broken_off", one_stays(["pg_cancel_backend", "pg_terminate_backend"]))
def test_a_wait_for_a_standby_that_was_broken_off_is_no_acknowledgement(unpromoted: Pair, broken_off: str) -> None:
    """Then the run is visible in the table, but Holdfast acknowledges it only when the standby has it."""
    primary, standby = synchronise(unpromoted)
    url = primary.url()

    async def judge() -> None:
        async with opened(url) as one, opened(url) as another, opened(url) as waiter:
            run = await leased(one, "ending")
            await another.commit([start("before")])
            await waiter.get([run.key])
            await asyncio.to_thread(standby.stop)
            committing = asyncio.create_task(one.commit([start("a"), turn(run, COMPLETED)]))
            await until(lambda: waiting(primary))
            primary.execute(f"SELECT {broken_off}(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            with pytest.raises(StoreUnavailable):
                await committing
            assert runs_on(primary, url) == {"before", "ending", "a"}
            assert not await answered(lambda: one.get([key("a")]), 1.2)
            assert not await answered(lambda: waiter.get([run.key]), 1.2)
            assert not await answered(lambda: one.commit([start("a")]), 1.2)
            assert not await answered(lambda: another.commit([start("a")]), 1.2)
            await asyncio.to_thread(standby.start)
            for store in (one, another):
                await with_retries(lambda store=store: store.commit([start("a")]))  # type: ignore[misc]
            assert runs_on(standby, url) == {"before", "ending", "a"}

    asyncio.run(judge())


@pytest.mark.usefixtures("hurried")
def test_what_a_restart_makes_visible_is_acknowledged_only_when_the_standby_has_it(unpromoted: Pair) -> None:
    """A restart ends all waits. Lists and counts still work, for people who look for the problem."""
    primary, standby = synchronise(unpromoted)
    url = primary.url()

    async def judge() -> None:
        async with opened(url) as store:
            await store.commit([start("before")])
            await asyncio.to_thread(standby.stop)
            committing = asyncio.create_task(store.commit([start("a")]))
            await until(lambda: waiting(primary))
            await asyncio.to_thread(primary.stop)
            await asyncio.to_thread(primary.start)
            with pytest.raises(StoreUnavailable):
                await committing
        async with opened(url) as store:
            assert {run.key.run for run in await store.find(p.Query(), 10)} == {"before", "a"}
            assert (await store.facts()).runs
            with pytest.raises(StoreUnavailable, match="synchronous_standby_names"):
                await store.get([key("a")])
            await asyncio.to_thread(standby.start)
            await with_retries(lambda: store.get([key("a")]))
            assert runs_on(standby, url) == {"before", "a"}

    asyncio.run(judge())


def test_the_log_says_within_seconds_that_a_standby_is_away(unpromoted: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """With its name and what to do, long before the first statement is given up."""
    primary, standby = synchronise(unpromoted)

    async def judge() -> float:
        async with opened(primary.url()) as store, watched_loop() as delays:
            await store.commit([start("before")])
            await asyncio.to_thread(standby.stop)
            began = time.time()
            committing = asyncio.create_task(store.commit([start("a")]))
            while "waits for a synchronous standby" not in caplog.text:  # noqa: ASYNC110  # it is another task
                await asyncio.sleep(0.02)
            delay = delays.since(began)
            await asyncio.to_thread(standby.start)
            await committing
            return delay

    assert asyncio.run(asyncio.wait_for(judge(), 60)) < RECOVERY_SECONDS
    assert f"does not answer ({STANDBY}): bring it back" in caplog.text


# -- a frozen primary ----------------------------------------------------------------------------------------------


@step
async def carry_over(number: int) -> int:
    return number * 2


@workflow
async def carried_over(number: int) -> int:
    return await carry_over(number)


def test_work_goes_on_within_seconds_of_a_promotion_though_the_primary_is_frozen(servers: Pair) -> None:
    """Every session moves: those that commit, the one that listens, and that of the heartbeats. None goes back."""
    primary, standby = servers
    url = joint_url(primary.url(), primary, standby)

    async def judge() -> float:
        async with Holdfast(url, options=WorkerOptions(lease_seconds=3)) as app, watched_loop() as delays:
            assert await (await app.start(carried_over, 1, id="before")).result() == 2
            await caught_up(primary, standby)
            await asyncio.to_thread(primary.freeze)
            meanwhile = asyncio.create_task(app.start(carried_over, 2, id="meanwhile"))
            await asyncio.sleep(3.5)  # longer than the lease, and than the timeout for a host
            await asyncio.to_thread(standby.promote)
            promoted = time.time()
            assert await (await meanwhile).result() == 4
            delay = delays.since(promoted)
            assert await (await app.start(carried_over, 3, id="after")).result() == 6
            await until(
                lambda: standby.execute("SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'")
            )
            await until(lambda: standby.execute("SELECT FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"))
            await asyncio.to_thread(primary.thaw)
            await asyncio.to_thread(standby.stop)
            # The old primary accepts writes again, but was replaced: what is written to it now would be lost.
            assert not await answered(lambda: app.store.commit([start("lost")]), 2)
            return delay

    assert asyncio.run(asyncio.wait_for(judge(), 90)) < RECOVERY_SECONDS
    assert "lost" not in runs_on(primary, url)


class Named:
    """The URL of the primary: with both servers, or with one name that is moved to the right server."""

    def __init__(self, folder: Path, servers: Pair, *, moving: bool) -> None:
        self._link = folder / ".s.PGSQL.5432"
        self._servers = servers
        self._moving = moving
        self.lead_to(servers[0])

    def url(self, url: str) -> str:
        return joint_url(url, *self._servers) if not self._moving else joint_url(url, host=self._link.parent)

    def lead_to(self, server: Replicated) -> None:
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(server.folder / self._link.name)


@pytest.mark.parametrize("moving", one_stays([False, True]), ids=["several hosts", "a name that moves"])
def test_a_primary_that_freezes_while_its_standby_is_promoted_delays_nobody_for_long(
    servers: Pair, moving: bool
) -> None:
    """A client without a worker, and a promotion before anyone has noticed the freeze."""
    primary, standby = servers

    async def judge(named: Named, url: str) -> float:
        async with opened(named.url(url)) as store, watched_loop() as delays:
            await store.commit([start("before")])
            await caught_up(primary, standby)
            await asyncio.to_thread(primary.freeze)
            committing = asyncio.create_task(with_retries(lambda: store.commit([start("a")])))
            await asyncio.to_thread(standby.promote)
            named.lead_to(standby)
            promoted = time.time()
            await committing
            return delays.since(promoted)

    with tempfile.TemporaryDirectory() as folder:
        named = Named(Path(folder), servers, moving=moving)
        url = primary.url()
        assert asyncio.run(asyncio.wait_for(judge(named, url), 90)) < RECOVERY_SECONDS
    assert runs_on(standby, url) == {"before", "a"}


@pytest.mark.long
def test_an_old_primary_that_still_runs_is_abandoned_for_the_promoted_standby(
    servers: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """It still answers, and what is written to it is lost. The changes that it took before that are reported."""
    primary, standby = servers
    url = joint_url(primary.url(), primary, standby)

    async def judge() -> float:
        async with opened(url) as store, watched_loop() as delays:
            await store.commit([start("before")])
            await caught_up(primary, standby)
            await asyncio.to_thread(standby.promote)
            promoted = time.time()
            number = 0
            while not await asyncio.to_thread(lambda: runs_on(standby, url) - {"before"}):
                number += 1
                await with_retries(lambda: store.commit([start(f"run {number}")]))  # noqa: B023
            (message,) = _reports(caplog)
            assert f"{number - 1} are not there (starts, messages and answers: {number - 1};" in message
            return delays.since(promoted)

    assert asyncio.run(asyncio.wait_for(judge(), 90)) < RECOVERY_SECONDS


def test_a_standby_is_not_taken_for_the_primary(unpromoted: Pair) -> None:
    """In any order of the hosts in the URL. With only standbys, the error says so."""
    primary, standby = unpromoted
    url = joint_url(primary.url(), standby, primary)

    async def judge() -> None:
        async with opened(url) as store:
            await store.commit([start("a")])
            await caught_up(primary, standby)
            reading = PostgresStore(joint_url(url, standby))
            await reading.open(migrate=False)
            assert len(await reading.get([key("a")])) == 1
            with pytest.raises(StoreReadOnly):
                await reading.commit([start("b")])
            await reading.close()
            await asyncio.to_thread(primary.stop)
            with pytest.raises(StoreUnavailable, match="is a standby"):
                await with_retries_until_refused(store)

    asyncio.run(judge())


async def with_retries_until_refused(store: PostgresStore) -> None:
    """Twice: the first call may only notice that its session was lost."""
    for _ in range(2):
        try:
            await store.commit([start("b")])
        except StoreUnavailable as error:
            refused = error
    raise refused


@pytest.mark.long
def test_nobody_is_taken_for_dead_for_having_lost_the_primary(servers: Pair) -> None:
    """The locks of live workers are not replicated: on a promoted standby no worker has one at first."""
    primary, standby = servers
    url = primary.url()

    async def judge() -> None:
        async with opened(url) as store:
            await store.register(worker("ann"), 60)
            await asyncio.sleep(1.1)  # a second without heartbeat and lock would be enough
            await caught_up(primary, standby)
            await asyncio.to_thread(primary.stop)
        await asyncio.to_thread(standby.promote)
        async with opened(joint_url(url, standby)) as store:
            assert await store.rescue(NOW) == []
            assert await store.beat("ann", 60)

    asyncio.run(judge())


# -- a standby that lags -------------------------------------------------------------------------------------------


def test_a_store_that_lacks_acknowledged_changes_is_reported_loudly(
    servers: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """An asynchronous standby is promoted that lacks the last starts, signals and answers."""
    primary, standby = servers
    url = joint_url(primary.url(), primary, standby)

    async def judge() -> None:
        async with opened(url) as store, opened(url) as signalling, opened(url) as asking:
            await store.commit([start("kept")])
            run = await leased(store, "moved")
            await signalling.commit([deliver("kept")])
            await asking.commit([p.PutTask(task("asked"))])
            await caught_up(primary, standby)
            await asyncio.to_thread(standby.stop)
            for number in range(24):
                await store.commit([start(f"lost {number}")])
            await store.commit([turn(run)])
            await signalling.commit([deliver("kept")])
            await asking.commit([p.PutTask(task("unasked"))])
            await asyncio.to_thread(primary.stop)
            await asyncio.to_thread(standby.start)
            await asyncio.to_thread(standby.promote)
            assert not _reports(caplog)
            await with_retries(lambda: store.get([key("kept")]))
            (message,) = _reports(caplog)
            assert "of the last 27 changes" in message
            assert (
                "25 are not there (starts, messages and answers: 24; turns, which are done again by themselves: 1)"
                in message
            )
            assert "start lost 0 (acme), start lost 1 (acme), " in caplog.text
            await with_retries(lambda: signalling.get([key("kept")]))
            await with_retries(lambda: asking.get([key("kept")]))
            assert [
                "1 are not there (starts, messages and answers: 1;" in _reports(caplog)[1],
                "1 are not there (starts, messages and answers: 0;" in _reports(caplog)[2],
            ] == [True] * 2
            await store.commit([start("lost 0")])
            store._drop()
            await store.commit([start("new")])
            assert len(_reports(caplog)) == 3

    with caplog.at_level(logging.ERROR):
        asyncio.run(judge())


def _reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "IS BEHIND" in record.getMessage()]


# -- the warning of doctor -----------------------------------------------------------------------------------------


def test_doctor_warns_beforehand_what_the_loss_of_the_primary_would_cost(unpromoted: Pair) -> None:
    """It warns of a standby for which no commit waits, and fails if commits wait for one that is not connected."""
    primary, standby = unpromoted
    url = primary.url()
    assert CliRunner().invoke(main, ["migrate", "--store", url]).exit_code == 0

    def doctor(*servers: Replicated) -> tuple[int, str]:
        result = CliRunner().invoke(main, ["doctor", "--store", joint_url(url, *servers)])
        (line,) = [line for line in result.output.splitlines() if "standbys " in line]
        return result.exit_code, line

    code, line = doctor(primary)
    assert code == 0
    assert line.startswith("! ")
    assert "may lack what was acknowledged last" in line
    synchronise(unpromoted)
    code, line = doctor(standby, primary)
    assert (code, line[:2]) == (0, "✓ ")
    assert f"commits wait for {STANDBY}" in line
    standby.stop()
    code, line = doctor(primary)
    assert (code, line[:2]) == (1, "✗ ")
    assert "none of them is connected" in line
    primary.wait_for()
    asyncio.run(until(lambda: primary.execute("SHOW synchronous_standby_names") == [("",)]))
    assert "none is connected" in doctor(primary)[1]
    assert "may lack" in doctor(primary, standby)[1]

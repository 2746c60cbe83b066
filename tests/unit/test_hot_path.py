"""The hot path, guarded by counts and not by times: commits, statements, events, round trips and wake-ups.

A change that makes the engine slower nearly always adds one of these. A machine's bad minute never does.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, WorkerOptions, action, step, workflow
from holdfast.gate.policy.policy import parse
from holdfast.journal import events as e
from holdfast.programs.function.decorators import Workflow
from holdfast.store import protocol as p
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.postgres import PostgresServer

STEPS = 10
RUNS = 100
GOVERNED_STATEMENTS = 7
"""Of one commit in which an act ends and the next begins, which is one write more."""
GOVERNED_ROUND_TRIPS = 8
"""Of the same on PostgreSQL, the beginning and the end of its transaction among them."""


@step(name="hot_path.work")
async def work(number: int) -> int:
    return number


@workflow(name="hot_path.sequence")
async def sequence(count: int) -> int:
    for number in range(count):
        await work(number)
    return count


@action(connector="outside", operation="act", name="hot_path.act")
async def act(number: int) -> int:
    return number


@workflow(name="hot_path.governed")
async def governed(count: int) -> int:
    for number in range(count):
        await act(number)
    return count


FREE = parse('{"version": 1, "rules": [{"name": "all", "when": "true", "effect": "allow"}]}', "free", clock=lambda: 0)


class Counts:
    """The cost of one workload."""

    def __init__(self) -> None:
        self.commits = 0
        self.wakes = 0
        self.statements: list[str] = []

    @property
    def transactions(self) -> list[list[str]]:
        """The statements of each SQLite transaction that wrote to a journal, without BEGIN and COMMIT.

        Others are those of roles that look for work now and then: they are no part of a run's cost.
        """
        found: list[list[str]] = []
        for statement in self.statements:
            if statement.startswith("BEGIN"):
                found.append([])
            elif found and not statement.startswith(("COMMIT", "PRAGMA")):
                found[-1].append(statement)
        return [taken for taken in found if any(statement.startswith("INSERT INTO segments") for statement in taken)]


@asynccontextmanager
async def engine(store: str | p.Store) -> AsyncIterator[Holdfast]:
    """An engine that has done its first run, so that nothing is done for the first time."""
    options = WorkerOptions(queues={}, evidence=False)
    async with Holdfast(store, workflows=[sequence, governed], options=options, policy=FREE) as app:
        await (await app.start(sequence, 1, id="first")).result()
        await (await app.start(governed, 1, id="first act")).result()
        yield app


@contextmanager
def wakes_counted(app: Holdfast, counts: Counts) -> Iterator[None]:
    """How often a run's end wakes the claimer, which then asks the store for more work."""
    assert app.worker is not None
    worker = app.worker
    wake = worker.wake_claimer

    def counted() -> None:
        counts.wakes += 1
        wake()

    worker.wake_claimer = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        worker.wake_claimer = wake  # type: ignore[method-assign]


async def on_sqlite(path: Path, runs: int, flow: Workflow[[int], int] = sequence) -> tuple[Counts, list[e.Event]]:
    """So many runs at once, counted on the connection that writes. The events are those of the first."""
    counts = Counts()
    async with engine(f"sqlite:///{path}") as app:
        assert isinstance(app.store, SqliteStore)
        assert app.store._writer is not None
        before = app.committer.commits
        app.store._writer.set_trace_callback(counts.statements.append)
        with wakes_counted(app, counts):
            started = await asyncio.gather(*(app.start(flow, STEPS, id=f"run-{number}") for number in range(runs)))
            await asyncio.gather(*(run.result() for run in started))
        app.store._writer.set_trace_callback(None)
        counts.commits = app.committer.commits - before
        return counts, [entry.event async for entry in app.run("run-0").journal()]


def test_a_run_of_n_steps_costs_n_plus_one_commits(tmp_path: Path) -> None:
    """The completion of one step and the intent of the next are in one commit: N steps cost N + 1 commits."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", 1))
    assert counts.commits == STEPS + 1
    assert len(counts.transactions) == STEPS + 1


def test_a_commit_is_one_row_changed_and_one_segment_added(tmp_path: Path) -> None:
    """A turn on SQLite is always two statements; only the last turn also cleans up after the run."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", 1))
    first, *turns, last = counts.transactions
    assert [statement.split(" (")[0] for statement in first] == ["INSERT INTO runs", "INSERT INTO segments"]
    for transaction in turns:
        assert [statement.split(" ")[0] for statement in transaction] == ["UPDATE", "INSERT"]
    assert [statement.split(" ")[0] for statement in last] == ["UPDATE", "INSERT", "DELETE", "DELETE", "DELETE"]


def test_a_step_leaves_five_events(tmp_path: Path) -> None:
    """Scheduled, awaited, started, completed, resumed: nothing else is written for a step that succeeds at once."""
    _, events = asyncio.run(on_sqlite(tmp_path / "store.db", 1))
    names = events
    assert names[0] == "ExecutionStarted"
    assert names[-1] == "ExecutionCompleted"
    for number in range(STEPS):
        assert names[1 + number * 5 : 6 + number * 5] == [
            "InvokeScheduled",
            "ExecutionAwaiting",
            "InvokeStarted",
            "InvokeCompleted",
            "ExecutionResumed",
        ]
    assert len(names) == STEPS * 5 + 2


def test_many_runs_at_once_share_their_commits(tmp_path: Path) -> None:
    """A busy engine batches by itself: a hundred runs of ten steps need a small part of the thousand commits."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", RUNS))
    assert counts.commits <= RUNS * STEPS // 10
    assert len(counts.transactions) == counts.commits


def test_a_governed_run_costs_no_commit_more(tmp_path: Path) -> None:
    """Decision, receipt and audit are in the commits that a run of steps would make anyway."""
    counts, events = asyncio.run(on_sqlite(tmp_path / "store.db", 1, governed))
    assert counts.commits == STEPS + 1
    assert len(counts.transactions) == STEPS + 1
    assert len(events) == STEPS * 5 + 2


def test_a_governed_commit_has_few_statements_however_many_acts_came_before(tmp_path: Path) -> None:
    """Besides the two of a turn: one closes the last receipt, one opens the next, one adds the entries of the audit."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", 1, governed))
    _, *turns, _ = counts.transactions
    lengths = {len(transaction) for transaction in turns}
    assert len(lengths) == 1
    assert max(lengths) <= GOVERNED_STATEMENTS


def test_governed_runs_at_once_share_their_commits(tmp_path: Path) -> None:
    """The gate batches as the engine does."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", RUNS, governed))
    assert counts.commits <= RUNS * STEPS // 10


def test_a_run_in_this_process_wakes_the_claimer_at_most_once(tmp_path: Path) -> None:
    """Steps wake no part that would have to query the store: at most the end of a run does."""
    counts, _ = asyncio.run(on_sqlite(tmp_path / "store.db", 1))
    assert counts.wakes <= 1


async def garbage_of(path: Path, flow: Workflow[[int], int]) -> int:
    """Objects that only the garbage collector could free, after a hundred runs at once."""
    async with engine(f"sqlite:///{path}") as app:
        gc.collect()
        gc.disable()
        try:
            started = await asyncio.gather(*(app.start(flow, STEPS, id=f"run-{number}") for number in range(RUNS)))
            await asyncio.gather(*(run.result() for run in started))
            del started
            return gc.collect()
        finally:
            gc.enable()


@pytest.mark.parametrize("flow", [sequence, governed])
def test_a_step_leaves_nothing_to_the_garbage_collector(tmp_path: Path, flow: Workflow[[int], int]) -> None:
    """Reference cycles wait for the garbage collector, which then has to look at all objects."""
    assert asyncio.run(garbage_of(tmp_path / "store.db", flow)) < RUNS * STEPS // 10


SENT: ContextVar[list[str] | None] = ContextVar("SENT", default=None)


class CountingConnection:
    """A connection of the driver that counts each message it waits for; the rest is the connection's own."""

    def __init__(self, connection: Any, sent: list[str]) -> None:
        self._connection = connection
        self._sent = sent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch(self, query: str, *values: Any) -> Any:
        self._sent.append(query)
        return await self._connection.fetch(query, *values)

    async def execute(self, query: str) -> Any:
        self._sent.append(query)
        return await self._connection.execute(query)


class CountingStore(PostgresStore):
    """The store, with the round trips of every commit. Requests of other tasks at the same time are not counted."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.batches: list[tuple[Sequence[p.Change], list[str]]] = []

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        sent: list[str] = []
        self.batches.append((batch, sent))
        token = SENT.set(sent)
        try:
            return await super().commit(batch)
        finally:
            SENT.reset(token)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        async with super()._connection() as connection:
            sent = SENT.get()
            yield connection if sent is None else CountingConnection(connection, sent)


async def on_postgres(
    url: str, runs: int, flow: Workflow[[int], int] = sequence
) -> list[tuple[Sequence[p.Change], list[str]]]:
    """The batches that were committed, each with its round trips."""
    store = CountingStore(url)
    async with engine(store) as app:
        store.batches.clear()
        started = await asyncio.gather(*(app.start(flow, STEPS, id=f"run-{number}") for number in range(runs)))
        await asyncio.gather(*(run.result() for run in started))
        return list(store.batches)


def test_a_commit_on_postgres_is_one_round_trip(postgres: PostgresServer) -> None:
    """N + 1 commits, each of them one statement that is its own transaction."""
    batches = asyncio.run(on_postgres(postgres.schema_url(), 1))
    assert [len(sent) for _, sent in batches] == [1] * (STEPS + 1)


def test_a_commit_of_many_runs_on_postgres_is_one_round_trip(postgres: PostgresServer) -> None:
    """A batch of one kind is one statement for any number of runs; there are far fewer batches than steps."""
    batches = asyncio.run(on_postgres(postgres.schema_url(), RUNS))
    assert len(batches) <= RUNS * STEPS // 10
    assert sum(len(batch) for batch, _ in batches) == RUNS * (STEPS + 1)
    for batch, sent in batches:
        if len({type(change) for change in batch}) == 1:
            assert len(sent) == 1


def test_a_governed_commit_on_postgres_has_few_round_trips(postgres: PostgresServer) -> None:
    """No further commits. In each, the gate adds one statement of each kind, for any number of earlier acts."""
    batches = asyncio.run(on_postgres(postgres.schema_url(), 1, governed))
    assert len(batches) == STEPS + 1
    assert max(len(sent) for _, sent in batches) <= GOVERNED_ROUND_TRIPS

"""Many waiting runs, a very long journal, and clocks that jump."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from holdfast import Holdfast, WorkerOptions, receive, step, workflow
from holdfast.testing.postgres import PostgresServer
from tests.acceptance.processes import eventually, sqlite_url, until_completed, until_status
from tests.scope import volume

WAITING = 10_000
WAITING_THERE = volume(4_000, 10_000)
"""On PostgreSQL, where they differ in nothing but the rows."""
BYTES_PER_RUN = 2048
WARM = 2000
LONG = volume(2_000, 10_000)

done: list[int] = []


@step(name="scale.count")
async def count(number: int) -> int:
    done.append(number)
    return number + 1


@workflow(name="scale.wait")
async def wait(number: int) -> int:
    return number + await receive("go", int)


@workflow(name="scale.long")
async def long(steps: int) -> int:
    total = 0
    for number in range(steps):
        total = await count(number)
        if number == steps // 2:
            await receive("go")
    return total


def resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def _in_groups(numbers: range, act) -> None:  # type: ignore[no-untyped-def]
    for first in range(numbers.start, numbers.stop, 500):
        await asyncio.gather(*(act(number) for number in range(first, min(first + 500, numbers.stop))))


async def _wait_and_wake(url: str, runs: int) -> None:
    async with Holdfast(url, workflows=[wait], options=WorkerOptions(lease_seconds=60)) as app:

        async def begin(number: int) -> None:
            await app.start(wait, number, id=f"r-{number}")

        async def waiting(count: int) -> None:
            async def reached() -> bool:
                return (await app.store.facts()).runs.get("waiting", 0) == count

            await eventually(reached, f"{count} runs to wait")

        await _in_groups(range(WARM), begin)  # afterwards caches, pools and memory arenas hardly grow
        await waiting(WARM)
        before, tasks, threads = resident_bytes(), len(asyncio.all_tasks()), threading.active_count()
        await _in_groups(range(WARM, runs), begin)
        await waiting(runs)
        grown = resident_bytes() - before
        assert grown / (runs - WARM) < BYTES_PER_RUN, f"{grown / (runs - WARM):.0f} bytes for each waiting run"
        assert len(asyncio.all_tasks()) <= tasks + 5
        assert threading.active_count() <= threads + 5

        async def go(number: int) -> None:
            await app.run(f"r-{number}").signal("go", 1)

        await _in_groups(range(runs), go)
        await until_completed(app, runs)
        for number in (0, runs // 2, runs - 1):
            assert await app.run(f"r-{number}").result(60) == number + 1
        assert (await app.store.facts()).inbox == 0


def _let_wait(url: str, runs: int) -> None:
    asyncio.run(_wait_and_wake(url, runs))


def _in_a_new_process(url: str, runs: int) -> None:
    """The memory of a process that has run other tests grows and shrinks by what these have left in it."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as process:
        process.submit(_let_wait, url, runs).result()


@pytest.mark.long
def test_ten_thousand_runs_wait_on_sqlite_without_task_thread_or_memory_each(tmp_path: Path) -> None:
    """A waiting run is a row: under 2 KiB of memory each, no task, no thread; and all of them wake."""
    _in_a_new_process(sqlite_url(tmp_path / "holdfast.db"), WAITING)


def test_thousands_of_runs_wait_on_postgresql_without_task_thread_or_memory_each(postgres: PostgresServer) -> None:
    """The same on PostgreSQL."""
    _in_a_new_process(postgres.schema_url(), WAITING_THERE)


async def _long_journal(url: str) -> None:
    done.clear()
    async with Holdfast(url, workflows=[long]) as app:
        run = await app.start(long, LONG, id="long")
        await until_status(run, "waiting")
        assert len(done) == LONG // 2 + 1
    async with Holdfast(url, workflows=[long]) as app:
        run = app.run("long")
        await run.signal("go")
        assert await run.result(60) == LONG
        assert done == list(range(LONG)), "a completed step ran again, or one was left out"
        assert (await run.info()).events > 4 * LONG
    begun = time.monotonic()
    async with Holdfast(url, workflows=[long]) as app:
        forked = await app.run("long").fork((await app.run("long").info()).events - 3, id="again")
        assert await forked.result(60) == LONG
        assert done[LONG:] in ([], [LONG - 1])
        check = await forked.verify()
        assert (check.good, check.events > 4 * LONG) == (True, True), check.problem
    assert time.monotonic() - begun < 30


def test_a_journal_of_tens_of_thousands_of_events_is_rebuilt_and_continues(tmp_path: Path) -> None:
    """Thousands of steps with a restart: none runs again, and the rebuilt run continues where it stopped."""
    asyncio.run(_long_journal(sqlite_url(tmp_path / "holdfast.db")))


class JumpingClock:
    """The machine's clock, which can be set forward and back."""

    def __init__(self) -> None:
        self.offset_seconds = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + round(self.offset_seconds * 1e6)


@workflow(name="scale.sleep")
async def sleep(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "woken"


async def _jump(url: str, offset_seconds: float) -> None:
    """After a jump back timers are late, after a jump forward early; never before their time on that clock."""
    clock = JumpingClock()
    async with Holdfast(url, workflows=[sleep, wait], clock=clock) as app:
        short = await app.start(sleep, 0.3, id="short")
        middle = await app.start(sleep, 3.0, id="middle")
        waiting = await app.start(wait, 1, id="waiting")
        await until_status(middle, "waiting")
        due = {run.id: (await run.info()).wake_at for run in (short, middle)}
        clock.offset_seconds = offset_seconds
        await waiting.signal("go", 1)
        assert await waiting.result(60) == 2, "a jump of the clock delayed a signal"
        if offset_seconds < 0:
            before = time.monotonic()
            late = await app.start(sleep, 0.3, id="late")
            assert await late.result(60) == "woken"
            assert time.monotonic() - before >= 0.3
            clock.offset_seconds = 0.0  # the clock is corrected
        for run in (short, middle):
            assert await run.result(60) == "woken"
            fired = [entry async for entry in run.journal() if entry.event == "TimerFired"]
            at = due[run.id]
            assert at is not None
            assert fired[0].time >= at, "a timer fired before its time"
            assert (await run.verify()).good


@pytest.mark.parametrize("offset_seconds", [3600.0, -3600.0, -2.0], ids=["forward", "an_hour_back", "a_little_back"])
def test_a_clock_that_jumps_fires_no_timer_early_and_loses_nothing(tmp_path: Path, offset_seconds: float) -> None:
    """Timers follow the worker's clock; everything else continues, and the journals keep their laws."""
    asyncio.run(_jump(sqlite_url(tmp_path / "holdfast.db"), offset_seconds))

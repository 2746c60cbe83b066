"""The app for tests that kill many workers: its steps log a line when they begin and when they end."""

from __future__ import annotations

import asyncio
import os
import time

from holdfast import Holdfast, WorkerOptions, step, step_info, workflow

LOG = "STORM_LOG"
STEPS = 10

# Workers are killed so often that a high number of crashes says nothing about the runs.
app = Holdfast("sqlite:///storm.db", options=WorkerOptions(crash_limit=10_000), worker=False)


def note(word: str) -> None:
    """Write one line at once: lines of several processes never mix, and a kill never leaves half a line."""
    info = step_info()
    line = f"{word} {info.key} {info.attempt} {time.time_ns() // 1000}\n"
    descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@step
async def add(total: int, number: int) -> int:
    note("begin")
    await asyncio.sleep(0.002 + number % 7 * 0.001)
    note("end")
    return total + number


@step(queue="storm")
async def add_queued(total: int, number: int) -> int:
    note("begin")
    await asyncio.sleep(0.002 + number % 7 * 0.001)
    note("end")
    return total + number


@step
def add_in_thread(total: int, number: int) -> int:
    note("begin")
    time.sleep(0.002 + number % 7 * 0.001)
    note("end")
    return total + number


@step
async def patient(number: int, seconds: float) -> int:
    note("begin")
    await asyncio.sleep(seconds)
    note("end")
    return number


@workflow
async def part(number: int) -> int:
    return await add(0, number)


@workflow
async def total_of(first: int) -> int:
    """Ten steps, one after the other."""
    total = 0
    for number in range(first, first + STEPS):
        total = await add(total, number)
    return total


@workflow
async def mixed(first: int) -> int:
    """Ten steps of all kinds: async, in threads, on a queue, concurrent, in a child, around a timer."""
    total = await add(0, first)
    total = await add_in_thread(total, first + 1)
    total = await add_queued(total, first + 2)
    total += sum(await asyncio.gather(*(add(0, first + number) for number in (3, 4, 5))))
    await asyncio.sleep(0.05)
    total += await part(first + 6)
    total = await add_queued(total, first + 7)
    total = await add_in_thread(total, first + 8)
    return await add(total, first + 9)


@workflow
async def patiently(number: int, seconds: float) -> int:
    """Two long steps, so that a stop comes while one of them runs."""
    return await patient(await patient(number, seconds), seconds)


def expected(first: int) -> int:
    """The result of ``total_of`` and of ``mixed``."""
    return sum(range(first, first + STEPS))

"""What a start over HTTP costs beside one in the process: CPU time of the process that starts, in alternating rounds.

``unbound`` is a start by the process itself. ``bound`` acts for the user of a token, as each request does: the user and
the token are read, the commit expects them, and the audit has a note. Both are made one after the other, with a pause
between two, because a server waits for requests: a process that waits finds its caches cold. What the pauses alone cost
is subtracted. The server has no worker, so that nothing but the start is counted.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from visitors import ServerProcess, Visitor, serving

from holdfast import Holdfast, workflow

PAUSE_SECONDS = 0.002
AT_ONCE = 16

Start = Callable[[int], Awaitable[object]]


@workflow(name="bench.http")
async def nothing(number: int) -> int:
    return number


async def measure(folder: Path, store: str, rounds: int, count: int) -> dict[str, float]:
    """Milliseconds of CPU for each start: the medians of all rounds."""
    async with Holdfast(store, worker=False) as app:
        await app.tenants.create("acme")
        await app.users.create("ann", level=4, tenant="acme")
        token = (await app.tokens.mint("ann", tenant="acme")).text
        with serving(folder, store, "--no-worker") as server:
            return await alternate(app, server, token, rounds, count)


async def alternate(app: Holdfast, server: ServerProcess, token: str, rounds: int, count: int) -> dict[str, float]:
    """The ways in turn, on one store."""
    bound, crowd = app.acting_as(token), [Visitor(server.port, token) for _ in range(AT_ONCE)]

    async def unbound_start(number: int) -> None:
        await app.start("bench.http", number)

    async def bound_start(number: int) -> None:
        await bound.start("bench.http", number)

    async def http_start(number: int) -> None:
        body = b'{"workflow":"bench.http","args":[%d]}' % number
        await crowd[number % AT_ONCE].ask("POST", "/v1/runs", body)

    ways: dict[str, tuple[Start, Callable[[], float]]] = {
        "unbound": (unbound_start, _own_cpu),
        "bound": (bound_start, _own_cpu),
        "http": (http_start, server.cpu_ms),
    }
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, (start, cpu) in ways.items():
            one, many = await _one_by_one(start, cpu, count), await _at_once(start, cpu, count)
            if number:  # the first round warms up
                found.setdefault(name, []).append(one)
                found.setdefault(f"{name}, {AT_ONCE} at once", []).append(many)
    for visitor in crowd:
        visitor.close()
    return {name: statistics.median(values) for name, values in found.items()}


def _own_cpu() -> float:
    return time.process_time() * 1e3


async def _one_by_one(start: Start, cpu: Callable[[], float], count: int) -> float:
    spent = cpu()
    for number in range(count):
        await start(number * AT_ONCE)  # all over one connection
        await asyncio.sleep(PAUSE_SECONDS)
    spent = cpu() - spent
    if cpu is not _own_cpu:
        return spent / count
    pauses = cpu()
    for _ in range(count):
        await asyncio.sleep(PAUSE_SECONDS)
    return (spent - (cpu() - pauses)) / count


async def _at_once(start: Start, cpu: Callable[[], float], count: int) -> float:
    async def several(first: int) -> None:
        for number in range(first, count, AT_ONCE):
            await start(number)

    spent = cpu()
    await asyncio.gather(*map(several, range(AT_ONCE)))
    return (cpu() - spent) / count

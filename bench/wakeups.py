"""The latency of hints: a run is started in one process, done by an idle worker in another, and its end is known.

Measured on SQLite and on PostgreSQL, by the store's own hints alone, and with Redis beside them. Between two runs comes
a pause of random length, because a store that is polled answers sooner or later by chance.
"""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

from holdfast import Holdfast, workflow
from holdfast.testing.postgres import server as postgres_server
from holdfast.testing.redis import RedisServer
from holdfast.testing.redis import server as redis_server

RUNS, BURST = 100, 2000


@workflow
async def nothing(number: int) -> int:
    return number


async def _serve(store: str, wakeups: str) -> None:
    async with Holdfast(store, wakeups=wakeups or None):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _measure(store: str, wakeups: str) -> list[float]:
    """The milliseconds from each start to the known end, with a worker in another process."""
    command = [sys.executable, __file__, store, wakeups]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.readline()
        taken = asyncio.run(_start_all(store, wakeups))
        worker.stdin.close()
    return sorted(taken)


async def _start_all(store: str, wakeups: str) -> list[float]:
    taken, chance = [], random.Random(1)
    async with Holdfast(store, wakeups=wakeups or None, worker=False) as client:
        for number in range(RUNS + 5):
            await asyncio.sleep(chance.uniform(0.05, 0.15))
            began = time.perf_counter()
            await (await client.start(nothing, number)).result()
            taken.append((time.perf_counter() - began) * 1e3)
    return taken[5:]


async def _burst(store: str, redis: RedisServer) -> None:
    redis.ask("CONFIG", "RESETSTAT")
    async with Holdfast(store, wakeups=redis.url, worker=False) as client:
        began = time.perf_counter()
        for number in range(BURST):
            await client.start(nothing, number)
        seconds = time.perf_counter() - began
    found = re.search(r"cmdstat_publish:calls=(\d+)", redis.ask("INFO", "commandstats"))
    messages = 0 if found is None else int(found[1])
    print(f"{client.committer.commits} commits in {seconds:.1f} s: {messages} messages")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, postgres_server() as postgres, redis_server() as redis:
        for name, url in (("SQLite", f"sqlite:///{folder}/bench.db"), ("PostgreSQL", postgres.url())):
            for way, wakeups in (("its own hints", ""), ("with Redis", redis.url)):
                taken = _measure(url, wakeups)
                middle, high = statistics.median(taken), taken[int(len(taken) * 0.95)]
                figures = f"median {middle:6.1f} ms, 95 % below {high:6.1f} ms, most {taken[-1]:6.1f} ms"
                print(f"{name:<11} {way:<14} {figures}")
        asyncio.run(_burst(f"sqlite:///{folder}/burst.db", redis))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_serve(sys.argv[1], sys.argv[2]))
    else:
        main()

"""Absurd on PostgreSQL: several asynchronous workers, because each has only one connection.

Its client polls for results, with a pause that doubles. To avoid that delay, ``result`` waits for the body's end inside
this process, and fetches the recorded result only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import workloads
from absurd_sdk import AsyncAbsurd

WORKERS = 4
CONCURRENCY = 25
ASK_AGAIN_SECONDS = 0.002


async def steps(params: Any, ctx: Any) -> int:
    async def work() -> int:
        return 1

    for _ in range(params["count"]):
        await ctx.step("work", work)
    return int(params["count"])


async def slow(params: Any, ctx: Any) -> int:
    for number in range(params["count"]):

        async def work(number: int = number) -> int:
            return await workloads.slow_step(params["run"], number)

        await ctx.step("work", work)
    return int(params["count"])


async def fan(params: Any, ctx: Any) -> int:
    async def work() -> int:
        return 1

    return len(await asyncio.gather(*(ctx.step(f"work-{number}", work) for number in range(params["count"]))))


async def wait(params: Any, ctx: Any) -> int:
    workloads.note_waiting()
    await ctx.await_event(f"go-{params['run']}")
    return int(params["count"])


WORKFLOWS = {"steps": steps, "slow": slow, "fan": fan, "wait": wait}


class WithAbsurd:
    """Workers and clients in one process."""

    def __init__(self, url: str) -> None:
        self._clients = [AsyncAbsurd(url) for _ in range(WORKERS)]
        self._workers = [AsyncAbsurd(url) for _ in range(WORKERS)]
        self._tasks: dict[str, str] = {}
        self._ends: dict[str, asyncio.Event] = {}
        for app in self._workers:
            for name, body in WORKFLOWS.items():
                app.register_task(name=name)(self._with_end_event(body))

    def _with_end_event(self, body: Any) -> Any:
        async def wrapped(params: Any, ctx: Any) -> Any:
            result = await body(params, ctx)
            self._ends.setdefault(params["run"], asyncio.Event()).set()
            return result

        return wrapped

    async def begin(self) -> None:
        self._running = [asyncio.create_task(app.start_worker(concurrency=CONCURRENCY)) for app in self._workers]

    def _client(self, id: str) -> AsyncAbsurd:
        return self._clients[hash(id) % WORKERS]

    async def call(self, workflow: str, id: str, count: int) -> None:
        await self.start(workflow, id, count)
        await self.result(id)

    async def start(self, workflow: str, id: str, count: int) -> None:
        spawned = await self._client(id).spawn(
            workflow, {"run": id, "count": count}, queue="default", idempotency_key=id
        )
        self._tasks[id] = spawned["task_id"]

    async def result(self, id: str) -> None:
        if id not in self._tasks:  # an earlier process started it: the same key finds it again
            await self.start("slow", id, 0)
        else:
            await self._ends.setdefault(id, asyncio.Event()).wait()
        while True:
            result = await self._client(id).fetch_task_result(self._tasks[id])
            if result is not None and result.state == "completed":
                break
            if result is not None and result.state in ("failed", "cancelled"):
                raise RuntimeError(f"{id} {result.state}: {result.failure}")
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        self._tasks.pop(id)
        self._ends.pop(id, None)

    async def wake(self, id: str) -> None:
        await self._client(id).emit_event(f"go-{id}", {"now": True})

    def others(self) -> Iterable[int]:
        return ()


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithAbsurd]:
    contender = WithAbsurd(parameters["url"])
    await contender.begin()
    yield contender


if __name__ == "__main__":
    workloads.main(opened)

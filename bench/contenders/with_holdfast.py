"""Holdfast on SQLite or PostgreSQL, as the URL says, with its defaults; the process is tuned as a worker's is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import workloads

from holdfast import Holdfast, WorkerOptions, receive, step, tune_process, workflow
from holdfast.programs.function.decorators import Workflow


@step
async def work(number: int) -> int:
    return number


@step
async def slow_work(run: str, number: int) -> int:
    return await workloads.slow_step(run, number)


@workflow
async def steps(_run: str, count: int) -> int:
    for number in range(count):
        await work(number)
    return count


@workflow
async def slow(run: str, count: int) -> int:
    for number in range(count):
        await slow_work(run, number)
    return count


@workflow
async def fan(_run: str, count: int) -> int:
    return len(await asyncio.gather(*(work(number) for number in range(count))))


@workflow
async def wait(_run: str, count: int) -> int:
    workloads.note_waiting()
    await receive("go")
    return count


WORKFLOWS: dict[str, Workflow[[str, int], int]] = {"steps": steps, "slow": slow, "fan": fan, "wait": wait}


class WithHoldfast:
    """One engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def call(self, workflow: str, id: str, count: int) -> None:
        run = await self._app.start(WORKFLOWS[workflow], id, count, id=id)
        await run.result()

    async def start(self, workflow: str, id: str, count: int) -> None:
        await self._app.start(WORKFLOWS[workflow], id, count, id=id)

    async def result(self, id: str) -> None:
        await self._app.run(id).result()

    async def wake(self, id: str) -> None:
        await self._app.run(id).signal("go")

    def others(self) -> Iterable[int]:
        return ()


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithHoldfast]:
    async with Holdfast(parameters["url"]) as app:
        tune_process()
        yield WithHoldfast(app)


async def serve(parameters: dict[str, Any]) -> workloads.Figures:
    """A worker process of W7: it holds only a share of the runs, and works until it is killed."""
    async with Holdfast(parameters["url"], options=WorkerOptions(capacity=parameters["capacity"])):
        tune_process()
        print("ready", flush=True)
        await asyncio.Event().wait()
    return {}


async def scale(parameters: dict[str, Any]) -> workloads.Figures:
    """W7: W1 with separate worker processes; this process only starts the runs and waits for their results."""
    children = []
    for _ in range(parameters["workers"]):
        child = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "serve", json.dumps(parameters), stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        await child.stdout.readline()
        children.append(child)
    try:
        async with Holdfast(parameters["url"], worker=False) as app:
            return await workloads.throughput(WithHoldfast(app), **parameters)
    finally:
        for child in children:
            child.kill()


async def recorded(parameters: dict[str, Any]) -> workloads.Figures:
    """W5, between kill and restart: how many steps of each run have a recorded completion."""
    counts: workloads.Figures = {}
    async with Holdfast(parameters["url"], worker=False) as app:
        async for run in app.list():
            completed = 0
            async for entry in app.run(run.id).journal():
                completed += entry.event == "InvokeCompleted"
            counts[run.id] = completed
    return counts


if __name__ == "__main__":
    workloads.main(opened, {"serve": serve, "scale": scale, "recorded": recorded})

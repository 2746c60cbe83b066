"""DBOS, on SQLite or PostgreSQL depending on the URL: asynchronous workflows and steps in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import workloads
from dbos import DBOS, SetWorkflowID


@DBOS.step()
async def work(number: int) -> int:
    return number


@DBOS.step()
async def slow_work(run: str, number: int) -> int:
    return await workloads.slow_step(run, number)


@DBOS.workflow()
async def steps(_run: str, count: int) -> int:
    for number in range(count):
        await work(number)
    return count


@DBOS.workflow()
async def slow(run: str, count: int) -> int:
    for number in range(count):
        await slow_work(run, number)
    return count


@DBOS.workflow()
async def fan(_run: str, count: int) -> int:
    return len(await asyncio.gather(*(work(number) for number in range(count))))


@DBOS.workflow()
async def wait(_run: str, count: int) -> int:
    workloads.note_waiting()
    await DBOS.recv_async("go", timeout_seconds=3600)
    return count


WORKFLOWS = {"steps": steps, "slow": slow, "fan": fan, "wait": wait}


class WithDbos:
    """The engine of this process. Handles are kept, because waiting with them needs no polling."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}

    async def call(self, workflow: str, id: str, count: int) -> None:
        await self.start(workflow, id, count)
        await self.result(id)

    async def start(self, workflow: str, id: str, count: int) -> None:
        with SetWorkflowID(id):
            self._handles[id] = await DBOS.start_workflow_async(WORKFLOWS[workflow], id, count)

    async def result(self, id: str) -> None:
        handle = self._handles.pop(id, None) or await DBOS.retrieve_workflow_async(id)
        await handle.get_result()

    async def wake(self, id: str) -> None:
        await DBOS.send_async(id, "now", "go")

    def others(self) -> Iterable[int]:
        return ()


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithDbos]:
    DBOS(config={"name": "bench", "system_database_url": parameters["url"], "log_level": "ERROR"})
    DBOS.launch()
    yield WithDbos()


if __name__ == "__main__":
    workloads.main(opened)

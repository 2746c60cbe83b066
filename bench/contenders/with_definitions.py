"""Holdfast with a definition: W1's steps as nodes of a workflow that is data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import with_holdfast
import workloads

from holdfast import Holdfast
from holdfast.definition import D, define


class WithDefinitions:
    """One engine, and a definition with as many nodes as a run has steps."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def call(self, workflow: str, id: str, count: int) -> None:
        await self.start(workflow, id, count)
        await self.result(id)

    async def start(self, workflow: str, id: str, count: int) -> None:
        await self._app.start(f"bench.{workflow}", {"count": count}, id=id)

    async def result(self, id: str) -> None:
        await self._app.run(id).result()

    def others(self) -> Iterable[int]:
        return ()


@asynccontextmanager
async def opened(parameters: dict[str, Any]) -> AsyncIterator[WithDefinitions]:
    flow = define("bench.steps", version=1)
    for number in range(parameters["steps"]):
        flow = flow.step(f"step{number}", with_holdfast.work, number=number)
    async with Holdfast(parameters["url"]) as app:
        app.definitions.add(flow.end("done", D.start["count"]))
        yield WithDefinitions(app)


if __name__ == "__main__":
    workloads.main(opened, {})

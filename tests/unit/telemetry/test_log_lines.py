"""Lines of the log name the run that they are about: those of steps and workflows, and the engine's own."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.handlers
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast import Holdfast, WorkerOptions, child, step, workflow
from holdfast.telemetry import JsonFormatter, RunContext

log = logging.getLogger("tests.logging")
TRACE = "0af7651916cd43dd8448eb211c80319c"
OUTSIDE = {"logger": "tests.logging", "level": "warning"}


@step(name="logged.here")
async def here() -> None:
    await asyncio.gather(asyncio.to_thread(log.warning, "in a thread of the step"), _beside())


async def _beside() -> None:
    log.warning("in a task of the step")


@step(name="logged.plain", queue="logged")
def plain() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        log.warning("in a plain step", exc_info=True)


@workflow(name="logged.flow")
async def flow() -> None:
    log.warning("in the workflow")
    await here()
    await plain()
    await child("logged.below")()


@workflow(name="logged.below")
async def below() -> None:
    log.warning("in the child")


@workflow(name="logged.stuck")
async def stuck() -> None:
    await asyncio.to_thread(int)  # a workflow may not


class Lines(logging.Handler):
    """Keeps what a formatter makes of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))

    def saying(self, words: str) -> dict[str, Any]:
        (found,) = (line for line in self.lines if words in line["message"])
        return {name: value for name, value in found.items() if name not in ("time", "message")}


@contextmanager
def logged() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)


def test_each_line_names_its_run_its_workflow_and_its_step() -> None:
    """In threads and tasks of a step, on queues, in workflows and their children; elsewhere nothing is added."""
    given = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}

    async def main() -> None:
        async with Holdfast("memory://", workflows=[flow, below]) as app:
            run = await app.start(flow, id="one", tenant="acme", attributes=given)
            await run.result()
            log.warning("outside of any run")

    with logged() as lines:
        asyncio.run(main())
    about = {**OUTSIDE, "tenant": "acme", "run": "one"}
    step_facts = {"step": "logged.here", "attempt": 1, "trace_id": TRACE}
    for words in ("in a thread of the step", "in a task of the step"):
        assert lines.saying(words) == {**about, "workflow": "logged.flow", **step_facts}
    queued = lines.saying("in a plain step")
    assert queued.pop("traceback").endswith("ValueError: why")
    assert queued == {**about, **step_facts, "step": "logged.plain"}
    assert lines.saying("in the workflow") == {**about, "workflow": "logged.flow"}
    assert lines.saying("in the child") == {**about, "run": "one~2", "workflow": "logged.below"}
    assert lines.saying("outside of any run") == OUTSIDE


def test_a_line_of_the_engine_about_a_run_names_it() -> None:
    async def main() -> None:
        async with Holdfast("memory://", workflows=[stuck], options=WorkerOptions(warm_limit=0)) as app:
            run = await app.start(stuck, id="one", tenant="acme")
            while await run.status() != "paused":
                await app.changed(0.05)

    with logged() as lines:
        asyncio.run(main())
    found = lines.saying("is parked")
    assert (found["tenant"], found["run"], found["logger"]) == ("acme", "one", "holdfast.worker")


def test_a_handler_of_another_thread_has_the_facts_by_the_filter() -> None:
    """The filter reads them where the line is written, and a record that has some keeps them."""
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(records)  # type: ignore[arg-type]  # it only puts
    handler.addFilter(RunContext())
    log.addHandler(handler)

    async def main() -> None:
        async with Holdfast("memory://", workflows=[flow, below]) as app:
            await (await app.start(flow, id="one")).result()
        log.warning("outside", extra={"holdfast": {"run": "said"}})

    try:
        asyncio.run(main())
    finally:
        log.removeHandler(handler)
    lines = []
    while not records.empty():
        lines.append(json.loads(JsonFormatter().format(records.get())))
    assert [line.get("run") for line in lines] == ["one"] * 4 + ["one~2", "said"]

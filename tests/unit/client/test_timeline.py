"""The timeline of a journal: what is under way in it, and what is over."""

from __future__ import annotations

import asyncio

from holdfast.client.views.timeline import fold
from holdfast.programs.function.calls import receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, signal


@step(name="timeline.work")
async def work() -> None:
    raise AssertionError("the kernel runs no step")


@workflow(name="timeline.timed")
async def timed() -> None:
    async with asyncio.timeout(60):
        await work()
    await receive("go")


def states(run: Run) -> list[tuple[str, str, str]]:
    return [(item.kind, item.state, item.detail) for item in fold(run.journal) if item.kind == "timer"]


def test_a_timer_that_is_over_is_not_under_way() -> None:
    """The time-out around a step ends with it: the run waits for something else, and no timer runs."""
    run = Run(timed)
    run.advance()
    (before,) = states(run)
    assert before[1] == "open"
    assert before[2].startswith("fires at ")
    run.advance(run.ok(1, None))
    assert states(run) == [("timer", "dropped", "not needed any more")]
    run.advance(signal("go"))
    assert states(run) == [("timer", "dropped", "not needed any more")]

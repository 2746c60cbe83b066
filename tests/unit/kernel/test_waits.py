"""The waits of a blocked run."""

from __future__ import annotations

import asyncio

from holdfast.programs.function.calls import join_set, receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, check_replay


@step(name="waits.work")
async def work(n: int) -> int:
    raise AssertionError("the kernel runs no step")


def test_a_join_set_beside_other_waits_no_longer_waits_for_what_it_has() -> None:
    """A wait names only what is missing; a promise that was given before would resume the run for ever."""

    @workflow
    async def mixed() -> list[object]:
        group = join_set()
        group.submit(work(1))
        group.submit(work(2))
        return list(await asyncio.gather(group.all(), receive("go")))

    run = Run(mixed)
    run.advance()
    assert run.waiting() == ("any", (3, 1, 2))
    run.advance(run.ok(1, 10))
    assert run.waiting() == ("any", (3, 2))
    check_replay(run)


def test_the_waits_are_told_by_position() -> None:
    """People see what each wait is, by name, and when it is due."""

    @workflow
    async def waiting() -> None:
        await asyncio.gather(work(1), asyncio.sleep(5), receive("go"))

    run = Run(waiting)
    run.advance()
    waits = [(wait.kind, wait.name, wait.position) for wait in run.execution.waits()]
    assert waits == [("step", "waits.work", 0), ("timer", "", 1), ("receive", "go", 2)]
    assert run.execution.waits()[1].due == run.now + 5_000_000

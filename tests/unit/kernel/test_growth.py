"""Work and journal grow with what a run does, not with its square. Operations are counted, not seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.journal.codec import encode_segment
from holdfast.programs.function.calls import join_set, receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, signal


@step(name="growth.work")
async def work(number: int) -> int:
    raise AssertionError("the kernel runs no step")


@workflow(name="growth.gather")
async def gather(count: int) -> int:
    return len(await asyncio.gather(*(work(number) for number in range(count))))


@workflow(name="growth.join")
async def join(count: int) -> int:
    results = join_set()
    for number in range(count):
        results.submit(work(number))
    return len([result async for result in results])


@workflow(name="growth.abandon")
async def abandon(count: int) -> int:
    tasks = [asyncio.create_task(work(number)) for number in range(count)]
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return count


@workflow(name="growth.hear")
async def hear(count: int) -> int:
    return len(await asyncio.gather(*(receive(f"item {number}") for number in range(count))))


@workflow(name="growth.hear_one")
async def hear_one(count: int) -> int:
    return len(await asyncio.gather(*(receive("item") for _ in range(count))))


def at_once(count: int) -> Run:
    run = Run(gather, count)
    run.advance()
    run.advance(*(run.ok(number, number) for number in range(count)))
    return run


def staggered(count: int) -> Run:
    run = Run(gather, count)
    run.advance()
    for number in range(count):
        run.advance(run.ok(number, number))
    return run


def joined(count: int) -> Run:
    run = Run(join, count)
    run.advance()
    for number in range(count):
        run.advance(run.ok(number + 1, number))
    return run


def abandoned(count: int) -> Run:
    run = Run(abandon, count)
    run.advance()
    run.advance(after=1)
    return run


def heard(count: int) -> Run:
    run = Run(hear, count)
    run.advance()
    run.advance(*(signal(f"item {number}", number) for number in range(count)))
    return run


def heard_one(count: int) -> Run:
    run = Run(hear_one, count)
    run.advance()
    run.advance(*(signal("item", number) for number in range(count)))
    return run


def operations(play: Callable[[int], Run], count: int) -> tuple[int, int, Run]:
    """The cost of a program of that size: lines and calls executed, and bytes of journal."""
    counted = 0

    def note(_frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal counted
        counted += 1
        return note

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(note)
    sys.setprofile(note)
    try:
        run = play(count)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return counted, len(encode_segment([(entry.timestamp, entry.event) for entry in run.journal], 0)), run


@pytest.mark.parametrize("play", [at_once, staggered, joined, abandoned, heard, heard_one])
def test_four_times_as_much_takes_four_times_as_many_operations(play: Callable[[int], Run]) -> None:
    """A square would be sixteen times."""
    small, few_bytes, run = operations(play, 150)
    assert run.result() == 150
    large, many_bytes, run = operations(play, 600)
    assert run.result() == 600
    assert large < 5 * small
    assert many_bytes < 5 * few_bytes


def test_what_a_long_wait_lists_is_bounded() -> None:
    """Lists are made without a line of Python, so they are counted by themselves."""
    run = staggered(400)
    assert sum(len(getattr(event, "waiting_on", ())) for event in run.events) < 400

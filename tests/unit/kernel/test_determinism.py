"""Sets of asyncio's objects keep their order in every replay, and the garbage collector starts nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from asyncio import as_completed as imported_before
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, check_replay


@step(name="order.work")
async def work(number: int) -> int:
    raise AssertionError("the kernel runs no step")


async def own(number: int) -> int:
    return await work(number)


@workflow(name="order.completed")
async def completed(count: int) -> list[int]:
    return [await one for one in asyncio.as_completed([own(number) for number in range(count)])]


@workflow(name="order.imported")
async def imported(count: int) -> list[int]:
    return [await one for one in imported_before([own(number) for number in range(count)])]


@workflow(name="order.shielded")
async def shielded(count: int) -> list[int]:
    futures = {asyncio.shield(own(number)) for number in range(count)}
    return [await future for future in futures]


@workflow(name="order.gathered")
async def gathered(count: int) -> None:
    for future in {asyncio.gather(own(number), own(number + 1)) for number in range(count)}:
        future.cancel()
        await asyncio.sleep(0)
        await work(99)


def asked_for(workflow: Any, count: int) -> list[int]:
    """The arguments of the steps that a run requests in its first turns, in order."""
    run = Run(workflow, count)
    run.advance()
    numbers = []
    for promise in sorted(run.invokes):
        numbers.append(work.signature.read(run.invokes[promise].input)[0][0])
    return numbers


def test_a_run_is_the_same_under_every_hash_seed_and_at_every_address() -> None:
    """Replayed in other processes, where every object has another address, the journal's commands are the same."""
    flows = (completed, imported, shielded, gathered)
    program = (
        "import sys; from tests.unit.kernel import test_determinism as t\n"
        "pad = [object() for _ in range(int(sys.argv[1]))]\n"
        f"for name in {[flow.__name__ for flow in flows]}: print(t.asked_for(getattr(t, name), 40))"
    )
    root = str(Path(__file__).parents[3])
    here = [str(asked_for(flow, 40)) for flow in flows]
    for seed in (1, 2, 3):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": root}
        command = [sys.executable, "-c", program, str(seed * 1009)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == here, f"seed {seed}"


def test_what_is_completed_is_begun_in_the_order_given() -> None:
    """As an author reads it."""
    for flow in (completed, imported):
        assert asked_for(flow, 40) == list(range(40))


def test_as_completed_outside_of_workflows_is_asyncio_s_own() -> None:
    """Also where it is refused."""

    async def main() -> list[int]:
        async def plain(number: int) -> int:
            return number

        alone = asyncio.ensure_future(plain(0))
        with pytest.raises(TypeError):
            list(asyncio.as_completed(alone))  # type: ignore[arg-type]
        await alone
        return sorted([await one for one in asyncio.as_completed([plain(1), plain(2)], timeout=5)])

    assert asyncio.run(main()) == [1, 2]


def test_a_generator_that_only_the_collector_finds_is_not_run_again() -> None:
    """It would be closed at another moment in each replay. A generator without references is closed at once."""

    async def numbers(holder: list[Any]) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await work(len(holder))

    @workflow
    async def leaving(cycle: bool) -> None:
        holder: list[Any] = []
        generator = numbers(holder)
        if cycle:
            holder += [generator, holder]
        async for _ in generator:
            break
        del generator, holder
        gc.collect()
        await asyncio.sleep(1)

    for cycle, asked in ((False, ["order.work"]), (True, [])):
        run = Run(leaving, cycle)
        run.advance()
        assert run.open_calls() == asked
        check_replay(run)


def test_tasks_do_not_collide_in_asyncio_s_set_of_all_tasks() -> None:
    """There they hash by their address: the numbers of other runs are the same ones."""

    @workflow
    async def many(count: int) -> int:
        tasks = [asyncio.create_task(own(number)) for number in range(count)]
        known: Any = getattr(asyncio.tasks, "_scheduled_tasks", None) or getattr(asyncio.tasks, "_all_tasks", None)
        hashes = {hash(reference) for reference in known.data}
        assert len(hashes) >= count
        assert asyncio.all_tasks() >= set(tasks)
        return len(hashes)

    run = Run(many, 200)
    run.advance()
    assert run.result() >= 200

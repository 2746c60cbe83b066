"""Throwing a program away runs none of its effects."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from holdfast.programs.function.calls import join_set, now, receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run

ran: list[str] = []


@step(name="disposal.effect")
async def effect() -> None:
    ran.append("effect")


@step(name="disposal.blocking_effect")
def blocking_effect() -> None:
    ran.append("blocking effect")


async def step_in_finally() -> None:
    try:
        await receive("never")
    finally:
        await effect()


async def blocking_step_in_finally() -> None:
    try:
        await receive("never")
    finally:
        await blocking_effect()


async def sleep_in_finally() -> None:
    try:
        await receive("never")
    finally:
        await asyncio.sleep(1)
        await effect()


async def shielded_in_finally() -> None:
    try:
        await receive("never")
    finally:
        await asyncio.shield(effect())


async def stubborn() -> None:
    while True:
        try:
            await receive("never")
        except BaseException:
            await effect()


async def commands_in_finally() -> None:
    try:
        await receive("never")
    finally:
        try:
            now()
        finally:
            group = join_set()
            group.submit(effect())


async def in_a_task() -> None:
    await asyncio.gather(step_in_finally(), sleep_in_finally())


async def in_a_context() -> None:
    @asynccontextmanager
    async def held() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await effect()

    async with held():
        await receive("never")


async def in_a_generator() -> None:
    async def pages() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await effect()

    async for _ in pages():
        await receive("never")


async def never_begun() -> None:
    task = asyncio.ensure_future(step_in_finally())
    await receive("never")
    await task


BODIES = [
    step_in_finally,
    blocking_step_in_finally,
    sleep_in_finally,
    shielded_in_finally,
    stubborn,
    commands_in_finally,
    in_a_task,
    in_a_context,
    in_a_generator,
    never_begun,
]


def dispose(function: Callable[[], Awaitable[None]]) -> int:
    """Begin a run of the body, close it and collect the garbage; gives how many events the closing made."""

    @workflow
    async def doomed() -> None:
        await function()

    run = Run(doomed)
    run.advance()
    run.execution.program.close()
    run.execution.program.close()
    made = len(run.execution._pen.written())
    del run
    gc.collect()
    return made


@pytest.mark.parametrize("function", BODIES)
def test_closing_a_program_executes_no_step(function: Callable[[], Awaitable[None]]) -> None:
    """A ``finally:`` that awaits a step must not run it, nor record a command, when its program is thrown away."""
    ran.clear()
    assert dispose(function) == 0
    assert ran == []


@pytest.mark.parametrize("function", BODIES)
def test_closing_a_program_inside_a_workers_loop_executes_no_step(function: Callable[[], Awaitable[None]]) -> None:
    """The worker's own loop must not take over objects that a program leaves behind, above all async generators."""
    ran.clear()

    async def worker() -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: done.set_result(dispose(function)))
        made = await done
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return made

    assert asyncio.run(worker()) == 0
    assert ran == []


def test_a_program_that_never_began_can_be_closed() -> None:
    """There is nothing to unwind."""

    @workflow
    async def idle() -> None: ...

    idle.program().close()

"""asyncio's own primitives inside a workflow: they work, they are durable, and they replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from holdfast.errors import BlockedLoop
from holdfast.programs.function.calls import join_set, receive
from holdfast.programs.function.decorators import Workflow, step, workflow
from tests.runs import Run, check_replay, signal


@step(name="asyncio.work")
async def work(n: int) -> int:
    raise AssertionError("the kernel runs no step")


@step(name="asyncio.clean")
async def clean(n: int) -> None:
    raise AssertionError("the kernel runs no step")


def body(function: Callable[[], Awaitable[Any]]) -> Workflow[[], Any]:
    """The function as a workflow."""

    @workflow
    async def tried() -> Any:
        return await function()

    return tried


def begun(function: Callable[[], Awaitable[Any]]) -> Run:
    run = Run(body(function))
    run.advance()
    check_replay(run)
    return run


def numbers(run: Run) -> list[int]:
    """The arguments of the requested steps, by position."""
    return [invoke.input.data[2] for _, invoke in sorted(run.invokes.items())]


def test_gather_gives_results_in_order() -> None:
    """However the steps are settled, and in one turn or many."""

    async def main() -> list[int]:
        return list(await asyncio.gather(work(1), work(2), work(3)))

    run = begun(main)
    assert run.waiting() == ("any", (0, 1, 2))
    run.advance(run.ok(2, 30))
    run.advance(run.ok(1, 20), run.ok(0, 10))
    assert run.result() == [10, 20, 30]
    check_replay(run)


def test_gather_raises_the_first_error() -> None:
    """The others continue, as in asyncio."""

    async def main() -> str:
        try:
            await asyncio.gather(work(1), work(2))
        except ValueError:
            return "caught"
        return "no"

    run = begun(main)
    run.advance(run.err(1, ValueError("no")))
    assert run.result() == "caught"
    assert run.abandoned == [run.promise(0)]
    check_replay(run)


def test_gather_can_return_exceptions() -> None:
    """Each place holds a result or its error."""

    async def main() -> list[str]:
        results = await asyncio.gather(work(1), work(2), return_exceptions=True)
        return [type(result).__name__ for result in results]

    run = begun(main)
    run.advance(run.err(0, ValueError("no")), run.ok(1, 2))
    assert run.result() == ["ValueError", "int"]
    check_replay(run)


def test_wait_gives_the_first_completed() -> None:
    """And the one that is cancelled is abandoned."""

    async def main() -> list[Any]:
        tasks = [asyncio.create_task(work(n)) for n in range(3)]  # type: ignore[arg-type]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        return [[task.result() for task in done], len(pending)]

    run = begun(main)
    run.advance(run.ok(1, 11))
    assert run.result() == [[11], 2]
    assert run.abandoned == [run.promise(0), run.promise(2)]
    check_replay(run)


def test_as_completed_gives_results_as_they_come() -> None:
    """In the order of settlement, the same in every replay."""

    async def main() -> list[int]:
        return [await result for result in asyncio.as_completed([work(1), work(2), work(3)])]

    run = begun(main)
    assert numbers(run) == [1, 2, 3]
    run.advance(run.ok(2, 30))
    run.advance(run.ok(0, 10))
    run.advance(run.ok(1, 20))
    assert run.result() == [30, 10, 20]
    check_replay(run)


def test_as_completed_begins_many_calls_in_an_order_that_replays() -> None:
    """asyncio begins them in the order of a set; the order of that set must not depend on addresses."""

    async def main() -> None:
        for result in asyncio.as_completed([work(n % 20) for n in range(200)]):
            await result

    run = begun(main)
    for _ in range(3):
        held = [object() for _ in range(1000)]
        check_replay(run)
        del held


def test_a_failing_member_of_a_task_group_cancels_the_others_in_an_order_that_replays() -> None:
    """The cleanup of many cancelled tasks issues its steps in the same order every time."""

    async def member(n: int) -> None:
        try:
            await work(n)
        except asyncio.CancelledError:
            await clean(n)
            raise

    async def main() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                for n in range(16):
                    group.create_task(member(n))
        except ExceptionGroup as errors:
            return f"{len(errors.exceptions)} failed"
        return "no"

    run = begun(main)
    run.advance(run.err(3, ValueError("no")))
    cleaning = [wait.position for wait in run.execution.waits()]
    assert len(cleaning) == 15
    check_replay(run)
    run.advance(*[run.ok(position) for position in cleaning])
    assert run.result() == "1 failed"
    check_replay(run)


def test_a_task_group_gives_its_results() -> None:
    """Structured concurrency as it is written."""

    async def main() -> int:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(n)) for n in (1, 2)]  # type: ignore[arg-type]
        return sum(task.result() for task in tasks)

    run = begun(main)
    run.advance(run.ok(1, 5))
    run.advance(run.ok(0, 4))
    assert run.result() == 9
    check_replay(run)


def test_timeout_gives_up_the_step() -> None:
    """The step is abandoned, and its late result changes nothing."""

    async def main() -> str:
        try:
            async with asyncio.timeout(5):
                await work(1)
        except TimeoutError:
            await asyncio.sleep(1)
            return "late"
        return "in time"

    run = begun(main)
    run.advance(after=5)
    assert run.abandoned == [run.promise(0)] or run.abandoned == [run.promise(1)]
    run.advance(run.ok(0, 1), run.ok(1, 1))
    run.advance(after=1)
    assert run.result() == "late"
    check_replay(run)


def test_wait_for_gives_the_result_in_time() -> None:
    """And its timer ends with it."""

    async def main() -> int:
        return await asyncio.wait_for(work(1), timeout=5)

    run = begun(main)
    step_position = next(iter(run.invokes)).path[-1]
    run.advance(run.ok(step_position, 7), after=4)
    assert run.result() == 7
    assert run.execution.next_due() is None
    check_replay(run)


def test_wait_for_times_out() -> None:
    """As in asyncio."""

    async def main() -> str:
        try:
            await asyncio.wait_for(receive("never"), timeout=5)
        except TimeoutError:
            return "late"
        return "no"

    run = begun(main)
    run.advance(after=5)
    assert run.result() == "late"
    check_replay(run)


def test_an_event_wakes_its_waiters() -> None:
    """One task notifies another."""

    async def main() -> list[str]:
        event, seen = asyncio.Event(), []

        async def waiter(name: str) -> None:
            await event.wait()
            seen.append(name)

        tasks = [asyncio.create_task(waiter(name)) for name in "ab"]
        await work(1)
        event.set()
        await asyncio.gather(*tasks)
        return seen

    run = begun(main)
    assert run.waiting() == ("single", (0,))
    run.advance(run.ok(0, 1))
    assert run.result() == ["a", "b"]
    check_replay(run)


def test_a_queue_connects_tasks() -> None:
    """Producer and consumer, bounded."""

    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(maxsize=1)

        async def produce() -> None:
            for n in (1, 2, 3):
                await queue.put(await work(n))

        producer = asyncio.create_task(produce())
        taken = [await queue.get() for _ in range(3)]
        await producer
        return taken

    run = begun(main)
    for position, value in enumerate((10, 20, 30)):
        run.advance(run.ok(position, value))
    assert run.result() == [10, 20, 30]
    check_replay(run)


@pytest.mark.parametrize("make", [asyncio.Lock, lambda: asyncio.Semaphore(1), asyncio.Condition])
def test_locks_let_one_in_at_a_time(make: Callable[[], Any]) -> None:
    """The second step begins when the first is done."""

    async def main() -> list[int]:
        lock = make()

        async def guarded(n: int) -> int:
            async with lock:
                return await work(n)

        return list(await asyncio.gather(guarded(1), guarded(2)))

    run = begun(main)
    assert list(run.invokes) == [run.promise(0)]
    run.advance(run.ok(0, 1))
    assert list(run.invokes) == [run.promise(0), run.promise(1)]
    run.advance(run.ok(1, 2))
    assert run.result() == [1, 2]
    check_replay(run)


def test_a_condition_notifies() -> None:
    """wait_for a state that another task brings about."""

    async def main() -> int:
        condition, state = asyncio.Condition(), {"n": 0}

        async def change() -> None:
            state["n"] = await work(1)
            async with condition:
                condition.notify_all()

        task = asyncio.create_task(change())
        async with condition:
            await condition.wait_for(lambda: state["n"] > 0)
        await task
        return state["n"]

    run = begun(main)
    run.advance(run.ok(0, 5))
    assert run.result() == 5
    check_replay(run)


def test_shield_keeps_a_step_through_a_timeout() -> None:
    """The inner step continues and is awaited later."""

    async def main() -> int:
        inner = asyncio.ensure_future(work(1))
        try:
            async with asyncio.timeout(1):
                await asyncio.shield(inner)
        except TimeoutError:
            pass
        return await inner

    run = begun(main)
    run.advance(after=1)
    assert run.abandoned == []
    [position] = [promise.path[-1] for promise in run.invokes]
    run.advance(run.ok(position, 3))
    assert run.result() == 3
    check_replay(run)


def test_a_task_left_behind_does_not_hold_the_run() -> None:
    """The run ends with its body, and its open calls are given up."""

    async def main() -> str:
        asyncio.create_task(work(1)).set_name("background")  # type: ignore[arg-type]
        await asyncio.sleep(0)
        return "over"

    run = Run(body(main))
    turn = run.advance()
    assert run.result() == "over"
    assert turn.requests == []
    check_replay(run)


def test_an_async_generator_that_is_left_early_is_closed() -> None:
    """Its ``finally`` runs inside the workflow, as asyncio would run it."""

    async def main() -> int:
        async def pages() -> AsyncIterator[int]:
            try:
                for n in (1, 2):
                    yield await work(n)
            finally:
                await clean(9)

        first = 0
        async for page in pages():
            first = page
            break
        await asyncio.sleep(1)
        return first

    run = begun(main)
    run.advance(run.ok(0, 7))
    assert [invoke.function_name for invoke in run.invokes.values()] == ["asyncio.work", "asyncio.clean"]
    run.advance(after=1)
    assert run.result() == 7
    check_replay(run)


def test_a_join_set_gives_all_in_the_order_of_submission() -> None:
    """J-50: the wait is for all of them at once."""

    async def main() -> list[int]:
        group = join_set()
        for n in (1, 2, 3):
            group.submit(work, n)
        assert len(group) == 3
        return await group.all()

    run = begun(main)
    assert run.waiting() == ("all", (1, 2, 3))
    run.advance(run.ok(3, 30), run.ok(1, 10))
    assert run.names()[-1] == "InvokeCompleted"
    check_replay(run)
    run.advance(run.ok(2, 20))
    assert run.result() == [10, 20, 30]
    check_replay(run)


def test_a_join_set_can_be_iterated_and_ends() -> None:
    """Results as they come; taking one more than there are is an error of the body."""

    async def main() -> list[Any]:
        group = join_set()
        group.submit(work(1))
        group.submit(work(2))
        taken: list[Any] = [result async for result in group]
        try:
            await group.next()
        except IndexError:
            taken.append("empty")
        return taken

    run = begun(main)
    run.advance(run.ok(2, 20))
    run.advance(run.ok(1, 10))
    assert run.result() == [20, 10, "empty"]
    check_replay(run)


def test_signals_and_steps_are_waited_for_together() -> None:
    """Whichever comes first moves the run."""

    async def main() -> list[Any]:
        return list(await asyncio.gather(work(1), receive("a"), receive("b"), asyncio.sleep(5, "slept")))

    run = begun(main)
    assert run.waiting()[0] == "any"
    run.advance(signal("b", 2))
    run.advance(signal("a", 1), after=5)
    [position] = [promise.path[-1] for promise in run.invokes]
    run.advance(run.ok(position, 0))
    assert run.result() == [0, 1, 2, "slept"]
    check_replay(run)


async def _open_connection() -> None:
    await asyncio.open_connection("localhost", 1)


async def _to_thread() -> None:
    await asyncio.to_thread(print)


async def _run_in_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def _subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


async def _shell() -> None:
    await asyncio.create_subprocess_shell("true")


async def _server() -> None:
    await asyncio.start_server(lambda _reader, _writer: None, port=0)


async def _getaddrinfo() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 1)


async def _stop() -> None:
    asyncio.get_running_loop().stop()


async def _swallowed() -> None:
    try:
        await _open_connection()
    except Exception:
        return


@pytest.mark.parametrize(
    "io",
    [
        _open_connection,
        _to_thread,
        _run_in_executor,
        _subprocess,
        _shell,
        _server,
        _getaddrinfo,
        _stop,
        _swallowed,
    ],
)
def test_real_io_is_refused(io: Callable[[], Awaitable[None]]) -> None:
    """It could not replay. The run is parked with a remedy, even where the body swallows the error."""
    run = Run(body(io))
    with pytest.raises(BlockedLoop, match="@step"):
        run.advance()

"""The workflows behind the golden journals. Never change one, never remove one, only add.

Each golden journal was written by one of these functions, and must replay by it for ever. A function that is changed
here would prove nothing any more about the journals that users have.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast import (
    RetryPolicy,
    StepFailed,
    TerminalError,
    ask,
    continue_as_new,
    join_set,
    now,
    patched,
    random,
    receive,
    send,
    spawn,
    step,
    step_info,
    uuid,
    workflow,
)

LARGE: Final = 40_000
"""Characters; more than what a journal keeps in itself."""


# -- steps -----------------------------------------------------------------------------------------------------------


@step(name="golden.add")
async def add(left: int, right: int) -> int:
    return left + right


@step(name="golden.slow_echo")
async def slow_echo(text: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return text


@step(name="golden.flaky", retry=RetryPolicy(max_attempts=4, initial=1.0, factor=3.0, maximum=5.0, jitter=0.25))
async def flaky(fails: int) -> int:
    if step_info().attempt <= fails:
        raise ConnectionError(f"attempt {step_info().attempt} met nobody")
    return step_info().attempt


@step(name="golden.refuse")
async def refuse(reason: str) -> None:
    raise TerminalError(reason)


@step(name="golden.release_seat")
async def release_seat(seat: str) -> str:
    return f"{seat} is free"


@step(name="golden.reserve_seat", undo=release_seat)
async def reserve_seat(seat: str) -> str:
    return seat


@step(
    name="golden.press", queue="golden-press", concurrency=2, retry=RetryPolicy(max_attempts=2, initial=2.0, jitter=0)
)
async def press(sheet: str, fails: int) -> str:
    if step_info().attempt <= fails:
        raise OSError("the paper is stuck")
    return f"{sheet} is printed"


@step(name="golden.repeat")
async def repeat(text: str, times: int) -> str:
    return text * times


@step(name="golden.book_slowly", undo=release_seat)
async def book_slowly(seat: str) -> str:
    await asyncio.sleep(5)
    return seat


@step(name="golden.reserve_slowly", undo=release_seat)
async def reserve_slowly(seat: str) -> str:
    await asyncio.sleep(5)
    return seat


# -- workflows -------------------------------------------------------------------------------------------------------


@workflow(name="golden.sequence")
async def sequence(start: int, *, increments: list[int]) -> int:
    total = start
    for increment in increments:
        total = await add(total, increment)
    return total


@workflow(name="golden.nothing")
async def nothing() -> None:
    return None


@workflow(name="golden.retries")
async def retries() -> list[Any]:
    results: list[Any] = [await flaky(2)]
    try:
        await flaky(99)
    except ConnectionError as error:
        results.append(type(error).__name__)
    return results


@workflow(name="golden.failure")
async def failure(reason: str) -> None:
    await add(1, 1)
    await refuse(reason)


@workflow(name="golden.own_failure")
async def own_failure() -> None:
    raise LookupError("the body raises")


@workflow(name="golden.gathered")
async def gathered() -> list[Any]:
    found = await asyncio.gather(
        slow_echo("slow", 2.0), slow_echo("quick", 0.5), refuse("never"), return_exceptions=True
    )
    return [type(one).__name__ if isinstance(one, BaseException) else one for one in found]


@workflow(name="golden.grouped")
async def grouped() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(slow_echo(text, seconds)) for text, seconds in (("a", 1.0), ("b", 0.2), ("c", 0.6))]
    return [task.result() for task in tasks]


@workflow(name="golden.group_fails")
async def group_fails() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow_echo("called off", 100.0))
            group.create_task(refuse("the group falls"))
    except ExceptionGroup as group_error:
        return ", ".join(type(error).__name__ for error in group_error.exceptions)
    return "unharmed"


@workflow(name="golden.race")
async def race() -> str:
    tasks = [asyncio.create_task(slow_echo(text, seconds)) for text, seconds in (("hare", 9.0), ("tortoise", 1.0))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return next(iter(done)).result()


@workflow(name="golden.timeouts")
async def timeouts() -> list[str]:
    results = []
    for seconds in (0.5, 10.0):
        try:
            async with asyncio.timeout(seconds):
                results.append(await slow_echo("in time", 3.0))
        except TimeoutError:
            results.append("too late")
    return results


@workflow(name="golden.timers")
async def timers() -> str:
    await asyncio.sleep(1.5)
    await asyncio.gather(asyncio.sleep(86_400), asyncio.sleep(0.25))
    return "rested"


@workflow(name="golden.signals")
async def signals() -> list[Any]:
    """Signals that were sent before they are asked for, and one that is waited for."""
    await asyncio.sleep(10)
    results = [await receive("early"), await receive("early", str)]
    results.append(await receive("late"))
    return results


@workflow(name="golden.approval")
async def approval() -> str:
    """A signal or a timeout, and signals in parallel."""
    try:
        async with asyncio.timeout(5):
            await receive("decision")
    except TimeoutError:
        pass
    first, second = await asyncio.gather(receive("decision", bool), receive("reason", str))
    return f"{first}: {second}"


class Review(msgspec.Struct):
    decision: str
    amount: int = 0


@workflow(name="golden.forms")
async def forms() -> list[Any]:
    """A form that is answered, one that expires, and one that nobody waits for any more."""
    show = {"total": 12, "lines": ["a", "b"]}
    review = await ask("review claim", Review, groups=["claims"], show=show, exclude=["fred"], due=timedelta(hours=1))
    try:
        await ask("hurry", Review, candidates=["ann"], expire=timedelta(seconds=5))
    except TimeoutError as error:
        expired = type(error).__name__
    try:
        async with asyncio.timeout(5):
            await ask("in vain", Review)
    except TimeoutError:
        pass
    return [review.decision, review.amount, expired]


@workflow(name="golden.entropy")
async def entropy() -> list[Any]:
    before = now()
    await asyncio.sleep(60)
    return [before.isoformat(), random(), str(uuid()), now().isoformat()]


@workflow(name="golden.join_next")
async def join_next() -> list[str]:
    members = join_set()
    for text, seconds in (("slow", 3.0), ("quick", 1.0), ("middling", 2.0)):
        members.submit(slow_echo(text, seconds))
    return [result async for result in members]


@workflow(name="golden.join_all")
async def join_all() -> list[Any]:
    members = join_set()
    members.submit(add(1, 2))
    members.submit(sequence(1, increments=[2]))
    first = await members.all()
    other = join_set()
    other.submit(refuse("a member fails"))
    try:
        await other.next()
    except StepFailed as error:
        return [*first, type(error).__name__]
    return first


@workflow(name="golden.children")
async def children() -> list[Any]:
    results: list[Any] = [await sequence(10, increments=[1])]
    try:
        await failure("a child fails")
    except StepFailed as error:
        results.append(type(error).__name__)
    return results


@workflow(name="golden.listener")
async def listener() -> str:
    return await receive("greeting", str)


@workflow(name="golden.detached")
async def detached() -> list[str]:
    """A run that lives on its own, and a signal to it; another signal finds nobody."""
    one = await spawn(listener, id="the-listener")
    await send(one, "greeting", "good morning")
    try:
        await send("nobody", "greeting", "good night")
    except StepFailed as error:
        return [one, type(error).__name__]
    return [one]


@workflow(name="golden.compensation")
async def compensation() -> None:
    await reserve_seat("12A")
    await reserve_seat("12B")
    await refuse("the card is declined")


@workflow(name="golden.given_up")
async def given_up() -> str:
    kept = await reserve_seat("12A")
    try:
        async with asyncio.timeout(1):
            await reserve_slowly("12B")
    except TimeoutError:
        await asyncio.sleep(1)
    return kept


@workflow(name="golden.passenger")
async def passenger(seat: str) -> str:
    await reserve_seat(seat)
    await asyncio.sleep(3600)
    return seat


@workflow(name="golden.party")
async def party() -> None:
    await reserve_seat("12A")
    await asyncio.gather(reserve_slowly("12B"), passenger("12C"), refuse("the card is declined"))


@workflow(name="golden.cleanup")
async def cleanup() -> str:
    seat = await reserve_seat("30F")
    try:
        await asyncio.sleep(3600)
    finally:
        await add(1, 0)
        await asyncio.sleep(2)
    return seat


@workflow(name="golden.counter")
async def counter(left: int, heard: list[str]) -> list[str]:
    """Continues as new; what was signalled and not received comes along."""
    heard = [*heard, await receive("word", str)]
    if left:
        continue_as_new(left - 1, heard)
    return heard


@workflow(name="golden.patches")
async def patches() -> list[Any]:
    results: list[Any] = [patched("rounding")]
    results.append(await add(1, 1))
    results.append(patched("rounding"))
    results.append(patched("currency"))
    return results


@workflow(name="golden.queued")
async def queued() -> list[str]:
    return list(await asyncio.gather(press("page one", 0), press("page two", 1)))


@workflow(name="golden.large")
async def large(text: str) -> int:
    copied = await repeat(text, 2)
    heard = await receive("more", str)
    return len(copied) + len(heard)


@workflow(name="golden.long_wait")
async def long_wait() -> str:
    """Waits for whatever comes first of a step, a timer and a signal."""
    tasks = [
        asyncio.create_task(flaky(3)),
        asyncio.create_task(asyncio.sleep(1_000_000)),
        asyncio.create_task(receive("word")),
    ]
    await asyncio.wait(tasks)
    return "all came"


@workflow(name="golden.resting")
async def resting() -> int:
    total = 0
    for number in range(3):
        await asyncio.sleep(10)
        total = await add(total, number)
    return total


@workflow(name="golden.repairable")
async def repairable() -> list[Any]:
    """Fails until its signal says otherwise: what ``retry`` and ``fork`` go on from."""
    first = await add(20, 1)
    word = await receive("word", str)
    if word == "bad":
        await refuse("the word is bad")
    return [first, word]

"""Workflows that ask people, for the tests of forms."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pydantic

from holdfast import TaskExpired, ask, continue_as_new, join_set, step, workflow
from holdfast.errors import StepFailed

UNDONE: list[str] = []
FAULTS: list[str] = []
"""Why ``forms.flaky`` fails; it succeeds while this is empty."""


class Review(msgspec.Struct, forbid_unknown_fields=True):
    decision: str
    amount: int = 0


@dataclass
class Plain:
    good: bool


class Strict(pydantic.BaseModel):
    even: int

    @pydantic.field_validator("even")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("it is odd")
        return value


@workflow(name="forms.review")
async def review(filed_by: str) -> list[object]:
    answer = await ask(
        "review claim", Review, groups=["claims"], show={"total": 12}, due=timedelta(hours=48), exclude=[filed_by]
    )
    return [answer.decision, answer.amount]


@workflow(name="forms.open")
async def anyone() -> str:
    return (await ask("say it", Review)).decision


@workflow(name="forms.plain")
async def plain() -> bool:
    return (await ask("is it good?", Plain)).good


@workflow(name="forms.strict")
async def strict() -> int:
    return (await ask("an even number", Strict)).even


@workflow(name="forms.patient")
async def patient() -> str:
    try:
        answer = await ask(
            "look at it",
            Review,
            candidates=["ann"],
            due=timedelta(hours=2),
            remind=[timedelta(hours=1), timedelta(minutes=90)],
            escalate={"groups": ["leads"]},
            expire=timedelta(hours=3),
        )
    except TimeoutError as error:  # a TaskExpired is one
        if not isinstance(error, TaskExpired):
            raise
        return "expired"
    return answer.decision


@step(name="forms.undo")
async def undo(done: str) -> None:
    UNDONE.append(done)


@step(name="forms.work", undo=undo)
async def work(name: str) -> str:
    return name


@step(name="forms.fail")
async def fail() -> None:
    raise ValueError("no")


@workflow(name="forms.gathering")
async def gathering() -> str:
    await work("first")
    try:
        await asyncio.gather(ask("say it", Review), fail())
    except ValueError:
        raise RuntimeError("given up") from None
    return "never"


@workflow(name="forms.hurried")
async def hurried() -> str:
    try:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            first = group.create_task(ask("one", Review))
            second = group.create_task(ask("two", Review))
    except TimeoutError:
        return "late"
    return first.result().decision + second.result().decision


@workflow(name="forms.joining")
async def joining() -> str:
    answers = join_set()
    answers.submit(ask("one", Review))
    return str(await answers.next())


@workflow(name="forms.rounds")
async def rounds(left: int) -> str:
    answer = await ask(f"round {left}", Review)
    if not left:
        return answer.decision
    task = asyncio.ensure_future(ask("left open", Review))
    await asyncio.sleep(1)
    assert not task.done()
    return continue_as_new(left - 1)


@workflow(name="forms.failing")
async def failing() -> str:
    first = await ask("first", Review)
    second = await ask("second", Review)
    if second.decision == "fail":
        raise ValueError("as it was asked to")
    return first.decision + second.decision


@step(name="forms.flaky")
async def flaky() -> None:
    if FAULTS:
        raise ValueError(FAULTS[0])


@workflow(name="forms.faulty")
async def faulty() -> str:
    first = await ask("first", Review)
    await asyncio.gather(flaky(), ask("beside", Review))
    return first.decision


@workflow(name="forms.stuck")
async def stuck() -> str:
    return (await ask("nobody", Review, candidates=["ann"], exclude=["Ann"])).decision


class Odd(pydantic.BaseModel):
    text: str = pydantic.Field(json_schema_extra={"pattern": "("})


@workflow(name="forms.odd")
async def odd() -> str:
    return (await ask("it has no form", Odd)).text


ALL = (review, anyone, plain, strict, patient, gathering, hurried, rounds, failing, faulty, stuck, odd)

__all__ = ["ALL", "FAULTS", "UNDONE", "StepFailed"]

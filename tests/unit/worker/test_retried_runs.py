"""A retried run comes to places at which it was before: what was done there, and what it has become since."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from holdfast import RunCancelled, RunFailed, StepFailed, action, step, workflow
from holdfast.audit import records as r
from holdfast.runs import children
from holdfast.worker.steps.performance import step_info
from tests.unit.worker.ground import Ground, asked, kill, notes, receipts, until

FAILS: list[Exception] = []
"""What the next steps fail with."""
DONE: list[object] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    FAILS.clear()
    DONE.clear()


@step(name="retried.flaky")
async def flaky() -> int:
    if FAILS:
        raise FAILS.pop()
    return 20


@action(connector="desk", operation="charge", name="retried.charge", idempotency_key="charge:{order}")
async def charge(order: str, amount: int) -> str:
    DONE.append(amount)
    raise ConnectionResetError("gone")


@workflow(name="retried.charging")
async def charging() -> str:
    try:
        amount = await flaky()
    except StepFailed:
        amount = 10
    return await charge("o-1", amount)


def test_an_unknown_outcome_under_the_same_key_is_asked_about_whatever_the_call_asks_now(ground: Ground) -> None:
    """The key says that it is the same act. It is neither set aside nor judged for ever."""

    async def main(ground: Ground) -> None:
        FAILS.append(ValueError("at first"))
        async with ground.engine(charging) as app:
            run = await app.start(charging, id="one")
            first = await asked(app, "one")
            await run.cancel("stop")
            with pytest.raises(RunCancelled):
                await run.result()
            await run.retry(by="ann")
            second = await asked(app, "one", other_than=first.id)
            assert (second.kind, second.status) == ("outcome", "requested")
            assert DONE == [10]
            assert [(each.key, each.state) for each in await receipts(app, "one")] == [("charge:o-1", "unknown")]
            assert len([each for each in await notes(app, r.Decided) if each.effect == "allow"]) == 1

    ground.play(main)


@workflow(name="retried.kid")
async def kid() -> str:
    return "kid"


@workflow(name="retried.parent")
async def parent() -> str:
    """After the retry it goes on from its step: the child is behind that, and its result does not count."""
    with contextlib.suppress(StepFailed):
        await flaky()
    got = await kid()
    if FAILS:
        raise FAILS.pop()
    return got


def test_who_dies_before_a_child_is_heard_again_leaves_that_to_the_next_holder(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is kept for it: a run that nobody leases and nothing wakes would wait for ever."""
    ask = children.met_again

    async def main(ground: Ground) -> None:
        died = asyncio.Event()
        FAILS.extend([ArithmeticError("behind the child"), ValueError("the step")])
        async with ground.engine(parent, kid) as app:

            async def dying(*question: Any) -> Any:
                monkeypatch.setattr(children, "met_again", ask)
                kill(app)
                died.set()
                return await ask(*question)

            run = await app.start(parent, id="one")
            with pytest.raises(RunFailed):
                await run.result()
            monkeypatch.setattr(children, "met_again", dying)
            await run.retry(by="ann", new=True)
            await died.wait()
        async with ground.engine(parent, kid) as app:
            assert await app.run("one").result(600) == "kid"

    virtual.play(main)


@action(connector="pay", operation="charge", name="retried.pay", safe_to_retry=True)
async def pay(order: str) -> str:
    DONE.append(step_info().key)
    await asyncio.Event().wait()
    return order


@action(connector="pay", operation="charge", name="retried.pay (next)", safe_to_retry=True)
async def next_pay(order: str, note: str = "") -> str:
    DONE.append(step_info().key)
    return order + note


@workflow(name="retried.paying")
async def paying() -> str:
    return await pay("o-1")


def test_an_attempt_of_newer_code_has_the_key_of_the_attempt_before(virtual: Ground) -> None:
    """The default key is over what the call gave. A parameter that came with a default makes no other act of it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(paying) as app:
            await app.start(paying, id="one")
            await until(app, lambda: bool(DONE))
            kill(app)
        async with ground.engine(paying, steps={"retried.pay": next_pay}) as app:
            assert await app.run("one").result(600) == "o-1"
            first, second = DONE
            assert first == second
            assert [each.state for each in await receipts(app, "one")] == ["succeeded"]

    virtual.play(main)

"""Results that do not fit their annotations: a run that returns one fails, and a step's success is undone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Holdfast, RunFailed
from holdfast.errors import StepFailed, Undecodable
from holdfast.journal import events as e
from holdfast.programs.function.calls import join_set
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, check_replay
from tests.unit.kernel.test_compensation import finish, undone

done: list[str] = []


@step(name="typed.refund")
async def refund(payment: Any) -> None:
    done.append(f"refund {payment}")


@step(name="typed.charge", retries=3, undo=refund)
async def charge() -> int:
    done.append("charge")
    return "payment-1"  # type: ignore[return-value]  # the mistake under test


@workflow(name="typed.pays")
async def pays() -> int:
    return await charge()


@workflow(name="typed.pays_by_set")
async def pays_by_set() -> int:
    payments = join_set()
    payments.submit(charge())
    total: int = await payments.next()
    return total


@workflow(name="typed.goes_on")
async def goes_on() -> str:
    try:
        await charge()
    except StepFailed:
        await refund("by hand")
    return "went on"


@workflow(name="typed.lies")
async def lies() -> int:
    return "text"  # type: ignore[return-value]  # the mistake under test


@workflow(name="typed.unreadable")
async def unreadable() -> memoryview:
    return "text"  # type: ignore[return-value]  # nothing can be read as a memoryview


def failure(run: Run) -> str:
    ended = run.events[-1]
    assert isinstance(ended, e.ExecutionFailed)
    assert ended.error.type == "holdfast.errors:Undecodable"
    return ended.error.message


@pytest.mark.parametrize("flow", [pays, pays_by_set])
def test_a_success_that_does_not_fit_is_recorded_and_undone(flow: Any) -> None:
    """It is not tried again. What undoes it gets what was given."""
    run = Run(flow)
    run.advance()
    (charged,) = run.invokes
    run.advance(run.ok(charged.path[-1], "payment-1"))
    check_replay(run)
    finish(run)
    assert undone(run) == [["payment-1"]]
    assert "the result of typed.charge was stored as 'payment-1' and cannot be read as int" in failure(run)
    assert not [event for event in run.events if isinstance(event, e.InvokeRetrying)]


def test_the_body_can_handle_it() -> None:
    """It is the failure of a call, and no fault for which the run would be parked."""
    run = Run(goes_on)
    run.advance()
    run.advance(run.ok(0, "payment-1"))
    check_replay(run)
    finish(run)
    assert run.result() == "went on"


def test_a_run_that_returns_what_does_not_fit_fails_and_says_so() -> None:
    """Today's reader would refuse it, so it is no result."""
    run = Run(lies)
    run.advance()
    check_replay(run)
    assert "the result of typed.lies was stored as 'text' and cannot be read as int" in failure(run)


def test_an_annotation_that_nothing_can_be_read_as_is_not_checked() -> None:
    run = Run(unreadable)
    run.advance()
    assert run.result() == "text"


def test_runs_of_older_editions_do_as_before() -> None:
    """A run returned what its readers refused, and was parked at a call's result."""
    run = Run(lies, edition=1)
    run.advance()
    assert run.result() == "text"
    run = Run(pays, edition=1)
    run.advance()
    with pytest.raises(Undecodable):
        run.advance(run.ok(0, "payment-1"))


async def _run_both() -> None:
    async with Holdfast("memory://", workflows=[pays, lies]) as app:
        with pytest.raises(RunFailed, match="Return what the annotation says"):
            await (await app.start(lies)).result()
        with pytest.raises(RunFailed, match=r"typed\.charge"):
            await (await app.start(pays)).result()


def test_a_user_sees_the_failure_and_the_undo() -> None:
    """Through the engine: one attempt, one undo, and the error that says what to do."""
    done.clear()
    asyncio.run(_run_both())
    assert done == ["charge", "refund payment-1"]

"""The three worked journals of the journal's design come out event for event from real workflow functions (J-75)."""

from __future__ import annotations

from typing import Any

from holdfast.journal import events as e
from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function.calls import join_set, random, receive
from holdfast.programs.function.decorators import step, workflow
from tests.runs import Run, check_replay, signal

Row = tuple[object, ...]

PATIENT = RetryPolicy(max_attempts=3, initial=1.0, jitter=0.0)


@step(name="worked.fetch_user")
async def fetch_user(id: int) -> dict[str, Any]:
    raise AssertionError("the kernel runs no step")


@step(name="worked.send_email", retry=PATIENT)
async def send_email(user: dict[str, Any]) -> str:
    raise AssertionError("the kernel runs no step")


@step(name="worked.send_sms")
async def send_sms(user: dict[str, Any]) -> str:
    raise AssertionError("the kernel runs no step")


@step(name="worked.create_order")
async def create_order(id: str) -> str:
    raise AssertionError("the kernel runs no step")


@workflow(name="worked.full")
async def full(id: int) -> list[str]:
    random()
    user = await fetch_user(id)
    messages = join_set()
    messages.submit(send_email(user))
    messages.submit(send_sms(user))
    return [await messages.next(), await messages.next()]


@workflow(name="worked.approval")
async def approval(id: str) -> bool:
    await create_order(id)
    answer: dict[str, bool] = await receive("user_approval", dict[str, bool])
    return answer["approved"]


def row(event: e.Event) -> Row:
    """The event as the design writes it: its type, then positions, attempt, kind, names and delivery id."""
    parts: list[object] = [type(event).__name__]
    join_set_id = getattr(event, "join_set_id", None)
    if join_set_id is not None:
        parts.append(join_set_id.position.path)
    promise = getattr(event, "promise_id", None)
    if promise is not None:
        parts.append(promise.path)
    if isinstance(event, e.InvokeScheduled):
        parts.append(event.kind)
    for field in ("function_name", "signal_name", "attempt", "failed_attempt", "delivery_id"):
        if hasattr(event, field):
            parts.append(getattr(event, field))
    if isinstance(event, e.ExecutionAwaiting):
        parts += [tuple(promise.path for promise in event.waiting_on), type(event.kind).__name__]
        if isinstance(event.kind, e.Signal):
            parts.append(event.kind.name)
    return tuple(parts)


def test_the_full_example() -> None:
    """A random value, a call, and a join set whose second member completes first and whose first is retried."""
    run = Run(full, 42)
    run.advance()
    run.advance(run.ok(1, {"name": "Ada"}))
    run.advance(run.ok(4, "sms"))
    run.advance(run.failed(3))
    run.advance(after=1.0)
    run.advance(run.ok(3, "email"))

    assert [row(event) for event in run.events] == [
        ("ExecutionStarted",),
        ("RandomGenerated", (0,)),
        ("InvokeScheduled", (1,), "step", "worked.fetch_user"),
        ("ExecutionAwaiting", ((1,),), "Single"),
        ("InvokeStarted", (1,), 1),
        ("InvokeCompleted", (1,), 1),
        ("ExecutionResumed",),
        ("JoinSetCreated", (2,)),
        ("InvokeScheduled", (3,), "step", "worked.send_email"),
        ("JoinSetSubmitted", (2,), (3,)),
        ("InvokeScheduled", (4,), "step", "worked.send_sms"),
        ("JoinSetSubmitted", (2,), (4,)),
        ("ExecutionAwaiting", ((3,), (4,)), "Any"),
        ("InvokeStarted", (4,), 1),
        ("InvokeCompleted", (4,), 1),
        ("ExecutionResumed",),
        ("JoinSetAwaited", (2,), (4,)),
        ("ExecutionAwaiting", ((3,),), "Any"),
        ("InvokeStarted", (3,), 1),
        ("InvokeRetrying", (3,), 1),
        ("InvokeStarted", (3,), 2),
        ("InvokeCompleted", (3,), 2),
        ("ExecutionResumed",),
        ("JoinSetAwaited", (2,), (3,)),
        ("ExecutionCompleted",),
    ]
    assert run.result() == ["sms", "email"]
    check_replay(run)


def test_a_buffered_signal() -> None:
    """A signal that comes in the turn of the completion is delivered after the resumption and consumed at once."""
    run = Run(approval, "o-1")
    run.advance()
    run.advance(signal("user_approval", {"approved": True}), run.ok(0, "order"))

    assert [row(event) for event in run.events] == [
        ("ExecutionStarted",),
        ("InvokeScheduled", (0,), "step", "worked.create_order"),
        ("ExecutionAwaiting", ((0,),), "Single"),
        ("InvokeStarted", (0,), 1),
        ("InvokeCompleted", (0,), 1),
        ("ExecutionResumed",),
        ("SignalDelivered", "user_approval", 1),
        ("SignalReceived", (1,), "user_approval", 1),
        ("ExecutionCompleted",),
    ]
    assert run.result() is True
    check_replay(run)


def test_a_blocking_signal() -> None:
    """A signal that comes later settles its promise; the run resumes after that."""
    run = Run(approval, "o-1")
    run.advance()
    run.advance(run.ok(0, "order"))
    run.advance(signal("user_approval", {"approved": True}), after=7200)

    assert [row(event) for event in run.events] == [
        ("ExecutionStarted",),
        ("InvokeScheduled", (0,), "step", "worked.create_order"),
        ("ExecutionAwaiting", ((0,),), "Single"),
        ("InvokeStarted", (0,), 1),
        ("InvokeCompleted", (0,), 1),
        ("ExecutionResumed",),
        ("ExecutionAwaiting", ((1,),), "Signal", "user_approval"),
        ("SignalDelivered", "user_approval", 1),
        ("SignalReceived", (1,), "user_approval", 1),
        ("ExecutionResumed",),
        ("ExecutionCompleted",),
    ]
    assert run.result() is True
    check_replay(run)

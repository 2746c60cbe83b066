"""Replay: a change of code is detected where it differs, and an author's mistake stops the run without any loss."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import AuthorError, EngineError, LawBroken, Nondeterminism, NotInWorkflow, Undecodable, Unencodable
from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED
from holdfast.programs.function.calls import continue_as_new, join_set, patched, random, receive, send, spawn, uuid
from holdfast.programs.function.decorators import Workflow, step, workflow
from holdfast.programs.function.values import decode
from tests.runs import Run, check_replay, signal


@step(name="replay.charge")
async def charge(amount: int) -> str:
    raise AssertionError("the kernel runs no step")


@step(name="replay.ship")
async def ship() -> str:
    raise AssertionError("the kernel runs no step")


@step(name="replay.email")
async def email() -> str:
    raise AssertionError("the kernel runs no step")


def old() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(10)
        await ship()
        await asyncio.sleep(10)

    return order


def history() -> Run:
    """A run that charged, shipped and sleeps."""
    run = Run(old())
    run.advance()
    run.advance(run.ok(0, "paid"))
    run.advance(run.ok(1, "shipped"))
    return run


def changed_name() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(10)
        await email()

    return order


def changed_input() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(11)

    return order


def removed_step() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(10)
        await asyncio.sleep(10)

    return order


def added_step() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(10)
        await email()
        await ship()

    return order


def reordered() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await ship()
        await charge(10)

    return order


def ended_early() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        await charge(10)

    return order


def waits_differently() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        first = asyncio.ensure_future(charge(10))
        await asyncio.sleep(0)
        await asyncio.Event().wait()
        await first

    return order


def swallows_everything() -> Workflow[[], None]:
    @workflow
    async def order() -> None:
        while True:
            try:
                await email()
            except BaseException:
                return

    return order


@pytest.mark.parametrize(
    ("code", "sequence", "recorded", "issued"),
    [
        (changed_name, 6, "step replay.ship() scheduled at #1", "step replay.email() scheduled at #1"),
        (changed_input, 1, "step replay.charge(10) scheduled at #0", "step replay.charge(11) scheduled at #0"),
        (removed_step, 6, "step replay.ship() scheduled at #1", "timer of 10 s at #1"),
        (added_step, 6, "step replay.ship() scheduled at #1", "step replay.email() scheduled at #1"),
        (reordered, 1, "step replay.charge(10) scheduled at #0", "step replay.ship() scheduled at #0"),
        (ended_early, 6, "step replay.ship() scheduled at #1", "completed → None"),
        (swallows_everything, 1, "step replay.charge(10) scheduled at #0", "step replay.email() scheduled at #0"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_changed_code_is_found_at_its_sequence(code: Any, sequence: int, recorded: str, issued: str) -> None:
    """J-43: each replayed command is compared; the error shows the place, the recorded command and the issued one."""
    with pytest.raises(Nondeterminism) as found:
        history().rebuilt(workflow=code())
    assert (found.value.sequence, found.value.recorded, found.value.issued) == (sequence, recorded, issued)
    assert f"- recorded: {recorded}\n  + issued:   {issued}\n" in str(found.value)
    assert "patched()" in str(found.value)


def test_a_different_wait_is_found() -> None:
    """The wait that closes a turn is compared too; a task in the background makes no difference by itself."""
    run = history()
    with pytest.raises(Nondeterminism) as found:
        run.rebuilt(workflow=waits_differently())
    assert found.value.sequence == 6
    assert found.value.issued == "waiting for nothing"


def test_a_changed_duration_or_policy_is_no_difference() -> None:
    """Code that only the future runs may change without a marker."""

    @workflow
    async def order() -> None:
        await charge(10)
        await ship()
        await asyncio.sleep(99)

    run = history()
    other = run.rebuilt(workflow=order)
    assert other.execution.next_due() == run.execution.next_due()


def marked() -> Workflow[[], list[str]]:
    @workflow
    async def order() -> list[str]:
        done = [await charge(10)]
        if patched("email-first"):
            done.append(await email())
        done.append(await ship())
        if patched("email-first"):
            await asyncio.sleep(0)
        await asyncio.sleep(10)
        return done

    return order


def test_a_marker_sends_old_runs_the_old_way() -> None:
    """``patched()`` is false where the journal went on without it, for the whole of that run."""
    run = history().rebuilt(workflow=marked())
    run.advance(after=10)
    assert run.result() == ["paid", "shipped"]
    check_replay(run)


def test_a_marker_sends_new_runs_the_new_way() -> None:
    """And the new branch is recorded, so every replay takes it."""
    run = Run(marked())
    run.advance()
    run.advance(run.ok(0, "paid"))
    assert run.open_calls() == ["replay.email"]
    check_replay(run)
    run.advance(run.ok(2, "sent"))
    run = run.rebuilt()
    run.advance(run.ok(3, "shipped"))
    run.advance(after=10)
    assert run.result() == ["paid", "sent", "shipped"]
    check_replay(run)


def test_a_marker_sends_a_run_that_has_not_reached_it_the_new_way() -> None:
    """Old code wrote the journal up to here; from here on the new code is followed."""
    run = Run(old())
    run.advance()
    run = run.rebuilt(workflow=marked())
    run.advance(run.ok(0, "paid"))
    assert run.open_calls() == ["replay.email"]
    check_replay(run)


def test_a_marker_that_was_removed_is_found() -> None:
    """The journal records that the new branch was taken under this name."""
    run = Run(marked())
    run.advance()
    run.advance(run.ok(0, "paid"))
    with pytest.raises(Nondeterminism):
        run.rebuilt(workflow=old())


def test_an_authors_error_stops_the_turn_and_a_rebuilt_run_keeps_the_arrivals() -> None:
    """Nothing of the failed turn is kept; the arrivals are recorded by a rebuilt execution that does not resume."""

    @workflow
    async def faulty() -> object:
        await receive("go")
        return object()

    run = Run(faulty)
    run.advance()
    with pytest.raises(Unencodable):
        run.advance(signal("go", 1))
    rebuilt = run.rebuilt()
    rebuilt.advance(signal("go", 1), resume=False)
    assert rebuilt.names()[-1] == "SignalDelivered"
    assert not rebuilt.ended

    @workflow
    async def mended() -> int:
        await receive("go")
        return 5

    run = rebuilt.rebuilt(workflow=mended)
    run.advance()
    assert run.result() == 5
    check_replay(run)


def test_arguments_that_do_not_fit_fail_a_run_that_has_not_begun() -> None:
    """Its waiter gets the expected type. The failure replays, and a retry reads the arguments again."""

    @workflow
    async def loose(value: object) -> None: ...

    @workflow
    async def strict(value: int) -> None: ...

    run = Run(loose, "text")
    run.advance(resume=False)
    refused = run.rebuilt(workflow=strict)
    refused.advance()
    (failed,) = [event for event in refused.events if isinstance(event, e.ExecutionFailed)]
    assert failed.error.type == "holdfast.errors:InvalidArguments"
    assert (
        failed.error.message
        == "argument 'value' of strict is 'text', which does not fit int: Expected `int`, got `str`"
    )
    check_replay(refused)


def test_arguments_that_no_longer_fit_park_a_run_that_has_begun() -> None:
    """Its acts are kept: the code must accept the values that older code stored."""

    @workflow(name="narrowed")
    async def before(value: object) -> None:
        await charge(1)

    @workflow(name="narrowed2")
    async def after(value: int) -> None:
        await charge(1)

    run = Run(before, "text")
    run.advance()
    with pytest.raises(Nondeterminism, match=r"(?s)recorded: .*charge.*issued: .*'value'.*does not fit"):
        run.rebuilt(workflow=after)


def test_a_step_result_that_does_not_fit_parks_the_run() -> None:
    """The result of old code is never lost: a wider annotation reads it."""
    run = Run(old())
    run.advance()
    with pytest.raises(Undecodable, match=r"replay\.charge"):
        run.advance(run.ok(0, {"not": "text"}))


def test_an_error_of_the_body_fails_the_run() -> None:
    """An exception is an answer, not a fault of the engine."""

    @workflow
    async def broken() -> None:
        raise KeyError("gone")

    run = Run(broken)
    run.advance()
    failure = run.failure()
    assert (failure.type, failure.message) == ("builtins:KeyError", "'gone'")
    assert "in broken" in failure.trace
    check_replay(run)


def test_continue_as_new_hands_the_arguments_over() -> None:
    """The journal ends with a completion of its own codec; unreceived signals are there for the next generation."""

    @workflow
    async def loop(page: int) -> int:
        await receive("go")
        try:
            continue_as_new(page + 1)
        except Exception:
            return -1

    run = Run(loop, 1)
    run.advance()
    run.advance(signal("go", 1), signal("go", 2))
    last = run.events[-1]
    assert isinstance(last, e.ExecutionCompleted)
    assert last.result.codec == CONTINUED
    assert decode(last.result) == [[2], {}]
    assert [name for name, _ in run.execution.ledger.signals.unconsumed()] == ["go"]
    check_replay(run)


def undoing() -> Workflow[[bool], str]:
    @step
    async def unbook(result: str, name: str) -> None: ...

    @step
    async def unpay(result: str) -> None: ...

    @step(undo=unbook)
    async def book(name: str) -> str: ...

    @step(undo=unpay)
    async def pay() -> str: ...

    @step
    async def confirm() -> str: ...

    @workflow
    async def trip(early: bool) -> str:
        await book("hotel")
        group = join_set()
        group.submit(pay())
        await group.next()
        if early:
            raise AssertionError("early")
        return await confirm()

    return trip


@pytest.mark.parametrize("early", [True, False])
def test_a_failed_run_undoes_what_succeeded_newest_first(early: bool) -> None:
    """Each undo gets the result and as many arguments as it takes; the failure is the run's own."""
    run = Run(undoing(), early)
    run.advance()
    run.advance(run.ok(0, "room 7"))
    run.advance(run.ok(2, "receipt"))
    if not early:
        run.advance(run.err(3, RuntimeError("full")))
    position = 3 if early else 4
    assert run.open_calls() == ["unpay"]
    assert decode(run.invokes[run.promise(position)].input) == [["receipt"], {}]
    run.advance(run.ok(position))
    assert run.open_calls() == ["unbook"]
    assert decode(run.invokes[run.promise(position + 1)].input) == [["room 7", "hotel"], {}]
    run.advance(run.ok(position + 1))
    assert run.failure().type == ("builtins:AssertionError" if early else "builtins:RuntimeError")
    check_replay(run)


def test_a_run_that_succeeds_undoes_nothing() -> None:
    """Undo is for failures and cancellations."""
    run = Run(undoing(), False)
    run.advance()
    run.advance(run.ok(0, "room 7"))
    run.advance(run.ok(2, "receipt"))
    run.advance(run.ok(3, "confirmed"))
    assert run.result() == "confirmed"


def test_entropy_is_recorded() -> None:
    """J-21: random numbers and UUIDs are the same in every replay, and differ within a run."""

    @workflow
    async def lottery() -> list[object]:
        return [random(), random(), str(uuid()), str(uuid())]

    run = Run(lottery)
    run.advance()
    first, second, one, two = run.result()
    assert 0 <= first < 1
    assert first != second
    assert one != two
    check_replay(run)


def test_sending_and_spawning_are_invocations() -> None:
    """J-09: new kinds of work need no new event."""

    @workflow
    async def child(value: int) -> None: ...

    @workflow
    async def parent() -> str:
        await send("other-run", "go", 1)
        return await spawn(child, 5, id="child-1")

    run = Run(parent)
    run.advance()
    assert run.invokes[run.promise(0)].kind == "signal"
    run.advance(run.ok(0))
    assert run.invokes[run.promise(1)].kind == "detached"
    run.advance(run.ok(1, "child-1"))
    assert run.result() == "child-1"
    check_replay(run)


def test_a_child_workflow_is_an_invocation_that_can_fail() -> None:
    """The parent sees the child's error as its own class."""

    @workflow
    async def child(value: int) -> int: ...

    @workflow
    async def parent() -> str:
        try:
            return str(await child(5))
        except LookupError as error:
            return type(error).__name__

    run = Run(parent)
    run.advance()
    assert run.invokes[run.promise(0)].kind == "workflow"
    run.advance(run.err(0, KeyError("x")))
    assert run.result() == "KeyError"
    check_replay(run)


def test_an_empty_journal_cannot_be_rebuilt() -> None:
    """There is no run without its start."""
    with pytest.raises(EngineError, match="empty"):
        history().rebuilt([])


def test_a_journal_that_breaks_a_law_is_refused_on_replay() -> None:
    """A journal that is read back is judged by the same ledger."""
    run = history()
    with pytest.raises(LawBroken) as refused:
        run.rebuilt(run.journal[1:])
    assert refused.value.law == "S-1"


@pytest.mark.parametrize("call", [random, uuid, join_set, lambda: patched("x"), lambda: continue_as_new()])
def test_calls_outside_a_workflow_say_so(call: Any) -> None:
    """Nothing could record them there."""
    with pytest.raises(NotInWorkflow, match="only inside a workflow"):
        call()


def test_every_error_of_this_file_is_the_authors() -> None:
    """They park a run; they never fail it."""
    assert all(issubclass(kind, AuthorError) for kind in (Nondeterminism, Undecodable, Unencodable, NotInWorkflow))

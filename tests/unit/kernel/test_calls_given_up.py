"""Calls that a body gives up, or leaves behind when it ends: they are stopped and awaited, and a success is undone."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import InvalidFunction
from holdfast.journal import events as e
from holdfast.kernel.arrivals import Arrival
from holdfast.programs.function.calls import continue_as_new, join_set, keep_done
from holdfast.programs.function.decorators import Workflow, workflow
from holdfast.runs.birth import id_in
from tests.runs import SECOND, Run, cancel, check_replay, signal
from tests.unit.kernel.test_compensation import book, boom, finish, undone


@workflow(name="given.child")
async def child() -> None:
    await book("of the child")


@workflow(name="given.timely")
async def timely(fails: bool = False, keeps: bool = False) -> str:
    kept = await book("A")
    try:
        async with asyncio.timeout(1):
            await book("B")
    except TimeoutError:
        if keeps:
            keep_done()
    if fails:
        await boom()
    return kept


def given_up(*args: bool, edition: int = e.EDITION) -> Run:
    """A run of ``timely`` whose second call is given up, and under way."""
    run = Run(timely, *args, edition=edition)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(after=1)
    return run


def test_a_call_that_was_given_up_is_undone_although_the_run_returns() -> None:
    """Its body does not rely on it. What the body has is kept."""
    run = given_up()
    assert run.stopped == [run.promise(2)]
    assert not run.ended
    check_replay(run)
    run.advance(run.ok(2, "2B"))
    check_replay(run)
    finish(run)
    assert undone(run) == [["2B", "B"]]
    assert run.result() == "1A"


def test_a_call_that_was_given_up_and_fails_leaves_nothing_to_undo() -> None:
    run = given_up()
    run.advance(run.err(2, ValueError("no")))
    assert undone(run) == []
    assert run.result() == "1A"


def test_a_run_of_an_earlier_edition_gives_a_call_up_for_good() -> None:
    """Its journal says nothing of the end of the call, and never will."""
    run = given_up(edition=1)
    assert run.abandoned == [run.promise(2)]
    assert run.result() == "1A"


def test_a_run_that_fails_undoes_what_it_gave_up_in_its_place() -> None:
    """All successes are undone newest first, whoever relied on them."""
    run = given_up(True)
    run.advance(run.ok(2, "2B"))
    run.advance(run.err(3, ValueError("boom")))
    finish(run)
    assert undone(run) == [["2B", "B"], ["1A", "A"]]
    assert run.failure().message == "boom"


def test_keep_done_keeps_nothing_that_was_given_up() -> None:
    run = given_up(True, True)
    run.advance(run.ok(2, "2B"), run.err(3, ValueError("boom")))
    finish(run)
    assert undone(run) == [["2B", "B"]]


def test_a_run_that_cannot_undo_what_it_gave_up_fails_and_undoes_the_rest() -> None:
    """A run that ended well would hide it, and one that failed has undone what it did."""
    run = given_up()
    run.advance(run.ok(2, "2B"))
    run.advance(run.err(3, ValueError("it is sold")))
    finish(run)
    assert undone(run) == [["2B", "B"], ["1A", "A"]]
    assert "returned" in run.failure().message
    assert "it is sold" in run.failure().message


@workflow(name="given.family")
async def family() -> None:
    await book("A")
    await asyncio.gather(book("B"), child(), boom())


@pytest.mark.parametrize("first", ["call", "child"])
def test_nothing_is_undone_before_all_that_is_awaited_has_ended(first: str) -> None:
    """A child that is cancelled undoes what it did, and its parent undoes after it."""
    run = Run(family)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(run.err(3, ValueError("boom")))
    assert sorted(run.stopped) == [run.promise(1), run.promise(2)]
    check_replay(run)
    ends = [run.ok(1, "2B"), run.err(2, ValueError("it was cancelled"))]
    for end in ends if first == "call" else reversed(ends):
        assert undone(run) == []
        run.advance(end)
        check_replay(run)
    finish(run)
    assert undone(run) == [["2B", "B"], ["1A", "A"]]


@workflow(name="given.patient", cleanup_timeout=60.0)
async def patient() -> None:
    await book("A")
    await asyncio.gather(child(), boom())


LEFT = "left before they had ended: {}~1"


def waiting_for_child(flow: Workflow[[], None] = patient, *before: Arrival) -> Run:
    """A run that has failed, and waits for its child."""
    run = Run(flow)
    run.advance(*before)
    run.advance(run.ok(0, "1A"))
    run.advance(run.err(2, ValueError("boom")))
    return run


def left_and_undone(run: Run) -> None:
    check_replay(run)
    finish(run)
    check_replay(run)
    assert undone(run) == [["1A", "A"]]


def test_a_person_ends_the_wait_for_children() -> None:
    """What the run did is undone, and its end says who was left."""
    run = waiting_for_child()
    assert undone(run) == []
    check_replay(run)
    run.advance(signal(e.LEAVE_CHILDREN))
    left_and_undone(run)
    assert run.failure().message.endswith(f"boom; {LEFT.format(id_in(run.execution.started.idempotency_key))}")


def test_a_word_that_comes_early_counts_too() -> None:
    """It was sent with the cancellation, and the run has not come to its children yet."""
    run = Run(patient)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(signal(e.LEAVE_CHILDREN), cancel("enough"))
    left_and_undone(run)
    ending = run.events[-1]
    assert isinstance(ending, e.ExecutionCancelled)
    assert ending.reason == f"enough; {LEFT.format(id_in(run.execution.started.idempotency_key))}"


def test_the_workflows_own_time_ends_the_wait_for_children() -> None:
    """From when it begins to wait. A replay goes by the journal, even if newer code has another time."""
    run = waiting_for_child()
    assert run.execution.next_due() == run.now + 60 * SECOND
    patient.cleanup_timeout = None
    try:
        run = run.rebuilt()
    finally:
        patient.cleanup_timeout = 60.0
    run.advance(after=60)
    left_and_undone(run)
    assert "left before they had ended" in run.failure().message


def test_nobody_is_left_where_all_have_ended() -> None:
    """The timer, and the wait for a person's word, are over with the last child."""
    run = waiting_for_child()
    run.advance(run.err(1, ValueError("it was cancelled")))
    left_and_undone(run)
    assert "left" not in run.failure().message
    assert run.execution.next_due() is None


def test_without_a_time_a_run_waits_for_its_children_for_good() -> None:
    """There is no default: an undo that comes too early is worse than a wait, which ``explain`` names."""
    run = Run(family)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(run.err(3, ValueError("boom")), run.ok(1, "2B"))
    assert run.execution.next_due() is None
    assert {(wait.kind, wait.name) for wait in run.execution.waits()} == {
        ("workflow", "given.child"),
        ("receive", e.LEAVE_CHILDREN),
    }


def test_a_run_that_returns_cancels_its_children_and_does_not_wait() -> None:
    @workflow(name="given.careless")
    async def careless() -> str:
        asyncio.create_task(_of(child))  # noqa: RUF006
        await book("A")
        return "over"

    run = Run(careless)
    run.advance()
    run.advance(run.ok(0, "1A"))
    assert run.result() == "over"
    assert run.abandoned == [run.promise(1)]


async def _of(one: Workflow[[], None]) -> None:
    await one()


def test_a_run_that_continues_as_new_undoes_what_it_gave_up_first() -> None:
    """The next generation relies on what the body had, and on nothing else."""

    @workflow(name="given.onward")
    async def onward() -> None:
        await book("A")
        task = asyncio.ensure_future(book("B"))
        await boom()
        task.cancel()
        continue_as_new()

    run = Run(onward)
    run.advance()
    run.advance(run.ok(0, "1A"))
    run.advance(run.ok(1))
    assert run.stopped == [run.promise(2)]
    run.advance(run.ok(2, "2B"))
    finish(run)
    assert undone(run) == [["2B", "B"]]
    assert isinstance(run.events[-1], e.ExecutionCompleted)


def test_a_call_that_is_given_up_in_the_turn_that_made_it_never_begins() -> None:
    """Nothing of the turn is durable yet, so nobody can have begun it."""

    @workflow(name="given.hasty")
    async def hasty() -> str:
        task = asyncio.ensure_future(book("A"))
        await asyncio.sleep(0)
        task.cancel()
        return "over"

    run = Run(hasty)
    run.advance()
    assert run.result() == "over"
    assert run.invokes == {}
    assert run.stopped == []


def test_members_of_a_join_set_that_are_left_behind_are_awaited() -> None:
    @workflow(name="given.members")
    async def members() -> str:
        calls = join_set()
        calls.submit(book("A"))
        calls.submit(book("B"))
        first: str = await calls.next()
        return first

    run = Run(members)
    run.advance()
    run.advance(run.ok(1, "1A"))
    assert run.stopped == [run.promise(2)]
    run.advance(run.ok(2, "2B"))
    finish(run)
    assert undone(run) == [["2B", "B"]]
    assert run.result() == "1A"


def test_a_cancelled_run_awaits_its_call_and_undoes_it() -> None:
    run = Run(timely)
    run.advance()
    run.advance(cancel())
    assert run.stopped == [run.promise(0)]
    check_replay(run)
    run.advance(run.ok(0, "1A"))
    finish(run)
    assert undone(run) == [["1A", "A"]]
    assert isinstance(run.events[-1], e.ExecutionCancelled)


@workflow(name="given.submits")
async def submits(how: str) -> None:
    one, other, call = join_set(), join_set(), book("A")
    one.submit(call)
    if how == "submitted":
        other.submit(call)
    else:
        await call


@pytest.mark.parametrize("how", ["submitted", "awaited"])
def test_a_call_begins_once(how: str) -> None:
    """A second beginning is refused before anything of it is recorded; in older journals it is a call of its own."""
    with pytest.raises(InvalidFunction, match="begins once"):
        Run(submits, how).advance()
    run = Run(submits, how, edition=1)
    run.advance()
    assert sum(isinstance(event, e.InvokeScheduled) for event in run.events) == 2


def test_one_call_may_be_gathered_twice() -> None:
    """asyncio gives both places the one task."""

    @workflow(name="given.gathers")
    async def gathers() -> list[str]:
        call = book("A")
        return list(await asyncio.gather(call, call))

    run = Run(gathers)
    run.advance()
    run.advance(run.ok(0, "1A"))
    assert run.result() == ["1A", "1A"]

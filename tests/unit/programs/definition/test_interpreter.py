"""Every verb of a definition, by arrivals in and events out; each run is rebuilt and restored at every turn."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from holdfast.errors import InvalidDefinition, Nondeterminism, StepMissing
from holdfast.journal import events as e
from holdfast.journal.error_classes import error_class, error_members
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.programs.definition import model as m
from holdfast.programs.function.decorators import step as make_step
from tests.definitions import Tools, begun, end, node, put, sleep, state_of, step, wait
from tests.runs import Run, cancel, signal


@make_step(name="definitions.add")
async def add(one: int, other: int = 1) -> int:
    return one + other


@make_step(name="definitions.free")
async def free(result: int) -> None: ...


@make_step(name="definitions.book", undo=free)
async def book(what: str) -> str:
    return what


def result(run: Run) -> Any:
    """What a completed run gave; the last rebuild and the last restored run give the same."""
    last = run.events[-1]
    assert isinstance(last, e.ExecutionCompleted), last
    assert run.rebuilt().events == run.events
    return cbor2.loads(last.result.data)


def go(run: Run, *arrivals: Any, after: float = 0.0) -> Run:
    """A turn; what goes on is once restored from a checkpoint, once rebuilt, and all three stand at the same place."""
    checkpoint = None if run.ended else run.execution.checkpoint()
    run.advance(*arrivals, after=after)
    rebuilt = run.rebuilt()
    restored = None if checkpoint is None else run.restored(checkpoint)
    if not run.ended:
        assert rebuilt.execution.checkpoint() == run.execution.checkpoint()
        assert restored is not None
        assert restored.execution.checkpoint() == run.execution.checkpoint()
        return restored
    return run


def test_state_is_set_and_the_end_gives_the_result() -> None:
    run = begun(put("one", a=1), put("two", b="=state.a + 1"), end("=state.b"))
    assert result(run) == 2


def test_all_right_sides_of_one_set_see_the_state_before() -> None:
    run = begun(put("one", a=1, b=2), put("two", a="=state.b", b="=state.a"), end("=[state.a, state.b]"))
    assert result(run) == [2, 1]


def test_a_number_in_state_is_a_double() -> None:
    run = begun(put("one", a=1), end("=state.a + 0.5"), state={"a": {"type": "number"}})
    assert result(run) == 1.5


def test_a_step_is_called_with_named_arguments_and_its_result_is_kept() -> None:
    run = begun(step("add", "definitions.add", "sum", with_={"one": "=start.n"}), end("=state.sum"), start={"n": 4})
    assert run.open_calls() == ["definitions.add"]
    assert cbor2.loads(next(iter(run.invokes.values())).input.data) == [[], {"one": 4}]
    run = go(run, run.ok(0, 5))
    assert result(run) == 5


def test_a_failure_goes_to_its_handler_and_shows_as_skipped() -> None:
    handler = m.Handlers(failure=(put("note", seen="=error.message + error.class"),))
    run = begun(step("add", "definitions.add", with_={"one": 1}, on=handler), end("=[state.seen, nodes.add.state]"))
    run = go(run, run.err(0, ValueError("no")))
    assert result(run) == ["noerror", "skipped"]


def test_a_failure_that_nobody_handles_fails_the_run() -> None:
    run = begun(step("add", "definitions.add", with_={"one": 1}))
    run = go(run, run.err(0, ValueError("no")))
    last = run.events[-1]
    assert isinstance(last, e.ExecutionFailed)
    assert (last.error.type, last.error.message) == ("builtins:ValueError", "no")


def test_an_expression_that_fails_parks_the_run() -> None:
    with pytest.raises(InvalidDefinition, match="node two: there is no 'a'"):
        begun(put("two", b="=state.a"))


def test_a_switch_does_one_case() -> None:
    cases = (
        m.Case(when="start.n > 1", do=(put("big", size="big"),)),
        m.Case(when=None, do=(put("small", size="small"),)),
    )
    for n, size in ((2, "big"), (1, "small")):
        run = begun(node("which", m.SwitchVerb(cases=cases)), end("=state.size"), start={"n": n})
        assert result(run) == size


def test_a_repeat_goes_over_items_and_waits_inside_an_iteration() -> None:
    loop = m.RepeatVerb(
        over="=start.items",
        item="line",
        index="i",
        do=(step("add", "definitions.add", "sum", with_={"one": "=state.sum", "other": "=line"}),),
    )
    run = begun(node("all", loop), end("=state.sum"), start={"items": [1, 2, 3]}, state={"sum": {"default": 0}})
    for position, total in ((0, 1), (1, 3), (2, 6)):
        run = go(run, run.ok(position, total))
    assert result(run) == 6


def test_iterations_at_once_give_values_in_order() -> None:
    loop = m.RepeatVerb(
        over="=start",
        at_once=2,
        gives="=local.got",
        do=(
            node(
                "add",
                m.CallVerb(kind="step", name="definitions.add", arguments={"one": "=item"}),
                into=("local", "got"),
            ),
        ),
    )
    run = begun(node("all", loop, into=("state", "out")), end("=state.out"), start=[1, 2, 3])
    assert len(run.open_calls()) == 2
    run = go(run, run.ok(1, "b"))
    assert len(run.open_calls()) == 2
    run = go(run, run.ok(2, "c"), run.ok(0, "a"))
    assert result(run) == ["a", "b", "c"]


def test_a_fork_joins_all_and_publishes_what_the_branches_wrote() -> None:
    fork = m.ForkVerb(
        branches=(
            m.Branch(name="left", do=(step("l", "definitions.add", "a", with_={"one": 1}), put("l2", b="=state.a"))),
            m.Branch(name="right", do=(wait("r", "go", into=("state", "c")),)),
        )
    )
    run = begun(node("both", fork), end("=[state.a, state.b, state.c]"))
    run = go(run, run.ok(0, 7))
    assert "a" not in state_of(run)
    run = go(run, signal("go", "!"))
    assert result(run) == [7, 7, "!"]


def test_the_losers_of_a_race_are_awaited_and_undone() -> None:
    fork = m.ForkVerb(
        join=1,
        branches=(
            m.Branch(name="fast", do=(sleep("nap", 1),)),
            m.Branch(name="slow", do=(step("book", "definitions.book", with_={"what": "x"}), sleep("long", 100))),
        ),
    )
    run = begun(node("race", fork), end("over"))
    run = go(run, run.ok(1, "booked"))
    run = go(run, after=1)
    assert run.open_calls() == ["definitions.free"]
    free_at = max(wait.position for wait in run.execution.waits())
    run = go(run, run.ok(free_at))
    assert result(run) == "over"


def test_a_cancelled_call_that_succeeds_after_all_is_undone() -> None:
    run = begun(step("book", "definitions.book", with_={"what": "x"}))
    run = go(run, cancel())
    assert run.open_calls() == ["definitions.book"]
    run = go(run, run.ok(0, "booked"))
    assert run.open_calls() == ["definitions.free"]
    run = go(run, run.ok(1))
    assert isinstance(run.events[-1], e.ExecutionCancelled)


def test_a_pick_takes_the_first_and_cancels_the_others() -> None:
    pick = m.PickVerb(
        options=(
            m.Option(trigger=wait("paid", "payment"), do=(put("p", how="paid"),)),
            m.Option(trigger=sleep("late", 60), do=(put("l", how="late"),)),
        )
    )
    run = begun(node("first", pick), end("=state.how"))
    assert result(go(run, signal("payment", 1))) == "paid"
    run = begun(node("first", pick), end("=state.how"))
    assert result(go(run, after=60)) == "late"


def test_a_graph_runs_by_its_needs() -> None:
    graph = m.GraphVerb(
        nodes=(
            step("a", "definitions.add", "a", with_={"one": 1}),
            step("b", "definitions.add", "b", with_={"one": 2}),
            step("c", "definitions.add", "c", with_={"one": "=state.a"}, needs=("a",)),
        )
    )
    run = begun(node("all", graph), end("=[state.a, state.b, state.c]"))
    assert len(run.open_calls()) == 2
    run = go(run, run.ok(0, 10))
    assert len(run.open_calls()) == 2
    run = go(run, run.ok(2, 30))
    run = go(run, run.ok(1, 20))
    assert result(run) == [10, 20, 30]


def test_a_failed_node_of_a_graph_blocks_what_needs_it_and_the_rest_finishes() -> None:
    graph = m.GraphVerb(
        nodes=(
            step("a", "definitions.add", with_={"one": 1}),
            step("b", "definitions.add", "b", with_={"one": 2}),
            step("c", "definitions.add", with_={"one": 1}, needs=("a",)),
            step("d", "definitions.add", "d", with_={"one": 1}, after=("a",)),
        )
    )
    caught = m.Handlers(failure=())
    run = begun(node("all", graph, on=caught), end("=[state.b, state.d]"))
    run = go(run, run.err(0, ValueError("no")))
    assert len(run.open_calls()) == 2
    run = go(run, run.ok(1, "b"), run.ok(2, "d"))
    assert result(run) == ["b", "d"]


def test_a_time_out_of_a_block_cancels_what_is_inside() -> None:
    block = m.BlockVerb(do=(wait("w", "never"),))
    late = m.Handlers(timeout=(put("late", late=True),))
    run = begun(node("in time", block, timeout=m.Timeout(whole=5_000_000), on=late), end("=state.late"))
    assert result(go(run, after=5)) is True


def test_a_block_is_tried_again() -> None:
    block = m.BlockVerb(do=(step("s", "definitions.add", "n", with_={"one": 1}),))
    retry = m.NodeRetry(max=2, first=1_000_000, jitter=0.0)
    run = begun(node("again", block, retry=retry), end("=state.n"))
    run = go(run, run.err(0, ValueError("no")))
    run = go(run, after=1)
    run = go(run, run.ok(2, 9))
    assert result(run) == 9


def test_signals_that_do_not_match_are_put_aside_for_others() -> None:
    fork = m.ForkVerb(
        branches=tuple(
            m.Branch(
                name=name, do=(node(name, m.WaitVerb(signal="s", match=f'payload == "{name}"'), into=("state", name)),)
            )
            for name in ("x", "y")
        )
    )
    run = begun(
        node("both", fork), node("z", m.WaitVerb(signal="s"), into=("state", "z")), end("=[state.x, state.y, state.z]")
    )
    run = go(run, signal("s", "other"))
    run = go(run, signal("s", "y"))
    run = go(run, signal("s", "x"))
    assert result(run) == ["x", "y", "other"]


def test_compensate_undoes_a_node() -> None:
    run = begun(
        step("book", "definitions.book", with_={"what": "x"}),
        node("back", m.CompensateVerb(node="book")),
        end("back"),
    )
    run = go(run, run.ok(0, "booked"))
    assert run.open_calls() == ["definitions.free"]
    assert result(go(run, run.ok(1))) == "back"


def test_compensate_undoes_a_block_and_no_branch_that_has_the_name_of_one() -> None:
    """A branch may be called like a node elsewhere."""
    block = m.BlockVerb(do=(step("hotel", "definitions.book", with_={"what": "x"}),))
    branch = m.Branch(name="trip", do=(step("flight", "definitions.book", with_={"what": "y"}),))
    run = begun(
        node("trip", block),
        node("both", m.ForkVerb(branches=(branch,))),
        node("back", m.CompensateVerb(node="trip")),
        end("back"),
    )
    run = go(run, run.ok(0, "hotel"))
    run = go(run, run.ok(1, "flight"))
    assert run.open_calls() == ["definitions.free"]
    assert result(go(run, run.ok(2))) == "back"


def test_a_long_loop_pauses_so_that_others_have_their_turn() -> None:
    loop = m.RepeatVerb(times=2_500, do=(put("n", n="=state.n + 1"),))
    run = begun(node("many", loop), end("=state.n"), state={"n": {"default": 0, "type": "integer"}})
    turns = 1
    while not run.ended:
        run = go(run, after=0.001)
        turns += 1
    assert (result(run), turns) == (2_500, 3)


def test_a_raised_error_has_its_code() -> None:
    caught = m.Handlers(failure=(put("note", code="=error.code", more="=error.details.n"),))
    block = m.BlockVerb(do=(node("oops", m.RaiseVerb(code="SLOW", message="too slow", details={"n": 3})),))
    run = begun(node("try", block, on=caught), end("=[state.code, state.more]"))
    assert result(run) == ["SLOW", 3]


def test_what_was_done_is_undone_newest_first_when_the_run_fails() -> None:
    run = begun(
        step("one", "definitions.book", with_={"what": "1"}),
        step("two", "definitions.book", with_={"what": "2"}),
        node("oops", m.RaiseVerb(code="NO")),
    )
    run = go(run, run.ok(0, "first"))
    run = go(run, run.ok(1, "second"))
    undone = []
    while not run.ended:
        (invoke,) = [
            invoke for promise, invoke in run.invokes.items() if promise.path[-1] == run.execution.waits()[0].position
        ]
        undone.append(cbor2.loads(invoke.input.data)[0][0])
        run = go(run, run.ok(invoke.promise_id.path[-1]))
    assert undone == ["second", "first"]
    last = run.events[-1]
    assert isinstance(last, e.ExecutionFailed)
    assert last.error.type == "holdfast.errors:BusinessError"


def test_what_a_time_out_cancels_is_undone_before_its_handler() -> None:
    """Cancelling undoes: also what had succeeded inside a block that is out of time."""
    block = m.BlockVerb(do=(step("one", "definitions.book", with_={"what": "1"}), wait("w", "never")))
    late = m.Handlers(timeout=(put("late", late=True),))
    run = begun(node("in_time", block, timeout=m.Timeout(whole=5_000_000), on=late), end("=state.late"))
    run = go(run, run.ok(1, "booked"))
    run = go(run, after=5)
    assert run.open_calls() == ["definitions.free"]
    (undo,) = [wait.position for wait in run.execution.waits()]
    assert result(go(run, run.ok(undo))) is True


def test_what_the_siblings_of_a_failed_branch_did_is_undone() -> None:
    fork = m.ForkVerb(
        branches=(
            m.Branch(name="bad", do=(step("b", "definitions.add", with_={"one": 1}),)),
            m.Branch(name="good", do=(step("g", "definitions.book", with_={"what": "x"}), wait("w", "never"))),
        )
    )
    run = begun(node("both", fork, on=m.Handlers(failure=())), end("over"))
    run = go(run, run.ok(1, "booked"))
    run = go(run, run.err(0, ValueError("no")))
    assert run.open_calls() == ["definitions.free"]
    (undo,) = [wait.position for wait in run.execution.waits()]
    assert result(go(run, run.ok(undo))) == "over"


def test_a_pick_goes_on_when_its_losers_are_undone() -> None:
    pick = m.PickVerb(
        options=(
            m.Option(trigger=step("book", "definitions.book", with_={"what": "x"})),
            m.Option(trigger=sleep("nap", 1), do=(step("then", "definitions.add", with_={"one": 1}),)),
        )
    )
    run = begun(node("first", pick), end("over"))
    run = go(run, after=1)
    assert run.open_calls() == ["definitions.book"]
    run = go(run, run.ok(0, "booked"))
    assert run.open_calls() == ["definitions.free"]
    run = go(run, run.ok(2))
    assert run.open_calls() == ["definitions.add"]
    assert result(go(run, run.ok(3, 1))) == "over"


def test_what_a_lost_option_wrote_vanishes() -> None:
    """Its trigger was over, and its handler was not: then it has not won."""
    then = m.Handlers(success=(put("p", how="paid"), wait("w", "never")))
    pick = m.PickVerb(
        options=(
            m.Option(trigger=wait("paid", "payment", into=("state", "sum"), on=then)),
            m.Option(trigger=sleep("late", 60)),
        )
    )
    run = begun(put("first", how="open", sum=0), node("pick", pick), end("=[state.how, state.sum]"))
    run = go(run, signal("payment", 7))
    assert result(go(run, after=60)) == ["open", 0]


def test_an_undo_that_fails_is_the_failure_of_its_own_fork_alone() -> None:
    """Two races undo their losers at the same time. One of them cannot, and the other goes on."""

    def race(name: str) -> m.Node:
        book, nap = f"book_{name}", f"nap_{name}"
        branches = (
            m.Branch(name="book", do=(step(book, "definitions.book", with_={"what": name}),)),
            m.Branch(name="nap", do=(sleep(nap, 1),)),
        )
        return node(name, m.ForkVerb(join=1, branches=branches), on=m.Handlers(failure=()))

    both = m.ForkVerb(branches=(m.Branch(name="l", do=(race("x"),)), m.Branch(name="r", do=(race("y"),))))
    run = begun(node("both", both), end("=[nodes.x.state, nodes.y.state]"))
    booked = [wait.position for wait in run.execution.waits() if wait.name == "definitions.book"]
    run = go(run, after=1)
    run = go(run, *(run.ok(position, "booked") for position in booked))
    first, second = [wait.position for wait in run.execution.waits()]
    run = go(run, run.err(first, ValueError("stuck")))
    assert result(go(run, run.ok(second))) == ["skipped", "success"]


def test_after_accepts_a_node_that_is_blocked() -> None:
    graph = m.GraphVerb(
        nodes=(
            step("a", "definitions.add", with_={"one": 1}),
            step("b", "definitions.add", with_={"one": 1}, needs=("a",)),
            step("c", "definitions.add", "c", with_={"one": 1}, after=("b",)),
        )
    )
    run = begun(node("all", graph, on=m.Handlers(failure=())), end("=state.c"))
    run = go(run, run.err(0, ValueError("no")))
    assert result(go(run, run.ok(1, 7))) == 7


def test_an_uncaught_expression_parks_before_anything_is_cancelled() -> None:
    fork = m.ForkVerb(
        branches=(
            m.Branch(name="bad", do=(wait("w", "go"), put("b", b="=1 / 0"))),
            m.Branch(name="good", do=(step("g", "definitions.book", with_={"what": "x"}),)),
        )
    )
    run = begun(node("both", fork))
    with pytest.raises(InvalidDefinition, match="node b"):
        run.advance(signal("go"))
    caught = begun(node("both", fork, on=m.Handlers(failure=())), end("over"))
    caught = go(caught, signal("go"))
    assert caught.open_calls() == ["definitions.book"]


def test_branches_see_and_publish_what_is_local_and_the_reference() -> None:
    fork = m.ForkVerb(
        branches=(
            m.Branch(name="x", do=(node("p", m.SetVerb(values=((("local", "x"), "=local.a + 1"),))),)),
            m.Branch(name="y", do=(node("q", m.SetVerb(values=((("reference",), "R-2"),))),)),
        )
    )
    run = begun(
        node("a", m.SetVerb(values=((("local", "a"), 1),))), node("both", fork), end("=[local.x, run.reference]")
    )
    assert result(run) == [2, "R-2"]


def test_the_reference_of_a_loser_vanishes() -> None:
    fork = m.ForkVerb(
        join=1,
        branches=(
            m.Branch(name="x", do=(node("q", m.SetVerb(values=((("reference",), "R-2"),))), wait("w", "never"))),
            m.Branch(name="y", do=(sleep("nap", 1),)),
        ),
    )
    run = begun(node("race", fork), end("=run.reference"), reference="R-1")
    assert result(go(run, after=1)) == "R-1"


def test_the_state_of_an_ended_run_can_be_read() -> None:
    run = begun(put("one", a=1), end("over"))
    assert state_of(run) == {"a": 1}


def test_a_failure_keeps_its_class_and_code_where_not_all_could_be_undone() -> None:
    run = begun(step("one", "definitions.book", with_={"what": "1"}), node("oops", m.RaiseVerb(code="NO")))
    run = go(run, run.ok(0, "first"))
    run = go(run, run.err(1, ValueError("stuck")))
    failure = run.failure()
    assert (error_class(failure), error_members(failure)["code"]) == ("business", "NO")
    assert "not all of it could be undone" in failure.message


def test_stale_arrivals_change_nothing() -> None:
    """A second answer, one of a call that was given up, and a timer that was cancelled."""
    pick = m.PickVerb(
        options=(
            m.Option(trigger=step("call", "definitions.add", with_={"one": 1})),
            m.Option(trigger=sleep("nap", 60)),
        )
    )
    run = begun(node("first", pick), wait("w", "go"), end("over"))
    run = go(run, run.ok(0, 1))
    before = run.execution.checkpoint()
    late = run.ok(0, 2, attempt=1)
    assert run.advance(late).events == []
    assert run.advance(after=100).events == []
    assert run.execution.checkpoint() == before
    assert result(go(run, signal("go"))) == "over"


def test_a_repeat_over_100_000_items_comes_to_its_end() -> None:
    loop = m.RepeatVerb(over="=start.items", do=(put("n", n="=state.n + item"),))
    items = [1] * 100_000
    run = begun(node("many", loop), end("=state.n"), start={"items": items}, state={"n": {"default": 0}})
    turns = 1
    while not run.ended:
        run.advance(after=0.001)
        turns += 1
    assert cbor2.loads(run.events[-1].result.data) == 100_000  # type: ignore[union-attr]
    assert turns == 101


class NoTools(Tools):
    """A deployment without any step."""

    def step(self, name: str) -> None:
        return None


def test_a_step_that_is_gone_parks_the_run_until_it_is_back() -> None:
    run = begun(wait("w", "go"), step("gone", "definitions.add", with_={"one": 1}), end("over"))
    checkpoint, routine = run.execution.checkpoint(), run.workflow.routine  # type: ignore[attr-defined]
    assert checkpoint is not None
    routine.tools = NoTools()
    with pytest.raises(StepMissing, match=r"no step 'definitions\.add' is here: start a worker"):
        run.advance(signal("go"))
    routine.tools = Tools()
    back = run.restored(checkpoint)
    back.advance(signal("go"))
    assert back.open_calls() == ["definitions.add"]
    assert result(go(back, back.ok(1))) == "over"


@pytest.mark.parametrize("arrivals", [(), (signal("go"),)])
def test_a_journal_of_another_definition_is_refused_by_name(arrivals: tuple[Any, ...]) -> None:
    """As that of a function is. What the kernel unwinds programs with never comes out of it."""
    first = step("one", "definitions.add", with_={"one": 1})
    nodes = (wait("w", "go"), first) if arrivals else (first,)
    run = begun(*nodes, end("over"))
    run.advance(*arrivals)
    other = begun(*nodes[:-1], step("one", "definitions.add", with_={"one": 2}), end("over"))
    with pytest.raises(Nondeterminism):
        run.rebuilt(workflow=other.workflow)


def test_a_checkpoint_of_another_version_is_passed_over() -> None:
    run = begun(wait("w", "go"), end("over"))
    checkpoint = run.execution.checkpoint()
    assert checkpoint is not None
    run.workflow.routine.digest = "another"  # type: ignore[attr-defined]
    with pytest.raises(CheckpointUnusable, match="another definition"):
        run.restored(checkpoint)
    assert result(go(run.rebuilt(), signal("go"))) == "over"


def test_a_name_of_a_block_is_seen_inside_it_and_nowhere_else() -> None:
    inner = m.BlockVerb(do=(put("two", b="=sum + 1"),), let={"sum": "=sum * 10"})
    outer = m.BlockVerb(do=(node("inner", inner), put("three", c="=sum")), let={"sum": "=start.n + 1"})
    run = begun(node("outer", outer), end("=[state.b, state.c]"), start={"n": 4})
    assert result(run) == [51, 5]


def test_a_name_of_a_block_outlives_a_wait() -> None:
    block = m.BlockVerb(do=(wait("hear", "go"), put("two", b="=mine")), let={"mine": "=1 + 1"})
    run = go(begun(node("block", block), end("=state.b")), signal("go"))
    assert result(run) == 2


def test_a_fork_gives_the_values_of_its_branches_by_name() -> None:
    branches = tuple(
        m.Branch(name=name, do=(wait(f"hear-{name}", name), node(f"keep-{name}", local_set("=payload"))))
        for name in "ab"
    )
    fork = node("both", m.ForkVerb(branches=branches, gives="=local.x"), into=("state", "both"))
    run = go(begun(fork, end("=state.both")), signal("b", 2))
    assert result(go(run, signal("a", 1))) == {"a": 1, "b": 2}


def test_a_fork_that_needs_one_gives_the_value_of_that_one() -> None:
    branches = tuple(m.Branch(name=name, do=(wait(f"hear-{name}", name),)) for name in "ab")
    fork = node("first", m.ForkVerb(branches=branches, join=1, gives="=payload"), into=("state", "first"))
    assert result(go(begun(fork, end("=state.first")), signal("b", 2))) == {"b": 2}


def local_set(value: Any) -> m.SetVerb:
    return m.SetVerb(values=((("local", "x"), value),))


def test_what_does_not_fit_a_schema_is_an_error_with_its_places() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    check = m.CheckVerb(value="=start", schema=schema)
    assert result(begun(node("check", check), end("fits"), start={"n": 1})) == "fits"
    caught = m.Handlers(failure=(put("keep", code="=error.code", at="=error.problems[0].at"),))
    run = begun(node("check", check, on=caught), end("=[state.code, state.at]"), start={"n": "x"})
    assert result(run) == ["MISFIT", "/n"]
    failed = begun(node("check", check), end("fits"), start={}).events[-1]
    assert isinstance(failed, e.ExecutionFailed)
    assert (error_class(failed.error), error_members(failed.error)["code"]) == ("business", "MISFIT")


def test_a_definition_in_jq_has_its_data_at_hand() -> None:
    pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")
    data = node("take", m.SetVerb(values=((("local", "data"), "=$start.items"),)))
    keep = node("keep", m.SetVerb(values=((("state", "sum"), "=($sum // 0) + $item"),)))
    loop = node("loop", m.RepeatVerb(over="=map(. * 2)", do=(keep,)))
    hear = wait("hear", "go", when="$sum == 12 and .[0]")
    run = go(begun(data, loop, hear, end("={sum: $sum, heard: $payload}"), start={"items": [1, 2, 3]}, language="jq"))
    assert result(go(run, signal("go", {"x": 1}))) == {"sum": 12, "heard": {"x": 1}}

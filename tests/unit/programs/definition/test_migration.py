"""Runs that move to another version of their definition: where they stand then, and what keeps them from it."""

from __future__ import annotations

from typing import Any

import cbor2
import pytest

from holdfast.errors import InvalidDefinition
from holdfast.journal import events as e
from holdfast.journal.payload import Payload
from holdfast.kernel.arrivals import SignalArrived
from holdfast.programs.definition.compiler.compiler import compile_document
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.migration.differences import differences
from holdfast.programs.definition.migration.revision import write_revision
from holdfast.programs.definition.model import Accepted, Definition
from holdfast.programs.function.decorators import step as make_step
from tests.definitions import Defined, Tools
from tests.runs import Run, cancel, signal
from tests.unit.programs.definition.test_interpreter import go, result

Document = dict[str, Any]


@make_step(name="migration.free")
async def free(result: str) -> None: ...


@make_step(name="migration.book", undo=free)
async def book(what: str) -> str:
    return what


@make_step(name="migration.tell")
async def tell(what: str) -> str:
    return what


FORM = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}


def document(version: int, *steps: Document, **parts: Any) -> Document:
    return {"holdfast": "definition/1", "name": "moves", "version": version, "steps": list(steps), **parts}


def compiled(given: Document) -> Accepted:
    return compile_document(given, Tools())


def begun(given: Document, start: Any = None) -> Run:
    accepted = compiled(given)
    made = Defined(accepted.definition)
    made.routine = Routine(accepted.definition, accepted.digest, Tools())
    run = Run(made, {} if start is None else start)  # type: ignore[arg-type]
    run.advance()
    return run


def revision(given: Document) -> SignalArrived:
    return SignalArrived(e.REVISION, write_revision(compiled(given)))


def moved(run: Run, given: Document) -> Run:
    """The run after it was asked to move. It did, and restored or rebuilt it stands at the same place."""
    run = go(run, revision(given))
    assert reasons(run) == ()
    assert program(run).routine.definition.version == given["version"]
    return run


def program(run: Run) -> DefinitionProgram:
    found = run.execution.program
    assert isinstance(found, DefinitionProgram)
    return found


def reasons(run: Run) -> tuple[str, ...]:
    """Why the last move was refused."""
    return program(run).revisions[-1].reasons


def refused(before: Document, after: Document, *arrivals: Any, start: Any = None) -> str:
    """Why a run that stands after these arrivals does not move. It goes on as it was."""
    run = begun(before, start)
    for arrival in arrivals:
        run = go(run, arrival)
    stands = [line.visit and line.visit.path() for line in program(run).interpreter.root.lines.values()]
    run = go(run, revision(after))
    assert program(run).routine.definition.version == before["version"]
    assert [line.visit and line.visit.path() for line in program(run).interpreter.root.lines.values()] == stands
    return "; ".join(reasons(run))


WAIT: Document = {"go": {"wait": "go", "as": "state.answer"}}


def test_a_run_goes_on_behind_its_wait_with_the_newer_version() -> None:
    """What comes after the wait is the newer version's, the answer comes to the older wait."""
    run = begun(document(1, WAIT, {"end": {"end": "=state.answer"}}))
    run = moved(
        run, document(2, WAIT, {"more": {"set": {"state.b": "=state.answer + 1"}}}, {"end": {"end": "=state.b"}})
    )
    run = go(run, signal("go", 4))
    assert result(run) == 5


def test_a_move_is_recorded_as_a_signal_that_is_received_at_once() -> None:
    run = begun(document(1, WAIT))
    before = len(run.journal)
    run = moved(run, document(2, WAIT))
    kinds = [type(event) for event in run.events[before:]]
    assert kinds == [e.SignalDelivered, e.ExecutionResumed, e.SignalReceived, e.ExecutionAwaiting]


def test_what_is_settled_with_the_move_comes_after_it() -> None:
    run = begun(document(1, WAIT, {"end": {"end": 1}}))
    run = go(run, signal("go"), revision(document(2, WAIT, {"end": {"end": 2}})))
    assert result(run) == 2


def test_a_run_that_has_not_begun_begins_with_the_newer_version() -> None:
    accepted = compiled(document(1, {"end": {"end": 1}}))
    made = Defined(accepted.definition)
    made.routine = Routine(accepted.definition, accepted.digest, Tools())
    run = Run(made, {})  # type: ignore[arg-type]
    run.advance(revision(document(2, {"end": {"end": 2}})), resume=False)
    run.advance()
    assert result(run) == 2


def test_a_run_moves_twice() -> None:
    run = begun(document(1, WAIT))
    run = moved(run, document(2, WAIT, {"end": {"end": 2}}))
    run = moved(run, document(3, WAIT, {"end": {"end": 3}}))
    assert [(each.before, each.after) for each in program(run).revisions] == [(1, 2), (2, 3)]
    assert result(go(run, signal("go"))) == 3


def test_a_node_is_found_under_its_new_name_and_inside_a_new_block() -> None:
    """``migrate`` names the successor, and the run is put into the switch around it."""
    before = document(2, WAIT, {"end": {"end": "=state.answer"}})
    after = document(
        3,
        {"route": {"switch": [{"when": "=1 > 2", "do": [{"no": {"end": 0}}]}, {"else": [{"ask": WAIT["go"]}]}]}},
        {"end": {"end": "=[state.answer, nodes.route.state]"}},
        migrate={"2": {"steps": {"go": "route.ask"}}},
    )
    run = moved(begun(before), after)
    assert result(go(run, signal("go", 4))) == [4, "success"]


def test_a_block_around_a_node_may_go() -> None:
    before = document(1, {"block": {"do": [WAIT, {"inside": {"set": {"state.b": 1}}}]}}, {"end": {"end": 1}})
    run = moved(begun(before), document(2, WAIT, {"end": {"end": "=state.answer"}}))
    assert result(go(run, signal("go", 4))) == 4


def test_a_time_out_that_is_gone_does_not_fire() -> None:
    before = document(1, {"go": {"wait": "go", "timeout": "10s"}}, {"end": {"end": 1}})
    run = moved(begun(before), document(2, {"go": {"wait": "go"}}, {"end": {"end": 2}}))
    run = go(run, after=60)
    assert result(go(run, signal("go"))) == 2


def test_a_loop_goes_on_with_its_iteration() -> None:
    def loop(version: int, by: int) -> Document:
        add = {"add": {"set": {"state.total": f"=state.total + item * {by}"}}}
        return document(
            version,
            {"loop": {"repeat": {"over": "=[1, 2, 3]"}, "do": [{"go": {"wait": "go"}}, add]}},
            {"end": {"end": "=state.total"}},
            state={"total": {"type": "integer", "default": 0}},
        )

    run = go(begun(loop(1, 1)), signal("go"))
    run = moved(run, loop(2, 10))
    run = go(go(run, signal("go")), signal("go"))
    assert result(run) == 1 + 20 + 30


def test_branches_of_a_fork_move_together_each_with_its_writes() -> None:
    def fork(version: int, extra: list[Document]) -> Document:
        return document(
            version,
            {
                "fork": {
                    "fork": {
                        "a": [{"x": {"set": {"state.x": 1}}}, {"wa": {"wait": "a"}}, *extra],
                        "b": [{"wb": {"wait": "b", "as": "state.y"}}],
                    }
                }
            },
            {"end": {"end": "=state"}},
        )

    run = moved(begun(fork(1, [])), fork(2, [{"z": {"set": {"state.z": "=state.x + 1"}}}]))
    run = go(go(run, signal("b", 7)), signal("a"))
    assert result(run) == {"x": 1, "y": 7, "z": 2}


def test_a_node_added_to_a_graph_under_way_is_done_too() -> None:
    nodes = {"a": {"wait": "a"}, "b": {"needs": ["a"], "set": {"state.b": 1}}}
    more = {**nodes, "c": {"needs": ["a"], "set": {"state.c": 2}}}
    run = moved(
        begun(document(1, {"g": {"graph": nodes}})), document(2, {"g": {"graph": more}}, {"end": {"end": "=state"}})
    )
    assert result(go(run, signal("a"))) == {"b": 1, "c": 2}


def test_what_was_done_before_the_move_is_undone_after_it() -> None:
    """The undo was recorded with the deed; it needs no node of the newer version."""
    booked = {"hotel": {"step": "migration.book", "with": {"what": "h"}}}
    before = document(1, booked, WAIT)
    after = document(2, WAIT, {"no": {"raise": {"code": "NO"}}})
    run = begun(before)
    run = go(run, run.ok(0, "h"))
    run = moved(run, after)
    run = go(run, signal("go"))
    (undo,) = run.invokes.values()
    assert undo.function_name == "migration.free"


def test_what_a_lost_branch_did_is_undone_where_a_node_of_the_name_of_the_branch_has_another_name_now() -> None:
    booked = {"hotel": {"step": "migration.book", "with": {"what": "h"}}}
    fork = {"f": {"fork": {"old": [booked, WAIT], "other": [{"no": {"wait": "no"}}]}, "join": "any"}}
    run = begun(document(1, {"old": {"set": {"state.x": 1}}}, fork, {"end": {"end": 1}}))
    run = go(run, run.ok(0, "h"))
    rules = {"migrate": {"1": {"steps": {"old": "new"}}}}
    run = moved(run, document(2, {"new": {"set": {"state.x": 1}}}, fork, {"end": {"end": 2}}) | rules)
    run = go(run, signal("no"))
    assert run.open_calls() == ["migration.free"]


BOOK: Document = {"step": "migration.tell", "with": {"what": "hotel"}}
UNDO: Document = {"undo": {"step": "migration.free", "with": {"result": "=result"}}}
FAIL: Document = {"no": {"raise": {"code": "NO"}}}


def test_a_call_under_way_is_undone_as_the_newer_version_says() -> None:
    """It was asked for when nothing said how to undo it."""
    run = begun(document(1, {"pay": BOOK}, FAIL))
    run = moved(run, document(2, {"pay": BOOK | UNDO}, FAIL))
    run = go(run, run.ok(0, "hotel"))
    undo = list(run.invokes.values())[-1]
    assert undo.function_name == "migration.free"


def test_a_call_under_way_is_not_undone_where_the_newer_version_says_nothing_of_it() -> None:
    run = begun(document(1, {"pay": BOOK | UNDO}, FAIL))
    run = moved(run, document(2, {"pay": BOOK}, FAIL))
    run = go(run, run.ok(0, "hotel"))
    assert run.failure().message == "NO"


def test_a_call_under_way_is_undone_by_its_step_where_the_newer_version_leaves_that_to_it() -> None:
    booked = {"step": "migration.book", "with": {"what": "hotel"}}
    run = begun(document(1, {"pay": booked | {"undo": {"step": "migration.tell", "with": {"what": "x"}}}}, FAIL))
    run = moved(run, document(2, {"pay": booked}, FAIL))
    run = go(run, run.ok(0, "hotel"))
    undo = list(run.invokes.values())[-1]
    assert undo.function_name == "migration.free"


def test_a_move_is_refused_where_an_undo_needs_arguments_that_were_not_kept() -> None:
    after = document(2, {"pay": BOOK | {"undo": "migration.free"}}, FAIL)
    assert "say `with` what it is undone" in refused(document(1, {"pay": BOOK}, FAIL), after)


def test_state_gets_the_defaults_and_what_the_move_sets() -> None:
    before = document(1, {"put": {"set": {"state.sum": 5}}}, WAIT)
    after = document(
        2,
        WAIT,
        {"end": {"end": "=state"}},
        state={"total": {"type": "number"}, "rate": {"type": "number", "default": 2}},
        migrate={"1": {"set": {"state.total": "=state.sum"}}},
    )
    run = moved(begun(before), after)
    found = result(go(run, signal("go", 1)))
    assert found == {"sum": 5, "total": 5.0, "rate": 2.0, "answer": 1}
    assert isinstance(found["total"], float)


def test_a_task_that_is_open_keeps_its_form() -> None:
    tasks = {"review": {"title": "Review", "form": FORM}}
    before = document(1, {"ask": {"task": "review", "as": "state.a"}}, tasks=tasks)
    after = document(2, {"ask": {"task": "review", "as": "state.b"}}, {"end": {"end": "=state"}}, tasks=tasks)
    run = moved(begun(before), after)
    assert result(go(run, run.ok(0, {"ok": True}))) == {"b": {"ok": True}}


OTHER = {"ok": {"wait": "go"}}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([WAIT], [{"gone": {"wait": "go"}}], "it stands at go, which version 2 does not have"),
        ([WAIT], [{"go": {"wait": "other"}}], "go waits for the signal go, and go for the signal other"),
        ([WAIT], [{"go": {"sleep": "1h"}}], "go is a wait, and go a sleep in version 2"),
        (
            [{"go": {"step": "migration.book", "with": {"what": "x"}}}],
            [{"go": {"step": "migration.free", "with": {"result": "x"}}}],
            "go waits for the step migration.book, and go for the step migration.free",
        ),
        (
            [{"f": {"fork": {"a": [WAIT]}}}],
            [{"f": {"fork": {"a": [WAIT], "b": [OTHER]}}}],
            "f is under way, and has other branches",
        ),
        ([{"f": {"fork": {"a": [WAIT]}}}], [{"f": {"fork": {"b": [WAIT]}}}], "other branches"),
        (
            [{"f": {"fork": {"a": [WAIT], "b": [{"s": {"set": {"state.b": 1}}}]}}}],
            [{"f": {"fork": {"a": [WAIT], "b": [{"s": {"set": {"state.b": 1}}}]}, "gives": "=state"}}],
            "f is under way, and its branches give values in one version alone",
        ),
        ([{"f": {"fork": {"a": [WAIT]}}}], [WAIT], "it stands at f, which version 2 does not have"),
        ([WAIT], [{"f": {"fork": {"a": [WAIT]}}}], "go is inside f now"),
        ([WAIT], [{"b": {"do": [WAIT], "timeout": "1h"}}], "go is inside b now"),
        (
            [{"l": {"repeat": {"times": 2}, "do": [WAIT]}}],
            [{"l": {"repeat": {"times": 2, "index": "n"}, "do": [WAIT]}}],
            "l is under way, and repeats in another way",
        ),
        ([{"b": {"do": [WAIT]}}], [{"b": {"do": [OTHER]}}, WAIT], "go was inside b, and go is elsewhere in version 2"),
        (
            [{"g": {"graph": {"a": {"wait": "a"}}}}],
            [{"g": {"graph": {"b": {"wait": "b"}, "a": {"wait": "a", "needs": ["b"]}}}}],
            "a has begun, and needs b in version 2",
        ),
        (
            [{"p": {"pick": {"go": {"wait": "go"}, "late": {"sleep": "1h"}}}}],
            [{"p": {"pick": {"go": {"wait": "go"}}}}],
            "p is under way, and has other options",
        ),
    ],
)
def test_a_run_that_cannot_move_stays_and_says_why(before: list[Document], after: list[Document], words: str) -> None:
    assert words in refused(document(1, *before), document(2, *after))


def test_a_move_is_refused_where_the_open_task_has_another_form() -> None:
    def asks(version: int, form: Document) -> Document:
        return document(version, {"ask": {"task": "review"}}, tasks={"review": {"title": "R", "form": form}})

    assert "an answer of another form" in refused(asks(1, FORM), asks(2, {**FORM, "required": []}))


def test_a_move_is_refused_where_state_or_start_do_not_fit() -> None:
    before = document(1, {"put": {"set": {"state.a": "text"}}}, WAIT)
    after = document(2, WAIT, state={"a": {"type": "integer"}}, start={"type": "object", "required": ["id"]})
    found = refused(before, after)
    assert "its state does not fit" in found
    assert "what it was started with does not fit" in found


@pytest.mark.parametrize("before", [[WAIT], [{"b": {"do": [WAIT]}}]], ids=["it is put into it", "it is in it"])
def test_a_move_is_refused_where_a_block_under_way_has_a_name_that_was_never_had(before: list[Document]) -> None:
    inner = [WAIT, {"keep": {"set": {"state.b": "=rate"}}}]
    after = document(2, {"b": {"let": {"rate": 2}, "do": inner}})
    assert "b is under way, and has the name rate in version 2" in refused(document(1, *before), after)


def test_a_move_is_refused_where_the_past_that_it_reads_was_not_kept() -> None:
    before = document(1, {"one": {"set": {"state.a": 1}}}, WAIT)
    after = document(2, {"one": {"set": {"state.a": 1}}}, WAIT, {"end": {"end": "=nodes.one.state"}})
    assert "reads nodes.one" in refused(before, after)


def test_a_run_that_is_being_cancelled_does_not_move() -> None:
    booked = {"hotel": {"step": "migration.book", "with": {"what": "h"}}}
    run = begun(document(1, booked, WAIT))
    run = go(run, run.ok(0, "h"))
    run = go(run, cancel())
    run = go(run, revision(document(2, booked, WAIT)))
    assert reasons(run) == ("it has ended, and is undoing what it did",)


@pytest.mark.parametrize(
    ("migrate", "words"),
    [
        ({"2": {}}, "versions 1 to 1, not from '2'"),
        ({"old": {}}, "not from 'old'"),
        ({"1": {"step": {}}}, "`steps:` (the successors of nodes)"),
        ({"1": {"steps": {"a": "goo"}}}, "there is no node 'goo': did you mean 'go'?"),
        ({"1": {"steps": {"a": "block.go"}}}, "go is not inside block: its path is go"),
        ({"1": {"set": {"reference": 1}}}, "a move writes to the state"),
        ({"1": {"set": {"state.a": "=payload.x"}}}, "What a move writes reads `start` and `state`"),
    ],
)
def test_a_migration_that_cannot_be_obeyed_is_refused(migrate: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        compiled(document(2, WAIT, {"block": {"do": [{"x": {"sleep": "1s"}}]}}, migrate=migrate))
    assert words in str(caught.value)


def test_a_revision_carries_the_definition_itself() -> None:
    """So a replay needs nothing but the journal."""
    accepted = compiled(document(2, WAIT))
    said = cbor2.loads(write_revision(accepted).data)
    assert said == {"rules": 1, "version": 2, "digest": accepted.digest, "canonical": accepted.canonical}


def test_a_run_does_not_move_by_rules_that_are_not_known_here() -> None:
    """It would stand elsewhere than in the worker that knows them, and in every replay there."""
    run = begun(document(1, WAIT))
    asked = revision(document(2, WAIT))
    later = cbor2.dumps({**cbor2.loads(asked.payload.data), "rules": 2})
    with pytest.raises(InvalidDefinition, match="upgrade this worker, then resume the run"):
        run.advance(SignalArrived(e.REVISION, Payload(later)))


BOOKED: Document = {"book": {"step": "migration.book", "with": {"what": "x"}}}
READS = {"tell": {"step": "migration.tell", "with": {"what": "=result"}}}


def after_booking(*steps: Document, **parts: Any) -> Run:
    run = begun(document(1, BOOKED, *steps, **parts))
    return go(run, run.ok(0, "x"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([WAIT], [BOOKED, WAIT, READS]),
        ([WAIT], [BOOKED, {"b": {"do": [WAIT]}}, READS]),
        ([WAIT], [BOOKED, {"b": {"do": [WAIT, READS]}}]),
        ([WAIT], [BOOKED, {"go": {"wait": "go", "on": {"success": [READS]}}}]),
        ([{"b": {"do": [WAIT]}}], [BOOKED, {"b": {"do": [WAIT]}}, READS]),
        ([{"b": {"do": [WAIT]}}], [BOOKED, {"b": {"do": [WAIT, READS]}}]),
        (
            [{"r": {"repeat": {"times": 2}, "do": [WAIT]}}],
            [BOOKED, {"r": {"repeat": {"times": 2}, "do": [{"look": {"set": {"state.x": "=result"}}}, WAIT]}}],
        ),
        (
            [{"g": {"graph": {"a": {"wait": "go"}}}}],
            [BOOKED, {"g": {"graph": {"a": {"wait": "go"}, "b": {"needs": ["a"], "set": {"state.x": "=result"}}}}}],
        ),
    ],
)
def test_a_move_is_refused_where_a_name_of_the_past_was_not_kept(before: list[Document], after: list[Document]) -> None:
    run = go(after_booking(*before), revision(document(2, *after)))
    (reason,) = reasons(run)
    assert " reads result in version 2, as it was before the move" in reason


def test_what_is_had_after_the_move_is_read() -> None:
    """The wait gives the payload, and a call behind it the result that is read: nothing of the past is."""
    again = {"again": {"step": "migration.book", "with": {"what": "y"}}}
    run = moved(after_booking(WAIT), document(2, BOOKED, WAIT, again, READS, {"end": {"end": "=[result, payload]"}}))
    run = go(run, signal("go", 7))
    run = go(run, run.ok(3, "y"))
    run = go(run, run.ok(4, "told"))
    assert result(run) == ["told", 7]


def test_what_the_older_version_has_kept_is_read() -> None:
    look = {"look": {"set": {"state.x": "=result"}}}
    run = moved(after_booking(look, WAIT), document(2, BOOKED, look, WAIT, {"end": {"end": "=result"}}))
    assert result(go(run, signal("go", 7))) == "x"


def test_a_name_of_the_past_that_run_shows_is_kept_or_the_move_is_refused() -> None:
    run = begun(document(1, WAIT, {"more": {"wait": "more"}}))
    run = go(
        go(run, signal("go", 7)),
        revision(document(2, WAIT, {"more": {"wait": "more"}}, {"end": {"end": "=run.signal"}})),
    )
    assert reasons(run) == ()  # `more` gives it
    run = begun(document(1, WAIT, {"nap": {"sleep": "1h"}}))
    run = go(
        go(run, signal("go", 7)), revision(document(2, WAIT, {"nap": {"sleep": "1h"}}, {"end": {"end": "=run.signal"}}))
    )
    assert "end reads run.signal in version 2" in reasons(run)[0]


def test_a_node_of_the_past_is_found_under_its_new_name() -> None:
    """What the older version did not keep of it, the newer one cannot read by another name either."""
    one = {"one": {"set": {"state.a": 1}}}
    two = {"two": {"set": {"state.a": 1}}}
    migrate = {"1": {"steps": {"one": "two"}}}
    after = document(2, two, WAIT, {"end": {"end": "=nodes.two.state"}}, migrate=migrate)
    assert "reads nodes.two" in refused(document(1, one, WAIT), after)
    keeps = document(1, one, {"look": {"set": {"state.b": "=nodes.one.state"}}}, WAIT)
    kept = document(
        2,
        two,
        {"look": {"set": {"state.b": "=nodes.two.state"}}},
        WAIT,
        {"end": {"end": "=nodes.two.state"}},
        migrate=migrate,
    )
    assert result(go(moved(begun(keeps), kept), signal("go"))) == "success"


def test_a_changed_condition_is_a_difference() -> None:
    """Of a switch the conditions count, not only the nodes below them; of handlers, which there are."""

    def version(number: int, limit: int, on: Document) -> Definition:
        case = {"when": f"=state.x > {limit}", "do": [{"high": {"set": {"state.x": 1}}}]}
        route = {"route": {"switch": [case, {"else": [{"low": {"set": {"state.x": 2}}}]}], **on}}
        return compiled(document(number, route, state={"x": {"type": "integer", "default": 0}})).definition

    ignored: Document = {"on": {"failure": []}}
    found = differences(version(1, 1000, {}), version(2, 2000, ignored))
    assert [(each.change, each.what, each.details) for each in found] == [("changed", "route", "switch, on")]
    assert differences(version(1, 1000, {}), version(2, 1000, {})) == []

"""The rules of the format, one by one: definitions are written as people write them, compiled, and played.

Every turn is taken again as after a crash. What belongs to the gate and to people's answers is tested with a worker.
"""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.definition import define
from holdfast.errors import InvalidDefinition
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.checks.expressions import RUN
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text, load
from holdfast.programs.definition.decompiler.python_text import python_of
from holdfast.programs.definition.decompiler.yaml_text import yaml_of
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine, functions_of
from holdfast.programs.definition.spans import read_span
from holdfast.programs.definition.trials import TrialResult, play, read_trials
from holdfast.programs.function.decorators import step
from holdfast.tasks import questions
from holdfast.transports.table import find
from tests.definitions import Defined, Tools
from tests.runs import NOW, SECOND, Run, cancel, signal
from tests.scope import one_stays
from tests.unit.programs.definition.golden_files import DOCUMENTS, compiled

HEAD = "holdfast: definition/1\nname: rules\nversion: 1\n"
HOUR = 3600 * SECOND


@step(name="rules.get")
async def get(n: int = 0) -> int:
    return n


@step(name="rules.back")
async def back(of: Any = None) -> None:
    return None


@step(name="rules.anything")
async def anything(*args: Any, **kwargs: Any) -> Any:
    return None


class Installed(Tools):
    """With the transports of the package itself."""

    transport = staticmethod(find)  # type: ignore[assignment]


class Kid:
    """One definition that others may run."""

    def __init__(self, child: m.Accepted) -> None:
        self._child = child

    def definition(self, reference: str) -> m.Accepted | None:
        return self._child if reference == self._child.definition.name else None

    def function_names(self) -> list[str]:
        return []

    def definition_names(self) -> list[str]:
        return [self._child.definition.name]


def accepted(steps: str, head: str = "") -> m.Accepted:
    return compile_text(HEAD + textwrap.dedent(head) + "steps:\n" + textwrap.dedent(steps), Tools())


def refusal(steps: str, head: str = "") -> str:
    with pytest.raises(InvalidDefinition) as caught:
        accepted(steps, head)
    return str(caught.value)


def played(steps: str, head: str = "", **spec: Any) -> TrialResult:
    """What comes of a test of these nodes; it must be as expected."""
    found = accepted(steps, head)
    (trial,) = read_trials([spec])
    result = play(Routine(found.definition, found.digest, Tools()), trial, crash=True)
    assert result.problems == ()
    return result


def begun(steps: str, head: str = "", start: Any = None) -> Run:
    """A run of these nodes, after its first turn."""
    run = Run(Defined(accepted(steps, head).definition), start if start is not None else {})  # type: ignore[arg-type]
    run.advance()
    return run


def called(run: Run) -> tuple[str, Any]:
    """The last call, and its argument ``of``."""
    request = max(run.invokes.values(), key=lambda each: each.promise_id.path)
    return request.function_name, back.signature.read(request.input)[1].get("of")


def fails(**error: Any) -> dict[str, Any]:
    return {"raise": {"class": "error", **error}}


# -- values ------------------------------------------------------------------------------------------------------------


def test_rule_2_a_text_with_one_sign_is_an_expression_with_two_a_text_and_nothing_else_is_filled_in() -> None:
    """Also in lists, in maps and in the middle of a text."""
    result = {"a": 2, "b": "=1 + 1", "c": ["=x"], "d": "${start.n} {{start.n}} =start.n", "e": ""}
    steps = """
    - done: {end: {a: "=1 + 1", b: "==1 + 1", c: ["==x"], d: "${start.n} {{start.n}} =start.n", e: ""}}
    """
    played(steps, start={"n": 1}, expect={"result": result})


@pytest.mark.parametrize(
    "node",
    [
        "{end: =size([1, 2])}",
        "{end: {a: =size(start.x, 2)}}",
        "{end: {a: =start.x > 1, b}}",
        "{end: =start.ok ? 1 : 2}",
        "{end: =start.x[0]}",
        "{end: ={'a': 1}}",
        '{end: =start["a"]}',
        "{with: {n: =max(1, 2)}, step: rules.get}",
    ],
)
def test_rule_3_an_expression_that_yaml_would_cut_is_refused_with_the_word_to_quote_it(node: str) -> None:
    assert "quote" in refusal(f"- a: {node}")


def test_rule_4_a_number_is_a_double_an_integer_an_int_and_the_two_may_meet() -> None:
    head = "state: {total: {type: number, default: 0}, count: {type: integer, default: 3}}\n"
    steps = """
    - a: {set: {state.total: =state.total + state.count, state.count: =state.count / 2}}
    - b: {end: {sum: =state.total + 1, more: =state.total > state.count, count: =state.count}}
    """
    result = played(steps, head, expect={"result": {"sum": 4.0, "more": True, "count": 1}})
    assert result.status == "completed"


def test_rule_4_the_items_of_a_list_have_the_types_of_its_schema() -> None:
    head = """
    start: {type: object, properties: {lines: {type: array, items: {type: object, properties: {n: {type: number}}}}}}
    state: {total: {type: number, default: 0}}
    """
    steps = "- each: {repeat: {over: =start.lines, item: l}, do: [{add: {set: {state.total: =state.total + l.n + 1}}}]}"
    played(steps, head, start={"lines": [{"n": 1}, {"n": 0.5}]}, expect={"state": {"total": 3.5}})


def test_rule_5_state_without_a_default_is_absent_and_reading_it_is_an_error() -> None:
    head = "state: {x: integer, y: {type: integer, default: 7}}\n"
    played("- a: {end: =state.x + 1}", head, expect={"status": "parked"})
    guarded = '- a: {end: {there: =has(state.x), or: "=state.?x.orValue(5)", y: =state.y}}'
    played(guarded, head, expect={"result": {"there": False, "or": 5, "y": 7}})


DEFAULTS = """
start:
  type: object
  required: [n]
  properties:
    n: {type: number, default: 4}
    to: {type: object, properties: {town: {type: string, default: Ulm}, no: {type: integer}}}
    lines: {type: array, items: {type: object, properties: {of: {type: integer, default: 1}}}}
"""


def test_rule_5_what_a_start_leaves_out_has_the_default_of_its_schema_and_its_type() -> None:
    steps = "- done: {end: '=[start.n / 8.0, start.to.town, start.lines.map(each, each.of)]'}"
    given = {"to": {"no": 3}, "lines": [{}, {"of": 2}]}
    played(steps, DEFAULTS, start=given, expect={"status": "completed", "result": [0.5, "Ulm", [1, 2]]})
    played(steps, DEFAULTS, start={**given, "n": 8}, expect={"result": [1.0, "Ulm", [1, 2]]})


def test_rule_5_a_run_of_an_earlier_edition_has_no_defaults_of_its_start() -> None:
    """A change of what a journal means is for runs that begin with it."""
    definition = accepted("- done: {end: =start}", DEFAULTS.replace("  required: [n]\n", "")).definition
    results = []
    for edition in (1, 2):
        run = Run(Defined(definition), {}, edition=edition)  # type: ignore[arg-type]
        run.advance()
        results.append(run.result())
    assert results == [{}, {"n": 4}]


def test_rule_5_a_child_played_within_its_parents_turn_has_the_defaults_of_its_start() -> None:
    child = compile_text(f"holdfast: definition/1\nname: kid\nversion: 1\n{DEFAULTS}steps:\n  - e: {{end: =start.n}}\n")
    found = compile_text(HEAD + "steps:\n  - k: {run: kid, as: state.n}\n  - e: {end: =state.n}\n", Tools(), Kid(child))
    run = Run(Defined(found.definition), {})  # type: ignore[arg-type]
    run.advance()
    assert run.result() == 4
    assert "InvokeScheduled" not in run.names()


def test_rule_5_a_default_of_a_start_fits_its_schema() -> None:
    head = "start: {type: object, properties: {a: {type: object, properties: {n: {type: integer, default: four}}}}}\n"
    assert "the default does not fit its schema" in refusal("- done: {end: =start.a}", head)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h", 7200),
        ("10d", 864_000),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("P1D", 86_400),
        ("P1W", 604_800),
        ("PT30M", 1800),
        ("P1DT12H", 129_600),
        ("PT0.5S", 0.5),
    ],
)
def test_rule_6_durations_are_short_or_iso_8601_and_a_day_has_24_hours(text: str, seconds: float) -> None:
    assert read_span(text) == seconds * SECOND
    run = begun(f"- nap: {{sleep: {text}}}")
    due = run.execution.next_due()
    assert due is not None
    assert due - run.now == seconds * SECOND


@pytest.mark.parametrize("seconds", [-1, 1e30, 10**17, float("inf"), float("nan"), True, None, [1], "soon"])
def test_rule_6_a_duration_that_an_expression_gives_and_that_is_none_is_an_error_of_the_node(seconds: object) -> None:
    """It can be caught, also where it is longer than the engine's clock goes."""
    for node in ("sleep: =start.n", "wait: x, timeout: =start.n"):
        steps = f"- a: {{{node}, on: {{failure: [{{f: {{end: =error.class}}}}]}}}}"
        run = begun(steps, start={"n": seconds})
        assert run.ended
        assert run.result() == "expression"


@pytest.mark.parametrize("text", ["P1Y", "P1M", "P1Y2M", "1y", "PT", "P", "-1s", "1", "1 h", "==1s", "1e3s"])
def test_rule_6_years_months_and_other_texts_are_refused(text: str) -> None:
    assert "a duration is written as" in refusal(f'- nap: {{sleep: "{text}"}}')


def test_rule_7_calls_follow_the_order_of_names_not_of_the_text() -> None:
    """So that a definition with another order of members replays the same journal."""
    one = "- f: {fork: {b: [{y: {step: rules.get, with: {n: 2}}}], a: [{x: {step: rules.get, with: {n: 1}}}]}}"
    other = "- f: {fork: {a: [{x: {with: {n: 1}, step: rules.get}}], b: [{y: {step: rules.get, with: {n: 2}}}]}}"
    assert accepted(one).digest == accepted(other).digest
    assert [entry.event for entry in begun(one).journal] == [entry.event for entry in begun(other).journal]


def test_rule_7_all_right_sides_of_a_set_see_the_state_before_it() -> None:
    steps = "- a: {set: {state.x: 1, state.y: 2}}\n- b: {set: {state.x: =state.y, state.y: =state.x}}"
    played(steps, expect={"state": {"x": 2, "y": 1}})


def test_rule_8_a_result_is_kept_on_success_only() -> None:
    steps = """
    - a: {step: rules.get, as: state.a}
    - b: {step: rules.get, as: state.b, on: {failure: []}}
    - c: {end: {a: =state.a, b: =has(state.b)}}
    """
    played(steps, mock={"a": 1, "b": fails()}, expect={"result": {"a": 1, "b": False}})


# -- side by side ------------------------------------------------------------------------------------------------------


def test_rule_9_branches_see_the_state_at_the_fork_and_publish_at_the_join_and_losers_vanish() -> None:
    steps = """
    - before: {set: {state.n: 1}}
    - f:
        fork:
          a: [{a1: {set: {state.a: =state.n}}}, {a2: {set: {state.a: =state.a + 10}}}, {a3: {wait: go}}]
          b: [{b1: {set: {state.b: =has(state.a)}}}]
          c: [{c1: {set: {state.c: 1}}}, {c2: {wait: never}}]
        join: 2
    - done: {end: {a: =state.a, b: =state.b, c: =has(state.c)}}
    """
    played(steps, signals=[{"name": "go"}], expect={"result": {"a": 11, "b": False, "c": False}})


def test_rule_10_what_is_gone_over_is_evaluated_once() -> None:
    steps = """
    - some: {set: {state.items: [1, 2], state.n: 0}}
    - each:
        repeat: {over: =state.items}
        do: [{more: {set: {state.items: "=state.items + [3]", state.n: =state.n + 1}}}]
    - done: {end: =state.n}
    """
    played(steps, expect={"result": 2})


def test_rule_10_iterations_at_once_write_only_what_is_their_own() -> None:
    where = "repeat: {over: =start.x, at_once: 2}"
    assert "many.a: iterations at once write only to" in refusal(
        f"- many: {{{where}, do: [{{a: {{set: {{state.x: 1}}}}}}]}}"
    )
    assert "iterations at once" in refusal(f"- many: {{{where}, do: [{{a: {{set: {{reference: x}}}}}}]}}")
    played(
        f"- many: {{{where}, do: [{{a: {{set: {{local.x: =item * 2}}}}}}], gives: =local.x, as: state.y}}",
        start={"x": [1, 2, 3]},
        expect={"state": {"y": [2, 4, 6]}},
    )


def test_rule_11_a_number_counts_successes_and_one_that_cannot_be_reached_fails_the_fork() -> None:
    steps = """
    - f:
        fork:
          a: [{a1: {step: rules.get}}]
          b: [{b1: {step: rules.get, as: state.b}}]
          c: [{c1: {step: rules.get, as: state.c}}]
        join: 2
        on: {failure: [{no: {end: no}}]}
    - done: {end: yes}
    """
    played(steps, mock={"a1": fails(), "b1": 1, "c1": 2}, expect={"result": "yes", "state": {"b": 1, "c": 2}})
    played(steps, mock={"a1": fails(), "b1": fails(), "c1": 2}, expect={"result": "no"})


def test_rule_12_the_first_uncaught_failure_of_a_fork_cancels_its_siblings_and_goes_outward() -> None:
    steps = """
    - f:
        fork:
          a: [{a1: {step: rules.get}}]
          b: [{b1: {wait: never}}, {b2: {set: {state.b: 1}}}]
        on: {failure: [{no: {set: {state.code: =error.code}}}]}
    - done: {end: {code: =state.code, b: =has(state.b)}}
    """
    played(steps, mock={"a1": fails(code="X")}, expect={"result": {"code": "X", "b": False}})


# -- errors ------------------------------------------------------------------------------------------------------------


def test_rule_13_a_failure_is_tried_again_then_handled_then_goes_outward() -> None:
    steps = """
    - outer:
        do:
          - a: {step: rules.get, as: state.n, retry: {max: 3, first: 1s, jitter: none}}
        on: {failure: [{h: {set: {state.code: =error.code, state.node: =error.node}}}]}
    - done: {end: {code: =state.code, node: =state.node}}
    """
    played(steps, mock={"a": {"each": [fails(code="A")] * 3}}, expect={"result": {"code": "A", "node": "a"}})


def test_rule_13_a_time_out_has_its_own_handler_else_that_of_failures() -> None:
    waits = "- a: {wait: never, timeout: 1h, on: {%s}}\n- done: {end: =state.how}"
    both = "timeout: [{t: {set: {state.how: late}}}], failure: [{f: {set: {state.how: failed}}}]"
    played(waits % both, expect={"result": "late"})
    played(waits % "failure: [{f: {set: {state.how: =error.class}}}]", expect={"result": "timeout"})
    played("- a: {step: rules.get, on: {success: [{s: {end: well}}]}}", mock={"a": 1}, expect={"result": "well"})


def test_rule_13_what_was_done_is_undone_and_then_the_run_fails() -> None:
    run = begun("- a: {step: rules.get, undo: {step: rules.back, with: {of: =result}}}\n- b: {raise: {code: NO}}")
    run.advance(run.ok(0, 5))
    assert called(run) == ("rules.back", 5)
    run.advance(run.ok(1))
    assert type(run.events[-1]).__name__ == "ExecutionFailed"


def test_rule_14_a_handler_that_ends_goes_on_behind_its_node_which_shows_as_skipped() -> None:
    steps = "- a: {step: rules.get, on: {failure: [{h: {set: {state.h: 1}}}]}}\n- b: {end: =nodes.a.error.code}"
    played(steps, mock={"a": fails(code="X")}, expect={"result": "X", "skipped": ["a"], "done": ["h", "b"]})


def test_rule_14_an_error_of_a_handler_goes_outward() -> None:
    steps = "- a: {step: rules.get, on: {failure: [{h: {raise: {code: WORSE}}}]}}\n- b: {end: 1}"
    played(steps, mock={"a": fails(code="X")}, expect={"status": "failed", "error": {"code": "WORSE"}})


def test_rule_15_an_expression_that_fails_parks_unless_it_is_caught() -> None:
    played("- a: {set: {state.x: =1 / start.zero}}", start={"zero": 0}, expect={"status": "parked"})
    caught = "- a: {set: {state.x: =1 / start.zero}, on: {failure: [{h: {end: =error.class}}]}}"
    played(caught, start={"zero": 0}, expect={"result": "expression"})


@pytest.mark.parametrize("around", ["- a: {}", "- b: {{do: [{{a: {}}}]}}"], ids=["at the top", "in a block"])
def test_rule_15_a_result_that_does_not_fit_its_place_parks_unless_it_is_caught(around: str) -> None:
    head = "state: {n: integer}\n"
    steps = around.replace("{}", "{{step: rules.get, as: state.n}}").format() + "\n- z: {end: 1}"
    played(steps, head, mock={"a": "seven"}, expect={"status": "parked"})
    handler = "{failure: [{h: {end: '=[error.class, error.code]'}}]}"
    caught = f"- a: {{step: rules.get, as: state.n, on: {handler}}}\n- z: {{end: 1}}"
    played(caught, head, mock={"a": "seven"}, expect={"result": ["consistency", "STATE"]})


def test_rule_15_a_denial_is_caught_and_never_tried_again() -> None:
    steps = """
    - a: {step: rules.get, retry: {max: 5, first: 1s}, on: {failure: [{h: {end: =error.class}}]}}
    - b: {end: done}
    """
    denied = {"raise": {"class": "authorisation"}}
    played(steps, mock={"a": {"each": [denied, 1]}}, expect={"result": "authorisation"})


def test_rule_15_cancellation_cannot_be_caught() -> None:
    run = begun("- a: {wait: never, on: {failure: [{h: {set: {state.caught: true}}}]}}\n- b: {sleep: 1h}")
    run.advance(cancel())
    assert type(run.journal[-1].event).__name__ == "ExecutionCancelled"


def test_rule_16_the_limit_counts_attempts_and_the_nodes_policy_replaces_the_steps() -> None:
    steps = "- a: {step: rules.get, as: state.n, retry: {max: 2, first: 1s, jitter: none}}\n- b: {end: =state.n}"
    played(steps, mock={"a": {"each": [fails(), 7]}}, expect={"result": 7})
    played(steps, mock={"a": {"each": [fails(), fails(), 7]}}, expect={"status": "failed"})


def test_rule_18_a_bare_time_out_is_of_the_whole_and_cancels_all_that_is_inside() -> None:
    (node,) = accepted("- a: {sleep: 1h, timeout: 5m}").definition.steps
    assert node.timeout == m.Timeout(whole=300 * SECOND)
    steps = """
    - block:
        do: [{f: {fork: {a: [{a1: {wait: never}}], b: [{b1: {sleep: 9d}}], c: [{c1: {task: t}}]}}}]
        timeout: 1h
        on: {timeout: [{late: {end: late}}]}
    - done: {end: done}
    """
    played(steps, "tasks: {t: {title: T}}\n", expect={"result": "late"})


@pytest.mark.parametrize(("all", "after"), [("1h", 3600), ("1000d", 86_400)])
def test_rule_18_of_two_ends_the_earlier_counts(all: str, after: int) -> None:
    at = datetime.fromtimestamp(NOW / 1e6 + 86_400, UTC).isoformat()
    run = begun(f'- a: {{wait: x, timeout: {{all: {all}, at: "{at}"}}}}')
    assert run.execution.next_due() == NOW + after * SECOND


def test_rule_18_a_block_may_end_at_a_time() -> None:
    steps = """
    - block: {do: [{a: {wait: never}}], timeout: {at: =start.at}, on: {timeout: [{late: {end: late}}]}}
    - done: {end: done}
    """
    played(steps, start={"at": "2027-01-01T00:00:00Z"}, expect={"result": "late"})


def test_rule_19_cancelling_undoes_newest_first() -> None:
    undo = "undo: {step: rules.back, with: {of: =result}}"
    run = begun(f"- a: {{step: rules.get, {undo}}}\n- b: {{step: rules.get, {undo}}}\n- c: {{wait: never}}")
    run.advance(run.ok(0, "first"))
    run.advance(run.ok(1, "second"))
    run.advance(cancel())
    assert called(run) == ("rules.back", "second")
    run.advance(run.ok(3))
    assert called(run) == ("rules.back", "first")


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_rule_20_a_false_condition_is_skipped_and_satisfies_what_needs_it() -> None:
    steps = """
    - g:
        graph:
          a: {step: rules.get, when: =start.no}
          b: {needs: [a], step: rules.get, as: state.b}
        as: state.states
    - done: {end: =state.states}
    """
    played(steps, start={"no": False}, mock={"b": 1}, expect={"result": {"a": "skipped", "b": "success"}})


def test_rule_20_a_need_of_a_used_step_that_the_graph_lacks_counts_as_skipped_and_others_are_refused() -> None:
    head = "uses: {steps: [rules.get], workflows: [letters.send@^2]}\n"
    steps = "- g: {graph: {a: {step: rules.get, needs: [rules.get, letters.send], as: state.a}}}"
    played(steps, head, mock={"a": 1}, expect={"state": {"a": 1}})
    assert "g.a: there is no node of this graph 'rules.gte'" in refusal(
        steps.replace("[rules.get,", "[rules.gte,"), head
    )


def test_rule_20_a_failure_blocks_its_dependants_the_rest_finishes_and_then_the_graph_fails() -> None:
    steps = """
    - g:
        graph:
          a: {step: rules.get}
          b: {needs: [a], step: rules.get, as: state.b}
          c: {step: rules.get, as: state.c}
          d: {after: [a, b], step: rules.get, as: state.d}
        on: {failure: [{h: {end: {code: =error.code, b: =has(state.b), c: =state.c, d: =state.d}}}]}
    """
    expect = {"result": {"code": "X", "b": False, "c": 3, "d": 4}}
    played(steps, mock={"a": fails(code="X"), "c": 3, "d": 4}, expect=expect)


# -- signals, tasks, versions ------------------------------------------------------------------------------------------


def test_rule_21_signals_are_first_in_first_out_by_name_and_key_and_are_kept_when_early() -> None:
    steps = """
    - nap: {sleep: 2h}
    - a: {wait: s, as: state.a}
    - b: {wait: s, key: k, as: state.b}
    - c: {wait: s, as: state.c}
    - done: {end: "=[state.a, state.b, state.c]"}
    """
    signals = [{"name": "s", "value": 1}, {"name": "s", "key": "k", "value": 2}, {"name": "s", "value": 3}]
    played(steps, signals=signals, expect={"result": [1, 2, 3]})


def test_rule_21_one_that_does_not_match_is_left_for_another_wait() -> None:
    steps = """
    - a: {wait: s, match: =payload > 1, as: state.a}
    - b: {wait: s, as: state.b}
    - done: {end: "=[state.a, state.b]"}
    """
    played(steps, signals=[{"name": "s", "value": 1}, {"name": "s", "value": 2}], expect={"result": [2, 1]})


def test_rule_21_a_wait_that_has_lost_takes_no_signal_any_more() -> None:
    """The option that a signal does not fit receives it first, and the other wins by it: the next signal stays."""
    steps = """
    - which: {pick: {a: {wait: s, match: =payload > 5}, b: {wait: s, match: =payload < 5, as: state.b}}}
    - later: {wait: s, as: state.later}
    - done: {end: "=[state.b, state.later]"}
    """
    played(steps, signals=[{"name": "s", "value": 1}, {"name": "s", "value": 9}], expect={"result": [1, 9]})


def test_rule_21_of_two_waits_the_one_that_began_first_is_given_a_signal() -> None:
    """Also where both were offered another one before."""
    steps = """
    - both:
        fork:
          a: [{wa: {wait: s, match: =payload > 1, as: state.a}}]
          b: [{wb: {wait: s, match: =payload > 1, as: state.b}}]
        join: any
    - done: {end: =state}
    """
    played(steps, signals=[{"name": "s", "value": 1}, {"name": "s", "value": 2}], expect={"result": {"a": 2}})


LONG = "start.l.all(x, !start.s.contains(start.t))"


@pytest.mark.long
@pytest.mark.parametrize("crash", one_stays([True, False]))
def test_an_expression_that_takes_long_gives_the_same_in_a_replay_or_parks(crash: bool) -> None:
    """Where it is evaluated changes nothing of its value; one that needs too much time can be caught by nothing."""
    node = f"set: {{state.a: '={LONG}'}}, on: {{failure: [{{late: {{end: caught}}}}]}}"
    steps = f"- a: {{{node}}}\n- b: {{end: =state.a}}"
    found = accepted(steps)
    start = {"l": list(range(1_900)), "s": "a" * 10_000, "t": "a" * 500 + "b"}
    cases = [(start, {"result": True}), ({**start, "s": "a" * 600_000, "t": "a" * 300_000 + "b"}, {"status": "parked"})]
    for given, expect in cases:
        (trial,) = read_trials([{"start": given, "expect": expect}])
        assert not play(Routine(found.definition, found.digest, Tools()), trial, crash=crash).problems


TASK = """
tasks:
  t:
    title: T
    for: {users: [bob], exclude: [ann]}
    form: {type: object, required: [n], properties: {n: {type: integer}}}
    check: [{when: =payload.n > start.most, say: Too much, at: /n}]
    due: {in: 1h, expire: 2h}
"""


@pytest.mark.parametrize(
    "answer",
    [{"by": "bob", "value": {"n": "x"}}, {"by": "bob", "value": {"n": 9}}, {"by": "ann", "value": {"n": 1}}],
)
def test_rule_22_a_bad_answer_leaves_the_task_open_and_expiry_is_a_time_out(answer: dict[str, Any]) -> None:
    steps = "- a: {task: t, as: state.a, on: {timeout: [{late: {end: =error.class}}]}}\n- b: {end: =state.a.n}"
    found = accepted(steps, TASK)
    (trial,) = read_trials(
        [{"start": {"most": 5}, "answers": [{"task": "t", **answer}], "expect": {"result": "timeout"}}]
    )
    (problem,) = play(Routine(found.definition, found.digest, Tools()), trial, crash=True).problems
    assert f"the answer of {answer['by']} to t is refused" in problem
    good = {"task": "t", "by": "bob", "value": {"n": 5}}
    played(steps, TASK, start={"most": 5}, answers=[good], expect={"result": 5})


def test_rule_24_secrets_are_names_in_a_connector_alone() -> None:
    bad = '- a: {http: {get: "https://x.example", headers: {X-Key: {secret: TOKEN}}}}'
    assert "a:" in refusal(bad)
    assert "there is no variable `secrets`" in refusal("- a: {end: =secrets.TOKEN}")
    wrong = "connectors: {b: {base: 'https://b.example', %s, operations: {}}}\n"
    for part in ("auth: {bearer: 'a value and no name'}", "headers: {X: {secrt: T}}", "auth: {bearer: {value: x}}"):
        assert "connectors" not in refusal("- a: {end: 1}", wrong % part)
    accepted("- a: {end: 1}", wrong % "auth: {bearer: TOKEN}, headers: {X: {secret: OTHER}}")


def test_rule_25_an_end_gives_the_result_and_never_the_status() -> None:
    assert played("- a: {end: {status: failed}}", expect={"result": {"status": "failed"}}).status == "completed"
    assert played("- a: {set: {state.x: 1}}", expect={"result": None}).status == "completed"


@pytest.mark.parametrize(
    "block",
    [
        "{fork: {x: [{a: {end: 1}}], y: []}}",
        "{fork: {x: [{d: {do: [{a: {end: 1}}]}}], y: []}}",
        "{graph: {a: {end: 1}}}",
        "{repeat: {times: 2, at_once: 2}, do: [{a: {end: 1}}]}",
        "{fork: {x: [{s: {sleep: 1s, on: {success: [{a: {end: 1}}]}}}], y: []}}",
    ],
)
def test_rule_25_a_run_cannot_end_inside_a_parallel_block(block: str) -> None:
    assert "a run cannot end inside f" in refusal(f"- f: {block}")


def test_the_functions_that_a_definition_calls_are_known_and_no_part_of_its_digest() -> None:
    steps = """
    - a: {set: {state.words: "=start.text.split(',').map(w, w.trim())"}}
    - b: {when: =has(start.n) && math.abs(start.n) > 1, set: {state.n: "=size(state.words)"}}
    - c:
        end: ="%s".format([state.words.join("-")])
    """
    found = accepted(steps)
    assert functions_of(found.definition) == ("format", "has", "join", "map", "math.abs", "size", "split", "trim")
    assert b"functions" not in found.canonical
    played(steps, start={"text": "a, b", "n": -2}, expect={"result": "a-b", "state": {"n": 2}})


def test_the_functions_of_a_definition_in_jq_are_known() -> None:
    found = accepted("- a: {end: '=[$start.xs[] | ascii_downcase] | join(\",\") // null'}", "language: jq\n")
    assert functions_of(found.definition) == ("ascii_downcase", "join")


# -- beyond the example ------------------------------------------------------------------------------------------------


def test_a_pick_takes_what_comes_first_and_does_what_stands_behind_it() -> None:
    steps = """
    - p: {pick: {paid: {wait: payment, as: state.paid}, late: {sleep: 7d, do: [{note: {set: {state.late: true}}}]}}}
    - done: {end: {paid: "=state.?paid.orValue(0)", late: =has(state.late)}}
    """
    played(steps, signals=[{"name": "payment", "value": 5}], expect={"result": {"paid": 5, "late": False}})
    played(steps, expect={"result": {"paid": 0, "late": True}})


RACE = """
- {before}
- p:
    pick:
      zz: {{wait: one, do: [{{z: {{set: {{state.won: zz}}}}}}]}}
      aa: {{wait: {other}, do: [{{a: {{set: {{state.won: aa}}}}}}]}}
- done: {{end: =state.won}}
"""


@pytest.mark.parametrize(("order", "won"), [((1, 2), "zz"), ((2, 1), "aa")])
def test_of_two_options_the_one_whose_signal_was_recorded_first_wins(order: tuple[int, int], won: str) -> None:
    """Also where both arrive in one turn, and whatever their names are."""
    run = begun(RACE.format(before="s: {set: {state.won: nobody}}", other="two"))
    signals = {1: signal("one"), 2: signal("two")}
    run.advance(*(signals[each] for each in order))
    while not run.ended:
        run.advance()
    assert run.result() == won


def test_of_two_options_that_can_both_go_on_when_they_are_reached_the_first_by_name_wins() -> None:
    """The order in which they are written is for people: a run does not depend on it."""
    run = begun(RACE.format(before="s: {wait: go}", other="two"))
    run.advance(signal("one"), signal("two"))
    run.advance(signal("go"))
    while not run.ended:
        run.advance()
    assert run.result() == "aa"


@pytest.mark.parametrize(
    "steps",
    [
        "- below: {when: =start.n > 0, run: rules, with: {n: =start.n - 1}}",
        "- w: {switch: [{when: =start.n > 0, do: [{below: {continue: rules@1}}]}]}",
        "- last: {when: =start.n < 1, end: 1}\n- below: {run: rules@^1, with: {n: =start.n - 1}}",
        "- each: {repeat: {over: =start.parts}, do: [{below: {run: rules, with: =item}}]}",
        "- risky: {wait: s, timeout: 1h, on: {timeout: [{again: {continue: rules}}]}}",
    ],
)
def test_a_definition_may_run_itself_on_a_condition(steps: str) -> None:
    """Its digest is not known while it is compiled: it is meant by name, and compiles to the same bytes again."""
    text = HEAD + "steps:\n" + textwrap.indent(steps, "  ") + "\n"
    found = compile_text(text, Tools(), Kid(accepted("- e: {end: 1}")))
    assert compile_text(text, Tools(), Kid(found)).digest == found.digest


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ("- below: {run: rules}", "rules would run itself for ever: do it on a condition"),
        ("- below: {when: true, continue: rules@1}", "rules would run itself for ever"),
        ("- b: {do: [{a: {set: {state.x: 1}}}, {below: {run: rules@^1}}]}", "rules would run itself for ever"),
        ("- f: {fork: {a: [{below: {run: rules}}], b: [{s: {sleep: 1s}}]}}", "rules would run itself for ever"),
        ("- below: {when: =start.n > 0, run: rules@2}", "there is no rules@2 yet"),
    ],
)
def test_a_definition_that_always_runs_itself_is_refused(steps: str, what: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        compile_text(HEAD + "steps:\n" + textwrap.indent(steps, "  ") + "\n", Tools(), Kid(accepted("- e: {end: 1}")))
    assert what in str(caught.value)


CHECKED = """
tasks:
  check:
    title: ="Check " + input.what + " for " + item.name
    for: {groups: "=[input.who]"}
    show: {line: =item, at: =index}
    form: {type: object, properties: {ok: {type: boolean}}}
    check: [{when: "=!payload.ok && input.what == 'brakes'", say: They must be good}]
"""
ASKS = """
- each:
    repeat: {over: =start.cars}
    do:
      - one: {task: check, with: {what: brakes, who: smiths}}
      - two: {task: check, with: {what: =item.name + "'s lamps", who: =start.who}}
"""


def test_tasks_of_one_declaration_have_inputs_of_their_own_and_see_the_item() -> None:
    found = accepted(ASKS, CHECKED)
    assert found.definition == load(found.canonical)
    assert compile_text(yaml_of(found.definition), Tools()).digest == found.digest
    assert "with_={'what': 'brakes', 'who': 'smiths'}" in python_of(found.definition)
    run = Run(Defined(found.definition), {"cars": [{"name": "Beetle"}], "who": "volts"})  # type: ignore[arg-type]
    run.advance()
    (first,) = run.invokes.values()
    question = questions.read(first.input)[1]
    assert (first.function_name, question.groups) == ("Check brakes for Beetle", ("smiths",))
    assert question.facts == {"input": {"what": "brakes"}}
    run.advance(run.ok(first.promise_id.path[-1], {"ok": True}))
    second = max(run.invokes.values(), key=lambda each: each.promise_id.path)
    assert second.function_name == "Check Beetle's lamps for Beetle"
    assert questions.read(second.input)[1].groups == ("volts",)


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        (ASKS.replace("what: brakes, ", ""), "the task check reads input.what: give it, `with: {what: …}`"),
        (ASKS + "- last: {task: check, with: {what: x, who: y}}\n", "there is no variable `item`"),
        (ASKS.replace("who: smiths", "who: smiths, whom: x"), ""),
        (ASKS.replace("with: {what: brakes, who: smiths}", "with: {what: 3, who: x}"), ""),
    ],
)
def test_a_task_sees_what_all_see_that_ask_it(steps: str, what: str) -> None:
    if what:
        assert what in refusal(steps, CHECKED)
    else:
        accepted(steps, CHECKED)


def test_an_error_does_not_say_how_often_it_was_tried_and_that_is_said_at_once() -> None:
    steps = "- r: {step: rules.get, on: {failure: [{n: {set: {state.n: =error.attempts}}}]}}"
    assert "an error does not say how often its node was tried" in refusal(steps)
    assert "error.details.attempts" in refusal(steps)
    accepted(steps.replace("error.attempts", "error.details.attempts"))


def test_rework_is_a_bounded_loop() -> None:
    steps = """
    - r: {repeat: {until: =state.ok, most: 2}, do: [{a: {step: rules.get, as: state.ok}}]}
    - done: {end: =state.ok}
    """
    played(steps, mock={"a": {"each": [False, True]}}, expect={"result": True})
    played(steps, mock={"a": False}, expect={"status": "failed", "error": {"code": "REPEATED_TOO_OFTEN"}})


def test_kept_errors_are_in_order_beside_the_values() -> None:
    steps = """
    - r:
        repeat: {over: =start.x, at_once: 8, errors: keep}
        do: [{a: {step: rules.get, with: {n: =item}, as: local.n}}]
        gives: =local.n
        as: state.out
    - done: {end: {first: "=state.out[0].value", second: "=state.out[1].error.code", n: =state.out.size()}}
    """
    mock = {"a": {"each": [1, fails(code="X"), 3]}}
    played(steps, start={"x": [1, 2, 3]}, mock=mock, expect={"result": {"first": 1, "second": "X", "n": 3}})


def test_the_business_reference_is_declared_and_changed() -> None:
    steps = "- a: {set: {reference: ='R-' + start.no}}\n- b: {end: =run.reference}"
    played(steps, "reference: =start.no\n", start={"no": "1"}, expect={"result": "R-1", "reference": "R-1"})


def test_earlier_nodes_are_read_by_their_names() -> None:
    steps = """
    - a: {step: rules.get}
    - b: {step: rules.get, when: =start.no}
    - t: {task: t}
    - done: {end: {a: =nodes.a.result, state: =nodes.a.state, b: =nodes.b.state}}
    """
    played(
        steps,
        "tasks: {t: {title: T}}\n",
        start={"no": False},
        mock={"a": 7},
        answers=[{"task": "t", "by": "bob", "value": {}}],
        expect={"result": {"a": 7, "state": "success", "b": "skipped"}},
    )


def test_a_bare_request_has_the_host_as_connector_and_the_method_as_operation() -> None:
    steps = '- a: {http: {post: "https://s.example/x", json: {n: 1}}}'
    found = compile_text(HEAD + "steps:\n" + steps, Installed())
    definition = Defined(found.definition)
    definition.routine = Routine(found.definition, found.digest, Installed())
    run = Run(definition, {})  # type: ignore[arg-type]
    run.advance()
    (request,) = run.invokes.values()
    assert (request.kind, request.function_name) == ("action", "http:s.example/post")


# -- the whole example -------------------------------------------------------------------------------------------------

EXAMPLE = next(path for path in DOCUMENTS if path.stem == "claims")
START = {"claimNo": "C-1", "filedBy": "ann", "items": [{"amount": 2.0}, {"amount": 3.5}]}
MOCK = {"get": {"n": 1}, "pay": "P-1", "tell": {"sent": 1}, "archive": "r-1"}
PAPERS = [{"name": "documents", "value": {"claimNo": "C-9"}}, {"name": "documents", "value": {"claimNo": "C-1"}}]


class Mocked(Installed):
    """Tools for an example whose steps are mocked."""

    def step(self, name: str) -> Any:
        return anything


@pytest.mark.parametrize(
    "spec",
    [
        {
            "mock": {**MOCK, "score": 0.1},
            "signals": PAPERS,
            "expect": {
                "status": "completed",
                "result": {"status": "approve"},
                "state": {"total": 5.5},
                "reference": "C-1",
            },
        },
        {
            "mock": {**MOCK, "score": 0.7},
            "signals": PAPERS,
            "answers": [{"task": "approve", "by": "bob", "groups": ["claims"], "value": {"decision": "reject"}}],
            "expect": {"status": "completed", "result": {"status": "reject"}},
        },
        {
            "mock": {**MOCK, "score": 0.1, "get": fails(code="X")},
            "signals": PAPERS,
            "expect": {"status": "completed", "skipped": ["get"]},
        },
        {
            "mock": {**MOCK, "score": 0.1, "get": {"raise": {"class": "timeout"}}},
            "signals": PAPERS,
            "expect": {"status": "failed", "error": {"code": "SLOW"}},
        },
    ],
)
def test_the_whole_example_of_the_format_runs(spec: dict[str, Any]) -> None:
    """Score, sum, fork, sleep, switch, task, graph, child, continue and end; every turn twice."""
    found = compiled(EXAMPLE)
    (trial,) = read_trials([{"start": START, **spec}])
    assert play(Routine(found.definition, found.digest, Mocked()), trial, crash=True).problems == ()


def test_a_program_of_a_definition_has_its_state_apart() -> None:
    run = begun("- a: {set: {state.x: 1}}\n- b: {wait: go}")
    program = run.execution.program
    assert isinstance(program, DefinitionProgram)
    assert program.state == {"x": 1}


def test_the_root_run_has_the_whole_context_of_a_node() -> None:
    """Name, version, instance, reference, task and signal, node and path, waiting token, turn and start."""
    head = "reference: =start.no\ntasks: {t: {title: T}}\n"
    members = ", ".join(f"{member}: =run.{member}" for member in RUN.members)
    steps = f"- w: {{wait: go}}\n- t: {{task: t}}\n- block: {{do: [{{done: {{end: {{{members}}}}}}}]}}"
    found = accepted(steps, head)
    (trial,) = read_trials(
        [{"start": {"no": "N-1"}, "signals": [{"name": "go"}], "answers": [{"task": "t", "by": "bob", "value": {}}]}]
    )
    routine = Routine(found.definition, found.digest, Tools())
    run = Run(Defined(found.definition), {"no": "N-1"})  # type: ignore[arg-type]
    assert play(routine, trial, crash=True).status == "completed"
    run.advance()
    run.advance(signal("go"))
    run.advance(run.ok(2, {}))
    result = run.result()
    assert (result["name"], result["version"], result["reference"]) == ("rules", 1, "N-1")
    assert (result["task"], result["signal"]) == ("t", "go")
    assert (result["node"], result["path"]) == ("done", "block.done")
    assert result["token"]
    assert result["startedAt"].endswith("Z")
    assert result["turn"] == 2


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("=duration('1h')", "4:1: this is a fixed duration, such as 2s, and cannot be an expression"),
        ("0s", "4:1: it is a duration of more than nothing"),
        ("soon", "4:1: a duration is written as"),
    ],
)
def test_the_time_for_the_last_children_is_a_fixed_duration(written: str, problem: str) -> None:
    """It is recorded when the wait begins."""
    assert problem in refusal("- a: {end: 1}", f"cleanup_timeout: {written}\n")


def test_the_builder_says_how_long_the_last_children_are_waited_for() -> None:
    """As a text, or a duration of Python's."""
    for span in ("1h30m", timedelta(minutes=90)):
        built = define("rules.waits", version=1, cleanup_timeout=span).end("done", 1)
        assert compile_document(built.document).definition.cleanup_timeout == 5_400_000_000

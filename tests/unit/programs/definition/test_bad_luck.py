"""Bad input and bad luck: each has a clear error, and nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.definition import D, Flow, define
from holdfast.errors import InvalidDefinition
from holdfast.kernel.execution import Execution
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text
from holdfast.programs.definition.compiler.source import read_source
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.trials import play, read_trials
from tests.definitions import Defined, Tools
from tests.runs import Run, signal
from tests.unit.programs.definition.test_decompiler import check

HEAD = "holdfast: definition/1\nname: t\nversion: 1\nsteps:\n"


def document(*steps: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"holdfast": "definition/1", "name": "t", "version": 1, "steps": list(steps), **parts}


def refusal(text: str) -> str:
    with pytest.raises(InvalidDefinition) as caught:
        compile_text(text, file="t.yaml")
    return str(caught.value)


def parked(steps: str, start: Any = None) -> str:
    """Why a run of these nodes is parked."""
    found = compile_text(HEAD + steps)
    (spec,) = read_trials([{"start": start, "expect": {"status": "completed"}}])
    (problem,) = play(Routine(found.definition, found.digest, Tools()), spec, crash=True).problems
    return problem


# -- texts -------------------------------------------------------------------------------------------------------------


def test_a_bomb_of_anchors_is_refused_before_it_is_made() -> None:
    """Nine lines that would be a thousand million values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refusal("\n".join(lines)) == "t.yaml:5:45: it has more than 100,000 values"


def test_anchors_cannot_hide_how_deep_a_text_is() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300))]
    assert "values more than 150 deep" in refusal("\n".join(lines))


def test_anchors_may_be_used_with_measure() -> None:
    value, _ = read_source("a: &x {b: [1]}\nc: *x\nd: [*x, *x]")
    assert value == {"a": {"b": [1]}, "c": {"b": [1]}, "d": [{"b": [1]}, {"b": [1]}]}
    assert "there is no anchor &y" in refusal("a: *y")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("x" * 10_000_000, "the text has 10,000,000 characters, and the limit is 2,097,152: split the definition"),
        ("[" * 1_000_000, "t.yaml:1:152: it has values more than 150 deep inside each other"),
        ("{a: " * 200_000, "it has values more than 150 deep"),
        ("- " * 200_000, "it has values more than 150 deep"),
        ("a:\n\tb: 1", "t.yaml:2:1: found character that cannot start any token: indent with spaces, not with a tab"),
        ("a: {b: 1, b: 2}", "t.yaml:1:11: 'b' stands twice in this map"),
        ("a: 1\n---\nb: 1", "t.yaml:2:1: a file has one definition: a second begins here"),
        ("? [a]\n: 1", "t.yaml:1:3: a name in a map is a text"),
        ("a: !x 1", "t.yaml:1:4: there are no tags here: !x"),
        ("a: \x01", "control characters are not allowed"),
        (f"a: {'9' * 5000}", "t.yaml:1:4: a whole number has at most 64 bits"),
        ("a: 1e999", "more than a double can hold"),
        ("a: .nan", "no number that JSON has"),
        ("a: 1\nb: \udcff", "t.yaml:2:4: this is no character: the text must be UTF-8"),
    ],
    ids=range(14),
)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(text: str, fault: str) -> None:
    assert fault in refusal(text)


def test_json_is_read_with_the_characters_that_it_writes_as_two() -> None:
    value, _ = read_source('{"a": "\\ud83d\\ude00 \\\\ud83d\\\\ude00",\n\t"b": [1.0, true, null]}')
    assert value == {"a": "😀 \\ud83d\\ude00", "b": [1.0, True, None]}


def test_a_node_that_is_named_twice_is_refused_at_the_second_place() -> None:
    text = HEAD + "- a: {sleep: 1s}\n- b: {do: [{a: {sleep: 1s}}]}"
    assert (
        refusal(text) == "t.yaml:6:13: a: two nodes are called 'a': rename one, a name is of one node in the definition"
    )


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (object(), "a definition is plain data"),
        (b"x", "a definition is plain data"),
        (float("nan"), "nan is no number that JSON has"),
        (2**64, "a whole number has at most 64 bits"),
        ({(1, 2): 3}, "a name in a map is a text"),
        ("\ud800", "has half of a character in it"),
    ],
)
def test_a_document_that_is_no_plain_data_is_refused(value: object, fault: str) -> None:
    with pytest.raises(InvalidDefinition, match=fault):
        compile_document(document({"a": {"end": value}}))


# -- nesting -----------------------------------------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[int, list[Any]], dict[str, Any]]] = {
    "do": lambda n, steps: {"do": steps},
    "switch": lambda n, steps: {"switch": [{"when": "=start.n == 1", "do": steps}, {"else": []}]},
    "fork": lambda n, steps: {"fork": {"a": steps}},
    "repeat": lambda n, steps: {"repeat": {"times": 1}, "do": steps},
    "graph": lambda n, steps: {"graph": {name: body for each in steps for name, body in each.items()}},
    "pick": lambda n, steps: {"pick": {f"w{n}": {"sleep": "1s", "do": steps}}},
    "on": lambda n, steps: {"sleep": "1s", "on": {"success": steps}},
}


def nested(kind: str, depth: int) -> dict[str, Any]:
    steps: list[Any] = [{"leaf": {"set": {"state.x": 1}}}]
    for n in range(depth):
        steps = [{f"b{n}": BLOCKS[kind](n, steps)}]
    return document(*steps)


@pytest.mark.parametrize("depth", [200, 3_000])
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_200_deep_are_refused(kind: str, depth: int) -> None:
    """And no deeper nesting makes the compiler fail otherwise."""
    with pytest.raises(InvalidDefinition, match="deep inside each other"):
        compile_document(nested(kind, depth))


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_25_deep_run_and_come_back_from_their_text(kind: str) -> None:
    found = compile_document(nested(kind, 25))
    (spec,) = read_trials([{"start": {"n": 1}, "expect": {"status": "completed", "state": {"x": 1}}}])
    assert play(Routine(found.definition, found.digest, Tools()), spec, crash=True).problems == ()
    check(found)


def test_values_100_deep_come_back_and_deeper_ones_are_refused() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]
    check(compile_document(document({"a": {"end": value}})))
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidDefinition, match="values stand more than 150 deep"):
        compile_document(document({"a": {"end": value}}))


def test_a_builder_nested_200_deep_is_refused() -> None:
    def body(depth: int) -> Callable[[Flow], Flow]:
        return lambda flow: flow.set("leaf", {"state.x": 1}) if not depth else flow.block(f"b{depth}", body(depth - 1))

    with pytest.raises(InvalidDefinition, match="deep inside each other"):
        compile_document(define("t", version=1).block("top", body(200)).end("done", D.state.x).document)


# -- expressions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("1 +", "in `1 +` (column 4): expected a value, but the expression ends"),
        ("a b", "in `a b` (column 3)"),
        ("'a", "in `'a`"),
        ("(" * 100 + "1" + ")" * 100, "deep"),
        ("1" + " + 1" * 10_000, "…`: it has 40001 characters, and the limit is 20000"),
        ("9999999999999999999", "in `9999999999999999999`"),
        ("f(1)", "there is no function `f`"),
    ],
    ids=range(7),
)
def test_an_expression_that_cannot_be_read_is_refused(expression: str, fault: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        compile_document(document({"a": {"end": f"={expression}"}}))
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("1 / start.zero", "node a: division by zero"),
        ("1 % start.zero", "node a: division by zero"),
        ("start.half / 0.0", "node a: inf is no number that JSON has: a division by zero gives it"),
        ("[{'x': 0.0 / 0.0}]", "node a: nan is no number that JSON has"),
        ("start.?none", "node a: its value is no data: end an optional one with `.orValue(…)`"),
        ("start.none", "node a: there is no 'none' in start (guard it with has(…) or `in`)"),
        ("start.list[9]", "node a: "),
        ("start.text + start.zero", "node a: No such overload"),
        ("start.half + start.one", "a double meets an int, write double(…) around the int"),
        ("9223372036854775807 + start.one", "node a: "),
        ("start.text.matches('(')", "node a: the pattern of matches() is invalid"),
    ],
)
def test_an_expression_that_fails_while_it_runs_parks_the_run_with_its_node(expression: str, fault: str) -> None:
    start = {"zero": 0, "one": 1, "half": 0.5, "list": [1], "text": "a"}
    problem = parked(f'- a: {{end: "={expression}"}}', start)
    assert fault in problem
    assert "Nothing is undone: mend the definition" in problem


@pytest.mark.parametrize(
    "expression",
    [
        "start.items.map(i, i + 1)",
        "start.items.exists(i, i > 5)",
        "start.items.filter(i, start.items.exists(j, j > i))",
    ],
)
def test_an_expression_over_a_million_items_is_stopped_by_its_size(expression: str) -> None:
    """Before it takes time: what it would cost grows by the square."""
    problem = parked(f'- a: {{set: {{state.x: "={expression}"}}}}', {"items": [1] * 1_000_000})
    assert "a list or map has 1000000 items, and the limit is" in problem


def test_a_million_items_may_be_gone_over_and_passed_on() -> None:
    """A plain path has no limit."""
    found = compile_text(HEAD + '- a: {set: {state.x: =start.items}}\n- b: {end: "=state.x[999999]"}')
    (spec,) = read_trials([{"start": {"items": [7] * 1_000_000}, "expect": {"result": 7}}])
    assert play(Routine(found.definition, found.digest, Tools()), spec).problems == ()


# -- long histories ----------------------------------------------------------------------------------------------------


def operations(act: Callable[[], object]) -> int:
    """How many calls of Python functions an act takes."""
    count = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(count_call)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_resuming_a_run_costs_the_same_however_long_its_history_is() -> None:
    """From its checkpoint to the next wait, counted in calls."""
    definition = compile_text(
        HEAD + "- again: {repeat: {times: 1000000}, do: [{w: {wait: go, as: state.last}}]}\n- done: {end: 1}"
    ).definition

    def cost(history: int) -> int:
        run = Run(Defined(definition), {})  # type: ignore[arg-type]
        run.advance()
        for n in range(history):
            run.advance(signal("go", n))
        checkpoint = run.execution.checkpoint()
        assert checkpoint is not None
        assert len(run.journal) > 4 * history

        def resume() -> None:
            program = run.workflow.program()
            again = Execution.restore(run.id, program, checkpoint, [], run.now, run.entropy)
            again.advance([signal("go", 7)], run.now)

        resume()  # what is made ready once is ready
        return operations(resume)

    short, long = cost(5), cost(1_500)
    assert abs(long - short) < short / 20  # larger numbers have longer bytes

"""The compiler: what is refused, where it stands, what to do; and canonical forms that stay the same."""

from __future__ import annotations

import textwrap

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_document, compile_text, load
from holdfast.programs.definition.compiler.document import write_document
from holdfast.programs.function.decorators import step
from tests.definitions import Tools

HEAD = "holdfast: definition/1\nname: t\nversion: 1\n"


@step(name="compiler.add")
async def add(one: int, other: int = 1) -> int:
    return one + other


def compiled(steps: str, head: str = "", tools: Tools | None = None) -> m.Accepted:
    return compile_text(HEAD + textwrap.dedent(head) + "steps:\n" + textwrap.dedent(steps), tools, file="t.yaml")


def faults(steps: str, head: str = "", tools: Tools | None = None) -> list[str]:
    with pytest.raises(InvalidDefinition) as caught:
        compiled(steps, head, tools)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ("- a: {stp: x}", "t.yaml:5:3: a: a node has a verb (action, "),
        ("- a: {step: x, set: {}}", "t.yaml:5:3: a: a node has one verb, and this one has step, set: split it"),
        ("- a: {step: x, wiht: {}}", "t.yaml:5:16: a: nobody knows the word 'wiht' here: did you mean 'with'?"),
        ("- a: {end: 1}\n- a: {end: 2}", "t.yaml:6:3: a: two nodes are called 'a'"),
        ("- a: {step: x, retry: net}", "t.yaml:5:16: a: there is no retry 'net'"),
        ("- a: {task: approve}", "t.yaml:5:7: a: there is no task 'approve'"),
        ("- a: {set: {stat.x: 1}}", "t.yaml:5:13: a: values are written to `state.…`"),
        ("- a: {sleep: 3 days}", "t.yaml:5:7: a: a duration is written as 90s, 2h, 1h30m, 10d or PT30M"),
        ("- a: {switch: [{when: true, do: []}, {els: []}]}", "nobody knows the word 'els' here"),
        ("- a: {switch: [{when: state.x, do: []}]}", "a condition is an expression and begins with `=`"),
        ("- a: {switch: [{else: []}, {when: =true, do: []}]}", "`else` is the last case"),
        ("- a: {end: 1}\n- b: {end: 2}", "t.yaml:6:3: b: it is never reached: a always ends the way before it"),
        ("- a: {fork: {x: [{b: {end: 1}}]}}", "b: a run cannot end inside a: others run beside it"),
        ("- a: {fork: {x: [{b: {set: {state.k: 1}}}], y: [{c: {set: {state.k.l: 1}}}]}}", "both write state.k"),
        ("- a: {fork: {x: [], y: []}, join: 3}", "join is all, any, or a number from 1 to 2, not 3"),
        ("- a: {graph: {p: {step: x, needs: [q]}, q: {step: x, needs: [p]}}}", "p needs q needs p: they wait for each"),
        ("- a: {graph: {p: {step: x, needs: [r]}}}", "there is no node of this graph 'r'"),
        (
            "- a: {graph: {p: {step: x, as: state.k}, q: {step: x, as: state.k}}}",
            "the nodes p and q both write state.k",
        ),
        ("- a: {repeat: {over: =start, at_once: 2}, do: [{b: {set: {state.x: 1}}}]}", "write only to `local.…`"),
        ("- a: {repeat: {over: =start, times: 2}, do: []}", "a repeat has one of over, times, while and until"),
        ("- a: {set: {state.x: 1}, as: state.y}", "this verb gives no result"),
        ("- a: {sleep: 1s, undo: x}", "only a call of a step, an action or a transport can be undone"),
        ("- a: {compensate: b}", "there is no node 'b'"),
        ("- a: {set: {state.x: '=state.y + 1'}}", "in `state.y + 1`"),
        ("- a: {set: {state.total: 1}}\n- b: {set: {state.x: =state.totl}}", "did you mean `total`?"),
        ("- a: {set: {state.x: '=1 +'}}", "t.yaml:5:13: a: in `1 +`"),
        ("- a: {set: {state.x: =f(1, 2)}}", 'must be quoted: "=…"'),
        ("- a: {switch: [{when: '=1 + 1', do: []}]}", "a bool is needed here"),
        ("- a: {set: {state.x: =error.code}}", "error"),
        ("- a: {set: {state.x: =run.nam}}", "did you mean `name`?"),
        ("- a b: {end: 1}", "a node's name has letters, digits, `_` and `-`"),
        ("- [1]", "a node is a map with one member"),
        ("- a: {pick: {x: {set: {state.x: 1}}}}", "an option of a pick begins with"),
        ("- a: {repeat: {while: true}, do: [{b: {set: {state.x: 1}}}]}", "it never ends: give a limit"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(steps: str, fault: str) -> None:
    found = faults(steps)
    assert any(fault in line for line in found), found


def test_all_faults_come_at_once() -> None:
    assert len(faults("- a: {stp: x}\n- b: {task: no}\n- c: {sleep: soon}")) >= 3


def test_steps_that_are_not_there_are_refused_where_tools_are_known() -> None:
    assert any("did you mean 'compiler.add'?" in line for line in faults("- a: {step: compiler.ad}", tools=Tools()))
    assert any("needs the argument 'one'" in line for line in faults("- a: {step: compiler.add}", tools=Tools()))
    wrong = faults("- a: {step: compiler.add, with: {one: 1, othr: 2}}", tools=Tools())
    assert any("there is no argument of compiler.add 'othr': did you mean 'other'?" in line for line in wrong)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "the text is empty"),
        ("a:\n\tb: 1", "indent with spaces, not with a tab"),
        ("a: 1\na: 2", "'a' stands twice in this map"),
        ("a: !!python/object:os.system x", "there are no tags here"),
        ("a: &x [*x]", "stands inside"),
        ("x" * 3_000_000, "the limit is"),
        ("[" * 200 + "]" * 200, "deep"),
        ("- 1", "a definition is a map that begins with"),
    ],
)
def test_a_bad_text_is_refused_with_its_place(text: str, fault: str) -> None:
    with pytest.raises(InvalidDefinition, match=fault):
        compile_text(text, file="t.yaml")


def test_anchors_cannot_blow_a_text_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(InvalidDefinition, match="more than 100,000 values"):
        compile_text("\n".join(lines))


def test_yaml_is_that_of_its_core_schema() -> None:
    found = compiled("- a: {end: {on: yes, off: no, day: 2020-01-01, time: 12:30, octal: 0o17, number: 1e3}}")
    (node,) = found.definition.steps
    assert isinstance(node.verb, m.EndVerb)
    assert node.verb.result == {
        "on": "yes", "off": "no", "day": "2020-01-01", "time": "12:30", "octal": 15, "number": 1000.0
    }  # fmt: skip


def test_nesting_has_a_limit() -> None:
    steps: list[object] = [{"end": {"end": 1}}]
    for n in range(60):
        steps = [{f"b{n}": {"do": steps}}]
    with pytest.raises(InvalidDefinition, match="deep inside each other"):
        compile_document({"holdfast": "definition/1", "name": "t", "version": 1, "steps": steps})


def test_numbers_are_widened_by_the_schemas() -> None:
    found = compiled("- a: {set: {state.total: =state.total + 1}}", "state: {total: number}\n")
    (node,) = found.definition.steps
    assert isinstance(node.verb, m.SetVerb)
    assert node.verb.values == ((("state", "total"), "=state.total + 1.0"),)


def test_the_order_of_maps_does_not_matter() -> None:
    one = compiled("- f: {fork: {a: [{x: {sleep: 1s}}], b: [{y: {sleep: 60s}}]}, join: all}")
    other = compiled("- f: {join: all, fork: {b: [{y: {sleep: 1m}}], a: [{x: {sleep: 1000ms}}]}}")
    assert one.digest == other.digest


def test_a_canonical_form_reads_as_itself() -> None:
    found = compiled(
        "- f: {fork: {a: [{x: {sleep: 1s}}], b: [{y: {wait: go, key: =start.n}}]}, join: any}\n- e: {end: =start}"
    )
    again = compile_document(write_document(load(found.canonical)))
    assert (again.digest, again.definition) == (found.digest, found.definition)


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ("form: {type: strnig}", "t.yaml:4:32: there is no type 'strnig': did you mean 'string'?"),
        ("form: {$ref: 'http://example.com/x'}", "cannot refer to http://example.com/x"),
        (
            "form: {properties: {n: {type: integer, default: x}}}",
            "t.yaml:4:64: the default does not fit its own field",
        ),
        (
            "form: {properties: {n: {enum: [a], default: b}}}",
            "the default does not fit its own field",
        ),
        ("check: [{when: =true, say: no, at: decision}]", "the place of a field is written as /decision"),
        ("form: {properties: {f: {format: file}}}, check: [{when: =payload.f.sise > 1, say: no}]", "sise"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused(task: str, fault: str) -> None:
    found = faults("- a: {task: ask}", f"tasks: {{ask: {{title: t, {task}}}}}\n")
    assert any(fault in each for each in found), found


def test_a_form_with_expressions_is_checked_when_it_is_asked() -> None:
    """Only then it is known what they give."""
    assert compiled(
        "- a: {task: ask}",
        "tasks: {ask: {title: t, form: {properties: {n: {enum: =start.options, default: =start.first}}}}}\n",
    )

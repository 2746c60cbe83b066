"""All that is wrong with a definition is said at once: where, at which node, the nearest right name, what to do."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import compile_file, compile_text
from holdfast.programs.definition.compiler.faults import DefinitionFault
from holdfast.programs.function.decorators import step
from holdfast.transports.table import find
from tests.definitions import Tools

FAULTY = Path(__file__).parent / "documents" / "faulty.yaml"
LETTERS = """
holdfast: definition/1
name: letters
version: 2
start: {type: object, required: [to], properties: {to: {type: string}}, additionalProperties: false}
steps: [{done: {end: =start.to}}]
"""


@step(name="checks.add")
async def add(one: int, other: int = 1) -> int:
    return one + other


class Installed(Tools):
    """With the transports of the package itself."""

    transport = staticmethod(find)  # type: ignore[assignment]


class Known:
    """One definition, ``letters`` version 2, and one function."""

    letters = compile_text(LETTERS)

    def definition(self, reference: str) -> m.Accepted | None:
        return self.letters if reference in ("letters", "letters@2", "letters@^1") else None

    def function_names(self) -> Collection[str]:
        return ["a.function"]

    def definition_names(self) -> Collection[str]:
        return ["letters"]


def faults_of(text: str) -> list[DefinitionFault]:
    with pytest.raises(InvalidDefinition) as caught:
        compile_text(text, Installed(), Known())
    return [each for each in caught.value.faults if isinstance(each, DefinitionFault)]


def test_everything_that_is_wrong_is_said_at_once_with_its_line_its_column_and_its_node() -> None:
    """Each line says what is expected of it; nothing else is found, and nothing is missing."""
    lines = FAULTY.read_text(encoding="utf-8").splitlines()
    with pytest.raises(InvalidDefinition) as caught:
        compile_file(FAULTY, Installed(), Known())
    unexpected = [each for each in caught.value.faults if isinstance(each, DefinitionFault)]
    missing = []
    for number, line in enumerate(lines[1:], 2):
        for words in re.findall(r'"((?:[^"\\]|\\.)*)"', line.partition("#!")[2]):
            text = words.replace('\\"', '"')
            found = [each for each in unexpected if each.line == number and text in f"{each.node}: {each.message}"]
            missing += [] if found else [(number, text)]
            unexpected = [each for each in unexpected if each not in found[:1]]
    assert missing == []
    assert [str(each) for each in unexpected] == []


@pytest.mark.parametrize(
    ("node", "member"),
    [("word", "wiht"), ("retried", "retry"), ("bare", "gett"), ("typed", "state.names"), ("parsed", "end")],
)
def test_a_fault_stands_where_a_reader_would_look(node: str, member: str) -> None:
    """At the name of the member, not at the node around it."""
    with pytest.raises(InvalidDefinition) as caught:
        compile_file(FAULTY, Installed(), Known())
    lines = FAULTY.read_text(encoding="utf-8").splitlines()
    by_node = {each.node: each for each in caught.value.faults if isinstance(each, DefinitionFault)}
    found = by_node[node]
    assert lines[found.line - 1][found.column - 1 :].startswith(member)
    assert found.file == str(FAULTY)


HEAD = "holdfast: definition/1\nname: t\nversion: 1\nsteps:\n"


@pytest.mark.parametrize(
    "steps",
    [
        "- a: {do: [{b: {end: 1}}], timeout: 1h, on: {timeout: []}}\n- c: {end: 2}",
        "- a: {do: [{b: {end: 1}}], on: {failure: []}}\n- c: {end: 2}",
        "- a: {raise: X, on: {failure: []}}\n- c: {end: 2}",
        "- a: {end: 1, when: =has(start.x)}\n- c: {end: 2}",
        "- a: {fork: {x: [{b: {raise: X}}], y: [{d: {sleep: 1s}}]}, join: any}\n- c: {end: 2}",
        "- a: {pick: {x: {wait: x, do: [{b: {end: 1}}]}, y: {sleep: 1d}}}\n- c: {end: 2}",
        "- a: {run: letters@^1, with: {to: ann}}",
        "- a: {run: a.function}",
        "- a: {repeat: {over: {a: 1}}, do: [{b: {set: {state.x: =item.key}}}]}",
        "- a: {set: {state.x: =now}}",
        "- a: {repeat: {while: true}, do: [{b: {wait: x}}, {c: {switch: [{when: =payload.ok, do: [{d: {end: 1}}]}]}}]}",
    ],
)
def test_what_can_go_on_is_not_refused(steps: str) -> None:
    compile_text(HEAD + steps, Installed(), Known())


@pytest.mark.parametrize(
    "steps",
    [
        "- a: {do: [{b: {end: 1}}]}\n- c: {end: 2}",
        "- a: {raise: X, on: {failure: [{b: {raise: Y}}]}}\n- c: {end: 2}",
        "- a: {fork: {x: [{b: {raise: X}}], y: [{d: {sleep: 1s}}]}}\n- c: {end: 2}",
        "- a: {graph: {x: {raise: X}, y: {sleep: 1s}}}\n- c: {end: 2}",
        "- a: {repeat: {until: =has(state.x)}, do: [{b: {end: 1}}]}\n- c: {end: 2}",
        "- a: {repeat: {while: true}, do: [{b: {end: 1, when: =has(state.x)}}, {d: {sleep: 1s}}]}\n- c: {end: 2}",
        "- a: {sleep: 1s, on: {success: [{b: {end: 1}}]}}\n- c: {end: 2}",
        "- a: {switch: [{when: =has(start.x), do: [{b: {end: 1}}]}, {else: [{d: {raise: X}}]}]}\n- c: {end: 2}",
    ],
)
def test_what_is_never_reached_is_refused(steps: str) -> None:
    assert any("c: it is never reached: a always ends" in str(each) for each in faults_of(HEAD + steps))


def test_a_range_of_versions_is_resolved_to_a_digest_and_kept() -> None:
    found = compile_text(HEAD + "- a: {run: letters@^1, with: {to: ann}}", Installed(), Known())
    (node,) = found.definition.steps
    assert isinstance(node.verb, m.RunVerb)
    assert (node.verb.workflow, node.verb.version, node.verb.digest) == ("letters", 2, Known.letters.digest)


def reading(expression: str, more: str = "") -> str:
    return f"""
holdfast: definition/1
name: reads
version: 1
start: {{type: object, properties: {{claimNo: {{}}, to: {{type: object, properties: {{street: {{}}}}}}}}{more}}}
state: {{at: {{type: object, properties: {{street: {{type: string}}}}}}}}
steps: [{{done: {{end: "={expression}"}}}}]
"""


@pytest.mark.parametrize(
    ("expression", "declared"),
    [
        ("start.claimNO", "claimNo"),
        ("start.to.stret", "street"),
        ("state.at.stret", "street"),
        ("has(start.claimno) ? 1 : 2", "claimNo"),
    ],
)
def test_a_name_that_is_nearly_a_declared_one_is_a_slip(expression: str, declared: str) -> None:
    """Although JSON Schema would allow it: else it would show when a run comes to it."""
    (fault,) = faults_of(reading(expression))
    assert f"did you mean {declared!r}?" in str(fault)
    assert "additionalProperties: true" in str(fault)
    assert fault.line == 7


@pytest.mark.parametrize(
    ("expression", "more"),
    [
        ("start.items", ""),
        ("start.claimNO", ", additionalProperties: true"),
        ("start.claimNO", ", additionalProperties: {type: string}"),
        ("start.claimNO", ", patternProperties: {x: {}}"),
    ],
)
def test_other_names_are_read_where_a_schema_allows_them(expression: str, more: str) -> None:
    compile_text(reading(expression, more), Installed(), Known())


NOT_HAD = [
    "- done: {end: =payload.x}",
    "- go: {switch: [{when: =true, do: [{w: {wait: x}}]}]}\n- done: {end: =payload.x}",
    "- go: {fork: {a: [{w: {wait: x}}], b: [{s: {set: {state.s: =payload.x}}}]}}",
    "- go: {graph: {a: {wait: x}, b: {needs: [a], set: {state.s: =payload.x}}}}",
    "- go: {wait: x, timeout: 1m, on: {timeout: [{late: {end: =payload}}]}}",
    "- go: {repeat: {while: =payload.more}, do: [{w: {wait: x}}]}",
    "- go: {wait: x, key: =payload.x}",
]


@pytest.mark.parametrize("steps", NOT_HAD)
def test_a_value_that_no_node_before_has_had_is_refused_with_what_to_do(steps: str) -> None:
    """A node sees what nodes before it had, in its own list or in one around it; nothing else is ever there."""
    (fault,) = faults_of(f"holdfast: definition/1\nname: t\nversion: 1\nsteps:\n{steps}\n")
    assert "there is no variable `payload`: no task or wait stands before it" in fault.message
    assert "Keep the value by `as`" in fault.message


HAD = [
    "- w: {wait: x, match: =payload.n > 1}\n- go: {do: [{in: {set: {state.s: =payload.x}}}]}",
    "- w: {wait: x}\n- go: {do: [{in: {sleep: 1s}}]}\n- done: {end: =payload.x}",
    "- w: {wait: x, on: {success: [{s: {set: {state.s: =payload.x}}}]}}",
    "- go: {pick: {a: {wait: x, do: [{s: {set: {state.s: =payload.x}}}]}, b: {sleep: 1h}}}",
    "- go: {repeat: {until: =payload.ok, most: 3}, gives: =payload.x, as: state.all, do: [{w: {wait: x}}]}",
    "- go: {fork: {a: [{w: {wait: x}}], b: [{v: {wait: y}}]}, gives: =payload.x, as: state.all}",
    "- c: {step: checks.add, with: {one: 1}, undo: {step: checks.add, with: {one: =result}}}\n- done: {end: =result}",
]


@pytest.mark.parametrize("steps", HAD)
def test_what_a_node_before_has_had_is_there(steps: str) -> None:
    compile_text(f"holdfast: definition/1\nname: t\nversion: 1\nsteps:\n{steps}\n", Installed(), Known())


NEVER_RIGHT = [
    ("{repeat: {until: =false}, do: [{x: {sleep: 1s}}]}", "it never ends: give a limit, `most: 100`"),
    ("{repeat: {while: true}, do: [{x: {switch: [{when: =has(start.x), do: [{y: {sleep: 1s}}]}]}}]}", "it never ends"),
    (
        "{do: [{p: {step: checks.add, with: {one: 1}}}, {c: {compensate: p, retry: {max: 3}}}]}",
        "it is not tried again: give the step or action that undoes a retry",
    ),
    ("{repeat: {times: -1}, do: [{x: {sleep: 1s}}]}", "`times` is a whole number from 0 on, not -1"),
    ("{wait: x, timeout: {try: 5s}}", "has a time for each try: say `all` for the whole"),
    ("{wait: x, timeout: {at: tomorrow}}", "a time is written as 2030-01-31T09:00:00Z, not 'tomorrow'"),
    ('{sleep: {until: "2030-01-31T09:00:00"}}', "a time needs its zone"),
    ("{sleep: 1s, wait: x}", "a node has one verb, and this one has sleep, wait: split it"),
]


@pytest.mark.parametrize(("node", "words"), NEVER_RIGHT)
def test_what_would_be_passed_over_or_fail_whenever_it_runs_is_one_fault(node: str, words: str) -> None:
    """And nothing is said beside it that is not so."""
    (fault,) = faults_of(f"holdfast: definition/1\nname: t\nversion: 1\nsteps:\n- a: {node}\n")
    assert words in fault.message


TASK = "tasks: {q: {title: T, form: {type: object}, due: DUE}}\nsteps:\n- a: {task: q}\n"
BUREAU = "connectors: {b: {base: 'https://b.example', operations: {r: {get: '/r/{id}'}}}}\nsteps:\n- a: {http: CALL}\n"


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        (TASK.replace("DUE", "{escalate: {groups: [leads]}}"), "it is never overdue: say by when"),
        (TASK.replace("DUE", "{in: 2h, escalate: {groups: [leads]}, expire: 1h}"), "it is over before it is overdue"),
        (TASK.replace("DUE", "{remind: [30m, 1h], expire: 1h}"), "it is over before this: let it expire later"),
        (BUREAU.replace("CALL", "{call: b.r}"), "the path '/r/{id}' wants `id`: give it in `with`"),
        (BUREAU.replace("CALL", "{call: b.r, with: {ids: 1}}"), "the path '/r/{id}' wants `id`"),
        ("steps:\n- a: {wait: 'x#y', key: =start.k}\n", "a signal with a key has no '#' in its name: 'x#y'"),
        ("steps:\n- a: {send: {to: r, signal: 'x#y', key: k}}\n", "a signal with a key has no '#' in its name"),
    ],
)
def test_what_would_never_happen_or_always_fail_is_one_fault(rest: str, words: str) -> None:
    (fault,) = faults_of("holdfast: definition/1\nname: t\nversion: 1\n" + rest)
    assert words in fault.message


@pytest.mark.parametrize(
    "rest",
    [
        TASK.replace("DUE", '{in: "=start.time", escalate: {groups: [leads]}, expire: 1h}'),
        TASK.replace("DUE", "{remind: [2h]}"),
        BUREAU.replace("CALL", "{call: b.r, with: {id: =start.id}}"),
        BUREAU.replace("CALL", "{call: b.r, with: =start}"),
    ],
)
def test_what_is_known_only_when_it_runs_is_not_refused(rest: str) -> None:
    compile_text("holdfast: definition/1\nname: t\nversion: 1\n" + rest, Installed(), Known())


class Chain(Known):
    """Definitions that run each other."""

    def __init__(self) -> None:
        self.found: dict[str, m.Accepted] = {}

    def definition(self, reference: str) -> m.Accepted | None:
        return self.found.get(reference)

    def definition_names(self) -> Collection[str]:
        return self.found

    def add(self, number: int) -> m.Accepted:
        head = HEAD.replace("name: t", f"name: c{number}")
        steps = f"- a: {{run: c{number - 1}}}\n- b: {{end: =result + 1}}" if number else "- b: {end: 1}"
        self.found[f"c{number}"] = compile_text(head + steps, Installed(), self)
        return self.found[f"c{number}"]


def test_a_long_chain_of_definitions_that_run_each_other_is_embedded_up_to_a_depth() -> None:
    """What is played inside a turn of its parent is inside it as a text, too: neither may be without a limit."""
    chain = Chain()
    sizes = [len(chain.add(number).canonical) for number in range(300)]
    assert sizes[32] > sizes[31] > sizes[1]
    assert sizes[33] < sizes[1] * 2
    assert max(sizes[33:]) < sizes[32] * 2

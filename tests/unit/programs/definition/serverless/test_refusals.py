"""What is not supported is said at once: all of it, with its place; in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.definition import from_serverless, to_serverless
from holdfast.errors import InvalidDefinition
from tests.unit.programs.definition.serverless.documents import HEAD, imported

pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("do: [{a: {run: {shell: {command: ls}}}}]", "2:17: `run: shell` is not supported"),
        ("do: [{a: {call: grpc, with: {}}}]", "2:11: `call: grpc` is not supported"),
        ("do: [{a: {call: mine}}]", "2:11: use.functions has no 'mine'"),
        ("do: [{a: {set: {x: '${ env }'}}}]", "`env` is not there"),
        ("do: [{a: {set: {x: '${ .a + }'}}}]", "2:7: a: in `.a +`"),
        ("do: [{a: {set: {x: '${ $nobody }'}}}]", r"\$nobody is not defined"),
        ("do: [{a: {set: {x: '${ $secrets.x }'}}}]", r"\$secrets is not there"),
        ("do: [{a: {set: {x: 1}, then: b}}]", "there is no task of this list 'b'"),
        ("do: [{a: {wait: {years: 1}}}]", "2:11: a duration has whole numbers of days"),
        ("do: [{a: {wait: P1Y}}]", "2:11: a duration is written as"),
        ("do: [{a: {fork: {branches: [{b: {do: [{c: {set: {}, then: end}}]}}]}}}]", "cannot end inside a fork"),
        ("do: [{a: {for: {each: state, in: .x}, do: []}}]", "`state` cannot be bound here"),
        ("do: [{a: {nothing: 1}}]", "a task has one of call, emit"),
        ("do: [{a: {set: {}, oops: 1}}]", "2:20: `oops` of `set` is not supported"),
        ("do: [{a: {call: http, with: {method: get, endpoint: 'https://x/{+y}'}}}]", "only {name} is known"),
        ("do: [{a: {call: http, with: {method: brew, endpoint: 'https://x'}}}]", "the method is one of get"),
        ("do: [{a: {listen: {to: {any: []}}}}]", "events of any type cannot be heard"),
        ("do: [{a: {listen: {to: {one: {with: {source: s}}}}}}]", "an event has a type"),
        ("do: [{a: {try: [], catch: {retry: {jitter: {}}}}}]", "`jitter` of a retry is not supported"),
        ("do: [{a: {try: [], catch: {retry: gone}}}]", "there is no entry of use.retries 'gone'"),
        ("schedule: {cron: '* * * * *'}\ndo: [{a: {set: {}}}]", "2:1: `schedule` is not supported"),
        ("evaluate: {language: js}\ndo: [{a: {set: {}}}]", "expressions in 'js' are not supported"),
        ("input: {schema: {format: avro, document: {}}}\ndo: [{a: {set: {}}}]", "of the format 'avro'"),
        ("do: {}", "this is a list of tasks"),
        ("do: [1]", "a task is a map with one member"),
    ],
)
def test_what_is_not_supported_is_said_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidDefinition, match=says.replace("+}", r"\+}").replace("`.a +`", r"`.a \+`")):
        imported(text)


def test_all_reasons_come_at_once() -> None:
    text = "do: [{a: {call: mcp}}, {b: {run: {script: {}}}}]\nuse: {secrets: [s]}"
    with pytest.raises(InvalidDefinition) as refused:
        imported(text)
    assert len(refused.value.faults) == 3


@pytest.mark.parametrize("text", ["do: []", "[]", "document: {}"])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidDefinition, match="has `document` and `do`"):
        from_serverless(text)


@pytest.mark.parametrize("version", ["0.0.0", "1.0.0-alpha", "1", "1.0.1000"])
def test_a_version_that_is_no_number_here_is_refused(version: str) -> None:
    with pytest.raises(InvalidDefinition, match=r"a version is written as 1\.2\.3"):
        from_serverless(HEAD.replace("1.2.3", f"'{version}'") + "do: [{a: {set: {}}}]")


def definition(*nodes: str, more: str = "") -> str:
    steps = "".join(f"  - {node}\n" for node in ("begin: {set: {local.data: =$start}}", *nodes))
    return f"holdfast: definition/1\nname: test.one\nversion: 1000000\nlanguage: jq\n{more}steps:\n{steps}"


def test_a_definition_written_by_hand_is_exported() -> None:
    text = definition(
        "double: {set: {local.data: {n: =.n * 2}}}",
        "route: {switch: [{when: =.n > 2, do: [{stop: {end: =.n}}]}]}",
        "rest: {sleep: 90s}",
        "get: {http: {get: '=@uri \"https://x.example/\\(.n)\"'}, as: local.data}",
    )
    found = to_serverless(text)
    assert found["document"] == {"dsl": "1.0.3", "namespace": "test", "name": "one", "version": "1.0.0"}
    assert found["do"] == [
        {"double": {"set": {"n": "${ .n * 2 }"}}},
        {"route": {"switch": [{"case1": {"when": "${ .n > 2 }", "then": "end"}}]}},
        {"rest": {"wait": {"seconds": 90}}},
        {"get": {"call": "http", "with": {"method": "get", "endpoint": "https://x.example/{n}"}}},
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (definition("a: {step: some.step}"), "a: `step` cannot be said"),
        (definition("a: {set: {state.x: 1}}"), "a: `set` cannot be said"),
        (definition("a: {set: {local.data: .x}}"), "would be read as an expression"),
        (definition("a: {wait: go}"), "a: a wait can be said where"),
        (definition("a: {sleep: 1us}"), "below the millisecond"),
        (definition("a: {raise: {code: X}}"), "has `details` with `type` and `status`"),
        (definition("a: {repeat: {times: =3}, do: [{b: {sleep: 1s}}]}"), "only `over` can be said"),
        (definition("a: {http: {post: 'https://x.example', form: {a: 1}}, as: local.data}"), "`form` of a request"),
        (definition("a: {http: =$start.request, as: local.data}"), "a request that is one expression"),
        (definition("a: {sleep: 1s}", more="reference: =$start.id\n"), "`reference` of a definition cannot be said"),
        (definition("a: {sleep: 1s}", more="state: {x: {}}\n"), "only `context` can be said"),
        (definition("a: {sleep: 1s, on: {failure: []}}"), "handlers of this node"),
        (definition("a: {sleep: 1s}").replace("language: jq\n", "").replace("=$start", "=start"), "are in CEL"),
        (definition("a: {sleep: 1s}").replace("{set: {local.data: =$start}}", "{sleep: 1s}"), "begin with `set"),
    ],
)
def test_what_cannot_be_exported_says_why(text: str, says: str) -> None:
    with pytest.raises(InvalidDefinition, match=says):
        to_serverless(text)


def test_all_reasons_against_an_export_come_at_once() -> None:
    with pytest.raises(InvalidDefinition) as refused:
        to_serverless(definition("a: {step: x}", "b: {wait: go}", more="reference: =$start.id\n"))
    assert len(refused.value.faults) == 3


def test_an_engine_takes_what_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    path.write_text(HEAD + "do: [{a: {set: {x: 1}}}]")
    app = Holdfast(f"sqlite:///{tmp_path / 'x.db'}")
    found = app.definitions.add(from_serverless(path))
    assert (found.definition.name, found.definition.version) == ("test.short", 1_002_003)

"""jq sees what is recorded and nothing else, gives one value, and cannot stop the worker."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ExtraMissing, InvalidDefinition
from holdfast.expressions.engine import CannotEvaluate, InvalidExpression
from holdfast.expressions.jq.expression import REFUSED, JqExpression
from tests.scope import one_stays

pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")

VARIABLES = {
    "local": {"data": {"a": 1, "list": ["x", "y"], "env": 3, "id": 2**60 + 1}},
    "state": {"context": {"k": 2}},
    "item": {"n": 5},
    "now": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
}
NAMES = ("item", "context", "state", "local", "now")


def evaluate(text: str) -> Any:
    return JqExpression(text, NAMES).evaluate(VARIABLES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (".", VARIABLES["local"]["data"]),
        (".a", 1),
        (".nothing.at.all", None),
        ('.list + ["z"]', ["x", "y", "z"]),
        ("$context.k", 2),
        ("$item.n + .a # a comment", 6),
        (". as $mine | $mine.a", 1),
        ('"\\(.a) and \\("\\($item.n)")"', "1 and 5"),
        ("{env: 1, now: 2, input}", {"env": 1, "now": 2, "input": None}),
        (".env", 3),
        ("now", 1767225600),
        ("0 | localtime | mktime", 0),
        ('.list[0] == "x"', True),
        ('$item == "x"', False),
        ("def twice: . * 2; .a | twice", 2),
    ],
)
def test_an_expression_has_a_value(text: str, value: Any) -> None:
    assert evaluate(text) == value


def test_a_large_whole_number_passes_unharmed() -> None:
    assert evaluate("{id}") == {"id": 2**60 + 1}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("empty", "gives nothing"),
        (".list[]", "gives several"),
        (".a.b", "no object"),
        (".list | .b", "Cannot index array"),
        ('error("mine")', "mine"),
        ('"x" * 9000000', "too large"),
    ],
)
def test_what_has_no_value_says_why(text: str, says: str) -> None:
    with pytest.raises(CannotEvaluate, match=says):
        evaluate(text)


@pytest.mark.parametrize("word", sorted(REFUSED))
def test_what_is_not_recorded_is_refused(word: str) -> None:
    with pytest.raises(InvalidExpression, match="is recorded"):
        JqExpression(f'{{x: ("a\\({word})")}}', NAMES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("# nothing but this", "comment"),
        ("1 +", "syntax error"),
        ("$unknown", r"1:1: \$unknown is not defined"),
        ("1\n + nope", r"2:4: nope/0 is not defined"),
        ("1) | (2", "closes nothing"),
        ("[1", "no ']'"),
        ('"a', "no end"),
        ("$__data__", "is recorded"),
    ],
)
def test_a_wrong_text_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InvalidExpression, match=says):
        JqExpression(text, NAMES)


@pytest.mark.parametrize("text", one_stays(["[range(1e9)] | length", "def f: f; f", '"x" * 1e9 | length']))
def test_what_never_ends_is_ended_and_the_next_one_is_evaluated(text: str) -> None:
    with pytest.raises(InvalidDefinition, match="takes too long"):
        evaluate(text)
    assert evaluate(".a + 1") == 2


def test_definitions_at_home_mean_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jq itself would read them, and an expression would mean something else for each user."""
    (tmp_path / ".jq").write_text('def length: 99; def mine: "from home";')
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InvalidDefinition):  # the process is ended, so that a new one would see the new home
        evaluate("def f: f; f")
    assert evaluate(".list | length") == 2
    with pytest.raises(InvalidExpression, match="mine/0 is not defined"):
        evaluate("mine")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jq", None)
    with pytest.raises(ExtraMissing, match=r"holdfast\[serverless\]"):
        JqExpression(".a + 1", NAMES)
    with pytest.raises(InvalidDefinition, match=r"holdfast\[serverless\].*resume the run"):
        JqExpression(".a + 1", NAMES, lazily=True).evaluate(VARIABLES)


def test_what_it_reads_is_known() -> None:
    found = JqExpression('$context.k.x + now + ("\\($item)" | length) + {$state}.a', NAMES, lazily=True)
    assert found.reads == {("context", "k", "x"), ("now",), ("item",), ("state",), ("local", "data")}


@pytest.mark.parametrize(("text", "holds"), [(".a", True), (".nothing", False), ("false", False), ("0", True)])
def test_a_condition_holds_as_in_jq(text: str, holds: bool) -> None:
    assert JqExpression(text, NAMES).holds(VARIABLES) is holds


SPEC = "https://serverlessworkflow.io/spec/1.0.0/errors/"
KIT = "https://serverlessworkflow.io/dsl/errors/types/"


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        ({"class": "transport", "details": {"status": 404}}, "communication", 404),
        ({"class": "authorisation", "details": {"status": 401}}, "communication", 401),
        ({"class": "authorisation", "details": None}, "authorization", 403),
        ({"class": "timeout", "details": None}, "timeout", 408),
        ({"class": "expression", "details": None}, "expression", 400),
        ({"class": "error", "details": {"status": "odd"}}, "runtime", 500),
    ],
)
def test_an_error_of_a_node_is_a_problem(error: dict[str, Any], kind: str, status: int) -> None:
    variables = {"error": {**error, "message": "why", "node": "get"}}
    found = JqExpression('$error | problem({"get": "/do/0/get"})', ("error", "state")).evaluate(variables)
    assert (found["type"], found["status"]) == (SPEC + kind, status)
    assert (found["detail"], found["instance"]) == ("why", "/do/0/get")


def test_a_problem_that_was_raised_is_itself() -> None:
    raised = {"type": "https://x.example/odd", "status": 418, "title": "Odd"}
    variables = {"error": {"class": "business", "details": raised, "message": "", "node": "n"}}
    assert JqExpression("$error | problem({})", ("error", "state")).evaluate(variables) == raised


@pytest.mark.parametrize(
    ("filter", "fits"),
    [
        ({}, True),
        ({"type": KIT + "communication"}, True),
        ({"type": SPEC + "timeout"}, False),
        ({"type": SPEC + "communication", "status": 404}, True),
        ({"status": 503}, False),
        ({"details": "why"}, True),
        ({"instance": "/do/1"}, False),
    ],
)
def test_a_problem_fits_a_filter_in_either_spelling(filter: dict[str, Any], fits: bool) -> None:
    problem = {"type": SPEC + "communication", "status": 404, "detail": "why", "instance": "/do/0"}
    found = JqExpression("$problem | caught($filter)", ("problem", "filter", "state"))
    assert found.evaluate({"problem": problem, "filter": filter}) is fits


SWAGGER = {
    "swagger": "2.0",
    "host": "pets.example",
    "basePath": "/v2",
    "paths": {
        "/pet/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True}],
            "get": {"operationId": "getPet", "parameters": [{"name": "full", "in": "query"}]},
            "put": {"operationId": "putPet", "parameters": [{"name": "pet", "in": "body"}]},
        }
    },
}
OPENAPI = {
    "openapi": "3.0.0",
    "servers": [{"url": "http://pets.example/api/"}],
    "components": {"parameters": {"trace": {"name": "X-Trace", "in": "header"}}},
    "paths": {
        "/pets": {
            "post": {
                "operationId": "add",
                "parameters": [{"$ref": "#/components/parameters/trace"}],
                "requestBody": {"content": {}},
            }
        }
    },
}


@pytest.mark.parametrize(
    ("document", "operation", "given", "request_"),
    [
        (
            SWAGGER,
            "getPet",
            {"petId": 1, "full": True},
            {"get": "https://pets.example/v2/pet/1", "query": {"full": True}},
        ),
        (SWAGGER, "getPet", {"petId": "a/b"}, {"get": "https://pets.example/v2/pet/a%2Fb"}),
        (SWAGGER, "putPet", {"petId": 1, "pet": {"n": 2}}, {"put": "https://pets.example/v2/pet/1", "json": {"n": 2}}),
        (
            OPENAPI,
            "add",
            {"X-Trace": 7, "name": "Milou"},
            {"post": "http://pets.example/api/pets", "headers": {"X-Trace": "7"}, "json": {"name": "Milou"}},
        ),
    ],
)
def test_an_operation_of_an_openapi_document_is_a_request(
    document: Any, operation: str, given: Any, request_: Any
) -> None:
    found = JqExpression("openapi($document; $operation; $given)", ("document", "operation", "given", "state"))
    assert found.evaluate({"document": document, "operation": operation, "given": given}) == request_


@pytest.mark.parametrize(("operation", "says"), [("noPet", "no operation noPet"), ("getPet", "wants petId")])
def test_an_operation_that_cannot_be_called_says_why(operation: str, says: str) -> None:
    found = JqExpression("openapi($document; $operation; {})", ("document", "operation", "state"))
    with pytest.raises(CannotEvaluate, match=says):
        found.evaluate({"document": SWAGGER, "operation": operation})

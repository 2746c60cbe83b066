"""GraphQL: what a document does, what is sent, and that errors in an answer are failures."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from holdfast.errors import AnswerUnusable, InvalidRequest, NotAuthorised, RequestRefused, TransportFailed
from holdfast.journal.error_classes import error_class, error_members
from holdfast.programs.function.failures import describe
from holdfast.transports import schemas
from holdfast.transports.graphql.document import kind_of
from tests.unit.transports.calling import call, written
from tests.unit.transports.server import Reply, Server, data

TWO = "query A { a } mutation B { b }"


@pytest.mark.parametrize(
    ("document", "name", "kind"),
    [
        ("{ a }", None, "query"),
        ("query { a }", None, "query"),
        ("query Find($id: ID!, $x: In = {a: 1}) { a(id: $id) { mutation } }", None, "query"),
        ("mutation Add { add }", None, "mutation"),
        ("mutation($a: Int) { add }", None, "mutation"),
        ("# mutation X { y }\nquery { a }", None, "query"),
        ('query { a(text: "mutation { b }") }', None, "query"),
        ('query { a(text: """mutation "quoted" { b }""") }', None, "query"),
        ("#\rmutation #\n{ a }", None, "mutation"),
        ('query { a(text: """an escaped \\""" and { b }""") }', None, "query"),
        ("fragment F on T { a } mutation M { b { ...F } }", None, "mutation"),
        ("query Q @live(if: true) { a }", None, "query"),
        (TWO, "A", "query"),
        (TWO, "B", "mutation"),
    ],
)
def test_a_document_says_whether_it_writes(document: str, name: str | None, kind: str) -> None:
    """By its operation, and not by words inside texts, comments or selections."""
    assert kind_of(document, name, "it") == kind


@pytest.mark.parametrize(
    ("document", "name", "said"),
    [
        (TWO, None, "2 operations"),
        (TWO, "C", "no operation"),
        ("subscription { a }", None, "subscription"),
        ("fragment F on T { a }", None, "0 operations"),
        ("", None, "0 operations"),
        ('query { a(text: "open) }\nmutation M { b }', None, "line 1 of a GraphQL document has no end"),
        ('query {\n a(text: """open\\""") }\nmutation M { b }', None, "line 2 of a GraphQL document has no end"),
        (7, None, "document"),
        ("x" * 100_001, None, "characters"),
    ],
)
def test_a_document_that_cannot_be_run_says_why(document: Any, name: str | None, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        kind_of(document, name, "it")


def test_a_query_reads_and_a_mutation_writes() -> None:
    """Both are posted; the gate is told what they do."""
    name, recorded = written("graphql", {"endpoint": "https://g.example/q", "query": "{ a }"})
    assert (name, recorded["writes"], recorded["safe_to_retry"]) == ("graphql:g.example/query", False, True)
    name, recorded = written("graphql", {"endpoint": "https://g.example/q", "query": "mutation M { a }"})
    assert (name, recorded["writes"], recorded["risk"]) == ("graphql:g.example/mutation", True, "med")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"query": "{ a }"}, "endpoint"),
        ({"endpoint": "https://g.example/", "query": "{ a }", "variables": [1]}, "variables"),
        ({"endpoint": "https://g.example/", "query": "{ a }", "operation": 1}, "operation"),
        ({"endpoint": "https://g.example/", "query": "{ a }", "json": {}}, "json"),
        ({"endpoint": "https://g.example/", "query": "{ a }", "auth": {"bearer": "TOKEN"}}, "connector"),
        ({"call": "hub.plain"}, "GraphQL"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_made_says_why(request_: dict[str, Any], said: str) -> None:
    connectors = {"hub": {"base": "https://g.example/", "operations": {"plain": {"get": "/x"}}}}
    with pytest.raises(InvalidRequest, match=said):
        written("graphql", request_, connectors)


def test_the_schema_knows_requests() -> None:
    """Of their own, and by connector."""
    schema = dict(schemas.GRAPHQL)
    jsonschema_rs.validate(schema, {"endpoint": "https://g/", "query": "{ a }", "variables": {"a": "=start.a"}})
    jsonschema_rs.validate(schema, {"call": "hub.repo", "with": "=start"})
    assert not jsonschema_rs.is_valid(schema, {"endpoint": "https://g/"})


def test_a_query_is_sent_with_its_variables_and_gives_its_data(server: Server) -> None:
    """And nothing else of the answer, unless the whole is wanted."""
    server.behaviour = lambda _: data({"data": {"a": 1}, "extensions": {}})
    request = {"endpoint": f"{server.url}/q", "query": TWO, "operation": "A", "variables": {"x": 2}}
    assert call(request, verb="graphql") == {"a": 1}
    assert server.seen[0].json == {"query": TWO, "operationName": "A", "variables": {"x": 2}}
    assert "idempotency-key" not in server.seen[0].headers
    whole = call({**request, "give": "response"}, verb="graphql")
    assert whole["content"] == {"data": {"a": 1}, "extensions": {}}


def test_an_operation_of_a_connector_has_its_arguments_as_variables(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its base is the endpoint."""
    monkeypatch.setenv("HOLDFAST_SECRET_TOKEN", "s3cret")
    server.behaviour = lambda _: data({"data": {"add": 1}})
    operations = {"add": {"graphql": "mutation Add($n: Int) { add(n: $n) }", "risk": "high"}}
    connectors = {"hub": {"base": f"{server.url}/graphql", "auth": {"bearer": "TOKEN"}, "operations": operations}}
    assert call({"call": "hub.add", "with": {"n": 1}, "key": "k"}, connectors, "graphql") == {"add": 1}
    (request,) = server.seen
    assert (request.path, request.json["variables"]) == ("/graphql", {"n": 1})
    assert (request.headers["authorization"], request.headers["idempotency-key"]) == ("Bearer s3cret", "k")


def failing(server: Server, reply: Reply, query: str = "{ a }") -> TransportFailed:
    server.behaviour = lambda _: reply
    with pytest.raises(TransportFailed) as raised:
        call({"endpoint": f"{server.url}/q", "query": query}, verb="graphql")
    return raised.value


def test_errors_in_an_answer_are_a_failure(server: Server) -> None:
    """Although its status is good; they are there to be read."""
    errors = [{"message": "no such field", "path": ["a"]}]
    error = failing(server, data({"data": None, "errors": errors}))
    assert isinstance(error, AnswerUnusable)
    assert "no such field" in str(error)
    assert not error.retryable
    failure = describe(error)
    assert (error_class(failure), error_members(failure)["errors"]) == ("transport", errors)


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "FORBIDDEN"])
def test_an_error_may_be_one_of_authorisation(server: Server, code: str) -> None:
    error = failing(server, data({"errors": [{"message": "no", "extensions": {"code": code}}]}))
    assert isinstance(error, NotAuthorised)
    assert error_class(describe(error)) == "authorisation"


def test_a_mutation_that_was_done_in_part_is_open(server: Server) -> None:
    """One that gave no data at all was not done."""
    errors = [{"message": "no"}]
    mutation = "mutation M { a b }"
    assert failing(server, data({"data": {"a": 1, "b": None}, "errors": errors}), mutation).is_unknown
    assert not failing(server, data({"data": {"a": None}, "errors": errors}), mutation).is_unknown
    assert not failing(server, data({"data": {"a": 1}, "errors": errors})).is_unknown


@pytest.mark.parametrize("body", [{}, [1], "x", None])
def test_an_answer_that_is_none_of_graphql_is_a_failure(server: Server, body: Any) -> None:
    assert isinstance(failing(server, data(body)), AnswerUnusable)


def test_a_bad_status_is_told_as_with_http(server: Server) -> None:
    error = failing(server, data({"errors": [{"message": "syntax"}]}, 400))
    assert isinstance(error, RequestRefused)
    assert error.members["status"] == 400

"""What a definition says under ``http``, as a recorded call."""

from __future__ import annotations

import hashlib
from typing import Any

import jsonschema_rs
import pytest

from holdfast.errors import InvalidRequest
from holdfast.transports import schemas, table
from holdfast.transports.http.call import Auth
from tests.unit.transports.calling import written

BUREAU: dict[str, Any] = {
    "bureau": {
        "base": "https://b.example/api/",
        "auth": {"bearer": "TOKEN"},
        "headers": {"X-Client": "claims", "X-Key": {"secret": "KEY"}},
        "operations": {
            "report": {"get": "/r/{id}", "risk": "high"},
            "search": {"post": "/search", "writes": False, "query": ["page"], "accept": [404]},
            "order": {"put": "/o/{id}/{line}", "safe_to_retry": True},
            "note": {"post": "/notes", "headers": {"x-client": "other"}},
            "hub": {"graphql": "query { a }"},
        },
    }
}


@pytest.mark.parametrize("method", ["get", "head", "post", "put", "patch", "delete", "options"])
def test_a_request_of_its_own_has_the_host_as_connector_and_the_method_as_operation(method: str) -> None:
    """Everything but GET and HEAD writes."""
    name, call = written("http", {method: "https://S.example/x"})
    assert name == f"http:s.example/{method}"
    writes = method not in ("get", "head")
    assert call == {
        "method": method.upper(),
        "url": "https://s.example/x",
        "connector": "s.example",
        "operation": method,
        "writes": writes,
        "risk": "med" if writes else "low",
        "safe_to_retry": not writes,
    }


def test_what_is_sent_is_recorded_as_texts_and_data() -> None:
    """Numbers and truth values are written as JSON does; null is left out, a list is repeated."""
    request = {
        "post": "https://s.example/x?a=1",
        "query": {"b": 2, "c": [True, "y"], "d": None, "e": 2.0, "f": 1.5},
        "headers": {"X-A": 7},
        "json": {"x": [1, None, "ü"]},
        "key": "k",
        "timeout": 5,
        "accept": [404, "3xx"],
        "redirect": ["cdn.example"],
        "give": "response",
    }
    _, call = written("http", request)
    assert call["query"] == {"b": "2", "c": ["true", "y"], "e": "2", "f": "1.5"}
    assert call["headers"] == {"X-A": "7"}
    assert call["json"] == {"x": [1, None, "ü"]}
    kept = {name: call[name] for name in ("url", "key", "timeout", "accept", "redirect", "give")}
    assert kept == {
        "url": "https://s.example/x?a=1",
        "key": "k",
        "timeout": 5.0,
        "accept": [404, "3xx"],
        "redirect": ["cdn.example"],
        "give": "response",
    }


def test_the_bytes_of_a_recorded_call_are_for_ever() -> None:
    """A replay compares them with the journal: a newer version that wrote them otherwise would stop every run."""
    transport = table.find("http")
    assert transport is not None
    requests = [
        {"get": "https://s.example/x", "query": {"a": [1, 2]}, "headers": {"B": "c"}, "timeout": 3},
        {"post": "https://s.example:8443/x", "json": {"b": None}, "redirect": True, "accept": ["4xx"]},
        {
            "put": "https://s.example/",
            "form": {"a": "b"},
            "auth": {"basic": {"username": "u", "password": {"value": "p"}}},
        },
        {"call": "bureau.report", "with": {"id": 7, "full": True}, "key": "k"},
        {"call": "bureau.note", "with": {"text": "t"}, "give": "raw"},
    ]
    digest = hashlib.sha256()
    for request in requests:
        name, payload = transport.write(request, BUREAU)
        digest.update(name.encode() + payload.data + payload.codec.encode())
    assert digest.hexdigest() == "67d7af9dd8f6c840d74d5ba185c619396d26693d4c42501ccbb4e1fb5716bb75"


def test_an_operation_of_a_connector_says_what_the_gate_must_know() -> None:
    """Its path is filled from the arguments, percent-encoded; what is left is the query of a GET."""
    name, call = written("http", {"call": "bureau.report", "with": {"id": "a/b c", "full": True}}, BUREAU)
    assert name == "http:bureau/report"
    assert call == {
        "method": "GET",
        "url": "https://b.example/api/r/a%2Fb%20c",
        "query": {"full": "true"},
        "connector": "bureau",
        "operation": "report",
        "writes": False,
        "risk": "high",
        "safe_to_retry": True,
        "headers": {"X-Client": "claims", "X-Key": {"secret": "KEY"}},
        "auth": {"scheme": "bearer", "secret": "TOKEN"},
    }


def test_what_is_left_is_the_body_of_other_methods_but_for_what_the_query_names() -> None:
    """And an operation may say that it only reads."""
    _, call = written("http", {"call": "bureau.search", "with": {"page": 2, "text": "x"}}, BUREAU)
    assert (call["query"], call["json"], call["writes"], call["accept"]) == ({"page": "2"}, {"text": "x"}, False, [404])
    _, call = written("http", {"call": "bureau.order", "with": {"id": 1, "line": 2.0}}, BUREAU)
    assert (call["url"], "json" in call, call["safe_to_retry"]) == ("https://b.example/api/o/1/2", False, True)


def test_the_headers_of_an_operation_come_before_its_connectors() -> None:
    """However they are written; and a request's own before both."""
    _, call = written("http", {"call": "bureau.note", "headers": {"X-CLIENT": "mine"}}, BUREAU)
    assert call["headers"] == {"X-Key": {"secret": "KEY"}, "X-CLIENT": "mine"}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({}, "one method"),
        ({"get": "https://a/", "post": "https://a/"}, "one method"),
        ({"get": 7}, "URL"),
        ({"get": "ftp://a/"}, "https://"),
        ({"get": "https://"}, "host"),
        ({"get": "https://u:pass@a/"}, "auth"),
        ({"get": "https://good.example\\@evil.example/"}, "@|backslash|user name"),
        ({"get": "https://a b/"}, "blank"),
        ({"get": "https://a/\n"}, "control"),
        ({"get": "https://a:99999/"}, "65535"),
        ({"get": "https://bücher.example/"}, "ASCII"),
        ({"get": "https://a%2eb/"}, "ASCII"),
        ({"get": "https://a/x/../y"}, "path"),
        ({"get": "https://a/x/%2E%2e/y"}, "path"),
        ({"get": "https://a/" + "x" * 9000}, "8000"),
        ({"get": "https://a/", "qurey": {}}, "qurey"),
        ({"get": "https://a/", "query": [1]}, "query"),
        ({"get": "https://a/", "query": {"a": {"b": 1}}}, "query"),
        ({"get": "https://a/", "headers": {"Host": "b"}}, "not yours"),
        ({"get": "https://a/", "headers": {"transfer-encoding": "chunked"}}, "not yours"),
        ({"get": "https://a/", "headers": {"X": "a\r\nY: b"}}, "line"),
        ({"get": "https://a/", "headers": {"X Y": "a"}}, "no header"),
        ({"get": "https://a/", "headers": {"X": {"secret": "TOKEN"}}}, "connector"),
        ({"get": "https://a/", "auth": {"bearer": "TOKEN"}}, "connector"),
        ({"get": "https://a/", "auth": {"bearer": {"secret": "TOKEN"}}}, "connector"),
        ({"get": "https://a/", "auth": {"bearer": {"value": "a\nb"}}}, "line"),
        ({"get": "https://a/", "auth": {"bearer": {"value": ""}}}, "empty"),
        ({"post": "https://a/", "json": 1, "body": "x"}, "one of"),
        ({"post": "https://a/", "json": float("nan")}, "JSON"),
        ({"post": "https://a/", "json": b"x"}, "JSON"),
        ({"post": "https://a/", "body": 7}, "text"),
        ({"get": "https://a/", "timeout": 0}, "more than 0"),
        ({"get": "https://a/", "timeout": float("inf")}, "seconds"),
        ({"get": "https://a/", "timeout": "5s"}, "seconds"),
        ({"get": "https://a/", "accept": [99]}, "statuses"),
        ({"get": "https://a/", "accept": 404}, "statuses"),
        ({"get": "https://a/", "redirect": "yes"}, "redirect"),
        ({"get": "https://a/", "give": "all"}, "give"),
        ({"get": "https://a/", "key": " "}, "key"),
        ({"get": "https://a/", "writes": False}, "writes"),
        ({"call": "bureau"}, "connector and an operation"),
        ({"call": "nobody.report"}, "bureau"),
        ({"call": "bureau.nothing"}, "report"),
        ({"call": "bureau.report"}, "`id`"),
        ({"call": "bureau.report", "with": {"id": ".."}}, "change the path"),
        ({"call": "bureau.report", "with": {"id": ""}}, "change the path"),
        ({"call": "bureau.report", "with": {"id": "%2e%2E"}}, "change the path"),
        ({"call": "bureau.report", "with": {"id": [1]}}, "list"),
        ({"call": "bureau.report", "with": [1]}, "map"),
        ({"call": "bureau.report", "get": "https://a/"}, "get"),
        ({"call": "bureau.hub"}, "method"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_made_says_why(request_: dict[str, Any], said: str) -> None:
    """Before it is recorded."""
    with pytest.raises(InvalidRequest, match=said) as raised:
        written("http", request_, BUREAU)
    assert "pass@" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base": "https://u:p@b.example"}, "user name"),
        ({"auth": {"bearer": "s3cret value!"}}, "by its name"),
        ({"auth": {}}, "one of"),
        ({"auth": {"bearer": "A", "header": {"name": "X", "value": "B"}}}, "one of"),
        ({"auth": {"header": {"name": "Host", "value": "B"}}}, "not yours"),
        ({"auth": {"bearer": {"value": "x"}}}, "bearer"),
        ({"headers": {"X": {"secret": "not a name"}}}, "by its name"),
        ({"operations": {"report": {"get": "https://evil.example/"}}}, "begins with /"),
        ({"operations": {"report": {"get": "/a", "post": "/b"}}}, "one method"),
        ({"operations": {"report": {"get": "/a", "riks": "low"}}}, "riks"),
        ({"operations": {"report": {"get": "/a", "risk": "none"}}}, "risk"),
        ({"base": None}, "base"),
    ],
    ids=str,
)
def test_a_connector_that_cannot_be_used_says_why(change: dict[str, Any], said: str) -> None:
    """With its name."""
    connectors = {"bureau": {**BUREAU["bureau"], **change}}
    with pytest.raises(InvalidRequest, match=said):
        written("http", {"call": "bureau.report", "with": {"id": 1}}, connectors)


def test_a_connector_named_like_a_host_is_refused() -> None:
    """An allowlist of hosts would let it through."""
    with pytest.raises(InvalidRequest, match="connector"):
        written("http", {"call": "s.example.get"}, {"s.example": BUREAU["bureau"]})


@pytest.mark.parametrize(
    ("id", "path"), [("../admin", "..%2Fadmin"), ("x?y=1", "x%3Fy%3D1"), ("a#b", "a%23b"), ("%41", "%2541")]
)
def test_an_argument_cannot_leave_its_place_in_the_path(id: str, path: str) -> None:
    """Whatever a run's input is, the request goes to the operation that was judged."""
    _, call = written("http", {"call": "bureau.report", "with": {"id": id}}, BUREAU)
    assert call["url"] == f"https://b.example/api/r/{path}"


@pytest.mark.parametrize(
    "request_",
    [
        {"get": "https://a/", "query": {"a": [1]}, "timeout": 2.5},
        {"get": "=start.url", "headers": "=start.headers"},
        {"post": "https://a/", "json": {"a": "=start.b"}, "accept": [404, "3xx"], "redirect": True},
        {"post": "https://a/", "auth": {"basic": {"username": "=start.u", "password": {"value": "=start.p"}}}},
        {"call": "bureau.report", "with": {"id": "=start.id"}, "key": "=start.key"},
    ],
)
def test_the_schema_lets_good_requests_through(request_: dict[str, Any]) -> None:
    """Also before their expressions are evaluated."""
    jsonschema_rs.validate(dict(schemas.HTTP), request_)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"get": "https://a/", "post": "https://a/"},
        {"get": "https://a/", "writes": False},
        {"get": "https://a/", "auth": {"bearer": "TOKEN"}},
        {"call": "bureau"},
        {"call": "a.b", "get": "https://a/"},
        {"get": "https://a/", "timeout": 0},
    ],
)
def test_the_schema_refuses_others(request_: dict[str, Any]) -> None:
    """So that an editor can tell."""
    assert not jsonschema_rs.is_valid(dict(schemas.HTTP), request_)


def test_the_schema_of_connectors_knows_them() -> None:
    """All that a connector may say, and nothing else."""
    jsonschema_rs.validate(dict(schemas.CONNECTORS), BUREAU)
    for wrong in ({"base": "b"}, {"base": "https://b", "operations": {"x": {}}}, {"s.example": BUREAU["bureau"]}):
        assert not jsonschema_rs.is_valid(dict(schemas.CONNECTORS), {"bureau": wrong} if "base" in wrong else wrong)


def test_a_value_that_a_request_brings_along_is_not_shown() -> None:
    """Nor by the object that holds it."""
    assert "p4ss" not in repr(Auth(scheme="bearer", value="p4ss"))

"""The parts of the way of a request, each on its own."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from starlette.requests import HTTPConnection

from holdfast import errors
from holdfast.client.views.values import UnreadableValue, plain, read_plain
from holdfast.errors import (
    CrossSiteRequest,
    HoldfastError,
    InvalidDefinition,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    RouteNotFound,
)
from holdfast.programs.definition.compiler.faults import DefinitionFault
from holdfast.server.answers import writer_of
from holdfast.server.console.templating import counted
from holdfast.server.decoder import check_depth, read_body, read_query
from holdfast.server.problems import answer, problem_of
from holdfast.server.protection.origins import check_origin
from holdfast.server.protection.rates import Rates
from holdfast.server.router import Router, path_of
from holdfast.server.run_filters import RunListing
from tests.docs.reference import classes
from tests.tables import table


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    number: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: Inner
    many: list[int] = []


def test_a_body_that_does_not_fit_is_told_everything_at_once() -> None:
    """Unknown, missing and wrong members, at any depth, each with its place."""
    with pytest.raises(MalformedRequest) as caught:
        read_body(b'{"inner": {"number": "x", "more": 1}, "many": [1, "2"], "odd": 1}', Outer, 9)
    assert sorted(place for place, _ in caught.value.problems) == [
        "body/inner/more",
        "body/inner/number",
        "body/many/1",
        "body/name",
        "body/odd",
    ]


def test_of_very_many_faults_the_first_are_told() -> None:
    """Whoever sends a megabyte of them would be answered with ten: a little more than a hundred lines say enough."""
    for count, told in ((100, 100), (101, 101), (60_000, 101)):
        body = {"name": "a", "inner": {"number": 1}, **{f"odd {number}": 1 for number in range(count)}}
        with pytest.raises(MalformedRequest) as caught:
            read_body(json.dumps(body).encode(), Outer, 9)
        assert len(caught.value.problems) == told, count
        assert ("body", "there are more faults than these 100") in caught.value.problems or count == 100
        assert len(str(caught.value)) < 20_000
    with pytest.raises(MalformedRequest) as caught:
        read_query([("limit", "1")] * 5000, RunListing)
    assert len(caught.value.problems) == 101
    with pytest.raises(MalformedRequest) as caught:
        read_body(json.dumps({"x" * 10**6: 1}).encode(), Outer, 9)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("data", [b"{", b"[]", b"nonsense", b'"text"', b"null", b"\xff", b"{}{}"])
def test_a_body_that_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_body(data, Outer, 9)


def test_nesting_is_counted_outside_of_texts() -> None:
    """Brackets in texts are no nesting, and broken text does not hide any."""
    check_depth(b'{"a": "' + b"[" * 5000 + b'"}', 3)
    check_depth(b"[" + b"[],[[]]," * 500 + b"[]]", 3)
    for data in (b"[" * 4 + b"]" * 4, b'{"\\"": [[[', b'["' + b"\\\\" * 10 + b'", [[[[1]]]]]'):
        with pytest.raises(MalformedRequest, match="deeper than 3"):
            check_depth(data, 3)


def test_a_query_is_read_into_its_types() -> None:
    """Lists may be repeated, nothing else; numbers, booleans and times are read from text."""
    found = read_query([("attribute", "a=1"), ("attribute", "b=2"), ("parked", "true"), ("limit", "7")], RunListing)
    assert (found.attribute, found.parked, found.limit) == (["a=1", "b=2"], True, 7)
    with pytest.raises(MalformedRequest) as caught:
        read_query([("limit", "7"), ("limit", "8"), ("created_after", "2026-01-01T00:00:00"), ("x", "1")], RunListing)
    assert {place for place, _ in caught.value.problems} == {"query/limit", "query/created_after", "query/x"}


class Place(msgspec.Struct, frozen=True):
    method: str
    path: str


def test_a_path_is_cut_before_it_is_unquoted() -> None:
    """A run's id may have a slash; a fixed part comes before a variable one."""
    router = Router([Place("GET", "/v1/runs/{run}"), Place("POST", "/v1/runs/{run}/cancel"), Place("GET", "/v1/runs")])
    assert router.find("GET", "/v1/runs/a%2Fb%25").parameters == {"run": "a/b%"}
    assert router.find("GET", "/v1/runs/~.2E.2E.2Fa").parameters == {"run": "../a"}
    assert router.find("HEAD", "/v1/runs").route.path == "/v1/runs"
    assert router.find("POST", "/v1/runs/x/cancel").route.method == "POST"
    with pytest.raises(MethodNotAllowed) as caught:
        router.find("PUT", "/v1/runs/x")
    assert caught.value.allowed == ("GET",)
    for path in ("/", "/v1", "/v1/runs/", "//v1/runs", "/v1//runs", "/v1/r%75ns", "/v1/runs/x/other", "/v2/runs"):
        with pytest.raises(RouteNotFound):
            router.find("GET", path)


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ({"path": "/v1/a", "raw_path": b"/v1/a"}, "/v1/a"),
        ({"path": "/p/v1/a/b", "raw_path": b"/p/v1/a%2Fb", "root_path": "/p"}, "/v1/a%2Fb"),
        ({"path": "/v1/a b", "root_path": "/p"}, "/v1/a%20b"),
        ({"path": "/prefix/v1", "raw_path": None, "root_path": "/p"}, "/prefix/v1"),
        ({"path": "/p", "raw_path": b"/p", "root_path": "/p"}, "/"),
    ],
)
def test_the_prefix_of_a_mount_is_no_part_of_the_path(scope: dict[str, Any], path: str) -> None:
    assert path_of(scope) == path


@table("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_error_is_a_problem_that_says_what_happened(kind: type[HoldfastError]) -> None:
    """The title comes from its docstring, whatever its arguments are."""
    error = kind.__new__(kind)
    vars(error)["problems"] = ()
    problem = problem_of(error, "/v1/x")
    assert (problem.code, problem.status, problem.instance) == (kind.code, kind.http_status, "/v1/x")
    assert problem.title
    assert "``" not in problem.title + problem.remedy


def test_faults_of_a_definition_keep_their_places() -> None:
    faults = [DefinitionFault(message="no such step", node="a.b", line=3, column=5)]
    (found,) = problem_of(InvalidDefinition("two lines", faults), "").problems
    assert (found.detail, found.node, found.line, found.column) == ("no such step", "a.b", 3, 5)


def test_headers_of_problems() -> None:
    assert answer(MethodNotAllowed("", allowed=("GET",)), "").headers["allow"] == "GET"
    assert answer(errors.TooManyRequests("", retry_after=0.2), "").headers["retry-after"] == "1"
    assert answer(errors.StoreUnavailable(""), "").headers["retry-after"] == "2"
    assert answer(errors.InvalidToken(""), "").headers["www-authenticate"] == 'Bearer realm="holdfast"'


class Shown(msgspec.Struct):
    value: Any
    named: dict[str, Any] = {}
    many: tuple[Inner, ...] = ()
    inner: Inner | None = None


def test_values_are_written_so_that_nothing_is_lost() -> None:
    """Whole numbers in full, bytes as base64, and what JSON has not by a name; reading gives the same again."""
    value = {"n": 2**70, "b": b"\x00\xff", "f": float("inf"), "deep": [{"b": b"x"}], 7: None}
    data = writer_of(Shown)(Shown(value, {"x": UnreadableValue(b"", blob="ab")}, (Inner(1),), Inner(2)))
    assert b"1180591620717411303424" in data
    found = json.loads(data)
    assert found["named"] == {"x": {"$blob": "ab"}}
    assert (found["many"], found["inner"]) == ([{"number": 1}], {"number": 2})
    back = read_plain(found["value"])
    assert back == {"n": 2**70, "b": b"\x00\xff", "f": float("inf"), "deep": [{"b": b"x"}], "7": None}
    assert plain(back) == found["value"]
    with pytest.raises(InvalidRequest, match="base64"):
        read_plain({"$base64": "not!"})


def test_a_rate_lets_a_burst_through_and_then_so_many_a_second() -> None:
    now = [100.0]
    rates = Rates(2.0, 3, lambda: now[0])
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.take("b") == 0
    now[0] += 0.5
    assert rates.take("a") == 0
    assert rates.is_empty("a")
    now[0] += 60
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://here"}, False),
        ({"origin": "http://here"}, True),
        ({"origin": "http://here.evil"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ],
)
def test_a_change_that_a_browser_proves_comes_from_our_own_page(headers: dict[str, str], allowed: bool) -> None:
    raw = [(name.encode(), value.encode()) for name, value in {"host": "here", **headers}.items()]
    connection = HTTPConnection({"type": "http", "headers": raw})
    if allowed:
        check_origin(connection)
    else:
        with pytest.raises(CrossSiteRequest):
            check_origin(connection)


@pytest.mark.parametrize(("count", "shown"), [(0, "0"), (1000, "1,000"), (1001, "1,000+"), (9000, "1,000+")])
def test_a_page_says_that_there_are_more_than_it_counted(count: int, shown: str) -> None:
    """A number that was not counted to its end is not shown as if it were."""
    assert counted(count) == shown

"""HTTP calls against a real server: what is sent, what is given, and what is raised."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
import time
from email.utils import formatdate
from typing import Any

import pytest

from holdfast.errors import (
    AnswerUnusable,
    ConnectionFailed,
    InvalidRequest,
    NotAuthorised,
    RequestRefused,
    ServiceFailed,
    TransportFailed,
    TransportTimeout,
)
from holdfast.journal.error_classes import error_class, error_members
from holdfast.programs.function.failures import describe
from holdfast.transports import table
from holdfast.transports.http import answer as answers
from tests.unit.transports.calling import attempt, call
from tests.unit.transports.server import Reply, Request, Server, data

# -- what is sent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["get", "head", "post", "put", "patch", "delete", "options"])
def test_every_method_is_sent(server: Server, method: str) -> None:
    """With the query behind what the URL has of one."""
    call({method: f"{server.url}/x?a=1", "query": {"b": ["2", "ü"]}})
    (request,) = server.seen
    assert (request.method, request.path) == (method.upper(), "/x?a=1&b=2&b=%C3%BC")


@pytest.mark.parametrize(
    ("body", "kind", "sent"),
    [
        ({"json": {"a": [1, "ü"]}}, "application/json", '{"a":[1,"ü"]}'),
        ({"json": None}, "application/json", "null"),
        ({"form": {"a": "1 2", "b": [3, True]}}, "application/x-www-form-urlencoded", "a=1+2&b=3&b=true"),
        ({"body": "plain ü"}, "text/plain; charset=utf-8", "plain ü"),
        ({"body": "<a/>", "headers": {"content-type": "application/xml"}}, "application/xml", "<a/>"),
    ],
)
def test_a_body_is_sent_as_what_it_is(server: Server, body: dict[str, Any], kind: str, sent: str) -> None:
    """In JSON, as a form or as text; a request may name its own type."""
    call({"post": f"{server.url}/", **body})
    (request,) = server.seen
    assert (request.headers["content-type"], request.body.decode()) == (kind, sent)


def test_a_write_carries_its_key_and_a_read_does_not(server: Server) -> None:
    """The other side may know by it that it has done this before."""
    call({"get": f"{server.url}/"})
    call({"post": f"{server.url}/", "key": "order-7"})
    call({"post": f"{server.url}/", "key": "bestellung-ü"})
    call({"post": f"{server.url}/", "key": "k", "headers": {"idempotency-key": "mine"}})
    call({"post": f"{server.url}/"})
    keys = [request.headers.get("idempotency-key") for request in server.seen]
    assert keys[:4] == [None, "order-7", "bestellung-%C3%BC", "mine"]
    assert keys[4] is not None
    assert keys[4].startswith("127.0.0.1:post:f00d.1:")


def test_connections_are_used_again(server: Server) -> None:
    """And closed when no worker is left on the loop."""

    async def main() -> None:
        for _ in range(3):
            await attempt({"get": f"{server.url}/"})
        transport = table.find("http")
        assert transport is not None
        await transport.close()

    asyncio.run(main())
    assert len(server.seen) == 3
    assert len(server.connections) == 1


def test_connections_are_not_closed_under_an_attempt(server: Server) -> None:
    """It ends, and then they are."""
    arrived, go_on = threading.Event(), threading.Event()

    def behave(_: Request) -> Reply:
        arrived.set()
        go_on.wait(30)
        return data("done")

    server.behaviour = behave

    async def main() -> None:
        transport = table.find("http")
        assert transport is not None
        under_way = asyncio.create_task(attempt({"get": f"{server.url}/"}))
        await asyncio.to_thread(arrived.wait, 30)
        await transport.close()
        go_on.set()
        assert await under_way == "done"

    asyncio.run(main())


def test_no_cookie_is_kept(server: Server) -> None:
    """It would go from one run to another, and from one tenant to another."""

    async def main() -> None:
        server.behaviour = lambda _: Reply(200, b"", {"Set-Cookie": "session=1; Path=/"})
        await attempt({"get": f"{server.url}/"})
        await attempt({"get": f"{server.url}/"})
        transport = table.find("http")
        assert transport is not None
        await transport.close()

    asyncio.run(main())
    assert "cookie" not in server.seen[1].headers


# -- what is given -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "given"),
    [
        (data({"a": 1}), {"a": 1}),
        (Reply(200, b'{"a":1.5}', {"Content-Type": "application/problem+json; charset=utf-8"}), {"a": 1.5}),
        (Reply(200, "ü".encode("latin-1"), {"Content-Type": "text/plain; charset=iso-8859-1"}), "ü"),
        (Reply(200, b"<a/>", {"Content-Type": "application/xml"}), "<a/>"),
        (Reply(200, b"words"), "words"),
        (Reply(200, b"\xff\xfe\x00", {"Content-Type": "image/png"}), b"\xff\xfe\x00"),
        (Reply(204), None),
        (
            Reply(200, gzip.compress(b'{"a":2}'), {"Content-Type": "application/json", "Content-Encoding": "gzip"}),
            {"a": 2},
        ),
        (Reply(200, b"x", {"Content-Type": "text/plain; charset=nonsense"}), "x"),
    ],
)
def test_the_content_of_an_answer_is_what_it_says_it_is(server: Server, reply: Reply, given: Any) -> None:
    """JSON as data, texts as text, anything else as bytes, and nothing as null."""
    server.behaviour = lambda _: reply
    assert call({"get": f"{server.url}/"}) == given


def test_a_call_may_give_the_whole_answer_or_its_raw_bytes(server: Server) -> None:
    """As a Serverless Workflow wants it."""
    server.behaviour = lambda _: data({"a": 1}, X_Trace="t")
    given = call({"get": f"{server.url}/x", "give": "response", "headers": {"X-A": "b"}})
    assert (given["status"], given["content"], given["headers"]["x-trace"]) == (200, {"a": 1}, "t")
    assert given["request"] == {"method": "GET", "url": f"{server.url}/x", "headers": {"X-A": "b"}}
    assert base64.b64decode(call({"get": f"{server.url}/x", "give": "raw"})) == b'{"a": 1}'


@pytest.mark.parametrize(("accept", "status"), [([404], 404), (["4xx"], 410), (["3xx"], 302), ([503], 503)])
def test_a_call_may_accept_other_statuses(server: Server, accept: list[Any], status: int) -> None:
    """Then they are no errors, and their content is given."""
    server.behaviour = lambda _: data({"gone": True}, status)
    assert call({"get": f"{server.url}/", "accept": accept}) == {"gone": True}


# -- what is raised ----------------------------------------------------------------------------------------------------


def failing(request: dict[str, Any], **connectors: Any) -> TransportFailed:
    with pytest.raises(TransportFailed) as raised:
        call(request, connectors)
    return raised.value


@pytest.mark.parametrize(
    ("status", "kind", "expected", "retryable", "is_open"),
    [
        (302, RequestRefused, "transport", False, True),
        (307, RequestRefused, "transport", False, False),
        (400, RequestRefused, "transport", False, False),
        (401, NotAuthorised, "authorisation", False, False),
        (403, NotAuthorised, "authorisation", False, False),
        (404, RequestRefused, "transport", False, False),
        (408, ServiceFailed, "transport", True, True),
        (409, RequestRefused, "transport", False, False),
        (425, ServiceFailed, "transport", True, False),
        (429, ServiceFailed, "transport", True, False),
        (500, ServiceFailed, "transport", True, True),
        (501, ServiceFailed, "transport", True, True),
        (503, ServiceFailed, "transport", True, True),
        (504, ServiceFailed, "transport", True, True),
        (524, ServiceFailed, "transport", True, True),
    ],
)
def test_a_status_decides_what_follows(
    server: Server, status: int, kind: type[TransportFailed], expected: str, retryable: bool, is_open: bool
) -> None:
    """Whether it is tried again, and for a write whether it may have been done: as with actions."""
    server.behaviour = lambda _: data({"why": "no"}, status)
    read, write = failing({"get": f"{server.url}/x?q=1"}), failing({"post": f"{server.url}/x"})
    assert type(read) is type(write) is kind
    assert (read.retryable, write.retryable) == (retryable, retryable)
    assert (read.is_unknown, write.is_unknown) == (False, is_open)
    failure = describe(read)
    assert error_class(failure) == expected
    assert error_members(failure) == {
        "status": status,
        "body": {"why": "no"},
        "method": "GET",
        "url": f"{server.url}/x",
    }
    assert f"answered {status}" in failure.message


def test_a_failure_keeps_the_beginning_of_a_long_answer(server: Server) -> None:
    """As text, and not all of it: errors are kept in journals."""
    server.behaviour = lambda _: Reply(500, b"<html>\x00" + b"x" * 100_000, {"Content-Type": "text/html"})
    body = failing({"get": f"{server.url}/"}).members["body"]
    assert isinstance(body, str)
    assert (len(body), "\x00" in body) == (1000, False)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("soon", None), ("", None), (formatdate(0, usegmt=True), 0.0)],
)
def test_a_wish_for_patience_is_heard(server: Server, header: str, seconds: float | None) -> None:
    """Of 429 and 503 alike, in seconds or as a date."""
    for status in (429, 503):
        server.behaviour = lambda _, status=status: Reply(status, b"", {"Retry-After": header})  # type: ignore[misc]
        assert failing({"get": f"{server.url}/"}).retry_after == seconds


def test_a_date_to_come_is_counted_from_now(server: Server) -> None:
    """By this machine's clock, which is all that is known."""
    wish = formatdate(time.time() + 90, usegmt=True)
    server.behaviour = lambda _: Reply(503, b"", {"Retry-After": wish})
    wait = failing({"get": f"{server.url}/"}).retry_after
    assert wait is not None
    assert 60 < wait <= 91


def test_an_operation_says_by_which_statuses_nothing_was_done(server: Server) -> None:
    """Any other status of a server that fails leaves a write open, and so does one of these after a redirect."""
    operations = {"order": {"post": "/o", "not_done": [503], "redirect": True}}
    bureau = {"base": server.url, "operations": operations}
    for status, is_open in ((503, False), (502, True)):
        server.behaviour = lambda _, status=status: Reply(status, b"")  # type: ignore[misc]
        assert failing({"call": "bureau.order"}, bureau=bureau).is_unknown is is_open
    server.behaviour = lambda request: Reply(303, b"", {"Location": "/b"}) if request.path == "/o" else Reply(503)
    assert failing({"call": "bureau.order"}, bureau=bureau).is_unknown
    operations["order"]["not_done"] = [200]
    with pytest.raises(InvalidRequest, match="not_done lists statuses from 400 to 599"):
        call({"call": "bureau.order"}, {"bureau": bureau})


def test_a_refused_connection_may_be_tried_again(server: Server) -> None:
    """Nothing was sent, so nothing can have been done."""
    server.close()
    error = failing({"post": f"{server.url}/x", "json": 1})
    assert isinstance(error, ConnectionFailed)
    assert (error.retryable, error.is_unknown) == (True, False)
    assert error.members == {"method": "POST", "url": f"{server.url}/x"}
    server.__init__()  # type: ignore[misc]  # the fixture closes it once more


def test_an_unknown_name_may_be_tried_again() -> None:
    """A name server may be down for a moment."""
    error = failing({"post": "http://nobody.invalid/"})
    assert isinstance(error, ConnectionFailed)
    assert (error.retryable, error.is_unknown) == (True, False)
    assert "nobody.invalid" in str(error)


@pytest.mark.parametrize(("method", "is_open"), [("get", False), ("post", True)])
def test_a_connection_that_ends_without_an_answer_leaves_a_write_open(
    server: Server, method: str, is_open: bool
) -> None:
    """What was sent may have been done."""
    server.behaviour = lambda _: Reply(None)
    error = failing({method: f"{server.url}/"})
    assert isinstance(error, ConnectionFailed)
    assert (error.retryable, error.is_unknown) == (True, is_open)


@pytest.mark.parametrize(("method", "is_open"), [("get", False), ("post", True)])
def test_no_answer_in_time_is_a_timeout(server: Server, method: str, is_open: bool) -> None:
    """The time is of the whole attempt."""
    ended = threading.Event()

    def hang(_: Request) -> Reply:
        ended.wait(30)
        return Reply(200)

    server.behaviour = hang
    error = failing({method: f"{server.url}/", "timeout": 1.5})  # time enough to connect on a busy machine
    ended.set()
    assert isinstance(error, TransportTimeout)
    assert isinstance(error, TimeoutError)
    assert (error.retryable, error.is_unknown) == (True, is_open)
    assert error_class(describe(error)) == "timeout"
    assert "1.5 s" in str(error)


def test_an_answer_that_never_ends_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small packed answer may be a large one; what was done is done all the same, and is not repeated."""
    monkeypatch.setattr("holdfast.transports.http.sender.LARGEST_ANSWER", 1000)
    server.behaviour = lambda _: Reply(200, gzip.compress(b"x" * 10_000_000), {"Content-Encoding": "gzip"})
    with pytest.raises(AnswerUnusable, match="larger than") as raised:
        call({"post": f"{server.url}/"})
    assert not raised.value.retryable


@pytest.mark.parametrize(
    "body", [b"{", b"[NaN]", b"[" * 100_000, b"[" * 450 + b"]" * 450, rb'"\ud800"'], ids=lambda body: str(body[:8])
)
def test_an_answer_that_is_no_json_is_not_given(server: Server, body: bytes) -> None:
    """Nor one that no journal could keep."""
    server.behaviour = lambda _: Reply(200, body, {"Content-Type": "application/json"})
    with pytest.raises(AnswerUnusable):
        call({"get": f"{server.url}/"})


def test_the_largest_answer_is_as_documented() -> None:
    assert answers.LARGEST_ANSWER == 8 * 1024 * 1024


def test_the_members_of_a_failure_are_plain_data(server: Server) -> None:
    """They are written as JSON."""
    server.behaviour = lambda _: Reply(404, b"\xff\xfe")
    assert json.loads(describe(failing({"get": f"{server.url}/"})).details)["status"] == 404

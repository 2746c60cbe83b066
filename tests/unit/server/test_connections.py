"""The listener's limits, with raw sockets: how large and slow a request may be, and how many connections there are."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest

from tests.unit.server.callers import CHUNKED, GET, KIB, POST, Caller, in_parts, listening

RUN = json.dumps({"workflow": "served.total", "args": [1]}).encode()
ADDRESS = b"GET /healthz?" + b"a" * (16 * KIB - 9) + b" HTTP/1.1\r\nHost: x\r\n\r\n"
LINE = b"X: " + b"a" * (16 * KIB - 5) + b"\r\n"

TOO_LARGE = {
    "an address": ([b"GET /", b"a" * 16 * KIB, b" HTTP/1.1\r\n\r\n"], 414),
    "an address that does not end": ([b"GET /", *[b"a" * KIB] * 17], 414),
    "empty lines": ([b"\r\n" * 8 * KIB], 431),
    "a header": ([GET + b"X: " + b"a" * 16 * KIB + b"\r\n\r\n"], 431),
    "a header that comes in parts": (in_parts(GET + b"X: " + b"a" * 16 * KIB + b"\r\n\r\n", 700), 431),
    "a header that does not end": ([GET + b"X: ", *[b"a" * KIB] * 17], 431),
    "a header of blanks": ([GET + b"X: ", *[b" " * KIB] * 17], 431),
    "a name that does not end": ([GET, *[b"a" * KIB] * 17], 431),
    "headers together": ([GET, *[b"X: " + b"a" * 15 * KIB + b"\r\n"] * 5], 431),
    "headers by count": ([GET, b"X: y\r\n" * 101], 431),
    "headers at the end of a body": ([CHUNKED + b"0\r\n", *[b"X: " + b"a" * 15 * KIB + b"\r\n"] * 5], 400),
    "a header at the end of a body": ([CHUNKED + b"0\r\nX: ", *[b"a" * KIB] * 17], 400),
    "headers at the end of a body by count": ([CHUNKED + b"0\r\n", b"X: y\r\n" * 101], 400),
    "an extension of a chunk": ([CHUNKED + b"1;", *[b"a" * KIB] * 17], 400),
    "extensions of chunks": ([CHUNKED, *[b"1;" + b"a" * KIB + b"\r\nx\r\n"] * 18], 400),
}


def test_a_request_has_bounds_outside_of_its_body(caplog: pytest.LogCaptureFixture) -> None:
    """What is over them is answered and the connection closed, before the request has an end and while its sender still
    sends; without a line in the log."""

    async def main() -> None:
        async with listening() as served:
            for name, (parts, status) in TOO_LARGE.items():
                async with served.caller() as caller:
                    await caller.send(*served.signed(parts), b"\r\n" * KIB)
                    answer = await caller.rest()
                assert answer.startswith(b"HTTP/1.1 %d " % status), (name, answer[:80])
                assert answer.count(b"HTTP/1.1 ") == 1, name
                assert b"connection: close\r\n" in answer, name
                assert b"x-content-type-options: nosniff\r\n" in answer, name
                assert await served.is_well()

    asyncio.run(main())
    assert not caplog.records


ALLOWED = {
    "an address of 16 KiB": ([ADDRESS], 200),
    "headers of 16 KiB, and 64 KiB of them": ([GET, LINE * 3, LINE.replace(b"a" * 9, b"", 1), b"\r\n"], 200),
    "100 headers": ([GET, b"X: y\r\n" * 99, b"\r\n"], 200),
    "byte by byte": (in_parts(GET + b"X:    y    \r\n\r\n", 1), 200),
    "after empty lines": ([b"\r\n\r\n", GET + b"\r\n"], 200),
    "a body in chunks": ([CHUNKED, *[b"1;a=b\r\n%c\r\n" % each for each in RUN], b"0\r\nX: y\r\n\r\n"], 201),
    "a body at once": ([POST + b"Content-Length: %d\r\n\r\n" % len(RUN) + RUN], 201),
    "a body of the size that is allowed": ([POST + b"Content-Length: 1048576\r\n\r\n", b" " * KIB * KIB], 400),
}


def test_what_is_within_the_bounds_is_answered() -> None:
    """Exactly at the limit, in whatever parts it comes, one request after the other on one connection."""

    async def main() -> None:
        async with listening() as served, served.caller() as caller:
            for name, (parts, status) in ALLOWED.items():
                await caller.send(*served.signed(parts))
                assert (await caller.answer())[0] == status, name

    asyncio.run(main())


def test_headers_at_the_end_of_a_body_are_no_headers_of_the_request() -> None:
    """A proxy in front checks and removes headers at the beginning; it may pass on those at the end as they are."""

    async def main() -> None:
        async with listening() as served, served.caller() as caller:
            request = CHUNKED.replace(b"Authorization: Bearer TOKEN\r\n", b"")
            body = b"%x\r\n%s\r\n0\r\nAuthorization: Bearer TOKEN\r\n\r\n" % (len(RUN), RUN)
            await caller.send(*served.signed([request + body]))
            assert (await caller.answer())[0] == 401

    asyncio.run(main())


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: h2c\r\n"
SOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n"
FOREIGN = {
    "a web socket": GET + SOCKET + b"\r\n",
    "a web socket for a stream": GET.replace(b"/healthz", b"/v1/events/runs") + SOCKET + b"\r\n",
    "a tunnel": b"CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a body of which the parser would make a request": POST + UPGRADE + b"Content-Length: 40\r\n\r\n",
    "the same in chunks": POST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n",
}


def test_no_other_protocol_is_spoken(caplog: pytest.LogCaptureFixture) -> None:
    """What asks for one is refused; except where it can be answered as well: then nothing that follows is read."""

    async def main() -> None:
        async with listening() as served:
            for name, request in FOREIGN.items():
                async with served.caller() as caller:
                    await caller.send(*served.signed([request]), GET + b"\r\n")
                    answer = await caller.rest()
                    assert answer.startswith(b"HTTP/1.1 400 "), (name, answer[:80])
                    assert answer.count(b"HTTP/1.1 ") == 1, name
            async with served.caller() as caller:
                await caller.send(GET + UPGRADE + b"\r\n", b"GET /v1/me HTTP/1.1\r\n\r\n")
                answer = await caller.rest()
                assert answer.startswith(b"HTTP/1.1 200 ")
                assert b"connection: close\r\n" in answer
                assert answer.count(b"HTTP/1.1 ") == 1
            assert await served.is_well()

    asyncio.run(main())
    assert not caplog.records


# -- time --------------------------------------------------------------------------------------------------------------

SLOW = {
    "one byte": [b"G"],
    "an empty line": [b"\r\n"],
    "half a head": [GET],
    "a head without its body": [POST + b"Content-Length: 40\r\n\r\n"],
    "half a body": [POST + b"Content-Length: 40\r\n\r\n", b"{"],
    "half a chunk": [CHUNKED + b"5\r\n{"],
    "a body whose end is missing": [CHUNKED + b"1\r\n{\r\n"],
}


async def trickle(caller: Caller, parts: list[bytes]) -> bytes:
    """Send bytes one by one until the connection ends, and give what came."""
    answer = asyncio.create_task(caller.rest())
    for part in in_parts(b"".join(parts), 1):
        await caller.send(part)
        await asyncio.wait([answer], timeout=0.02)
        if answer.done():
            break
    return await answer


def test_a_request_must_arrive_whole_in_time(caplog: pytest.LogCaptureFixture) -> None:
    """However much of it is there, and however steadily it trickles in. Others are answered meanwhile."""

    async def main() -> None:
        async with listening(request_seconds=0.3, idle_seconds=0.3) as served, contextlib.AsyncExitStack() as stack:
            answers = {}
            for name, parts in SLOW.items():
                caller = await stack.enter_async_context(served.caller())
                await caller.send(*served.signed(parts))
                answers[name] = asyncio.create_task(caller.rest())
            for name, endless in {"headers": [GET, b"X: y\r\n" * 99], "a body": [CHUNKED, b"1\r\n \r\n" * 99]}.items():
                caller = await stack.enter_async_context(served.caller())
                answers[name] = asyncio.create_task(trickle(caller, served.signed(endless)))
            assert await served.is_well()
            for name, each in answers.items():
                answer = await each
                assert answer.startswith(b"HTTP/1.1 408 "), (name, answer[:80])
                assert answer.count(b"HTTP/1.1 ") == 1, name

    asyncio.run(main())
    assert not caplog.records


def test_a_connection_without_a_request_is_closed() -> None:
    """Before the first one, between two, and where empty lines alone come. It gets no answer: it has asked nothing."""

    async def main() -> None:
        async with listening(request_seconds=0.2, idle_seconds=0.2) as served, contextlib.AsyncExitStack() as stack:
            silent, asked, refused = [await stack.enter_async_context(served.caller()) for _ in range(3)]
            await asked.send(GET + b"\r\n")
            assert (await asked.answer())[0] == 200
            await refused.send(POST + b"Content-Length: 9999999999\r\n\r\n")  # its body never comes
            assert (await refused.answer())[0] in (401, 413)
            assert [await each.rest() for each in (silent, asked, refused)] == [b"", b"", b""]
            blank = await stack.enter_async_context(served.caller())
            await blank.send(GET + b"\r\n")
            await blank.answer()
            assert b"HTTP/1.1 200" not in await trickle(blank, [b"\r\n" * 99])

    asyncio.run(main())


def test_an_answer_may_take_longer_than_a_request() -> None:
    """A stream outlives the time for a request, and the time between two."""

    async def main() -> None:
        async with (
            listening(request_seconds=0.1, idle_seconds=0.1) as served,
            served.caller() as reader,
            served.caller() as late,
        ):
            await reader.send(*served.signed([POST.replace(b"POST /v1/runs", b"GET /v1/events/runs") + b"\r\n"]))
            assert b"200" in await reader.reader.readuntil(b"event: runs")
            assert await late.rest() == b""
            async with served.caller() as late:
                await late.send(GET)
                assert b"408" in await late.rest()
            async with served.caller() as starter:
                await starter.send(*served.signed([POST + b"Content-Length: %d\r\n\r\n" % len(RUN) + RUN]))
                assert (await starter.answer())[0] == 201
            assert await reader.reader.readuntil(b"event: runs")

    asyncio.run(main())


def test_whoever_reads_nothing_of_an_answer_is_cut_off() -> None:
    """Otherwise a connection that was answered in full would never end."""

    async def main() -> None:
        async with listening(request_seconds=0.3, idle_seconds=0.3) as served:
            with socket.socket() as mute:
                mute.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                mute.setblocking(False)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(mute, ("127.0.0.1", served.port))
                await loop.sock_sendall(mute, b"GET /openapi.json HTTP/1.1\r\n\r\n" * 16)
                await served.has_connections(1)
                await served.has_connections(0)

    asyncio.run(main())


def test_an_answer_that_waits_for_its_reader_is_whole() -> None:
    """Also on a connection that was opened a moment ago: whoever begins to read is given the same time as others."""

    async def main() -> None:
        ask = b"GET /openapi.json HTTP/1.1\r\n"
        async with listening() as served:
            connections, loop = served.listener.connections, asyncio.get_running_loop()
            for _ in range(5):
                with socket.socket() as slow:
                    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    slow.setblocking(False)
                    await loop.sock_connect(slow, ("127.0.0.1", served.port))
                    await loop.sock_sendall(slow, (ask + b"\r\n") * 15 + ask + b"Connection: close\r\n\r\n")
                    while not any(each.transport.get_write_buffer_size() for each in connections._open):  # noqa: ASYNC110  # it tells nobody
                        await asyncio.sleep(0)
                    connections.check(loop.time())
                    found = b""
                    while part := await loop.sock_recv(slow, KIB * KIB):
                        found += part
                assert found.count(b"HTTP/1.1 200 ") == 16
                assert found.endswith(b"}")
                await served.has_connections(0)

    asyncio.run(main())


# -- connections -------------------------------------------------------------------------------------------------------


def test_connections_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Further ones are told so and closed at once. One that ends makes room. The log says it once, not for each."""

    async def main() -> None:
        async with listening(connection_limit=3) as served, contextlib.AsyncExitStack() as stack:
            first, *_ = [await stack.enter_async_context(served.caller()) for _ in range(3)]
            await served.has_connections(3)
            for _ in range(200):
                async with served.caller() as caller:
                    answer = await caller.rest()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 1\r\n" in answer
            await first.send(GET + b"\r\n")
            assert (await first.answer())[0] == 200
            first.writer.close()
            await served.has_connections(2)
            assert await served.is_well()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "3 connections are open, which is the limit: further ones are refused"
    ]


@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
def test_one_address_cannot_have_all_connections(trusted: tuple[str, ...]) -> None:
    """Unless it is a trusted proxy, which has those of everybody."""

    async def main() -> None:
        settings = {"connection_limit": 9, "connection_limit_each": 2, "trusted_proxies": trusted}
        async with listening(**settings) as served, contextlib.AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(served.caller())
            await served.has_connections(2)
            for address, is_allowed in (("127.0.0.1", bool(trusted)), ("127.0.0.2", True)):
                async with served.caller(address) as caller:
                    await caller.send(GET + b"\r\n")
                    assert (await caller.answer())[0] == (200 if is_allowed else 503)

    asyncio.run(main())


def test_requests_that_come_at_once_are_answered_in_order() -> None:
    """As many as are allowed; then the connection is closed, and the last answer says so."""

    async def main() -> None:
        async with listening() as served:
            async with served.caller() as caller:
                await caller.send((GET + b"\r\n" + GET.replace(b"healthz", b"v1/me") + b"\r\n") * 3)
                assert [(await caller.answer())[0] for _ in range(6)] == [200, 401] * 3
                await caller.send(GET + b"\r\n")
                assert (await caller.answer())[0] == 200
            async with served.caller() as caller:
                await caller.send((GET + b"\r\n") * 5000)
                answer = await caller.rest()
                assert answer.count(b"HTTP/1.1 200 ") == 16
                assert answer.count(b"connection: close") == 1
                assert b"connection: close" in answer.rpartition(b"HTTP/1.1 200 ")[2]
            async with served.caller() as caller:
                await caller.send(GET + b"\r\n" + b"nonsense\r\n\r\n")
                assert (await caller.rest()).count(b"HTTP/1.1 ") <= 1

    asyncio.run(main())

"""Callers who hang up in the middle of a request, of its answer, or of a stream: nothing is logged or left."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.server.callers import CHUNKED, GET, KIB, POST, Served, listening

STREAM = POST.replace(b"POST /v1/runs", b"GET /v1/events/runs") + b"\r\n"
FORM = (
    b"POST /login HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 40\r\n\r\ntoken="
)
FILES = (
    b"POST /login HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\n"
    b"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 400\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nxxx'
)
UNFINISHED = {
    "a head": GET,
    "a body": POST + b"Content-Length: 40\r\n\r\n{",
    "a large body": POST + b"Content-Length: 1000000\r\n\r\n" + b" " * 900 * KIB,
    "a body in chunks": CHUNKED + b"5\r\n{",
    "a body that was promised": POST + b"Expect: 100-continue\r\nContent-Length: 40\r\n\r\n",
    "an answer to a task": POST.replace(b"/runs", b"/tasks/t/answer")
    + b"Content-Length: 40000000\r\n\r\n"
    + b" " * KIB,
    "a delivery": POST.replace(b"/v1/runs", b"/hooks/acme/orders") + b"Content-Length: 40\r\n\r\n{",
    "a form": FORM,
    "a form with a file": FILES,
    "a page": POST.replace(b"POST /v1/runs", b"GET /runs") + b"\r\n",
    "a stream": STREAM,
    "a stream, and a request after it": STREAM + GET + b"\r\n",
    "a request, and a stream after it": GET + b"\r\n" + STREAM,
    "a stream, and half a request after it": STREAM + GET,
}


async def hang_up(served: Served, request: bytes, way: str) -> None:
    """Send something and leave: at once, by a reset, or after the other end has begun to work on it."""
    async with served.caller() as caller:
        await caller.send(*served.signed([request]))
        if way == "later":
            await asyncio.wait([asyncio.create_task(caller.reader.read(100))], timeout=0.05)
        if way == "reset":
            caller.reset()


@pytest.mark.parametrize("way", ["at once", "reset", "later"])
def test_hanging_up_is_no_error(way: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever was under way: nothing is logged, the stream does not count any more, and the server answers others."""

    async def main() -> None:
        async with listening() as served:
            for _ in range(2):
                await asyncio.gather(*(hang_up(served, request, way) for request in UNFINISHED.values()))
            assert await served.is_well()
            await served.is_idle()

    asyncio.run(main())
    assert [record.getMessage() for record in caplog.records] == []


def test_a_sender_who_hangs_up_is_counted_by_the_status_of_proxies() -> None:
    """499: neither an answer that was given, nor an error of the server."""

    async def main() -> None:
        async with listening(metrics_token="seen") as served:
            await hang_up(served, UNFINISHED["a body"], "later")
            await served.is_idle()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", trust_env=False) as client:
                counted = (await client.get("/metrics", headers={"Authorization": "Bearer seen"})).text
            assert 'route="/v1/runs",status="499"' in counted
            assert 'status="500"' not in counted

    asyncio.run(main())


def test_a_stream_ends_when_its_reader_leaves_however_many_requests_wait() -> None:
    """Requests that were sent after it do not hide that its reader is gone."""

    async def main() -> None:
        async with listening(stream_limit_each=1) as served:
            for _ in range(3):
                async with served.caller() as caller:
                    await caller.send(*served.signed([STREAM + (GET + b"\r\n") * 3]))
                    assert b" 200 " in await caller.reader.readuntil(b"event: runs")
                while served.server.watcher.open_streams:  # noqa: ASYNC110  # it tells nobody
                    await asyncio.sleep(0.005)

    asyncio.run(main())

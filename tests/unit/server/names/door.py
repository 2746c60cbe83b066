"""Requests to a server in the same process, without a connection: the search sends thousands of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings
from holdfast.server.route import Route
from tests.unit.server.requests import Example

QUICK = ServerSettings(
    requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6, hooks_per_second=1e6, hooks_at_once=10**6
)
REFUSED = "not_permitted"


class Reply(NamedTuple):
    """What was answered. ``body`` is empty for what is no JSON, and ``text`` is all of it but a stream's."""

    status: int
    body: Any
    text: str = ""

    @property
    def code(self) -> str:
        return self.body.get("code", "") if isinstance(self.body, dict) else ""

    @property
    def is_refused(self) -> bool:
        """Whether the caller has not the right. A task that is for others has another code."""
        return self.status == 403 and self.code == REFUSED


class Door:
    """The ASGI application of a server."""

    def __init__(self, server: Server) -> None:
        self._asgi = server.asgi

    async def ask(
        self, token: str | None, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Reply:
        """Send one request, with a body of JSON, or bytes and their type."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1", "accept": "application/json", **(headers or {})}
        given |= {} if token is None else {"authorization": f"Bearer {token}"}
        if data:
            given.setdefault("content-type", "application/json")
            given["content-length"] = str(len(data))
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": place,
            "raw_path": place.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        return await _Exchange(data).run(self._asgi, scope)

    async def send(self, token: str | None, route: Route, example: Example) -> Reply:
        """Ask for a route of the table."""
        path = route.path
        for name, value in example.path.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        query = f"?{urlencode(example.query)}" if example.query else ""
        return await self.ask(token, route.method, path + query, example.body)


class _Exchange:
    """One request and its reply. Of a stream only the beginning is awaited."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data
        self._status = 0
        self._body = b""
        self._begun = asyncio.Event()
        self._is_stream = False

    async def run(self, asgi: Any, scope: dict[str, Any]) -> Reply:
        if "/v1/events" not in scope["path"] and not scope["path"].endswith("/events"):
            await asgi(scope, self._receive, self._send)
        else:
            work = asyncio.ensure_future(asgi(scope, self._receive, self._send))
            begun = asyncio.ensure_future(self._begun.wait())
            await asyncio.wait([work, begun], return_when=asyncio.FIRST_COMPLETED)
            if self._is_stream:
                work.cancel()
            begun.cancel()
            await asyncio.gather(work, begun, return_exceptions=True)
        text = self._body.decode("utf-8", "replace")
        try:
            return Reply(self._status, json.loads(text) if text else None, text)
        except ValueError:
            return Reply(self._status, None, text)

    async def _receive(self) -> dict[str, Any]:
        if self._data is None:
            await asyncio.Event().wait()  # it does not hang up
        data, self._data = self._data, None
        return {"type": "http.request", "body": data, "more_body": False}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._is_stream = (b"content-type", b"text/event-stream") in [
                (name.lower(), value.split(b";")[0]) for name, value in message["headers"]
            ]
        elif not self._is_stream:
            self._body += message.get("body", b"")
            return
        if self._is_stream:
            self._begun.set()


@asynccontextmanager
async def opened(app: Holdfast) -> AsyncIterator[Door]:
    """The door of an engine that is open."""
    server = Server(app, settings=QUICK)
    try:
        yield Door(server)
    finally:
        await server.stop_streams()

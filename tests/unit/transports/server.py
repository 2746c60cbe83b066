"""A real HTTP server on this machine, whose answers a test says."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple


class Request(NamedTuple):
    """What arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply(NamedTuple):
    """What is answered. Without a status nothing is, and the connection ends."""

    status: int | None = 200
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


Behaviour = Callable[[Request], Reply]


def data(value: object, status: int = 200, **headers: str) -> Reply:
    """An answer in JSON."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **named})


def echo(request: Request) -> Reply:
    """Everything that arrived."""
    return data({"method": request.method, "path": request.path, "headers": request.headers})


class Server:
    """Runs until it is closed. ``behaviour`` may be changed at any time; ``seen`` are the requests, in order."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.seen: list[Request] = []
        self.behaviour: Behaviour = echo
        self.connections: set[int] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer waits 40 ms between its head and its body

        def _answer(self) -> None:
            server.connections.add(self.client_address[1])
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            server.seen.append(request)
            reply = server.behaviour(request)
            if reply.status is None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                with suppress(ConnectionError):  # who asked may have heard enough
                    self.wfile.write(reply.body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer

        def log_message(self, format: str, *args: Any) -> None:
            """It says nothing."""

    return Handler

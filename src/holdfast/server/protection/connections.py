"""The connections of the listener: how many there are, and how large and how slow a request may be.

All of it is decided before the application sees a request. A connection is in one phase:

    phase     | event                              | then
    ----------+------------------------------------+-----------------------------------------------
    idle      | a byte arrives                     | arriving
    arriving  | the request is whole               | answering; idle, if it was answered before
    answering | the next request begins            | arriving
    answering | the last answer is complete        | idle
    any       | a request is refused               | closing, or closed if an answer is under way

Idle, arriving and closing end at a deadline. ``Connections.check`` ends them; it must be called several times a second.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter, deque
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.server.protection.headers import HEADERS
from holdfast.server.protection.proxies import TrustedProxies, counted_as
from holdfast.server.settings import ServerSettings

log = logging.getLogger("holdfast.server")

LONGEST_LINE: Final = 16 * 1024
"""Bytes of the request line, of one header, and of what is in a body beside its content: extensions of chunks."""

LARGEST_HEAD: Final = 64 * 1024
"""Bytes of all headers, with those at the end of a chunked body."""

MOST_HEADERS: Final = 100
MOST_PIPELINED: Final = 16
"""Requests of one connection that are taken before the first of them is answered."""

LINGER_SECONDS: Final = 2.0
"""How long a refused sender may read why: closed at once, a connection to which more arrives drops the answer."""

WARN_SECONDS: Final = 60.0

_REQUEST_LINE: Final = 32
_CHUNK: Final = 20
"""Bytes of a request line beside its address, and of a chunk beside its content, at most."""


class Rejection(NamedTuple):
    """Why a request is not taken."""

    status: HTTPStatus
    text: str


_MALFORMED: Final = Rejection(HTTPStatus.BAD_REQUEST, "This is no HTTP request that can be read.")
_UPGRADE: Final = Rejection(
    HTTPStatus.BAD_REQUEST, "No other protocol is spoken here: send the request without Upgrade, and not by CONNECT."
)
_LONG_ADDRESS: Final = Rejection(
    HTTPStatus.REQUEST_URI_TOO_LONG, f"The address of a request has at most {LONGEST_LINE} bytes."
)
_LARGE_HEAD: Final = Rejection(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"A request has at most {MOST_HEADERS} headers of {LONGEST_LINE} bytes, and {LARGEST_HEAD} bytes of them together.",
)
_LOOSE_BODY: Final = Rejection(
    HTTPStatus.BAD_REQUEST, "What a body has beside its content is too large: extensions of chunks, headers at its end."
)
_SLOW: Final = Rejection(HTTPStatus.REQUEST_TIMEOUT, "The request did not arrive in time: send it faster, or in parts.")
_FULL: Final = Rejection(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections are open: try again soon.")


class Phase(Enum):
    """What a connection waits for."""

    IDLE = auto()
    ARRIVING = auto()
    ANSWERING = auto()
    CLOSING = auto()


class Connections:
    """The open connections of one listener. At most as many as the settings say, and as the process has files for."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        files = _most_files()
        self.limit = min(settings.connection_limit, files * 3 // 4)  # the store and the steps need some, too
        self.accepted_at_once = max(1, min(64, files // 32))
        """Each is a file until it is refused, some turns of the loop later."""
        self._proxies = TrustedProxies(settings.trusted_proxies)
        self._open: dict[BoundedProtocol, str] = {}
        self._counts: Counter[str] = Counter()
        self._warned_at = float("-inf")

    def __len__(self) -> int:
        return len(self._open)

    def protocol(self, **given: Any) -> BoundedProtocol:
        """A protocol for one connection, as uvicorn makes them."""
        return BoundedProtocol(self, **given)

    def admit(self, connection: BoundedProtocol, host: str, now: float) -> bool:
        """Count a connection, if there is room for it. Peers that are trusted proxies have no limit of their own."""
        place = "" if host in self._proxies else counted_as(host)
        if len(self._open) >= self.limit:
            self._warn(now, f"{self.limit} connections are open, which is the limit")
            return False
        if place and self._counts[place] >= self.settings.connection_limit_each:
            self._warn(now, f"{place} has {self._counts[place]} connections open, which is the limit of one address")
            return False
        self._open[connection] = place
        self._counts[place] += 1
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        """Forget a connection. No effect on one that was not admitted."""
        place = self._open.pop(connection, None)
        if place is None:
            return
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]

    def check(self, now: float) -> None:
        """End connections whose time is over."""
        for connection in list(self._open):
            connection.check(now)

    def _warn(self, now: float, problem: str) -> None:
        if now - self._warned_at >= WARN_SECONDS:
            self._warned_at = now
            log.warning("%s: further ones are refused", problem)


def _most_files() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**20 if files == resource.RLIM_INFINITY else files


class _Stopped(Exception):
    """Leaves the parser in the middle of what was received."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits. Headers at the end of a body are counted, and are no headers of the request."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._settings = connections.settings
        self._phase = Phase.IDLE
        self._deadline = 0.0
        self._unanswered: deque[RequestResponseCycle] = deque()
        self._is_deaf = False  # what still arrives is dropped
        self._is_last = False  # no request is taken after this one
        self._rejection: Rejection | None = None
        self._is_head = True
        self._head_size = 0
        self._header_count = 0
        self._loose = 0  # bytes received that the parser has not reported: a part of a line, blanks, extensions
        self._unsent = 0
        self._moved_at = 0.0

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        now = self.loop.time()
        self._moved_at = now
        self._wait(Phase.IDLE, now + self._settings.idle_seconds)
        if not self._all.admit(self, self.client[0] if self.client else "", now):
            self._is_deaf = True
            transport.write(_written(_FULL))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.leave(self)
        self._drop_unanswered()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close as soon as what was asked is answered."""
        if self._phase is Phase.CLOSING:
            self.transport.close()
        else:
            super().shutdown()

    def check(self, now: float) -> None:
        """End the connection if its time is over, or if its peer reads nothing of what is sent."""
        if self._phase is not Phase.ANSWERING and now >= self._deadline:
            if self._phase is Phase.ARRIVING:
                self._refuse(_SLOW)
            else:
                self.transport.close()
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent:
            self._moved_at = now
        elif now - self._moved_at >= self._settings.request_seconds:
            self.transport.abort()
        self._unsent = unsent

    def _wait(self, phase: Phase, deadline: float) -> None:
        self._phase, self._deadline = phase, deadline

    def _arrive(self) -> None:
        self._wait(Phase.ARRIVING, self.loop.time() + self._settings.request_seconds)

    # -- what arrives

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._phase is Phase.IDLE:
            self._arrive()
        self._loose += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # the rest is not HTTP/1.1, and nothing was agreed about it
            self._is_deaf = True
            return
        except httptools.HttpParserError:
            if not self._is_deaf:
                self._refuse(self._rejection or _MALFORMED)
            return
        if self._loose > LONGEST_LINE or self._head_size + self._loose > LARGEST_HEAD:
            self._refuse(_LARGE_HEAD if self._is_head else _LOOSE_BODY)
        elif self._phase is Phase.ARRIVING:
            self._loose = max(self._loose, -_REQUEST_LINE)
        else:
            self._loose = 0

    def on_message_begin(self) -> None:
        if self._is_last:
            self._is_deaf = True
            raise _Stopped
        if self._phase is not Phase.ARRIVING:
            self._arrive()
        self._is_head, self._head_size, self._header_count = True, 0, 0
        self._loose -= _REQUEST_LINE
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._loose -= len(url)
        if len(self.url) > LONGEST_LINE:
            self._stop(_LONG_ADDRESS)

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value) + 4
        self._loose -= size
        self._head_size += size
        self._header_count += 1
        if size > LONGEST_LINE or self._head_size > LARGEST_HEAD or self._header_count > MOST_HEADERS:
            self._stop(_LARGE_HEAD if self._is_head else _LOOSE_BODY)
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        upgrades = self.parser.should_upgrade()
        if upgrades and not self._may_ignore_upgrade():
            self._stop(_UPGRADE)
        super().on_headers_complete()
        self._is_head = False
        self._unanswered.append(self.cycle)
        if upgrades or len(self._unanswered) >= MOST_PIPELINED:
            self._is_last = True
            self.cycle.keep_alive = False

    def _may_ignore_upgrade(self) -> bool:
        """Whether the request can be answered as if it asked for no other protocol: the parser would skip its body."""
        if self.parser.get_method() == b"CONNECT" or self._get_upgrade() == b"websocket":
            return False
        return not any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip() != b"0")
            for name, value in self.headers
        )

    def on_chunk_header(self) -> None:
        self._loose -= _CHUNK

    def on_body(self, body: bytes) -> None:
        self._loose -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._unanswered:
            self._phase = Phase.ANSWERING
        else:
            self._wait(Phase.IDLE, self.loop.time() + self._settings.idle_seconds)

    def on_response_complete(self) -> None:
        self._unanswered.popleft()
        super().on_response_complete()
        self._unset_keepalive_if_required()  # deadlines are kept here
        if self._phase is Phase.ANSWERING and not self._unanswered:
            self._wait(Phase.IDLE, self.loop.time() + self._settings.idle_seconds)

    # -- refusals

    def _stop(self, rejection: Rejection) -> None:
        self._rejection = rejection
        raise _Stopped

    def _refuse(self, rejection: Rejection) -> None:
        """Answer why the request is not taken, unless it was answered already, and close.

        If another answer is under way, the connection is closed at once.
        """
        log.debug("a request of %s is refused: %s", self.client, rejection.text)
        others = [each for each in self._unanswered if self._is_head or each is not self.cycle or each.response_started]
        was_answered = not self._is_head and not self._unanswered
        self._is_deaf = True
        self._drop_unanswered()
        if others:
            self.transport.close()
            return
        self._wait(Phase.CLOSING, self.loop.time() + LINGER_SECONDS)
        if not was_answered:
            self.transport.write(_written(rejection))
        self.transport.write_eof()
        self.flow.resume_reading()

    def _drop_unanswered(self) -> None:
        """Let the application see that its answers have no reader any more."""
        self.pipeline.clear()
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()


def _written(rejection: Rejection) -> bytes:
    text = f"{rejection.text}\n".encode()
    headers = {
        **HEADERS,
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(text)),
        "Connection": "close",
    }
    if rejection.status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    lines = "".join(f"{name.lower()}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {rejection.status.value} {rejection.status.phrase}\r\n{lines}\r\n".encode() + text

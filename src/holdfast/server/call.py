"""A call: one request as its handler sees it, and what a handler may answer beside a view."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec
from starlette.requests import Request

from holdfast.client.engine import Holdfast
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.progress import RunProgress
from holdfast.errors import MalformedRequest
from holdfast.runs.addresses import path_part
from holdfast.server.step_up import ProvedLogin

if TYPE_CHECKING:
    from holdfast.server.settings import ServerSettings
    from holdfast.server.streams.watcher import StreamWatcher

Q = TypeVar("Q")
B = TypeVar("B")

Proof = Literal["token", "cookie", "header", "key"]

SLICE_SECONDS: Final = 2.0

_WAIT: Final = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?\s*(?:$|[,;])", re.IGNORECASE)


class Acting(msgspec.Struct, frozen=True):
    """Who sends a request: a client bound to them. ``key`` is what their rate is counted by.

    Unbound, the client is the process's own: ``by`` and ``tenant`` then say who acts, and where. Bound, both are None.
    ``proof`` is what proves them; ``key`` is the operator's key in a cookie. Only a token must be sent on purpose: with
    a cookie, or a header that a proxy adds, a page of another site could act in their name. ``login`` is when and how a
    cookie was got; None without one.
    """

    client: Holdfast
    key: str
    by: str | None = None
    tenant: str | None = None
    proof: Proof = "token"
    login: ProvedLogin | None = None


class FileAnswer(msgspec.Struct, frozen=True):
    """An answer that is not JSON. With a ``name`` a browser saves it instead of showing it."""

    data: bytes
    media: str
    name: str | None = None
    headers: Mapping[str, str] = {}


class Answered(msgspec.Struct, frozen=True):
    """A view with headers of its own, such as the address of what was made."""

    view: Any
    headers: Mapping[str, str] = {}


class Events(msgspec.Struct, frozen=True):
    """An answer that is a stream of events, until it ends or the server stops."""

    stream: AsyncGenerator[bytes, None]


class RouteCall(Generic[Q, B]):
    """One request. ``query`` and ``body`` are of the types that its route names.

    ``engine`` is bound to nobody: it is for what streams of several people share, and each of them is judged.
    """

    def __init__(
        self,
        engine: Holdfast,
        request: Request,
        acting: Acting,
        path: Mapping[str, str],
        query: Q,
        body: B,
        settings: ServerSettings,
        watcher: StreamWatcher,
    ) -> None:
        self.engine = engine
        self.request = request
        self.acting = acting
        self.path = path
        self.query = query
        self.body = body
        self.headers: Mapping[str, str] = request.headers
        self.settings = settings
        self.watcher = watcher

    @property
    def client(self) -> Holdfast:
        """The client of whoever sent the request."""
        return self.acting.client

    @property
    def by(self) -> str | None:
        """Who acts, where the client is bound to nobody."""
        return self.acting.by

    @property
    def tenant(self) -> str | None:
        """Where, in the same case."""
        return self.acting.tenant

    @property
    def run(self) -> RunHandle[Any]:
        """The run that the path names."""
        return self.client.run(self.path["run"], tenant=self.tenant)

    @property
    def wait_seconds(self) -> float | None:
        """How long the sender would wait for what comes of it, at most as long as the server allows."""
        found = _WAIT.search(self.headers.get("prefer", ""))
        return None if found is None else min(float(found[1]), self.settings.wait_seconds)

    async def progress(self, handle: RunHandle[Any]) -> RunProgress | None:
        """How a run stands when it rests, or when the time that the sender would wait is over; None without one."""
        wait = self.wait_seconds
        if wait is None:
            return None
        deadline = self.now() + wait
        while True:  # in short waits, so that a server which stops need not wait for them
            left = max(0.0, deadline - self.now())
            found = await handle.settled(min(left, SLICE_SECONDS))
            if found.at_rest or left <= SLICE_SECONDS or self.watcher.is_over:
                return found

    @property
    def waited(self) -> dict[str, str]:
        """The header that says that it was waited."""
        wait = self.wait_seconds
        return {} if wait is None else {"Preference-Applied": f"wait={wait:.0f}"}

    def address(self, *parts: str) -> str:
        """The path of something of this server, with the prefix under which it is mounted."""
        below = "/".join(map(path_part, parts))
        return f"{quote(self.request.scope.get('root_path', ''))}/v1/{below}"

    @staticmethod
    def now() -> float:
        """The time by the loop's clock, for waits."""
        return asyncio.get_running_loop().time()

    def header(self, name: str) -> str | None:
        """A header that has a meaning of its own. Raises MalformedRequest where it is empty."""
        value = self.headers.get(name.lower())
        if value is not None and not value.strip():
            raise MalformedRequest("a header is empty", [(f"header/{name}", "it is empty: leave it out")])
        return value

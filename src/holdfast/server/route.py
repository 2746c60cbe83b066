"""A route: what is asked of whom, in which form, and what is answered. Everything else is made from this.

The operation is a row of ``people/permissions.LEAST``. It is judged before the handler begins, and all that the handler
does through its client is part of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec

from holdfast.people.permissions import LEAST
from holdfast.server.call import RouteCall

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[RouteCall[Any, Any]], Awaitable[Any]]

BODY_LIMIT: Final = 1024 * 1024
"""How many bytes a body has at most, where its route says nothing else."""

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"

PARAMETER: Final = re.compile(r"\{(\w+)\}")


class Header(msgspec.Struct, frozen=True):
    """A request's header that a route looks at."""

    name: str
    words: str


PREFER: Final = Header(
    "Prefer",
    "`wait=5` waits up to five seconds until the run rests: it has ended, is paused, or waits for something new. "
    "The answer's `progress` then says how it stands. The server may wait less.",
)
IDEMPOTENCY_KEY: Final = Header(
    "Idempotency-Key", "The run's id, where the body names none: the same key finds the same run."
)
TRACE: Final = Header("traceparent", "The trace that the run belongs to, as W3C Trace Context writes it.")
LAST_EVENT_ID: Final = Header("Last-Event-ID", "The id of the last event that was received: the stream goes on there.")


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path."""

    method: Method
    path: str
    operation: str
    words: str
    handler: Handler
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    answer: Any = None
    status: int = 200
    headers: tuple[Header, ...] = ()
    media: tuple[str, ...] = (JSON,)
    body_limit: int = BODY_LIMIT
    only_looks: bool = False
    """Whether a POST changes nothing."""
    checks_login: bool = False
    """Whether its handler asks for a fresh login itself, where one is needed; else the request is refused."""
    data: str = ""
    """Of a page: the path of the route that gives the same as JSON."""

    def __post_init__(self) -> None:
        if self.operation not in LEAST:
            raise ValueError(f"{self.method} {self.path}: {self.operation} has no level in people/permissions.py")

    @property
    def changes(self) -> bool:
        """Whether it may change something: a server that only shows refuses it."""
        return self.method != "GET" and not self.only_looks

    @property
    def subject(self) -> str:
        """The module that it is in, which is its section of the documentation."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """Its name in the OpenAPI document: unique, and stable for generated clients."""
        return f"{self.subject}.{self.handler.__name__}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the variable parts of its path."""
        return tuple(PARAMETER.findall(self.path))

    @property
    def least_level(self) -> int:
        """The level that it needs."""
        return LEAST[self.operation]

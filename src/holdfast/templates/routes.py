"""Routes: which events start an instance of a template, and with which input.

Both are decided by expressions over ``event``: its ``name``, its ``id``, its ``data`` and when it was emitted, ``at``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.expressions.engine import CannotEvaluate, InvalidExpression
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import BOOL, DYN, STRING, TIMESTAMP, ValueShape, map_of
from holdfast.expressions.turns import in_turn
from holdfast.store.protocol import ItemRow
from holdfast.templates.template import EventRoute

T = TypeVar("T")

ROUTE: Final = "route"
"""The kind of the item by which an event finds a template. Its id and its status are the template's."""
EVENT: Final = "event"
"""The kind of the item that remembers an event, and the type of the trigger of what it started."""

_EVENT: Final = map_of({"name": STRING, "id": STRING, "data": DYN, "at": TIMESTAMP})
_ROOTS: Final[Mapping[str, ValueShape]] = {"event": _EVENT}


class EmittedEvent(NamedTuple):
    """An event as expressions see it. ``data`` is plain data."""

    name: str
    id: str
    data: Any
    at: datetime

    @property
    def variables(self) -> dict[str, Any]:
        return {"event": {"name": self.name, "id": self.id, "data": self.data, "at": self.at}}


class RouteMatch(NamedTuple):
    """An event starts an instance with this input; or not, because an expression failed."""

    input: Any = None
    problem: str = ""


def check_route(route: EventRoute) -> EventRoute:
    """The route with its expressions in their normal text. Raises InvalidRequest with all that is wrong."""
    if not route.event or not route.event.isprintable():
        raise InvalidRequest(f"the event of a route is a name, not {route.event!r:.60}")
    faults: list[str] = []
    texts = {"filter": "", "input": ""}
    for part, wanted in (("filter", BOOL), ("input", None)):
        if text := getattr(route, part):
            try:
                texts[part] = Expression(text, _ROOTS, wanted).text
            except InvalidExpression as error:
                faults.append(f"the {part} `{text}` cannot be used: {error}")
    if faults:
        raise InvalidRequest("; ".join(faults))
    return EventRoute(route.event, texts["filter"], texts["input"])


@lru_cache(maxsize=1024)
def _expression(text: str, is_filter: bool) -> Expression:
    return Expression(text, _ROOTS, BOOL if is_filter else None, lazily=True, at_once=True)


async def match_of(route: EventRoute, event: EmittedEvent) -> RouteMatch | None:
    """What an event means for a route; None where it is not for it."""
    return await in_turn(_match_of, route, event) if route.event == event.name else None


def _match_of(route: EventRoute, event: EmittedEvent) -> RouteMatch | None:
    variables = event.variables
    try:
        if route.filter and not _expression(route.filter, True).holds(variables):
            return None
        return RouteMatch(_expression(route.input, False).evaluate(variables) if route.input else event.data)
    except CannotEvaluate as error:
        return RouteMatch(problem=f"an expression of its route failed: {error}")


class PlannedStart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A start that an event leads to; or why it leads to none."""

    template: str
    run: str
    problem: str = ""


class RememberedEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an event's item: what it was, by hash, when it was first emitted, and what it leads to.

    While it is open the rest is there, too: its data as canonical CBOR, where its instances belong, who emitted it.
    """

    event: str
    digest: str
    at: int
    starts: tuple[PlannedStart, ...] = ()
    data: bytes = b""
    workspace: str = ""
    by: str | None = None
    trigger: tuple[str, str] | None = None
    """What its instances are started by, where that is not the event itself."""


def event_digest(event: str, data: bytes) -> str:
    """The hash by which an event is recognised when it is emitted again."""
    return hashlib.sha256(event.encode() + b"\0" + data).hexdigest()


def read_route(row: ItemRow) -> EventRoute:
    """The route of an item. Raises StoreCorrupt."""
    return _read(row, EventRoute)


def read_event(row: ItemRow) -> RememberedEvent:
    """The remembered event of an item. Raises StoreCorrupt."""
    return _read(row, RememberedEvent)


def _read(row: ItemRow, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(row.body, type=kind)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"the {row.kind} {row.id!r} of tenant {row.tenant!r} cannot be read: {error}") from error

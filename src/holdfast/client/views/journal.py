"""An entry of a journal as people and programs see it, and as ``--json`` writes it. The keys are stable."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.client.views.times import iso, length, microseconds, moment
from holdfast.client.views.values import call_value, payload_value, plain
from holdfast.journal import events as e
from holdfast.journal.error_classes import error_members
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.render import line
from holdfast.journal.secrecy import visible

_TIMES: Final = frozenset({"retry_at", "time", "fire_at"})
_LENGTHS: Final = frozenset({"duration"})


class JournalEntry(msgspec.Struct, frozen=True):
    """One event of a run's journal. ``fields`` are the event's own, with their values; ``text`` is it on one line.

    An outcome is ``{"ok": value}`` or ``{"error": {"type": …, "message": …, "trace": …}}``, promise ids are text, and
    the arguments of a call are ``{"args": […], "kwargs": {…}}``. Secrets are masked.
    """

    sequence: int
    time: datetime
    event: str
    fields: dict[str, Any]
    text: str


def journal_entry(entry: e.Entry) -> JournalEntry:
    """A masked entry of a journal as a view."""
    event = visible(entry.event)
    fields = {name: _field(name, getattr(event, name)) for name in event.__struct_fields__}
    return JournalEntry(entry.sequence, moment(entry.timestamp), type(event).__name__, fields, line(event))


def _field(name: str, value: Any) -> Any:
    match value:
        case int() if name in _TIMES:
            return moment(value)
        case int() if name in _LENGTHS:
            return length(value)
        case Payload() if name == "input":
            return call_value(value)
        case Payload():
            return payload_value(value)
        case Ok(value=payload):
            return {"ok": payload_value(payload)}
        case Err(failure=failure):
            return {"error": _failure(failure)}
        case Failure():
            return _failure(value)
        case PromiseId() | JoinSetId():
            return str(value)
        case tuple():
            return [_field("", item) for item in value]
        case e.Signal(name=signal, promise_id=promise):
            return {"kind": "signal", "name": signal, "promise_id": str(promise)}
        case e.Single() | e.Any() | e.All() | e.Open():
            return {"kind": type(value).__name__.lower()}
        case msgspec.Struct():
            return {field: _field(field, getattr(value, field)) for field in value.__struct_fields__}
        case other:
            return other


def _failure(failure: Failure) -> dict[str, Any]:
    members: dict[str, Any] = {"type": failure.type, "message": failure.message, "trace": failure.trace}
    return {**members, "details": error_members(failure)} if failure.details else members


def entry_record(entry: JournalEntry) -> dict[str, Any]:
    """One line of a journal as ``--json`` writes it: ``sequence``, ``time``, ``event``, then the event's own fields."""
    fields = json_fields(entry)
    return {
        "sequence": entry.sequence,
        "time": iso(entry.time),
        "event": entry.event,
        **({"recorded_time": fields.pop("time")} if "time" in fields else {}),
        **fields,
    }


def json_fields(entry: JournalEntry) -> dict[str, Any]:
    """The event's own fields as JSON has them."""
    return {name: _json_field(name, value) for name, value in entry.fields.items()}


def _json_field(name: str, value: Any) -> Any:
    if name in _TIMES:
        return iso(value)
    return microseconds(value) if name in _LENGTHS else plain(value)

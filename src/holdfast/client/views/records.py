"""Runs, events and values as ``--json`` writes them. The keys are stable: scripts read them.

Times are ISO 8601 in UTC, promise ids are text, payloads are their values. What JSON does not have is an object with a
key that begins with ``$``: ``{"$base64": …}`` for bytes, ``{"$blob": …}`` for a value that could not be read.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import cbor2
import msgspec

from holdfast.client.explanation import waits_of
from holdfast.client.views.times import iso
from holdfast.journal import events as e
from holdfast.journal.payload import CBOR, CONTINUED, Err, Failure, Ok, Payload
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.secrecy import is_call, visible, visible_call
from holdfast.kernel.execution import Wait
from holdfast.store.protocol import Run

_TIMES = frozenset({"retry_at", "time", "fire_at"})


def run_record(run: Run) -> dict[str, Any]:
    """A run's row."""
    return {
        "id": run.key.run,
        "tenant": run.key.tenant,
        "workflow": run.workflow,
        "status": run.status,
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
        "ended_at": iso(run.ended_at),
        "priority": run.priority,
        "attributes": dict(run.attributes),
        "parent": run.parent,
        "error": run.error,
        "pause_reason": run.pause,
        "cancelling": run.cancelling,
        "generation": run.generation,
        "events": run.version,
        "worker": run.owner,
        "crashes": run.crashes,
        "wake_at": iso(run.wake_at),
        "waits": [_wait(wait) for wait in waits_of(run)],
        "promise_id": str(PromiseId(run.root)),
        "workspace": run.workspace,
        "actor": run.actor,
        "trigger": None if run.trigger_type is None else {"type": run.trigger_type, "ref": run.trigger_ref},
        "governed": run.governed,
        "writes": run.writes,
        "evidence_sha256": None if run.evidence is None else run.evidence.hex(),
    }


def _wait(wait: Wait) -> dict[str, Any]:
    due = iso(wait.due)
    return {"kind": wait.kind, "name": wait.name, "position": wait.position, "due": due, "task": wait.task}


def entry_record(entry: e.Entry) -> dict[str, Any]:
    """One line of a journal: ``sequence``, ``time``, ``event``, then the event's own fields."""
    event = visible(entry.event)
    fields = {name: _field(name, getattr(event, name)) for name in event.__struct_fields__}
    return {
        "sequence": entry.sequence,
        "time": iso(entry.timestamp),
        "event": type(event).__name__,
        **({"recorded_time": fields.pop("time")} if "time" in fields else {}),
        **fields,
    }


def _field(name: str, value: Any) -> Any:
    match value:
        case int() if name in _TIMES:
            return iso(value)
        case Payload() if name == "input":
            return call_value(value)
        case Payload():
            return payload_value(value)
        case Ok(value=payload):
            return {"ok": payload_value(payload)}
        case Err(failure=failure) | (Failure() as failure):
            told = {"type": failure.type, "message": failure.message, "trace": failure.trace}
            return {"error": told} if isinstance(value, Err) else told
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
            return plain(other)


def payload_value(payload: Payload) -> Any:
    """A payload's value as JSON has it."""
    if payload.blob is not None:
        return {"$blob": payload.blob.hex()}
    if is_call(payload.codec):
        payload = Payload(visible_call(payload).data)
    if payload.codec == CONTINUED:
        return {"$continued": call_value(Payload(payload.data))}
    if payload.codec != CBOR:
        return {"$base64": base64.b64encode(payload.data).decode(), "codec": payload.codec}
    try:
        return plain(cbor2.loads(payload.data))
    except (cbor2.CBORError, ValueError):
        return {"$base64": base64.b64encode(payload.data).decode()}


def call_value(payload: Payload) -> Any:
    """A call's arguments: ``{"args": […], "kwargs": {…}}``."""
    match payload_value(payload):
        case [list(args), dict(kwargs)]:
            return {"args": args, "kwargs": kwargs}
        case other:
            return other


def compact(value: Any) -> str:
    """What ``plain`` gave, on one line; a text as it is."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown(value: Any) -> str:
    """A value on one line, whatever is in it: no text that someone else wrote can pass for a line of ours."""
    return value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Any decoded value as JSON has it."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case bytes() | bytearray() | memoryview():
            return {"$base64": base64.b64encode(bytes(value)).decode()}
        case Mapping():
            return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case other:
            isoformat = getattr(other, "isoformat", None)
            return isoformat() if callable(isoformat) else str(other)

"""A journal without its values: what happened, when, to which promise, and each payload by type, size and hash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from holdfast.audit.records import Metadata, of_bytes
from holdfast.journal import events as e
from holdfast.journal.codec import decode_segment
from holdfast.journal.payload import CBOR, CONTINUED, Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import is_call
from holdfast.store.values import Segment

_TYPES: Final = ("number", "number", "bytes", "text", "list", "object", "tagged")
_SIMPLE: Final = {0xF4: "boolean", 0xF5: "boolean", 0xF6: "null"}


class EventLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One event. ``name`` is a function's or a signal's, ``error`` the type of a failure."""

    sequence: int
    at: int
    event: str
    promise: str | None = None
    kind: str | None = None
    name: str | None = None
    attempt: int | None = None
    ok: bool | None = None
    payload: Metadata | None = None
    error: str | None = None


class SegmentLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One turn: ``head`` is the hash of its bytes chained to all before, ``size`` how many bytes."""

    first: int
    count: int
    size: int
    head: str
    events: list[EventLine]


class JournalLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The journal of one generation."""

    generation: int
    root: str
    version: int
    head: str
    segments: list[SegmentLine]

    @property
    def events(self) -> list[EventLine]:
        return [event for segment in self.segments for event in segment.events]


def outline(
    generation: int, segments: Sequence[Segment], hidden: Collection[str] = (), *, calls_alone: bool = False
) -> JournalLine:
    """A whole journal. The inputs of ``hidden`` promises hold secrets: they have no hash, it could be guessed from.

    Where there are any, the run's own input has none either: secrets mostly come with it. The journal's last hash binds
    it all the same. With ``calls_alone`` it is as earlier versions wrote it: they hid only the calls' inputs.
    Raises StoreCorrupt where a segment cannot be read.
    """
    root = root_of(segments)
    lines = []
    for segment in segments:
        entries = decode_segment(segment.events, root, segment.first)
        events = [_line(entry, hidden, calls_alone=calls_alone) for entry in entries]
        lines.append(SegmentLine(segment.first, segment.count, len(segment.events), segment.head.hex(), events))
    last = segments[-1] if segments else Segment(0, 0, b"", b"", 0)
    return JournalLine(generation, root.root.hex(), last.first + last.count, last.head.hex(), lines)


def root_of(segments: Sequence[Segment]) -> PromiseId:
    """The run's own promise id in this journal: it follows from the first event."""
    for segment in segments[:1]:
        for entry in decode_segment(segment.events, PromiseId(b""), segment.first):
            if isinstance(started := entry.event, e.ExecutionStarted):
                return PromiseId.of_run(started.component_digest, started.parent_id, started.idempotency_key)
    return PromiseId(b"")


def _line(entry: e.Entry, hidden: Collection[str], *, calls_alone: bool) -> EventLine:
    event = entry.event
    promise = getattr(event, "promise_id", None) or getattr(event, "join_set_id", None)
    name = getattr(event, "function_name", None) or getattr(event, "signal_name", None)
    result = getattr(event, "result", None)
    line = EventLine(
        sequence=entry.sequence,
        at=entry.timestamp,
        event=type(event).__name__,
        promise=None if promise is None else str(promise),
        kind=event.kind if isinstance(event, e.InvokeScheduled) else None,
        name=name,
        attempt=getattr(event, "attempt", None) or getattr(event, "failed_attempt", None),
        ok=isinstance(result, Ok) if isinstance(result, (Ok, Err)) else None,
        payload=_payload(event),
        error=_error(event),
    )
    if line.payload is not None and _is_hidden(event, line.promise, hidden, calls_alone=calls_alone):
        return msgspec.structs.replace(line, payload=Metadata(line.payload.type))
    return line


def _is_hidden(event: e.Event, promise: str | None, hidden: Collection[str], *, calls_alone: bool) -> bool:
    """Whether its payload may hold a secret: a call's input, the run's, or what a generation gives to the next."""
    match event:
        case e.InvokeScheduled():
            return promise in hidden
        case e.ExecutionStarted():
            return bool(hidden) and not calls_alone
        case e.ExecutionCompleted(result=Payload(codec=codec)):
            return bool(hidden) and not calls_alone and codec == CONTINUED
        case _:
            return False


def _payload(event: e.Event) -> Metadata | None:
    for field in ("input", "result", "payload", "value", "reason"):
        value = getattr(event, field, None)
        match value:
            case Ok(value=Payload() as payload) | (Payload() as payload):
                return _metadata(payload)
            case bytes():
                return of_bytes("bytes", value)
            case str():
                return of_bytes("text", value.encode("utf-8", "surrogatepass"))
            case _:
                continue
    return None


def _metadata(payload: Payload) -> Metadata:
    if payload.blob is not None:
        return Metadata("large", None, payload.blob.hex())
    plain = payload.codec == CBOR or is_call(payload.codec)
    return of_bytes(_type(payload.data) if plain else payload.codec, payload.data)


def _type(data: bytes) -> str:
    """What a value is, from the first byte of its CBOR."""
    first = data[0] if data else 0xF6
    return _SIMPLE.get(first, "number") if first >> 5 == 7 else _TYPES[first >> 5]


def _error(event: e.Event) -> str | None:
    match event:
        case e.ExecutionFailed(error=Failure() as failure) | e.InvokeRetrying(error=Failure() as failure):
            return failure.type
        case e.InvokeCompleted(result=Err(failure=failure)) | e.JoinSetAwaited(result=Err(failure=failure)):
            return failure.type
        case _:
            return None

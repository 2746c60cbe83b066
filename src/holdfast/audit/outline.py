"""A journal without its values: each event with its time and promise, each payload by its type, size and hash."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from holdfast.audit.records import Metadata, of_bytes
from holdfast.journal import events as e
from holdfast.journal.attribution import decider_of, giver_of, is_given
from holdfast.journal.codec import decode_segment
from holdfast.journal.payload import CBOR, CONTINUED, Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.revisions import code_of
from holdfast.journal.secrecy import is_call
from holdfast.store.values import Segment

_TYPES: Final = ("number", "number", "bytes", "text", "list", "object", "tagged")
_SIMPLE: Final = {0xF4: "boolean", 0xF5: "boolean", 0xF6: "null"}


PRESENT: Final = 2
EDITIONS: Final = (PRESENT, 1, 0)
"""The outlines that this and earlier versions write. Edition 1 named neither code nor people; edition 0 hid only the
inputs of calls."""


class EventLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One event. ``name`` is that of a function or a signal, ``error`` the type of a failure. ``code`` is the digest of
    the code that a run was started with or is to go on with, ``by`` the person who gave a value or decided an error."""

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
    code: str | None = None
    by: str | None = None


class SegmentLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One turn. ``head`` is the hash of its bytes, chained to the turns before it; ``size`` is its number of bytes."""

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
    generation: int, segments: Sequence[Segment], hidden: Collection[str] = (), *, edition: int = PRESENT
) -> JournalLine:
    """A whole journal. Raises StoreCorrupt where a segment cannot be read.

    The inputs of ``hidden`` promises hold secrets. They have no hash here, because a secret could be guessed from it.
    Where there are such promises, the run's own input has no hash either, because secrets mostly come with it. The
    journal's last hash still binds it. Of an earlier ``edition`` the outline is as earlier versions wrote it.
    """
    root = root_of(segments)
    lines = []
    for segment in segments:
        entries = decode_segment(segment.events, root, segment.first)
        events = [_line(entry, hidden, edition) for entry in entries]
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


def _line(entry: e.Entry, hidden: Collection[str], edition: int) -> EventLine:
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
        code=_code(event) if edition >= PRESENT else None,
        by=_person(event) if edition >= PRESENT else None,
    )
    if line.payload is not None and _is_hidden(event, line.promise, hidden, calls_alone=not edition):
        return msgspec.structs.replace(line, payload=Metadata(line.payload.type))
    return line


def _code(event: e.Event) -> str | None:
    return event.component_digest if isinstance(event, e.ExecutionStarted) else code_of(event)


def _is_hidden(event: e.Event, promise: str | None, hidden: Collection[str], *, calls_alone: bool) -> bool:
    """Whether its payload may hold a secret: the input of a call, of the run, or of the next generation."""
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
    plain = payload.codec == CBOR or is_call(payload.codec) or is_given(payload.codec)
    return of_bytes(_type(payload.data) if plain else payload.codec, payload.data)


def _type(data: bytes) -> str:
    """The type of a value, from the first byte of its CBOR."""
    first = data[0] if data else 0xF6
    return _SIMPLE.get(first, "number") if first >> 5 == 7 else _TYPES[first >> 5]


def _person(event: e.Event) -> str | None:
    """The person who gave the value of a call or a signal, or decided its error."""
    match event:
        case e.InvokeCompleted(result=result):
            return decider_of(result)
        case e.SignalDelivered(payload=payload) | e.SignalReceived(payload=payload):
            return giver_of(payload)
        case _:
            return None


def _error(event: e.Event) -> str | None:
    match event:
        case e.ExecutionFailed(error=Failure() as failure) | e.InvokeRetrying(error=Failure() as failure):
            return failure.type
        case e.InvokeCompleted(result=Err(failure=failure)) | e.JoinSetAwaited(result=Err(failure=failure)):
            return failure.type
        case _:
            return None

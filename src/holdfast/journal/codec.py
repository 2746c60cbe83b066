"""The bytes of a journal: positional canonical CBOR, one hash-chained segment per turn.

A segment is ``[at, [[offset, name, field, …], …]]``: the turn's time in microseconds, then each event with its time
relative to that. Promise ids are written as paths, because the root is the same throughout a journal. Deterministic
encoding (RFC 8949 §4.2) makes equal journals equal bytes, so a hash over them means something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Final, Literal, cast

import cbor2

from holdfast.errors import StoreCorrupt
from holdfast.journal import cbor
from holdfast.journal import events as e
from holdfast.journal.payload import CBOR, Err, Failure, Ok, Outcome, Payload, RetryPolicy, policy_fields, policy_of
from holdfast.journal.promise import JoinSetId, PromiseId

Fields = list[object]
"""The positional form of an event's fields, as it is written."""

# The same fields as they are read. CBOR gives lists; these shapes name their items.
PayloadField = bytes | tuple[str, bytes, bytes | None]
AbsoluteField = tuple[bytes, list[int]]
KindField = tuple[str] | tuple[str, str, list[int]]
OutcomeField = tuple[Literal[True], PayloadField] | tuple[Literal[False], str, str, str]

_NOW: Final = cbor.integer(0)

GENESIS: Final = b"\0" * 32
"""The hash that a journal's first segment is chained to."""


def chain(previous: bytes, segment: bytes) -> bytes:
    """The hash that seals a segment to all before it."""
    return hashlib.sha256(previous + segment).digest()


def encode_segment(stamped: Sequence[tuple[int, e.Event]], at: int) -> bytes:
    """Write a turn's events, each with its time, as one segment."""
    parts = [cbor.array(2), cbor.integer(at), cbor.array(len(stamped))]
    for stamp, event in stamped:
        kind = type(event)
        since = _NOW if stamp == at else cbor.integer(stamp - at)
        hot = _HOT.get(kind)
        if hot is not None and (written := hot[2](event)) is not None:
            parts += (hot[0], since, hot[1], written)
        else:
            fields = _WRITERS[kind](event)
            parts += (cbor.array(2 + len(fields)), since, cbor.text(kind.__name__), *map(cbor.write, fields))
    return b"".join(parts)


def decode_segment(segment: bytes, root: PromiseId, first: int) -> list[e.Entry]:
    """Read a segment that begins at sequence ``first``. Raises StoreCorrupt where it is not one."""
    stream = BytesIO(segment)
    try:
        at, rows = cbor2.load(stream)
        if stream.tell() != len(segment):
            raise ValueError("there are bytes after its end")
        return [e.Entry(first + index, at + row[0], _READERS[row[1]](row[2:], root)) for index, row in enumerate(rows)]
    except (cbor2.CBORError, ValueError, TypeError, KeyError, IndexError) as error:
        raise StoreCorrupt(
            f"the journal segment at sequence {first} cannot be read ({type(error).__name__}: {error}): "
            "it was damaged, or a newer Holdfast wrote it. Restore it from a backup, or upgrade."
        ) from error


def payload_field(payload: Payload) -> Fields | bytes:
    """A payload as a field of an event."""
    if payload.codec == CBOR and payload.blob is None:
        return payload.data
    return [payload.codec, payload.data, payload.blob]


def read_payload(field: PayloadField) -> Payload:
    """A payload from a field of an event."""
    if isinstance(field, bytes):
        return Payload(field)
    codec, data, blob = field
    return Payload(data, codec, blob)


def _optional(payload: Payload | None) -> Fields | bytes | None:
    return None if payload is None else payload_field(payload)


def _failure(failure: Failure) -> Fields:
    return [*failure.fields()]


def _outcome(outcome: Outcome) -> Fields:
    if type(outcome) is Ok:
        return [True, payload_field(outcome.value)]
    return [False, *_failure(cast("Err", outcome).failure)]


def _read_outcome(field: OutcomeField) -> Outcome:
    return Ok(read_payload(field[1])) if field[0] else Err(Failure(*field[1:]))


@lru_cache(maxsize=256)
def _policy(policy: RetryPolicy) -> bytes:
    return cbor2.dumps(policy_fields(policy), canonical=True)


@lru_cache(maxsize=256)
def _hot_policy(policy: RetryPolicy) -> bytes:
    return cbor.data(_policy(policy))


@lru_cache(maxsize=256)
def _read_policy(field: bytes) -> RetryPolicy:
    return policy_of(cbor2.loads(field))


def _absolute(promise: PromiseId | None) -> Fields | None:
    return None if promise is None else [promise.root, promise.path]


def _read_absolute(field: AbsoluteField | None) -> PromiseId | None:
    return None if field is None else PromiseId(field[0], tuple(field[1]))


def _kind(kind: e.AwaitKind) -> Fields:
    if type(kind) is e.Signal:
        return ["signal", kind.name, kind.promise_id.path]
    return _KIND_FIELDS[type(kind)]


_PLAIN_KINDS: Final[dict[str, e.AwaitKind]] = {"single": e.Single(), "any": e.Any(), "all": e.All(), "open": e.Open()}
_KIND_FIELDS: Final[dict[type[e.AwaitKind], Fields]] = {type(kind): [name] for name, kind in _PLAIN_KINDS.items()}


def _read_kind(field: KindField, root: PromiseId) -> e.AwaitKind:
    if len(field) == 3:
        return e.Signal(field[1], _child(field[2], root))
    return _PLAIN_KINDS[field[0]]


def _started(event: e.ExecutionStarted) -> Fields:
    fields: Fields = [
        event.component_digest,
        payload_field(event.input),
        _absolute(event.parent_id),
        event.idempotency_key,
    ]
    inherited = [[part.until, part.key, part.root] for part in event.inherited]
    later = (event.carried, event.former, event.signals)
    if event.edition == 0 and not inherited and later == (None, None, None):
        return fields
    fields += [event.edition, _optional(event.carried)]
    if event.signals is not None:
        return [*fields, inherited, _optional(event.former), payload_field(event.signals)]
    if event.former is not None:
        return [*fields, inherited, payload_field(event.former)]
    return [*fields, inherited] if inherited else fields


def _read_started(
    digest: str,
    input: PayloadField,
    parent: AbsoluteField | None,
    key: str,
    edition: int = 0,
    carried: PayloadField | None = None,
    inherited: Sequence[tuple[int, str, bytes]] = (),
    former: PayloadField | None = None,
    signals: PayloadField | None = None,
) -> e.ExecutionStarted:
    payload = None if carried is None else read_payload(carried)
    return e.ExecutionStarted(
        digest,
        read_payload(input),
        _read_absolute(parent),
        key,
        edition,
        payload,
        tuple(e.Inherited(*part) for part in inherited),
        None if former is None else read_payload(former),
        None if signals is None else read_payload(signals),
    )


def _undoes(promise: PromiseId | None, by: PromiseId) -> Fields | tuple[int, ...] | None:
    """The promise that a call undoes. One of the same journal is written as a path, so that a fork undoes its own."""
    if promise is None:
        return None
    return promise.path if promise.root == by.root else _absolute(promise)


def _read_scheduled(
    root: PromiseId,
    path: list[int],
    kind: str,
    name: str,
    input: PayloadField,
    policy: bytes,
    undoes: list[int] | AbsoluteField | None = None,
    again: int = 0,
    place: int | None = None,
) -> e.InvokeScheduled:
    undone = None
    if undoes is not None:
        foreign = bool(undoes) and isinstance(undoes[0], bytes)
        undone = _read_absolute(cast("AbsoluteField", undoes)) if foreign else _child(cast("list[int]", undoes), root)
    promise, payload = _child(path, root), read_payload(input)
    return e.InvokeScheduled(promise, kind, name, payload, _read_policy(policy), undone, again, place)


def _receives(event: e.ExecutionAwaiting) -> Fields:
    return [[receive.name, receive.promise_id.path] for receive in event.receives]


def _read_awaiting(
    root: PromiseId, paths: list[list[int]], kind: KindField, receives: Sequence[tuple[str, list[int]]] = ()
) -> e.ExecutionAwaiting:
    waiting_on = tuple(_child(path, root) for path in paths)
    begun = tuple(e.Signal(name, _child(path, root)) for name, path in receives)
    return e.ExecutionAwaiting(waiting_on, _read_kind(kind, root), begun)


def _child(path: Iterable[int], root: PromiseId) -> PromiseId:
    return PromiseId(root.root, tuple(path))


def _set(path: Iterable[int], root: PromiseId) -> JoinSetId:
    return JoinSetId(_child(path, root))


_WRITERS: Final[dict[type[e.Event], Callable[..., Fields]]] = {
    e.ExecutionStarted: _started,
    e.ExecutionCompleted: lambda v: [payload_field(v.result)],
    e.ExecutionFailed: lambda v: _failure(v.error),
    e.CancelRequested: lambda v: [v.reason],
    e.ExecutionCancelled: lambda v: [v.reason],
    e.InvokeScheduled: lambda v: [
        v.promise_id.path,
        v.kind,
        v.function_name,
        payload_field(v.input),
        _policy(v.retry_policy),
        *([] if v.undoes is None and not v.again and v.place is None else [_undoes(v.undoes, v.promise_id), v.again]),
        *([] if v.place is None else [v.place]),
    ],
    e.InvokeStarted: lambda v: [v.promise_id.path, v.attempt, *([True] if v.begun_before else [])],
    e.InvokeCompleted: lambda v: [v.promise_id.path, _outcome(v.result), v.attempt],
    e.InvokeRetrying: lambda v: [v.promise_id.path, v.failed_attempt, _failure(v.error), v.retry_at],
    e.RandomGenerated: lambda v: [v.promise_id.path, v.value],
    e.TimeRecorded: lambda v: [v.promise_id.path, v.time],
    e.TimerScheduled: lambda v: [v.promise_id.path, v.duration, v.fire_at],
    e.TimerFired: lambda v: [v.promise_id.path],
    e.SignalDelivered: lambda v: [v.signal_name, payload_field(v.payload), v.delivery_id],
    e.SignalReceived: lambda v: [v.promise_id.path, v.signal_name, payload_field(v.payload), v.delivery_id],
    e.ExecutionAwaiting: lambda v: [
        [promise.path for promise in v.waiting_on],
        _kind(v.kind),
        *([_receives(v)] if v.receives else []),
    ],
    e.ExecutionResumed: lambda _: [],
    e.JoinSetCreated: lambda v: [v.join_set_id.position.path],
    e.JoinSetSubmitted: lambda v: [v.join_set_id.position.path, v.promise_id.path],
    e.JoinSetAwaited: lambda v: [v.join_set_id.position.path, v.promise_id.path, _outcome(v.result)],
}


_HOT_KINDS: Final = {kind: cbor.write(fields) for kind, fields in _KIND_FIELDS.items()}


@lru_cache(maxsize=4096)
def _path(path: tuple[int, ...]) -> bytes:
    return cbor.write(path)


def _hot_payload(payload: Payload) -> bytes:
    if payload.codec == CBOR and payload.blob is None:
        return cbor.data(payload.data)
    return cbor.write(payload_field(payload))


def _hot_outcome(outcome: Outcome) -> bytes:
    if type(outcome) is Ok:
        return b"\x82\xf5" + _hot_payload(outcome.value)
    return cbor.write(_outcome(outcome))


def _hot_scheduled(v: e.InvokeScheduled) -> bytes | None:
    if v.undoes is not None or v.again or v.place is not None:
        return None
    name = cbor.text(v.kind) + cbor.text(v.function_name)
    return _path(v.promise_id.path) + name + _hot_payload(v.input) + _hot_policy(v.retry_policy)


def _hot_awaiting(v: e.ExecutionAwaiting) -> bytes | None:
    if v.receives:
        return None
    paths = b"".join([_path(promise.path) for promise in v.waiting_on])
    return cbor.array(len(v.waiting_on)) + paths + (_HOT_KINDS.get(type(v.kind)) or cbor.write(_kind(v.kind)))


_FIELDS: Final[dict[type[e.Event], Callable[..., bytes | None]]] = {
    e.InvokeStarted: lambda v: None if v.begun_before else _path(v.promise_id.path) + cbor.integer(v.attempt),
    e.InvokeCompleted: lambda v: _path(v.promise_id.path) + _hot_outcome(v.result) + cbor.integer(v.attempt),
    e.InvokeScheduled: _hot_scheduled,
    e.ExecutionAwaiting: _hot_awaiting,
    e.ExecutionResumed: lambda _: b"",
    e.SignalDelivered: lambda v: cbor.text(v.signal_name) + _hot_payload(v.payload) + cbor.integer(v.delivery_id),
    e.SignalReceived: lambda v: (
        _path(v.promise_id.path) + cbor.text(v.signal_name) + _hot_payload(v.payload) + cbor.integer(v.delivery_id)
    ),
}

_HOT: Final = {
    kind: (
        cbor.array(2 + len(kind.__struct_fields__) - len(kind.__struct_defaults__)),
        cbor.text(kind.__name__),
        write,
    )
    for kind, write in _FIELDS.items()
}
"""The writers of the events of every step and of every signal: straight to bytes, without a list of fields. A writer
gives None where a field that is usually left out is set; then ``_WRITERS`` is used. A law test compares both ways."""

_READERS: Final[dict[str, Callable[..., e.Event]]] = {
    "ExecutionStarted": lambda f, _: _read_started(*f),
    "ExecutionCompleted": lambda f, _: e.ExecutionCompleted(read_payload(f[0])),
    "ExecutionFailed": lambda f, _: e.ExecutionFailed(Failure(*f)),
    "CancelRequested": lambda f, _: e.CancelRequested(*f),
    "ExecutionCancelled": lambda f, _: e.ExecutionCancelled(*f),
    "InvokeScheduled": lambda f, root: _read_scheduled(root, *f),
    "InvokeStarted": lambda f, root: e.InvokeStarted(_child(f[0], root), *f[1:]),
    "InvokeCompleted": lambda f, root: e.InvokeCompleted(_child(f[0], root), _read_outcome(f[1]), f[2]),
    "InvokeRetrying": lambda f, root: e.InvokeRetrying(_child(f[0], root), f[1], Failure(*f[2]), f[3]),
    "RandomGenerated": lambda f, root: e.RandomGenerated(_child(f[0], root), f[1]),
    "TimeRecorded": lambda f, root: e.TimeRecorded(_child(f[0], root), f[1]),
    "TimerScheduled": lambda f, root: e.TimerScheduled(_child(f[0], root), f[1], f[2]),
    "TimerFired": lambda f, root: e.TimerFired(_child(f[0], root)),
    "SignalDelivered": lambda f, _: e.SignalDelivered(f[0], read_payload(f[1]), f[2]),
    "SignalReceived": lambda f, root: e.SignalReceived(_child(f[0], root), f[1], read_payload(f[2]), f[3]),
    "ExecutionAwaiting": lambda f, root: _read_awaiting(root, *f),
    "ExecutionResumed": lambda _f, _root: e.ExecutionResumed(),
    "JoinSetCreated": lambda f, root: e.JoinSetCreated(_set(f[0], root)),
    "JoinSetSubmitted": lambda f, root: e.JoinSetSubmitted(_set(f[0], root), _child(f[1], root)),
    "JoinSetAwaited": lambda f, root: e.JoinSetAwaited(_set(f[0], root), _child(f[1], root), _read_outcome(f[2])),
}

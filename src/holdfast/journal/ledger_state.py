"""A ledger as bytes and back, for checkpoints: canonical CBOR, in which payloads are written as segments of events.

There is one way to write a ledger, so equal ledgers are equal bytes, and a hash over them means something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import cbor2
import msgspec

from holdfast.journal import cbor
from holdfast.journal import events as e
from holdfast.journal.blobs import hydrate, offload, references
from holdfast.journal.codec import decode_segment, encode_segment
from holdfast.journal.deliveries import Deliveries
from holdfast.journal.join_sets import JoinSetState
from holdfast.journal.ledger import Invocation, Ledger
from holdfast.journal.positions import Positions
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.status import Blocked, Cancelling

T = TypeVar("T")

Stamped = tuple[int, e.Event]


class State(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The base of the parts of a checkpoint. Each is written as a list of its fields, in their order."""


class _Call(State, frozen=True):
    position: int
    most_retries: int
    attempt: int
    retries: int
    completed: bool


class _Set(State, frozen=True):
    position: int
    submitted: int
    awaited: int
    members: list[int]
    consumed: list[int]


class _Settled(State, frozen=True):
    """Settled positions, and the settled promises that are no children of the run."""

    intervals: list[tuple[int, int]]
    others: list[tuple[bytes, list[int]]]


class _LedgerState(State, frozen=True):
    version: int
    edition: int
    cancel_requested: bool
    next_child: int
    unseen: bool
    resolved: _Settled
    undone: _Settled
    invocations: list[_Call]
    timers: list[tuple[int, int]]
    consumed: list[tuple[str, int]]  # by name, in the order of first deliveries: a next generation keeps it
    join_sets: list[_Set]
    receives: list[int]
    status: bytes  # the wait of a blocked run; no event for one that is being cancelled
    results: bytes  # of calls that a join set owns
    signals: bytes  # the buffered ones, each stamped with the version at its arrival


def write(state: State) -> bytes:
    """A part's fields as canonical CBOR."""
    return cbor.canonical(msgspec.to_builtins(state, builtin_types=(bytes,)))


def read(data: bytes, kind: type[T]) -> T:
    """Read a part from its bytes. Raises ValueError where ``write`` would not have written them."""
    try:
        value = cbor2.loads(data)
        if cbor.canonical(value) != data:
            raise ValueError("the bytes are not canonical")
        return msgspec.convert(value, kind)
    except (cbor2.CBORError, msgspec.ValidationError, TypeError) as error:
        raise ValueError(str(error)) from error


def write_events(stamped: list[Stamped], blobs: dict[bytes, bytes]) -> bytes:
    """Events as a segment. Large payloads are written as references: the journal has brought them into the store."""
    return encode_segment([(stamp, offload(event, blobs)) for stamp, event in stamped], 0)


def read_events(data: bytes, root: PromiseId, blobs: Mapping[bytes, bytes]) -> list[Stamped]:
    """Read events from a segment. Raises ValueError where a blob is missing, StoreCorrupt where the segment is bad."""
    stamped = [(entry.timestamp, hydrate(entry.event, blobs)) for entry in decode_segment(data, root, 0)]
    if any(references(event) for _, event in stamped):
        raise ValueError("a blob that it refers to is not there")
    return stamped


def write_ledger(ledger: Ledger, blobs: dict[bytes, bytes]) -> bytes:
    """The bytes of a ledger of the kernel, of a run that has begun and waits."""
    status = ledger.status
    wait: list[Stamped] = []
    if type(status) is Blocked:
        wait = [(0, e.ExecutionAwaiting(status.waiting_on, status.kind))]
    calls = sorted(ledger.invocations.items())
    results: list[Stamped] = [
        (0, e.InvokeCompleted(promise, call.result, call.attempt)) for promise, call in calls if call.result is not None
    ]
    signals: list[Stamped] = [
        (at, e.SignalDelivered(name, payload, delivery))
        for name, deliveries in ledger.signals.items()
        for delivery, (payload, at) in sorted(deliveries.buffered.items())
    ]
    state = _LedgerState(
        ledger.version,
        ledger.edition,
        ledger.cancel_requested,
        ledger.next_child,
        ledger.unseen,
        _settled(ledger.resolved),
        _settled(ledger.undone),
        [_Call(at(promise), c.most_retries, c.attempt, c.retries, c.completed) for promise, c in calls],
        [(at(promise), fire_at) for promise, fire_at in sorted(ledger.timers.items())],
        [(name, deliveries.consumed) for name, deliveries in ledger.signals.items()],
        [_set(join_set, state) for join_set, state in sorted(ledger.join_sets.open.items(), key=_position_of)],
        sorted(map(at, ledger.receives)),
        write_events(wait, blobs),
        write_events(results, blobs),
        write_events(signals, blobs),
    )
    return write(state)


def at(promise: PromiseId) -> int:
    """The position of a child."""
    return promise.path[-1]


def _position_of(item: tuple[JoinSetId, JoinSetState]) -> PromiseId:
    return item[0].position


def _set(join_set: JoinSetId, state: JoinSetState) -> _Set:
    members, consumed = sorted(map(at, state.members)), sorted(map(at, state.consumed))
    return _Set(at(join_set.position), state.submitted, state.awaited, members, consumed)


def _settled(positions: Positions) -> _Settled:
    others = [(promise.root, list(promise.path)) for promise in sorted(positions.others)]
    return _Settled([(start, end) for start, end in positions.intervals()], others)


def read_ledger(data: bytes, root: PromiseId, blobs: Mapping[bytes, bytes]) -> Ledger:
    """Read a ledger from its bytes. Raises ValueError or StoreCorrupt where they are not a ledger's."""
    state = read(data, _LedgerState)
    ledger = Ledger(root)
    ledger.version = state.version
    ledger.edition = state.edition
    ledger.cancel_requested = state.cancel_requested
    ledger.next_child = state.next_child
    ledger.unseen = state.unseen
    for positions, settled in ((ledger.resolved, state.resolved), (ledger.undone, state.undone)):
        positions.take_in(settled.intervals, [PromiseId(other, tuple(path)) for other, path in settled.others])
    for call in state.invocations:
        invocation = Invocation(call.most_retries, call.attempt, call.completed, call.retries)
        ledger.invocations[root.child(call.position)] = invocation
    ledger.timers.update((root.child(position), fire_at) for position, fire_at in state.timers)
    ledger.receives.update(map(root.child, state.receives))
    for each in state.join_sets:
        _read_set(ledger, each, root)
    ledger.signals.update((name, Deliveries(consumed)) for name, consumed in state.consumed)
    _read_payloads(ledger, state, root, blobs)
    return ledger


def _read_set(ledger: Ledger, written: _Set, root: PromiseId) -> None:
    join_set = JoinSetId(root.child(written.position))
    state = ledger.join_sets.open[join_set] = JoinSetState()
    state.submitted, state.awaited = written.submitted, written.awaited
    state.members.update(map(root.child, written.members))
    state.consumed.update(map(root.child, written.consumed))
    ledger.join_sets.owners.update(dict.fromkeys(state.members, join_set))


def _read_payloads(ledger: Ledger, state: _LedgerState, root: PromiseId, blobs: Mapping[bytes, bytes]) -> None:
    ledger.status = Cancelling()
    for _, wait in read_events(state.status, root, blobs):
        assert isinstance(wait, e.ExecutionAwaiting)
        ledger.status = Blocked(wait.waiting_on, wait.kind)
    for _, result in read_events(state.results, root, blobs):
        assert isinstance(result, e.InvokeCompleted)
        ledger.invocations[result.promise_id].result = result.result
    for version, signal in read_events(state.signals, root, blobs):
        assert isinstance(signal, e.SignalDelivered)
        ledger.signals[signal.signal_name].buffered[signal.delivery_id] = (signal.payload, version)

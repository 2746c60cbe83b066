"""The laws of the journal's bytes."""

from __future__ import annotations

from contextlib import suppress

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.cbor import Unfit, write
from holdfast.journal.codec import GENESIS, chain, decode_segment, encode_segment
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import Err, Failure, Ok, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.journal.render import line
from tests.laws.driver import finished
from tests.laws.programs import tree
from tests.volume import volume

ROOT = PromiseId(b"\7" * 32)

lawful = settings(deadline=None, print_blob=True, max_examples=volume(100, 200))

texts = st.text(max_size=8)
numbers = st.integers(0, 2**53)
promises = st.builds(lambda path: PromiseId(ROOT.root, tuple(path)), st.lists(st.integers(0, 2**32 - 1), max_size=3))
foreign = st.builds(lambda root, promise: PromiseId(root, promise.path), st.binary(min_size=32, max_size=32), promises)
join_sets = st.builds(JoinSetId, promises)
payloads = st.builds(
    Payload, st.binary(max_size=12), st.sampled_from(["cbor", "continued", "json"]), st.none() | st.binary(max_size=4)
)
failures = st.builds(Failure, texts, texts, texts)
outcomes = st.builds(Ok, payloads) | st.builds(Err, failures)
policies = st.builds(
    RetryPolicy,
    st.integers(1, 9),
    st.floats(0, 9),
    st.floats(1, 9),
    st.floats(0, 9),
    st.floats(0, 1),
    st.none() | st.floats(0.1, 9),
)
signals = st.builds(e.Signal, texts, promises)
kinds = st.sampled_from([e.Single(), e.Any(), e.All(), e.Open()]) | signals

events: st.SearchStrategy[e.Event] = st.one_of(
    st.builds(
        e.ExecutionStarted,
        texts,
        payloads,
        st.none() | foreign,
        texts,
        st.integers(0, 9),
        st.none() | payloads,
        st.lists(st.builds(e.Inherited, numbers, texts, st.binary(max_size=4)), max_size=2).map(tuple),
        st.none() | payloads,
        st.none() | payloads,
    ),
    st.builds(e.ExecutionCompleted, payloads),
    st.builds(e.ExecutionFailed, failures),
    st.builds(e.CancelRequested, texts),
    st.builds(e.ExecutionCancelled, texts),
    st.builds(e.InvokeScheduled, promises, texts, texts, payloads, policies, st.none() | promises | foreign),
    st.builds(e.InvokeStarted, promises, numbers, st.booleans()),
    st.builds(e.InvokeCompleted, promises, outcomes, numbers),
    st.builds(e.InvokeRetrying, promises, numbers, failures, numbers),
    st.builds(e.RandomGenerated, promises, st.binary(max_size=16)),
    st.builds(e.TimeRecorded, promises, numbers),
    st.builds(e.TimerScheduled, promises, numbers, numbers),
    st.builds(e.TimerFired, promises),
    st.builds(e.SignalDelivered, texts, payloads, numbers),
    st.builds(e.SignalReceived, promises, texts, payloads, numbers),
    st.builds(
        e.ExecutionAwaiting,
        st.lists(promises, max_size=3).map(tuple),
        kinds,
        st.lists(signals, max_size=2).map(tuple),
    ),
    st.builds(e.ExecutionResumed),
    st.builds(e.JoinSetCreated, join_sets),
    st.builds(e.JoinSetSubmitted, join_sets, promises),
    st.builds(e.JoinSetAwaited, join_sets, promises, outcomes),
)
stamped = st.lists(st.tuples(numbers, events), max_size=6)


@lawful
@given(stamped, numbers)
def test_every_segment_round_trips_in_canonical_bytes(turn: list[tuple[int, e.Event]], at: int) -> None:
    """What is read is what was written; writing it again gives the same, deterministic bytes; each line can be read."""
    segment = encode_segment(turn, at)
    entries = decode_segment(segment, ROOT, 0)
    assert [(entry.timestamp, entry.event) for entry in entries] == turn
    assert encode_segment([(entry.timestamp, entry.event) for entry in entries], at) == segment
    assert cbor2.dumps(cbor2.loads(segment), canonical=True) == segment
    assert all(line(entry.event) for entry in entries)


@lawful
@given(stamped, st.data())
def test_a_damaged_segment_is_refused_or_found_by_its_seal(
    turn: list[tuple[int, e.Event]], data: st.DataObject
) -> None:
    """Any flipped byte changes the seal; reading it gives StoreCorrupt or events, never another error."""
    segment = encode_segment(turn, 0)
    place = data.draw(st.integers(0, len(segment) - 1))
    damaged = bytearray(segment)
    damaged[place] ^= data.draw(st.integers(1, 255))
    assert chain(GENESIS, bytes(damaged)) != chain(GENESIS, segment)
    with suppress(StoreCorrupt):
        decode_segment(bytes(damaged), ROOT, 0)


def seal(entries: list[e.Entry]) -> bytes:
    sealed = GENESIS
    for entry in entries:
        sealed = chain(sealed, encode_segment([(entry.timestamp, entry.event)], entry.timestamp))
    return sealed


def renumbered(entries: list[e.Entry]) -> list[e.Entry]:
    return [e.Entry(index, entry.timestamp, entry.event) for index, entry in enumerate(entries)]


@settings(lawful, max_examples=volume(75, 150))
@given(st.integers(0, 2**32 - 1), st.integers(1, 14), st.data())
def test_a_tampered_journal_is_refused_or_found_by_its_seal(seed: int, size: int, data: st.DataObject) -> None:
    """One event dropped, doubled, swapped or altered: S-1 where numbers were kept, the seal where they were mended.

    Even a forger who mends the numbers gives a journal that the laws refuse, that replay refuses, or that is a lawful
    journal of another history; the seal tells that one apart.
    """
    run = finished(tree(seed, size), seed)
    original = run.journal
    place = data.draw(st.integers(0, len(original) - 2))
    forged = list(original)
    match data.draw(st.sampled_from(["drop", "double", "swap", "alter"])):
        case "drop":
            del forged[place]
        case "double":
            forged.insert(place, forged[place])
        case "swap":
            forged[place], forged[place + 1] = forged[place + 1], forged[place]
        case _:
            forged[place] = e.Entry(place, forged[place].timestamp, data.draw(events))
    if renumbered(forged) == original:  # two equal neighbours were swapped
        return
    assert seal(forged) != seal(original)
    if [entry.sequence for entry in forged] != list(range(len(forged))):
        assert _refused_by_the_laws(forged, run.id) == "S-1"
    with suppress(HoldfastError):
        run.rebuilt(renumbered(forged)).execution.program.close()


def _refused_by_the_laws(entries: list[e.Entry], root: PromiseId) -> str | None:
    ledger = Ledger(root)
    try:
        ledger.extend(entries)
    except HoldfastError as refused:
        return getattr(refused, "law", None)
    return None


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(max_size=80)
    | st.binary(max_size=300)
    | st.just({}),
    lambda inner: (
        st.lists(inner, max_size=30)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=40), inner, max_size=30)
    ),
    max_leaves=40,
)


@given(PLAIN)
def test_the_fast_writer_writes_what_the_library_writes(value: object) -> None:
    """Both writers give the same canonical bytes; the fast one refuses what it cannot write."""
    if _is_large(value):
        with pytest.raises(Unfit):
            write(value)
    else:
        assert write(value) == cbor2.dumps(value, canonical=True)


def _is_large(value: object) -> bool:
    """Whether the value holds an integer that does not fit into 64 bits."""
    if isinstance(value, dict):
        return any(map(_is_large, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_is_large, value))
    return isinstance(value, int) and not -(2**64) <= value < 2**64

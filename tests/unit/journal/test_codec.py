"""The bytes of a journal."""

from __future__ import annotations

import hashlib

import cbor2
import pytest

from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS, chain, decode_segment, encode_segment
from holdfast.journal.payload import Err, Failure, Payload, RetryPolicy
from tests.unit.journal.samples import FIRST_SAMPLES, RUN, SAMPLES

AT = 1_700_000_000_000_000


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_round_trips(event: e.Event) -> None:
    """An event is read back as it was written, with its sequence and its own time."""
    segment = encode_segment([(AT - 5, event)], AT)
    assert decode_segment(segment, RUN, 7) == [e.Entry(7, AT - 5, event)]


def test_the_samples_are_of_every_type() -> None:
    """A new event type needs a sample."""
    assert {type(event) for event in SAMPLES} == set(e.EVENTS)


def test_the_bytes_are_canonical() -> None:
    """Equal journals are equal bytes: writing what was read gives the same segment, in deterministic CBOR."""
    segment = encode_segment([(AT + index, event) for index, event in enumerate(SAMPLES)], AT)
    entries = decode_segment(segment, RUN, 0)
    assert encode_segment([(entry.timestamp, entry.event) for entry in entries], AT) == segment
    assert cbor2.dumps(cbor2.loads(segment), canonical=True) == segment


def test_the_bytes_are_for_ever() -> None:
    """Names and positions of fields never change: every sample has the digest that the first version gave it."""
    segment = encode_segment([(AT, event) for event in FIRST_SAMPLES], AT)
    assert hashlib.sha256(segment).hexdigest() == "62c13cc3ea177d2e6c3f04d9f1ba914e369afe63126234872d106cd55a13178b"


def test_a_segment_numbers_its_events_from_its_first_sequence() -> None:
    """S-1 across segments: the second begins where the first ended."""
    segment = encode_segment([(AT, event) for event in SAMPLES[:3]], AT)
    assert [entry.sequence for entry in decode_segment(segment, RUN, 40)] == [40, 41, 42]


def test_segments_chain() -> None:
    """A seal depends on every byte before it and on their order."""
    one, two = (encode_segment([(AT, event)], AT) for event in SAMPLES[:2])
    sealed = chain(chain(GENESIS, one), two)
    assert len(sealed) == 32
    assert sealed != chain(chain(GENESIS, two), one)
    assert sealed != chain(chain(GENESIS, one[:-1] + bytes([one[-1] ^ 1])), two)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff",
        b"\x00",
        cbor2.dumps([AT]),
        cbor2.dumps([AT, [[0]]]),
        cbor2.dumps([AT, [[0, "InvokeStarted"]]]),
        cbor2.dumps([AT, [["x", "ExecutionResumed"]]]),
        cbor2.dumps([AT, [[0, "ExecutionFailed", 1, 2, 3, 4, 5]]]),
        cbor2.dumps([AT, [[0, ["InvokeStarted"]]]]),
        cbor2.dumps({"at": AT}),
        encode_segment([(AT, SAMPLES[0])], AT)[:-1],
        encode_segment([(AT, SAMPLES[0])], AT) + b"\x00",
    ],
    ids=lambda data: data.hex()[:16] or "empty",
)
def test_damaged_bytes_are_refused(damaged: bytes) -> None:
    """The error for an unreadable segment names its place and the remedy."""
    with pytest.raises(StoreCorrupt, match=r"sequence 3 .*backup"):
        decode_segment(damaged, RUN, 3)


def test_an_unknown_event_says_to_upgrade() -> None:
    """A journal of a newer version is refused, never read in part."""
    with pytest.raises(StoreCorrupt, match=r"EventFromTheFuture.*upgrade"):
        decode_segment(cbor2.dumps([AT, [[0, "EventFromTheFuture"]]]), RUN, 0)


def test_what_a_call_says_of_its_attempts_and_what_an_error_tells_round_trips() -> None:
    """Members that were added later are read where they were written."""
    policy = RetryPolicy(on=("timeout", "transport"), attempt_timeout=2.5)
    failure = Failure("a:B", "c", "d", '{"status":404}')
    events = [
        e.InvokeScheduled(RUN.child(0), "step", "s", Payload(b"\xf6"), policy),
        e.InvokeRetrying(RUN.child(0), 1, failure, AT),
        e.InvokeCompleted(RUN.child(0), Err(failure), 2),
        e.ExecutionFailed(failure),
    ]
    segment = encode_segment([(AT, event) for event in events], AT)
    assert [entry.event for entry in decode_segment(segment, RUN, 0)] == events

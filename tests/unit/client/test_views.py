"""What is read from an engine has real types, and ``--json`` writes it as it always did."""

from __future__ import annotations

import datetime
import json

import cbor2
import pytest

from holdfast.client.views.journal import JournalEntry, entry_record, journal_entry
from holdfast.client.views.values import UnreadableValue, call_value, payload_value, plain, quoted
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Payload
from tests.unit.journal.samples import RUN, SAMPLES, at


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_is_json_with_its_fields_by_name(event: e.Event) -> None:
    """No event is left out or cut short: a script sees what the journal has."""
    record = json.loads(json.dumps(entry_record(journal_entry(e.Entry(7, 1_500_000, event))), allow_nan=False))
    assert (record["sequence"], record["time"], record["event"]) == (
        7,
        "1970-01-01T00:00:01.500000Z",
        type(event).__name__,
    )
    fields = {"recorded_time" if name == "time" else name for name in event.__struct_fields__}
    assert set(record) == {"sequence", "time", "event"} | fields


def test_promise_ids_are_text_and_times_are_iso() -> None:
    """Ids can be compared and times be read without knowing their encoding."""
    record = entry_record(journal_entry(e.Entry(0, 0, e.TimerScheduled(at(3), 1_500_000, 2_000_000))))
    assert record["promise_id"] == f"{RUN.root.hex()}.3"
    assert record["fire_at"] == "1970-01-01T00:00:02.000000Z"
    assert record["duration"] == 1_500_000


def test_an_entry_has_the_events_name_and_values_of_real_types() -> None:
    """Times are aware, lengths of time are lengths, bytes stay bytes; a program needs no codec and no event class."""
    timer = journal_entry(e.Entry(4, 1_500_000, e.TimerScheduled(at(3), 1_500_000, 2_000_000)))
    assert timer == JournalEntry(
        4,
        datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC),
        "TimerScheduled",
        {
            "promise_id": f"{RUN.root.hex()}.3",
            "duration": datetime.timedelta(seconds=1.5),
            "fire_at": datetime.datetime(1970, 1, 1, 0, 0, 2, tzinfo=datetime.UTC),
        },
        timer.text,
    )
    chance = journal_entry(e.Entry(5, 0, e.RandomGenerated(at(3), b"\x00\xff")))
    assert chance.fields["value"] == b"\x00\xff"
    ended = journal_entry(e.Entry(6, 0, e.InvokeCompleted(at(3), Ok(Payload(cbor2.dumps({"at": b"x"}))), 1)))
    assert ended.fields["result"] == {"ok": {"at": b"x"}}
    failed = journal_entry(e.Entry(6, 0, e.InvokeCompleted(at(3), Err(Failure("a:B", "no")), 1)))
    assert failed.fields["result"] == {"error": {"type": "a:B", "message": "no", "trace": ""}}


def test_a_calls_input_shows_its_arguments() -> None:
    """Arguments by position and by name."""
    assert call_value(Payload(b"\x82\x81\x18\x2a\xa1cfoo\xf5")) == {"args": [42], "kwargs": {"foo": True}}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (b"\x00\xff", {"$base64": "AP8="}),
        (float("inf"), {"$float": "inf"}),
        ({1: (2, {3})}, {"1": [2, [3]]}),
        (datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC), "2026-05-01T00:00:00+00:00"),
    ],
)
def test_what_json_lacks_is_written_all_the_same(value: object, written: object) -> None:
    """Any value that a payload can hold has a form in JSON."""
    assert plain(value) == written
    json.dumps(written, allow_nan=False)


def test_a_payload_that_is_no_data_is_shown_as_its_bytes() -> None:
    """Nothing that is stored makes a reading command fail."""
    for payload, value, written in (
        (Payload(b"\xff\x00"), UnreadableValue(b"\xff\x00"), {"$base64": "/wA="}),
        (Payload(b"x", "zip"), UnreadableValue(b"x", "zip"), {"$base64": "eA==", "codec": "zip"}),
        (Payload(b"", "cbor", b"\x11" * 32), UnreadableValue(b"", blob="11" * 32), {"$blob": "11" * 32}),
    ):
        assert payload_value(payload) == value
        assert plain(value) == written


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain text", "plain text"),
        ("a\nstatus  approved", '"a\\nstatus  approved"'),
        ({"a": [1]}, '{"a": [1]}'),
        (3, "3"),
    ],
)
def test_a_value_is_shown_on_one_line(value: object, shown: str) -> None:
    """A line break in a field cannot make a line that looks like one of ours."""
    assert quoted(value) == shown

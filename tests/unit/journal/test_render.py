"""Events as a person reads them."""

from __future__ import annotations

import cbor2
import pytest

from holdfast.journal import events as e
from holdfast.journal.payload import Failure, Payload, RetryPolicy
from holdfast.journal.render import WIDTH, line
from tests.unit.journal.samples import SAMPLES, at

LINES = [
    "started()",
    "started(1)",
    "completed → 1",
    "continued as new(5)",
    "completed → <blob 111111111111…>",
    "failed ✗ ValueError: no",
    "cancel requested: enough",
    "cancelled: enough",
    "step charge(42, foo=True) scheduled at #0",
    "#0 attempt 1 started",
    "#0 → 1",
    "#0 ✗ ValueError: no",
    "#0 attempt 1 failed, retrying: ValueError: no",
    "random abcd at #1",
    "time 1700000000000000 at #2",
    "timer of 1.5 s at #3",
    "timer #3 fired",
    "signal 'approval' #1 delivered: 1",
    "signal 'approval' #1 received at #4",
    "waiting for #0",
    "waiting for any of #0, #3",
    "waiting for all of #0, #3",
    "waiting for signal 'approval' (#4)",
    "resumed",
    "join set created at #5",
    "#0 submitted to join set #5",
    "#0 taken from join set #5",
    "started(1)",
    "started(1)",
    "started(1), with 5 signals that were not received before",
    "#0 attempt 1 started again",
    "step refund() scheduled at #1 to undo #0",
    "waiting for any of #0, #4 (signals 'approval' at #4)",
    "waiting for whatever is open (signals 'approval' at #4)",
]


@pytest.mark.parametrize(("event", "text"), list(zip(SAMPLES, LINES, strict=True)), ids=LINES)
def test_every_event_reads_as_one_line(event: e.Event, text: str) -> None:
    """Diffs, timelines and messages all use this line."""
    assert line(event) == text


def test_a_long_line_is_cut() -> None:
    """No value can flood a message, and none breaks the line."""
    text = line(e.ExecutionFailed(Failure("builtins:ValueError", "two\nlines " + "x" * 500)))
    assert "\n" not in text
    assert text.endswith("…")
    assert len(text) < WIDTH + 20


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (Payload(b"\xff\xff"), "completed → <2 bytes>"),
        (Payload(b"{}", "json"), "completed → <json, 2 bytes>"),
    ],
    ids=["damaged", "foreign"],
)
def test_a_payload_that_cannot_be_read_is_described(payload: Payload, text: str) -> None:
    """Rendering never fails: failures are explained with it."""
    assert line(e.ExecutionCompleted(payload)) == text


def test_a_run_that_waits_for_nothing_says_so() -> None:
    """The text for a wait that no arrival can end."""
    assert line(e.ExecutionAwaiting((), e.Any())) == "waiting for nothing"


def test_many_promises_are_cut_to_six() -> None:
    """A wait for a thousand steps is still one line."""
    assert line(e.ExecutionAwaiting(tuple(map(at, range(9))), e.All())).endswith("#4, #5, …")


def test_a_form_says_what_it_asks_for_of_whom_and_what_it_shows() -> None:
    """Not its schema: nobody reads that in a line."""
    form = {"type": "object", "properties": {"decision": {"enum": ["approve", "reject"]}, "note": {}}}
    terms = {"form": form, "groups": ["claims"], "candidates": ["ann"], "due": 172_800_000_000}
    question = Payload(cbor2.dumps([[{"total": 12.5}], terms]))
    scheduled = e.InvokeScheduled(at(0), "form", "Approve C-1", question, RetryPolicy())
    asks = "asks for decision (approve or reject), note, of group claims or ann; shows total=12.5"
    assert line(scheduled) == f"form Approve C-1 ({asks}) scheduled at #0"


@pytest.mark.parametrize("data", [b"\xff", cbor2.dumps([[1], {}]), cbor2.dumps("[not shown]")])
def test_a_form_that_cannot_be_read_is_shown_as_other_calls_are(data: bytes) -> None:
    assert "form Ask(" in line(e.InvokeScheduled(at(0), "form", "Ask", Payload(data), RetryPolicy())).replace(" (", "(")

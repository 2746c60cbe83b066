"""The table of a call's states at the gate, drawn a second time; and the calls of a run.

``tests/simulation`` counts which transitions the simulator reaches. The transitions that are too rare there are tested
here.
"""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from holdfast.errors import EngineError
from holdfast.gate.call import JUDGED, MOVING, TRANSITIONS, Call, CallEvent, CallState, next_state
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.promise import PromiseId
from holdfast.store.governance import CloseReceipt
from holdfast.tasks import answers as tasks
from tests.unit.gate.test_judgement import PROPOSAL, RECEIPT, approval

DRAWN = """
            news        unasked  doubted   checked  asked    decided     opened  probed   key_taken  key_freed
idle        due         -        checking  -        waiting  committing  -       -        -          -
due         due         idle     checking  -        waiting  committing  -       -        -          -
checking    checking    -        -         due      -        -           -       -        -          -
waiting     due         -        -         -        -        -           -       -        -          -
committing  committing  -        checking  -        -        -           acting  probing  blocked    -
blocked     blocked     -        checking  -        -        -           -       -        -          due
acting      acting      -        checking  -        -        -           -       -        -          -
probing     probing     -        checking  -        -        -           -       -        -          -
concluding  concluding  -        checking  -        -        -           -       -        -          -
abandoned   abandoned   -        -         -        -        -           -       -        -          -
over        over        -        -         -        -        -           -       -        -          -

            found       missed  failed  settled  abandoned  called_off  ended
idle        -           -       -       -        over       -           -
due         -           -       -       -        over       -           -
checking    -           -       -       -        over       -           -
waiting     -           -       -       -        over       -           -
committing  concluding  -       -       over     over       -           -
blocked     -           -       -       -        over       -           -
acting      -           -       idle    over     abandoned  over        -
probing     concluding  due     -       -        abandoned  -           -
concluding  -           -       -       over     over       -           -
abandoned   -           -       -       -        -          -           over
over        -           -       -       -        over       -           -
"""

PATHS: dict[CallState, tuple[CallEvent, ...]] = {
    "idle": (),
    "due": ("news",),
    "checking": ("doubted",),
    "waiting": ("asked",),
    "committing": ("decided",),
    "blocked": ("decided", "key_taken"),
    "acting": ("decided", "opened"),
    "probing": ("decided", "probed"),
    "concluding": ("decided", "probed", "found"),
    "abandoned": ("decided", "opened", "abandoned"),
    "over": ("decided", "settled"),
}
"""The events that bring a call into each state."""

APPROVAL = approval()
PROMISE = PromiseId(RECEIPT.root).child(RECEIPT.position)


def drawn() -> dict[tuple[str, str], str]:
    table = {}
    for block in DRAWN.strip().split("\n\n"):
        events, *rows = (line.split() for line in block.splitlines())
        for state, *following in rows:
            table.update(
                {(state, event): after for event, after in zip(events, following, strict=True) if after != "-"}
            )
    return table


def calls_in(state: CallState) -> RunCalls:
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    assert call.state == state
    return calls


def test_the_table_is_as_it_is_drawn() -> None:
    """A change of the table needs a change of the drawing, too."""
    table = {(state, event): after for state, row in TRANSITIONS.items() for event, after in row.items()}
    assert table == drawn()
    assert len(table) == 47


def test_the_table_knows_every_state_and_every_event() -> None:
    assert set(TRANSITIONS) == set(get_args(CallState)) == set(PATHS)
    assert {event for row in TRANSITIONS.values() for event in row} == set(get_args(CallEvent))


@pytest.mark.parametrize("state", get_args(CallState))
def test_an_event_that_a_state_does_not_have_is_an_error_of_the_engine(state: CallState) -> None:
    """The error names both, and the call stays as it is."""
    for event in get_args(CallEvent):
        if event in TRANSITIONS[state]:
            continue
        with pytest.raises(EngineError, match=f"that is {state} cannot be {event}"):
            next_state(state, event)


@pytest.mark.parametrize("state", get_args(CallState))
def test_news_makes_a_call_due_only_where_nothing_is_under_way(state: CallState) -> None:
    """A message may come in any state. A call that is under way is judged at its end, or needs no judgement."""
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    calls.move(call, "news")
    assert call.state == ("due" if state in ("idle", "due", "waiting") else state)


@pytest.mark.parametrize("state", get_args(CallState))
def test_a_run_knows_whether_its_calls_move_and_whether_they_need_a_turn(state: CallState) -> None:
    calls = calls_in(state)
    assert calls.is_moving == (state in MOVING)
    assert calls.wants_turn == (state == "due")
    assert (PROMISE in calls.calls) == (state != "over")


def test_only_a_call_with_nothing_under_way_is_judged() -> None:
    assert {state for state, row in TRANSITIONS.items() if "decided" in row} == JUDGED


@pytest.mark.parametrize("state", [state for state, row in TRANSITIONS.items() if row.get("abandoned") == "over"])
def test_an_abandoned_call_is_forgotten_unless_its_act_is_under_way(state: CallState) -> None:
    """It may be abandoned while it is checked, read or recorded: the result of that finds it over."""
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    calls.move(call, "abandoned")
    assert call.state == "over"
    assert not calls.calls
    assert not calls.is_moving


def test_another_call_may_record_the_outcome_of_a_probe_first() -> None:
    """Then the call is checked, and judged by the recorded outcome."""
    calls = calls_in("concluding")
    calls.move(calls.calls[PROMISE], "doubted")
    calls.move(calls.calls[PROMISE], "checked")
    assert calls.wants_turn


def test_a_taken_key_leads_to_the_recorded_result_or_to_a_check() -> None:
    """A large result is read first. The call's own attempt of unknown outcome is checked."""
    calls = calls_in("committing")
    calls.move(calls.calls[PROMISE], "found")
    calls.move(calls.calls[PROMISE], "settled")
    assert not calls.calls
    calls = calls_in("committing")
    calls.move(calls.calls[PROMISE], "doubted")
    assert calls.calls[PROMISE].state == "checking"


def test_a_call_that_waits_for_its_retry_keeps_its_facts() -> None:
    """The next attempt needs the approval."""
    calls = calls_in("due")
    call = calls.calls[PROMISE]
    call.learn_task(APPROVAL)
    calls.move(call, "unasked")
    assert not calls.wants_turn
    assert calls.call(PROMISE).approval == APPROVAL


def test_a_call_that_is_over_stays_while_it_has_an_open_task() -> None:
    """The turn that takes its outcome in cancels the task."""
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    call.learn_task(APPROVAL)
    calls.move(call, "decided")
    calls.move(call, "settled")
    assert calls.calls == {PROMISE: call}
    assert call.is_open
    call.learn_task(tasks.close(APPROVAL, "cancelled", 1))
    calls.move(call, "abandoned")
    assert not calls.calls


def test_a_newer_receipt_of_the_same_attempt_stays() -> None:
    """The store may not have the outcome yet that this worker knows."""
    call = RunCalls(0).call(PROMISE)
    known_receipt = msgspec.structs.replace(RECEIPT, state="failed")
    call.earlier = known_receipt
    call.learn_receipt(msgspec.structs.replace(RECEIPT, state="pending"))
    assert call.earlier == known_receipt
    call.learn_receipt(msgspec.structs.replace(RECEIPT, token="another", state="pending"))
    assert call.earlier.token == "another"


def test_a_call_is_one_write_with_the_failed_attempts_under_its_key_alone() -> None:
    """A retried run may come to another call at the place of one that failed: that is a write of its own."""
    for key, own in ((RECEIPT.key, True), ("another", False)):
        call = Call(PROMISE)
        call.proposal = msgspec.structs.replace(PROPOSAL, key=key)
        call.learn_receipt(msgspec.structs.replace(RECEIPT, state="failed"))
        assert call.known.own is own


def closing(state: str, error: str | None = None) -> CloseReceipt:
    return CloseReceipt(msgspec.structs.replace(RECEIPT, state=state, error=error))


@pytest.mark.parametrize(
    ("first", "second", "carried"),
    [
        (closing("succeeded"), closing("unknown"), closing("succeeded")),
        (closing("failed"), closing("unknown"), closing("failed")),
        (closing("unknown"), closing("succeeded"), closing("succeeded")),
        (closing("unknown", "no answer"), closing("unknown", "given up"), closing("unknown", "given up")),
    ],
)
def test_of_two_closings_of_one_attempt_a_commit_carries_one(
    first: CloseReceipt, second: CloseReceipt, carried: CloseReceipt
) -> None:
    """What is known stands, and of what is unknown the last word does."""
    calls = RunCalls(0)
    calls.carry(first)
    calls.carry(second)
    assert calls.take_closings() == (carried,)


def test_a_wait_for_people_is_never_shorter_than_nothing() -> None:
    """The clock of whoever answered may be behind that of whoever asked: no timer fires earlier because of that."""
    call = Call(PromiseId(b"\x01" * 32, (0,)))
    asked = approval()
    call.note_wait(msgspec.structs.replace(asked, created_at=100, closed_at=60))
    assert call.waited() == (0, False)
    call.note_wait(msgspec.structs.replace(asked, id="second", created_at=200, closed_at=230))
    assert call.waited() == (30, False)

"""The states of a call at the gate, drawn once more; and what a run has of its calls.

What the simulator reaches of the table is counted in ``tests/simulation``. What is too rare there is made here.
"""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from holdfast.errors import EngineError
from holdfast.gate.call import JUDGED, MOVING, TRANSITIONS, CallEvent, CallState, next_state
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.promise import PromiseId
from holdfast.tasks import answers as tasks
from tests.unit.gate.test_judgement import RECEIPT, approval

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
"""How a call comes into each state."""

APPROVAL = approval()
PROMISE = PromiseId(RECEIPT.root).child(RECEIPT.position)


def drawn() -> dict[tuple[str, str], str]:
    found = {}
    for block in DRAWN.strip().split("\n\n"):
        events, *rows = (line.split() for line in block.splitlines())
        for state, *following in rows:
            found.update(
                {(state, event): after for event, after in zip(events, following, strict=True) if after != "-"}
            )
    return found


def calls_in(state: CallState) -> RunCalls:
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    assert call.state == state
    return calls


def test_the_table_is_as_it_is_drawn() -> None:
    """Whoever changes the table changes the drawing, and sees what else must follow."""
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
    """A message may come in any state. What is under way ends in a judgement, or needs none."""
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    calls.move(call, "news")
    assert call.state == ("due" if state in ("idle", "due", "waiting") else state)


@pytest.mark.parametrize("state", get_args(CallState))
def test_a_run_knows_whether_its_calls_move_and_whether_they_want_a_turn(state: CallState) -> None:
    calls = calls_in(state)
    assert calls.is_moving == (state in MOVING)
    assert calls.wants_turn == (state == "due")
    assert (PROMISE in calls.calls) == (state != "over")


def test_only_a_call_with_nothing_under_way_is_judged() -> None:
    assert {state for state, row in TRANSITIONS.items() if "decided" in row} == JUDGED


@pytest.mark.parametrize("state", [state for state, row in TRANSITIONS.items() if row.get("abandoned") == "over"])
def test_an_abandoned_call_is_forgotten_unless_its_act_goes_on(state: CallState) -> None:
    """It may be abandoned while something is looked up, read or recorded, too: what comes of that finds it over."""
    calls = RunCalls(0)
    call = calls.call(PROMISE)
    for event in PATHS[state]:
        calls.move(call, event)
    calls.move(call, "abandoned")
    assert call.state == "over"
    assert not calls.calls
    assert not calls.is_moving


def test_what_a_probe_found_may_be_recorded_by_another_call_first() -> None:
    """Then the call is looked up, and judged by what is recorded."""
    calls = calls_in("concluding")
    calls.move(calls.calls[PROMISE], "doubted")
    calls.move(calls.calls[PROMISE], "checked")
    assert calls.wants_turn


def test_a_key_that_was_taken_leads_to_the_recorded_result_or_to_another_look() -> None:
    """A large result is read first; an attempt of the call's own, of unknown outcome, is looked up."""
    calls = calls_in("committing")
    calls.move(calls.calls[PROMISE], "found")
    calls.move(calls.calls[PROMISE], "settled")
    assert not calls.calls
    calls = calls_in("committing")
    calls.move(calls.calls[PROMISE], "doubted")
    assert calls.calls[PROMISE].state == "checking"


def test_a_call_that_nobody_asks_for_just_now_rests_with_what_is_known_of_it() -> None:
    """It waits for its retry: the next attempt must know the approval."""
    calls = calls_in("due")
    call = calls.calls[PROMISE]
    call.learn_task(APPROVAL)
    calls.move(call, "unasked")
    assert not calls.wants_turn
    assert calls.call(PROMISE).approval == APPROVAL


def test_a_call_that_is_over_stays_while_people_are_asked_about_it() -> None:
    """The turn that takes its outcome in withdraws the question."""
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


def test_of_the_same_attempt_what_is_known_here_stands() -> None:
    """The store may not know yet what this worker found out."""
    call = RunCalls(0).call(PROMISE)
    found_out = msgspec.structs.replace(RECEIPT, state="failed")
    call.earlier = found_out
    call.learn_receipt(msgspec.structs.replace(RECEIPT, state="pending"))
    assert call.earlier == found_out
    call.learn_receipt(msgspec.structs.replace(RECEIPT, token="another", state="pending"))
    assert call.earlier.token == "another"

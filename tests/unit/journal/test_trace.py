"""Reading and judging model traces: accepted ones, refused ones with their messages, and files that are no trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidRequest
from holdfast.journal.trace import TraceCheck, check_trace, render_verdict, verdict_to_json

UNIT: dict[str, list[object]] = {"#tup": []}
TRACES = Path(__file__).parent.parent.parent / "journals" / "model"


def number(value: int) -> dict[str, str]:
    return {"#bigint": str(value)}


def promise(*path: int) -> list[dict[str, str]]:
    return [number(part) for part in path]


def started() -> dict[str, Any]:
    fields = {"component_digest": "d", "input": "a", "parent_id": promise(2), "idempotency_key": "k"}
    return {"tag": "ExecutionStarted", "value": fields}


def timer(fire_at: int) -> dict[str, Any]:
    return {
        "tag": "TimerScheduled",
        "value": {"promise_id": promise(1, 0), "duration": number(1), "fire_at": number(fire_at)},
    }


FIRED = {"tag": "TimerFired", "value": {"promise_id": promise(1, 0)}}
COMPLETED = {"tag": "ExecutionCompleted", "value": {"result": "a"}}
CANCEL = {"tag": "CancelRequested", "value": {"reason": "r"}}
RUNNING = {"tag": "Running", "value": UNIT}


def awaiting(*paths: tuple[int, ...], kind: object = None) -> dict[str, Any]:
    waiting_on = {"#set": [promise(*path) for path in paths]}
    return {
        "tag": "ExecutionAwaiting",
        "value": {"waiting_on": waiting_on, "kind": kind or {"tag": "Any", "value": UNIT}},
    }


def blocked(*paths: tuple[int, ...]) -> dict[str, Any]:
    return {"tag": "Blocked", "value": awaiting(*paths)["value"]}


def journal(*events: object) -> list[Any]:
    return [
        {"sequence": number(index), "timestamp": number(index), "event": event} for index, event in enumerate(events)
    ]


def execution(events: list[Any], status: object = None) -> dict[str, Any]:
    return {
        "journal": events,
        "status": status or RUNNING,
        "nextChildSeq": number(0),
        "allocatedChildren": {"#set": []},
    }


def trace(*states: dict[str, Any]) -> dict[str, Any]:
    return {"#meta": {"format": "ITF"}, "vars": ["executions"], "states": list(states)}


def state(*executions: tuple[Any, Any]) -> dict[str, Any]:
    return {"executions": {"#map": [[key, value] for key, value in executions]}}


def one(events: list[Any], status: object = None) -> dict[str, Any]:
    return state((promise(1), execution(events, status)))


def check(*states: dict[str, Any]) -> list[TraceCheck]:
    return list(check_trace(json.dumps(trace(*states))))


def test_a_verdict_names_state_execution_and_the_models_status() -> None:
    """J-76: one verdict for each execution in each state, in the order of the trace."""
    done = {"tag": "Completed", "value": UNIT}
    first, second = one(journal(started())), one(journal(started(), COMPLETED), done)
    assert check(first, second) == [
        TraceCheck(0, (1,), accepted=True, status="Running", law=None),
        TraceCheck(1, (1,), accepted=True, status="Completed", law=None),
    ]


def test_a_verdict_in_json_has_exactly_its_five_fields() -> None:
    """The line that programs read: state, execution, accepted, status, law."""
    accepted = TraceCheck(3, (1,), accepted=True, status="Running", law=None)
    assert verdict_to_json(accepted) == (
        '{"state": 3, "execution": [1], "accepted": true, "status": "Running", "law": null}'
    )
    refused = TraceCheck(4, (1, 0), accepted=False, status=None, law="SE-4", detail="why")
    assert verdict_to_json(refused) == (
        '{"state": 4, "execution": [1, 0], "accepted": false, "status": null, "law": "SE-4"}'
    )


def test_a_refusal_says_which_event_broke_which_law_in_the_models_words() -> None:
    """The reader sees the model's ids, never the bytes that stand for them."""
    (verdict,) = check(one(journal(started(), timer(9), FIRED)))
    assert (verdict.accepted, verdict.status, verdict.law) == (False, None, "CF-1")
    assert verdict.detail == "event 2, TimerFired: [1, 0] fired at 2, before 9"
    assert render_verdict(verdict).startswith("state 0  execution [1]  refused   CF-1 (")


def test_an_acceptance_is_one_short_line() -> None:
    """What people read when all is well."""
    (verdict,) = check(one(journal(started())))
    assert render_verdict(verdict) == "state 0  execution [1]  accepted  Running"


def test_the_first_broken_law_stands_in_all_later_states() -> None:
    """A journal is append-only: once refused, what is appended to it cannot mend it."""
    broken = journal(started(), CANCEL, CANCEL)
    cancelling = {"tag": "Cancelling", "value": UNIT}
    verdicts = check(one(broken, cancelling), one([*broken, *journal(*[started()] * 3, FIRED)[3:]], cancelling))
    assert [verdict.law for verdict in verdicts] == ["S-7", "S-7"]


def test_a_journal_that_was_rewritten_is_judged_anew() -> None:
    """A state may hold another journal than the one before; nothing of the old fold may remain."""
    verdicts = check(one(journal(started(), FIRED)), one(journal(started())), one(journal(started(), timer(2), FIRED)))
    assert [verdict.law for verdict in verdicts] == ["CF-1", None, None]


def test_executions_do_not_see_each_other() -> None:
    """Each journal has its own ledger: one that is refused leaves its neighbours alone."""
    both = state((promise(1), execution(journal(started(), FIRED))), (promise(2), execution(journal(started()))))
    assert [(verdict.execution, verdict.law) for verdict in check(both)] == [((1,), "CF-1"), ((2,), None)]


@pytest.mark.parametrize(
    ("stored", "detail"),
    [
        (RUNNING, "the stored status is Running, that of the journal is Blocked"),
        (blocked((1, 0)), "the stored status is Blocked, but on other promises than in the journal"),
    ],
)
def test_a_stored_status_that_is_not_the_fold_breaks_inv_4(stored: object, detail: str) -> None:
    """INV-4: the status equals the fold, and so does its wait."""
    (verdict,) = check(one(journal(started(), awaiting((1, 0), (1, 1))), stored))
    assert (verdict.accepted, verdict.status, verdict.law) == (False, None, "INV-4")
    assert verdict.detail == detail


def test_a_wait_is_a_set_in_whatever_order_it_is_written() -> None:
    """Sets have no order; two files of one model may differ in it."""
    (verdict,) = check(one(journal(started(), awaiting((1, 0), (1, 1))), blocked((1, 1), (1, 0))))
    assert verdict.status == "Blocked"


def test_a_broken_law_comes_before_a_wrong_status() -> None:
    """The first law broken is that of the offending event; the stored status is looked at last."""
    (verdict,) = check(one(journal(started(), FIRED), blocked((1, 0))))
    assert verdict.law == "CF-1"


def test_numbers_may_be_plain_and_a_variable_may_carry_its_modules_name() -> None:
    """Tools write one format in slightly different ways."""
    plain = {"sequence": 0, "timestamp": 0, "event": {**started(), "value": {**started()["value"], "parent_id": []}}}
    text = json.dumps({"states": [{"journal::executions": {"#map": [[[1], execution([plain])]]}}]})
    assert [verdict.status for verdict in check_trace(text.encode())] == ["Running"]


def test_ids_of_different_executions_and_join_sets_stay_apart() -> None:
    """The model names join sets apart from promises: [4] in one execution is no child of it, and still a set."""
    created = {"tag": "JoinSetCreated", "value": {"join_set_id": promise(4)}}
    other = {"tag": "JoinSetSubmitted", "value": {"join_set_id": promise(5), "promise_id": promise(1, 0)}}
    own = {"tag": "JoinSetSubmitted", "value": {"join_set_id": promise(4), "promise_id": promise(1, 0)}}
    verdicts = check(one(journal(started(), created, own)), one(journal(started(), created, other)))
    assert [verdict.law for verdict in verdicts] == [None, "JS-1"]


def with_event(event: object) -> str:
    return json.dumps(trace(one(journal(started())), one(journal(started(), event))))


def with_status(status: object) -> str:
    return json.dumps(trace(one(journal(started()), status)))


AT_EVENT = "states[1].executions[1].journal[1].event"
BIG = "9" * 5_000

BAD = {
    "empty": ("", "line 1, column 1"),
    "truncated": (json.dumps(trace(one(journal(started()))))[:-40], "line 1, column"),
    "no JSON": ("module journal {\n}", "line 1, column 1"),
    "not UTF-8": (b'{"states": "\xff"}', "byte 12"),
    "too deep": ("[" * 100_000, "the beginning"),
    "a number beyond all bounds": (f'{{"states": {BIG}}}', "the beginning"),
    "a list": ("[]", "the beginning: expected an object with states, found a list"),
    "no states": ("{}", "states: expected a list of at least one state, found nothing"),
    "states that are none": ('{"states": {}}', "states: expected a list"),
    "another format": ('{"#meta": {"format": "JTF"}, "states": []}', "#meta.format: expected 'ITF', found 'JTF'"),
    "another model": ('{"states": [{"rows": 1}]}', "states[0]: there is no variable 'executions'"),
    "a state that is none": ('{"states": [7]}', "states[0]: expected a state, found 7"),
    "executions that are no map": ('{"states": [{"executions": {}}]}', "states[0].executions: expected a map"),
    "half an entry": ('{"states": [{"executions": {"#map": [[1]]}}]}', "states[0].executions.#map[0]: expected a key"),
    "an execution without id": (
        json.dumps(trace(state(([], execution([]))))),
        "states[0].executions.#map[0][0]: an id has at least one number",
    ),
    "an execution twice": (
        json.dumps(trace(state((promise(1), execution([])), (promise(1), execution([]))))),
        "states[0].executions.#map[1]: the execution [1] is there twice",
    ),
    "an execution without journal": (
        json.dumps(trace(state((promise(1), {"status": RUNNING})))),
        "states[0].executions[1]: the field 'journal' is missing",
    ),
    "an execution of another version": (
        json.dumps(trace(state((promise(1), {**execution([]), "epoch": 1})))),
        "states[0].executions[1]: unknown field 'epoch'",
    ),
    "a journal that is none": (
        json.dumps(trace(state((promise(1), {**execution([]), "journal": "x"})))),
        "states[0].executions[1].journal: expected a list, found 'x'",
    ),
    "an entry that is none": (
        json.dumps(trace(one([3]))),
        "states[0].executions[1].journal[0]: expected an object, found 3",
    ),
    "an unknown event": (with_event({"tag": "Napped", "value": UNIT}), f"{AT_EVENT}: unknown event 'Napped'"),
    "an event without tag": (with_event({"value": UNIT}), f"{AT_EVENT}: expected a tagged value"),
    "an event without its field": (
        with_event({"tag": "TimerFired", "value": {}}),
        f"{AT_EVENT}: the field 'promise_id' is missing",
    ),
    "an event with a field too many": (
        with_event({"tag": "CancelRequested", "value": {"reason": "r", "by": "x"}}),
        f"{AT_EVENT}: unknown field 'by'",
    ),
    "a field of another type": (
        with_event({"tag": "CancelRequested", "value": {"reason": 4}}),
        f"{AT_EVENT}.reason: expected a string, found 4",
    ),
    "a number that is none": (
        with_event({"tag": "InvokeStarted", "value": {"promise_id": promise(1, 0), "attempt": {"#bigint": "1.5"}}}),
        f"{AT_EVENT}.attempt: expected an integer, found an object",
    ),
    "a truth for a number": (
        with_event({"tag": "InvokeStarted", "value": {"promise_id": promise(1, 0), "attempt": True}}),
        f"{AT_EVENT}.attempt: expected an integer, found True",
    ),
    "a promise without id": (
        with_event({"tag": "TimerFired", "value": {"promise_id": []}}),
        f"{AT_EVENT}.promise_id: an id has at least one number",
    ),
    "half a character": (
        with_event({"tag": "CancelRequested", "value": {"reason": "\ud800"}}),
        f"{AT_EVENT}.reason: the string holds half of a character",
    ),
    "a wait on no set": (
        with_event({"tag": "ExecutionAwaiting", "value": {"waiting_on": [], "kind": {"tag": "Any"}}}),
        f"{AT_EVENT}.waiting_on: expected a set, found a list",
    ),
    "an unknown kind of await": (
        with_event(awaiting((1, 0), kind={"tag": "Most", "value": UNIT})),
        f"{AT_EVENT}.kind: unknown kind of await 'Most'",
    ),
    "an unknown kind of invocation": (
        with_event(
            {
                "tag": "InvokeScheduled",
                "value": {
                    "promise_id": promise(1, 0),
                    "kind": {"tag": "Telepathy", "value": UNIT},
                    "function_name": "f",
                    "input": "a",
                    "retry_policy": "p",
                },
            }
        ),
        f"{AT_EVENT}.kind: unknown kind of invocation 'Telepathy'",
    ),
    "an unknown status": (
        with_status({"tag": "Napping", "value": UNIT}),
        "states[0].executions[1].status: unknown status 'Napping'",
    ),
    "a block on nothing": (
        with_status({"tag": "Blocked", "value": UNIT}),
        "states[0].executions[1].status: the field 'kind' is missing",
    ),
}


@pytest.mark.parametrize(("text", "position"), BAD.values(), ids=BAD.keys())
def test_what_is_no_trace_is_refused_with_its_position(text: str | bytes, position: str) -> None:
    """Bad input gives the caller one clear error with the place, and no verdict at all."""
    with pytest.raises(InvalidRequest) as refused:
        check_trace(text)
    assert str(refused.value).startswith(f"not a trace of the journal model: at {position}")


def test_an_unreadable_event_is_an_error_even_behind_a_broken_law() -> None:
    """A trace is read to its end before it is judged: what cannot be read is never passed over."""
    with pytest.raises(InvalidRequest, match=r"journal\[2\]\.event: unknown event"):
        check_trace(json.dumps(trace(one(journal(started(), FIRED, {"tag": "Napped"})))))


def test_every_truncation_of_a_kept_trace_is_refused() -> None:
    """No cut leaves something that passes for a whole trace."""
    text = (TRACES / "lawful-signal.itf.json").read_text().rstrip()
    for end in range(0, len(text), 997):
        with pytest.raises(InvalidRequest, match="truncated"):
            check_trace(text[:end])

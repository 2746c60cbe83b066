"""The laws of the journal, each shown by a journal that keeps it and the one event that breaks it."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from holdfast.errors import LawBroken
from holdfast.journal import events as e
from holdfast.journal.laws import LAWS, MODEL_RETRY_BOUND
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import NOTHING, ONCE, Err, Ok, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId
from tests.unit.journal.samples import FAILURE, OTHER, POLICY, RUN, STARTED, VALUE, at, join

TIME = 1_000
OK = Ok(VALUE)


def scheduled(position: int, policy: RetryPolicy = POLICY) -> e.InvokeScheduled:
    return e.InvokeScheduled(at(position), "step", "charge", NOTHING, policy)


def undoing(position: int, undone: PromiseId) -> e.InvokeScheduled:
    return e.InvokeScheduled(at(position), "step", "refund", NOTHING, POLICY, undone)


def started(position: int, attempt: int = 1) -> e.InvokeStarted:
    return e.InvokeStarted(at(position), attempt)


def done(position: int, attempt: int = 1) -> e.InvokeCompleted:
    return e.InvokeCompleted(at(position), OK, attempt)


def retrying(position: int, attempt: int = 1) -> e.InvokeRetrying:
    return e.InvokeRetrying(at(position), attempt, FAILURE, TIME)


def delivered(number: int = 1) -> e.SignalDelivered:
    return e.SignalDelivered("go", VALUE, number)


def received(position: int, number: int = 1) -> e.SignalReceived:
    return e.SignalReceived(at(position), "go", VALUE, number)


WAIT = e.ExecutionAwaiting((at(0),), e.Single())
OPEN = e.ExecutionAwaiting((), e.Open())
RESUMED = e.ExecutionResumed()
CANCEL = e.CancelRequested("enough")
CANCELLED = e.ExecutionCancelled("enough")
COMPLETED = e.ExecutionCompleted(VALUE)
FAILED = e.ExecutionFailed(FAILURE)
TIMER = e.TimerScheduled(at(0), 10, TIME)
JOINED = [e.JoinSetCreated(join(0)), scheduled(1), e.JoinSetSubmitted(join(0), at(1))]
TWICE = [*JOINED, scheduled(2), e.JoinSetSubmitted(join(0), at(2)), started(1), done(1), started(2), done(2)]


def taken(position: int) -> e.JoinSetAwaited:
    return e.JoinSetAwaited(join(0), at(position), OK)


class Case(NamedTuple):
    law: str
    before: list[e.Event]
    breaking: e.Event


CASES = [
    Case("S-2", [], WAIT),
    Case("S-3", [STARTED, COMPLETED], COMPLETED),
    Case("S-3", [STARTED, FAILED], COMPLETED),
    Case("S-3", [STARTED, CANCEL, CANCELLED], FAILED),
    Case("S-4", [STARTED, COMPLETED], e.RandomGenerated(at(0), b"x")),
    Case("S-4", [STARTED, COMPLETED], delivered()),
    Case("S-5", [STARTED], CANCELLED),
    Case("S-6", [STARTED, scheduled(0), WAIT], COMPLETED),
    Case("S-6", [STARTED, scheduled(0), WAIT], FAILED),
    Case("S-7", [STARTED, CANCEL], CANCEL),
    Case("SE-1", [STARTED], started(0)),
    Case("SE-1", [STARTED, TIMER], started(0)),
    Case("SE-2", [STARTED, scheduled(0)], done(0)),
    Case("SE-2", [STARTED], done(0)),
    Case("SE-3", [STARTED, scheduled(0)], retrying(0)),
    Case("SE-3", [STARTED, scheduled(0), started(0)], retrying(0, 2)),
    Case("SE-4", [STARTED, scheduled(0), started(0), done(0)], started(0, 2)),
    Case("SE-4", [STARTED, scheduled(0), started(0), done(0)], retrying(0)),
    Case("SE-4", [STARTED, scheduled(0), started(0), done(0)], done(0)),
    Case("SE-4", [STARTED, *JOINED, started(1), done(1)], done(1)),
    Case("SE-5", [STARTED, scheduled(0, ONCE), started(0)], retrying(0)),
    Case("SE-5", [STARTED, scheduled(0), started(0), retrying(0), started(0, 2)], retrying(0, 2)),
    Case("CF-1", [STARTED], e.TimerFired(at(0))),
    Case("CF-1", [STARTED, TIMER, e.TimerFired(at(0))], e.TimerFired(at(0))),
    Case("CF-1", [STARTED, e.TimerScheduled(at(0), 10, TIME + 1)], e.TimerFired(at(0))),
    Case("CF-2", [STARTED], received(0)),
    Case("CF-2", [STARTED, delivered()], e.SignalReceived(at(0), "go", OTHER, 1)),
    Case("CF-2", [STARTED, delivered()], e.SignalReceived(at(0), "stop", VALUE, 1)),
    Case("CF-2", [STARTED, delivered()], received(0, 2)),
    Case("CF-3", [STARTED, delivered(), received(0)], received(1)),
    Case("CF-3", [STARTED, delivered(), delivered(2)], received(0, 2)),
    Case("CF-4", [STARTED], e.ExecutionAwaiting((at(0), at(1)), e.Signal("go", at(0)))),
    Case("CF-4", [STARTED], e.ExecutionAwaiting((at(1),), e.Signal("go", at(0)))),
    Case("JS-1", [STARTED, scheduled(0)], e.JoinSetSubmitted(join(5), at(0))),
    Case("JS-2", [STARTED, *TWICE, scheduled(3), taken(1)], e.JoinSetSubmitted(join(0), at(3))),
    Case("JS-3", [STARTED, *JOINED, scheduled(2), started(2), done(2)], taken(2)),
    Case("JS-4", [STARTED, *JOINED, started(1)], taken(1)),
    Case("JS-5", [STARTED, *TWICE, taken(1)], taken(1)),
    Case("JS-6", [STARTED, *JOINED, started(1), done(1), taken(1)], taken(1)),
    Case("JS-7", [STARTED, *JOINED, e.JoinSetCreated(join(2))], e.JoinSetSubmitted(join(2), at(1))),
    Case("K-1", [STARTED, scheduled(0)], scheduled(0)),
    Case("K-1", [STARTED, scheduled(3)], e.TimeRecorded(at(2), TIME)),
    Case("K-1", [STARTED], e.RandomGenerated(PromiseId(b"\1" * 32, (0,)), b"x")),
    Case("K-1", [STARTED], e.RandomGenerated(at(0).child(0), b"x")),
    Case("K-1", [STARTED], e.RandomGenerated(RUN, b"x")),
    Case("K-1", [STARTED], e.ExecutionAwaiting((RUN,), e.Single())),
    Case("K-1", [STARTED], e.ExecutionAwaiting((PromiseId(b"\1" * 32, (0,)),), e.Single())),
    Case("K-2", [STARTED, scheduled(0)], started(0, 2)),
    Case("K-2", [STARTED, scheduled(0), started(0)], started(0)),
    Case("K-2", [STARTED, scheduled(0), started(0)], done(0, 2)),
    Case("K-3", [STARTED], delivered(2)),
    Case("K-3", [STARTED, delivered()], delivered()),
    Case("K-4", [STARTED, *JOINED, started(1), done(1)], e.JoinSetAwaited(join(0), at(1), Ok(OTHER))),
    Case("K-4", [STARTED, *JOINED, started(1), done(1)], e.JoinSetAwaited(join(0), at(1), Err(FAILURE))),
    Case("K-5", [STARTED], RESUMED),
    Case("K-5", [STARTED, scheduled(0), WAIT], RESUMED),
    Case("K-5", [STARTED, scheduled(0), OPEN], RESUMED),
    Case("K-5", [STARTED, scheduled(0), scheduled(1), OPEN, started(0), done(0), RESUMED, OPEN], RESUMED),
    Case("K-6", [STARTED, scheduled(0), WAIT], scheduled(1)),
    Case("K-6", [STARTED, scheduled(0), WAIT], WAIT),
    Case("K-7", [STARTED, scheduled(0)], undoing(1, at(0))),
    Case("K-7", [STARTED], undoing(1, at(0))),
    Case("K-7", [STARTED, scheduled(0), started(0), done(0), undoing(1, at(0))], undoing(2, at(0))),
    Case("K-7", [STARTED, undoing(1, PromiseId(b"\1" * 32, (0,)))], undoing(2, PromiseId(b"\1" * 32, (0,)))),
]


def ledger_of(events: list[e.Event]) -> Ledger:
    ledger = Ledger(RUN)
    for event in events:
        ledger.append(event, TIME)
    return ledger


def state(ledger: Ledger) -> tuple[object, ...]:
    resolved = ledger.resolved.intervals()
    return (ledger.version, ledger.status, ledger.ended, ledger.cancel_requested, ledger.next_child, resolved)


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{case.law}-{type(case.breaking).__name__}-{n}" for n, case in enumerate(CASES)]
)
def test_a_journal_is_accepted_up_to_the_event_that_breaks_its_law(case: Case) -> None:
    """J-52 to J-72: the refusal names the law and its subject, and leaves the ledger unchanged."""
    ledger = ledger_of(case.before)
    before = state(ledger)
    with pytest.raises(LawBroken) as refused:
        ledger.append(case.breaking, TIME)
    assert refused.value.law == case.law
    assert state(ledger) == before


def test_every_law_of_a_single_journal_has_a_case() -> None:
    """S-1 has a test of its own; INV-4 and INV-6 span more than one journal."""
    assert {case.law for case in CASES} | {"S-1", "INV-4", "INV-6"} == set(LAWS)


@pytest.mark.parametrize("sequence", [0, 2])
def test_a_gap_or_a_repetition_breaks_s_1(sequence: int) -> None:
    """J-52: sequences are 0, 1, 2, …"""
    ledger = ledger_of([STARTED])
    with pytest.raises(LawBroken) as refused:
        ledger.extend([e.Entry(sequence, TIME, CANCEL)])
    assert refused.value.law == "S-1"
    ledger.extend([e.Entry(1, TIME, CANCEL)])
    assert ledger.version == 2


def test_the_version_is_the_number_of_events() -> None:
    """J-11: append-only, counted."""
    assert ledger_of([STARTED, *TWICE]).version == 1 + len(TWICE)


@pytest.mark.parametrize(
    "ending", [[COMPLETED], [FAILED], [CANCEL, CANCELLED], [CANCEL, COMPLETED], [CANCEL, FAILED]], ids=str
)
def test_each_way_to_end_is_accepted(ending: list[e.Event]) -> None:
    """A run that is asked to stop may still complete or fail."""
    assert ledger_of([STARTED, *ending]).ended


def test_retries_up_to_the_policy_are_accepted() -> None:
    """J-61: two attempts are one retry."""
    assert ledger_of([STARTED, scheduled(0), started(0), retrying(0), started(0, 2), done(0, 2)]).version == 6


def test_signals_are_consumed_in_order_and_the_rest_is_kept() -> None:
    """J-45: the next receive, or the next generation, gets the signals that were not consumed."""
    ledger = ledger_of([STARTED, delivered(), e.SignalDelivered("go", OTHER, 2), received(0)])
    assert ledger.oldest_unconsumed("go") == (2, OTHER)
    assert ledger.next_delivery("go") == 3
    assert ledger.signals.unconsumed() == [("go", OTHER)]
    assert ledger.oldest_unconsumed("stop") is None


def test_a_receive_that_was_given_up_leaves_a_gap() -> None:
    """K-1: positions rise; they need not touch."""
    assert ledger_of([STARTED, scheduled(0), scheduled(4)]).next_child == 5


def test_what_is_over_is_kept_as_intervals() -> None:
    """A long run costs memory for open promises only: a settled one just moves the end of an interval."""
    ledger = ledger_of([STARTED, e.TimerScheduled(at(0), 5, TIME + 5)])
    for turn in range(200):
        first = 1 + turn * 6
        members = e.JoinSetCreated(JoinSetId(at(first + 3)))
        of_set = (members.join_set_id, at(first + 4))
        for event in (
            e.TimeRecorded(at(first), TIME),
            e.RandomGenerated(at(first + 1), b"seed"),
            scheduled(first + 2),
            members,
            scheduled(first + 4),
            e.JoinSetSubmitted(*of_set),
            e.TimerScheduled(at(first + 5), 0, TIME),
            *[event for position in (first + 2, first + 4) for event in (started(position), done(position))],
            e.TimerFired(at(first + 5)),
            e.JoinSetAwaited(*of_set, OK),
        ):
            ledger.append(event, TIME)
    assert ledger.resolved.intervals() == [(1, 1201)]
    assert not ledger.invocations
    assert not ledger.join_sets.open
    assert not ledger.join_sets.owners
    assert list(ledger.timers) == [at(0)]


@pytest.mark.parametrize(
    ("law", "late"),
    [("SE-4", started(1)), ("SE-4", done(1)), ("SE-4", retrying(1)), ("CF-1", e.TimerFired(at(0))), ("JS-7", None)],
    ids=str,
)
def test_nothing_is_said_again_of_what_is_over(law: str, late: e.Event | None) -> None:
    """SE-4 and similar laws hold for promises that are kept only as an interval."""
    ledger = ledger_of([STARTED, e.TimerScheduled(at(0), 0, TIME), scheduled(1), started(1), done(1)])
    ledger.append(e.TimerFired(at(0)), TIME)
    if late is None:
        one, two = JoinSetId(at(2)), JoinSetId(at(3))
        for event in (e.JoinSetCreated(one), e.JoinSetCreated(two), scheduled(4), e.JoinSetSubmitted(one, at(4))):
            ledger.append(event, TIME)
        late = e.JoinSetSubmitted(two, at(4))
    with pytest.raises(LawBroken) as refused:
        ledger.append(late, TIME)
    assert refused.value.law == law


def test_a_join_set_that_is_over_takes_and_gives_nothing_more() -> None:
    """JS-2 and JS-6 hold for a set that the ledger has forgotten."""
    one = JoinSetId(at(0))
    taken = e.JoinSetAwaited(one, at(1), OK)
    member = [scheduled(1), e.JoinSetSubmitted(one, at(1)), started(1), done(1)]
    for law, late in (("JS-2", e.JoinSetSubmitted(one, at(1))), ("JS-6", taken)):
        ledger = ledger_of([STARTED, e.JoinSetCreated(one), *member, taken])
        with pytest.raises(LawBroken) as refused:
            ledger.append(late, TIME)
        assert refused.value.law == law


def _resubmitted(edition: int) -> list[e.Event]:
    """A call whose result was taken from one set, and what submits it to another."""
    first = e.ExecutionStarted("digest", VALUE, None, "run", edition)
    member = [*JOINED, started(1), done(1), taken(1), e.JoinSetCreated(join(2))]
    return [first, *member, e.JoinSetSubmitted(join(2), at(1))]


def test_a_call_belongs_to_its_set_for_good() -> None:
    """J-72b: also after its result was taken, and the ledger has forgotten the set."""
    *before, late = _resubmitted(2)
    ledger = ledger_of(before)
    for _ in range(2):  # a refusal leaves it as it was
        with pytest.raises(LawBroken, match="after its result was taken") as refused:
            ledger.append(late, TIME)
        assert refused.value.law == "JS-7"
        assert ledger.version == len(before)


@pytest.mark.parametrize("edition", [0, 1])
def test_an_older_journal_that_submits_a_call_twice_is_noted(edition: int) -> None:
    """J-72b: its run goes on as before."""
    ledger = ledger_of(_resubmitted(edition))
    assert [note.law for note in ledger.join_sets.notes] == ["JS-7"]


MODEL_CASES = [
    Case("SE-3", [STARTED, scheduled(0), started(0, 7)], retrying(0, 6)),
    Case(
        "SE-5",
        [STARTED, scheduled(0, ONCE), started(0), *[retrying(0)] * MODEL_RETRY_BOUND],
        retrying(0),
    ),
    Case("S-6", [STARTED, WAIT], COMPLETED),
]


@pytest.mark.parametrize("case", MODEL_CASES, ids=lambda case: case.law)
def test_a_model_trace_is_judged_without_the_kernels_own_laws(case: Case) -> None:
    """J-76: a trace of the formal model may number attempts and positions in any way; the model's laws still hold."""
    ledger = Ledger(RUN, strict=False, retry_bound=MODEL_RETRY_BOUND)
    for event in case.before:
        ledger.append(event, TIME)
    with pytest.raises(LawBroken) as refused:
        ledger.append(case.breaking, TIME)
    assert refused.value.law == case.law

"""Answers to tasks: who may give which answer when, and the task's next version."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidRequest, TaskClosed, TaskForbidden
from holdfast.store.governance import TaskAnswer, TaskRow
from holdfast.tasks import answers as tasks

NOW = 1_000


def task(**changes: Any) -> TaskRow:
    plain: dict[str, Any] = {
        "tenant": "acme",
        "id": "a-1",
        "run": "one",
        "generation": 0,
        "root": b"r" * 32,
        "position": 0,
        "kind": "approval",
        "status": "requested",
        "version": 1,
        "proposal": b"p",
        "summary": "pay",
        "details": b"\xa0",
        "tier": "med",
        "two_person": False,
        "candidates": (),
        "starter": "ann",
        "policy": "sha256:1",
        "rule": "r0",
        "created_at": 0,
        "expires_at": None,
    }
    return TaskRow(**{**plain, **changes})


OUTCOME = {"kind": "outcome", "id": "o-1"}
BOB = TaskAnswer("bob", tasks.APPROVED, "", 1)


@pytest.mark.parametrize(
    ("before", "verdict", "status"),
    [
        ({}, tasks.APPROVED, "approved"),
        ({}, tasks.REJECTED, "rejected"),
        (OUTCOME, tasks.HAPPENED, "approved"),
        (OUTCOME, tasks.DID_NOT_HAPPEN, "approved"),
        (OUTCOME, tasks.GIVEN_UP, "rejected"),
        ({"two_person": True}, tasks.APPROVED, "requested"),
        ({"two_person": True}, tasks.REJECTED, "rejected"),
        ({"two_person": True, "answers": (BOB,)}, tasks.APPROVED, "approved"),
        ({"two_person": True, "answers": (BOB,)}, tasks.REJECTED, "rejected"),
        ({"tier": "high"}, tasks.APPROVED, "approved"),
        ({"candidates": ("cid", "on-*")}, tasks.APPROVED, "approved"),
        ({"candidates": ("on-*", "c?d")}, tasks.APPROVED, "approved"),
        ({"expires_at": NOW + 1}, tasks.APPROVED, "approved"),
    ],
)
def test_the_next_version_after_an_answer(before: dict[str, Any], verdict: str, status: str) -> None:
    """It has the answer, and is closed where that decides it."""
    asked = task(**before)
    answered = tasks.answer(asked, "cid", verdict, "because", NOW, b"value")
    assert (answered.status, answered.version) == (status, asked.version + 1)
    assert answered.answers == (*asked.answers, TaskAnswer("cid", verdict, "because", NOW, b"value"))
    assert answered.closed_at == (None if status == "requested" else NOW)
    assert tasks.verdict_of(answered) == verdict


@pytest.mark.parametrize(
    ("before", "who", "verdict", "error", "why"),
    [
        ({"status": "approved", "answers": (BOB,)}, "cid", tasks.APPROVED, TaskClosed, "is approved by bob"),
        ({"status": "rejected", "answers": (BOB,)}, "cid", tasks.APPROVED, TaskClosed, "is rejected"),
        ({"status": "expired"}, "cid", tasks.APPROVED, TaskClosed, "is expired"),
        ({"status": "cancelled"}, "cid", tasks.REJECTED, TaskClosed, "is cancelled"),
        ({"expires_at": NOW}, "cid", tasks.APPROVED, TaskClosed, "has expired"),
        ({"expires_at": NOW}, "cid", tasks.REJECTED, TaskClosed, "has expired"),
        ({"candidates": ("bob", "on-*")}, "cid", tasks.APPROVED, TaskForbidden, "cid may not answer .* bob, on-"),
        ({"candidates": ("bob",)}, "cid", tasks.REJECTED, TaskForbidden, "may not answer"),
        ({"candidates": ("Cid",)}, "cid", tasks.APPROVED, TaskForbidden, "may not answer"),
        ({"delegated_to": "dan"}, "cid", tasks.APPROVED, TaskForbidden, "dan may"),
        ({"delegated_to": "dan", "candidates": ("cid", "dan")}, "cid", tasks.REJECTED, TaskForbidden, "dan may"),
        ({"delegated_to": "dan", "candidates": ("cid",)}, "dan", tasks.APPROVED, TaskForbidden, "cid may"),
        ({"tier": "high"}, "ann", tasks.APPROVED, TaskForbidden, "ann started the run, .*: another person must$"),
        ({"tier": "high", "delegated_to": "ann"}, "ann", tasks.APPROVED, TaskForbidden, "ann started the run"),
        ({"two_person": True, "answers": (BOB,)}, "bob", tasks.APPROVED, TaskForbidden, "second, different person"),
        ({}, "", tasks.APPROVED, InvalidRequest, "say who"),
        ({}, "  ", tasks.APPROVED, InvalidRequest, "say who"),
        ({"two_person": True, "answers": (BOB,)}, "bob ", tasks.APPROVED, InvalidRequest, "without blanks"),
        ({"tier": "high"}, "\u200bann", tasks.APPROVED, InvalidRequest, "say who"),
        ({"tier": "high"}, "Ann", tasks.APPROVED, TaskForbidden, "started the run"),
        ({"tier": "high", "starter": "zoë"}, "zoe\u0308", tasks.APPROVED, TaskForbidden, "started the run"),
        ({"tier": "high"}, "\uff41nn", tasks.APPROVED, TaskForbidden, "started the run"),
        ({"two_person": True, "answers": (BOB,)}, "BOB", tasks.APPROVED, TaskForbidden, "already"),
        ({**OUTCOME, "tier": "high"}, "ann", tasks.HAPPENED, TaskForbidden, "the outcome of an act of tier high"),
        ({**OUTCOME, "tier": "high"}, "ann", tasks.DID_NOT_HAPPEN, TaskForbidden, "the outcome of an act of tier high"),
        ({}, "cid", tasks.HAPPENED, InvalidRequest, "'approved' or 'rejected', not 'happened'"),
        (OUTCOME, "cid", tasks.APPROVED, InvalidRequest, "'happened' or 'did not happen' or 'given up'"),
        ({}, "cid", "perhaps", InvalidRequest, "not 'perhaps'"),
    ],
)
def test_answers_that_are_refused(
    before: dict[str, Any], who: str, verdict: str, error: type[Exception], why: str
) -> None:
    """The wrong person, the wrong time, the wrong answer, or the same person a second time."""
    with pytest.raises(error, match=why):
        tasks.answer(task(**before), who, verdict, "", NOW)


@pytest.mark.parametrize(
    ("before", "who", "verdict"),
    [
        ({"tier": "high"}, "ann", tasks.REJECTED),
        ({"tier": "med"}, "ann", tasks.APPROVED),
        (OUTCOME, "ann", tasks.HAPPENED),
        ({"delegated_to": "dan", "candidates": ("ann",), "tier": "med"}, "ann", tasks.APPROVED),
        ({**OUTCOME, "tier": "high"}, "ann", tasks.GIVEN_UP),
        ({"tier": "high", "starter": None}, "ann", tasks.REJECTED),
        ({**OUTCOME, "tier": "high", "starter": None}, "ann", tasks.GIVEN_UP),
    ],
)
def test_answers_that_the_starter_may_give(before: dict[str, Any], who: str, verdict: str) -> None:
    """At tier high, only an answer that lets the act be done, or count as done, must come from another person."""
    assert tasks.answer(task(**before), who, verdict, "", NOW).closed_at == NOW


@pytest.mark.parametrize(
    ("before", "verdict"),
    [({}, tasks.APPROVED), (OUTCOME, tasks.HAPPENED), (OUTCOME, tasks.DID_NOT_HAPPEN)],
)
def test_nobody_may_let_an_act_of_tier_high_be_done_where_the_starter_is_unknown(
    before: dict[str, Any], verdict: str
) -> None:
    """Anyone may be the starter. The task cannot be delegated either."""
    asked = task(**{**before, "tier": "high", "starter": None})
    with pytest.raises(TaskForbidden, match=r"nobody knows who started the run.* start the run with actor="):
        tasks.answer(asked, "bob", verdict, "", NOW)
    with pytest.raises(TaskForbidden, match="nobody knows who started the run"):
        tasks.delegate(asked, "bob", "cid", "", NOW)


def test_the_holder_is_the_same_person_in_the_spelling_of_older_versions() -> None:
    """Older versions took an invisible character as a part of the name; nobody could give that name now."""
    assert tasks.answer(task(delegated_to="cid\ufe0f"), "cid", tasks.APPROVED, "", NOW).status == "approved"


@pytest.mark.parametrize("odd", [None, 7, b"fine"], ids=repr)
def test_a_value_that_is_no_text_is_refused(odd: Any) -> None:
    """It would be stored, and could never be read again."""
    with pytest.raises(InvalidRequest, match="the reason is a text"):
        tasks.answer(task(), "bob", tasks.APPROVED, odd, NOW)
    with pytest.raises(InvalidRequest, match="the reason is a text"):
        tasks.delegate(task(), "bob", "cid", odd, NOW)
    with pytest.raises(InvalidRequest, match="say who"):
        tasks.answer(task(), odd, tasks.APPROVED, "", NOW)
    with pytest.raises(InvalidRequest, match="say to whom"):
        tasks.delegate(task(), "bob", odd, "", NOW)


def test_delegation_changes_the_holder_and_approves_nothing() -> None:
    """Only the named person may answer it, and delegate it again."""
    delegated = tasks.delegate(task(two_person=True), "bob", "cid", "she knows", NOW)
    assert (delegated.status, delegated.version, delegated.delegated_to) == ("requested", 2, "cid")
    assert delegated.answers == (TaskAnswer("bob", "delegated to cid", "she knows", NOW),)
    with pytest.raises(TaskForbidden, match="cid may"):
        tasks.answer(delegated, "bob", tasks.APPROVED, "", NOW)
    further = tasks.delegate(delegated, "cid", "dan", "", NOW)
    assert tasks.answer(further, "dan", tasks.REJECTED, "", NOW).status == "rejected"


def test_after_the_first_of_two_approvals_any_other_candidate_may_give_the_second() -> None:
    """Even after a delegation: the first person must not choose the second."""
    delegated = tasks.delegate(task(two_person=True, candidates=("b*", "c*", "dan")), "bob", "cid", "", NOW)
    once = tasks.answer(delegated, "cid", tasks.APPROVED, "", NOW)
    assert (once.status, once.delegated_to) == ("requested", None)  # bob has not approved
    with pytest.raises(TaskForbidden, match="second, different person"):
        tasks.answer(once, "cid", tasks.APPROVED, "", NOW)
    assert tasks.answer(once, "dan", tasks.APPROVED, "", NOW).status == "approved"
    assert tasks.answer(once, "bob", tasks.APPROVED, "", NOW).status == "approved"


@pytest.mark.parametrize(
    ("before", "who", "to", "error", "why"),
    [
        ({}, "bob", " ", InvalidRequest, "say to whom"),
        ({}, "bob", "cid ", InvalidRequest, "say to whom"),
        ({}, "bob", "c*", InvalidRequest, r"'c\*' is a pattern, and a task goes to one person: give their name"),
        ({}, "bob", "ci?", InvalidRequest, "is a pattern"),
        (OUTCOME, "bob", "[c]id", InvalidRequest, "is a pattern"),
        ({}, "", "cid", InvalidRequest, "say who"),
        ({"candidates": ("bob",)}, "cid", "cid", TaskForbidden, "cid may not answer"),
        ({"status": "approved"}, "bob", "cid", TaskClosed, "is approved"),
        ({"expires_at": NOW}, "bob", "cid", TaskClosed, "has expired"),
        (
            {"candidates": ("bob", "on-*")},
            "bob",
            "cid",
            TaskForbidden,
            "delegate it to one of its candidates, bob, on-",
        ),
        ({"candidates": ("bob",), "delegated_to": "cid"}, "cid", "dan", TaskForbidden, "cid may not answer"),
        ({"tier": "high"}, "bob", "ann", TaskForbidden, "ann started the run, .*: name another person"),
        ({"two_person": True, "answers": (BOB,)}, "cid", "bob", TaskForbidden, "bob has approved .*: name a second"),
        ({"two_person": True, "answers": (BOB,)}, "bob", "bob", TaskForbidden, "bob has approved"),
    ],
)
def test_delegation_evades_no_rule(before: dict[str, Any], who: str, to: str, error: type[Exception], why: str) -> None:
    """Only a person who may answer can delegate it, and only to somebody who may approve it anyway."""
    with pytest.raises(error, match=why):
        tasks.delegate(task(**before), who, to, "", NOW)


@pytest.mark.parametrize(
    ("before", "who", "to"),
    [
        ({"candidates": ("bob", "on-*")}, "bob", "on-7"),
        ({"tier": "high"}, "ann", "bob"),
        ({"tier": "med"}, "bob", "ann"),
        (OUTCOME, "bob", "ann"),
        ({"two_person": True, "answers": (BOB,)}, "bob", "cid"),
    ],
)
def test_people_to_whom_a_task_can_be_delegated(before: dict[str, Any], who: str, to: str) -> None:
    """To everybody who may answer. The starter of the run may delegate it, and so may an approver."""
    assert tasks.delegate(task(**before), who, to, "", NOW).delegated_to == to


@pytest.mark.parametrize(
    ("changes", "expired"),
    [
        ({"expires_at": None}, False),
        ({"expires_at": NOW + 1}, False),
        ({"expires_at": NOW}, True),
        ({"expires_at": NOW - 1}, True),
        ({"expires_at": NOW, "status": "approved"}, False),
        ({"expires_at": NOW, "status": "expired"}, False),
    ],
)
def test_the_time_of_expiry(changes: dict[str, Any], expired: bool) -> None:
    """From its time on, and only while the task is open."""
    assert tasks.is_expired(task(**changes), NOW) is expired


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_a_task_is_closed_without_an_answer(status: Any) -> None:
    """By its expiry, or because its run ends."""
    closed = tasks.close(task(), status, NOW)
    assert (closed.status, closed.version, closed.closed_at, closed.answers) == (status, 2, NOW, ())
    assert tasks.verdict_of(closed) == status


def test_each_question_has_another_id() -> None:
    """Call, generation, kind, proposal and serial: each of them changes the id."""
    base: tuple[Any, ...] = ("p.0", 0, "approval", b"x", 0)
    others: list[tuple[Any, ...]] = [
        ("p.1", *base[1:]),
        ("p.0", 1, *base[2:]),
        ("p.0", 0, "outcome", *base[3:]),
        ("p.0", 0, "approval", b"y", 0),
        (*base[:4], 1),
    ]
    names = {tasks.task_id(*each) for each in (base, *others)}
    assert len(names) == 6
    assert tasks.task_id(*base) == tasks.task_id(*base)

"""The table of a task's states, the people who may answer, and the timers."""

from __future__ import annotations

import cbor2
import pytest
from msgspec.structs import replace

from holdfast.errors import InvalidAnswer, InvalidRequest, TaskClosed, TaskForbidden
from holdfast.store.governance import Escalation, TaskRow
from holdfast.tasks import answers, eligibility, forms, timers

SCHEMA = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}

TASK = TaskRow(
    tenant="default",
    id="f-1",
    run="one",
    generation=0,
    root=b"root",
    position=0,
    kind="form",
    status="requested",
    version=1,
    proposal=b"asked",
    summary="review claim",
    details=cbor2.dumps({"shown": {}}),
    tier="",
    two_person=False,
    candidates=("ann", "b*"),
    starter="fred",
    policy="",
    rule=None,
    created_at=0,
    expires_at=100,
    form=cbor2.dumps(SCHEMA),
    groups=("claims",),
    excluded=("Fred", "bert"),
    due_at=50,
    reminders=(10, 20),
    escalation=Escalation(("lea",), ("leads",)),
)


def test_closed_states_have_no_next_state_and_every_answer_closes() -> None:
    """No event leads out of a closed state, and each event leads to a state of the table."""
    for state, events in answers.TRANSITIONS.items():
        assert bool(events) == (state in ("offered", "owned"))
        assert set(events.values()) <= set(answers.TRANSITIONS)
    for subject in answers.ANSWERS.values():
        for answer in subject:
            assert not answers.TRANSITIONS[answers.TRANSITIONS["owned"][answer]]


@pytest.mark.parametrize(
    ("who", "groups", "may"),
    [
        ("ann", (), True),
        ("bob", (), True),
        ("cy", (), False),
        ("cy", ("claims",), True),
        ("cy", ("leads",), False),
        ("lea", (), False),
        ("bert", (), False),
        ("ＢＥＲＴ", ("claims",), False),
        ("fred", ("claims",), False),
    ],
)
def test_candidates_and_groups_may_answer_and_excluded_people_may_not(
    who: str, groups: tuple[str, ...], may: bool
) -> None:
    """In any spelling of the name, and in any group."""
    assert eligibility.is_candidate(TASK, who, groups) is may


def test_escalation_adds_people_and_changes_nothing_else() -> None:
    """The owner stays, and excluded people stay excluded."""
    owned = answers.claim(TASK, "ann", "", 1)
    (task, event) = timers.elapse(replace(owned, reminded=2), 60) or (TASK, "")
    assert (event, task.escalated_at, task.owner, task.candidates) == ("escalated", 60, "ann", TASK.candidates)
    assert eligibility.is_candidate(task, "lea")
    assert eligibility.is_candidate(task, "cy", ["leads"])
    assert not eligibility.is_candidate(task, "bert", ["leads"])


def test_only_the_holder_of_a_task_may_answer_until_it_is_released() -> None:
    """After a claim, an assignment or a delegation. A second claim by the holder changes nothing."""
    claimed = answers.claim(TASK, "ann", "", 1)
    assert (answers.state_of(claimed), claimed.owner, claimed.version) == ("owned", "ann", 2)
    assert answers.claim(claimed, "Ann", "", 2) is claimed
    for refused in (answers.claim, answers.release):
        with pytest.raises(TaskForbidden, match="ann"):
            refused(claimed, "bob", "", 2)
    released = answers.release(claimed, "ann", "", 2)
    assert (answers.state_of(released), released.owner) == ("offered", None)
    with pytest.raises(InvalidRequest, match="has no holder"):
        answers.release(released, "ann", "", 3)
    assigned = answers.assign(claimed, "anyone", "cy", "", 3, ["claims"])
    assert (assigned.owner, assigned.answers[-1].verdict) == ("cy", "assigned to cy")
    assert answers.answer(assigned, "cy", "completed", "", 4, b"").status == "completed"
    delegated = answers.delegate(claimed, "ann", "bob", "", 3)
    assert (delegated.owner, eligibility.holder_of(delegated)) == (None, "bob")
    with pytest.raises(TaskForbidden, match="bob may"):
        answers.answer(delegated, "ann", "completed", "", 4, b"")


def test_a_task_cannot_be_passed_to_an_excluded_person() -> None:
    """An excluded person may not assign it either."""
    with pytest.raises(TaskForbidden, match="excluded"):
        answers.delegate(TASK, "ann", "bert", "", 1, to_groups=["claims"])
    with pytest.raises(TaskForbidden, match="excluded"):
        answers.assign(TASK, "ann", "fred", "", 1, ["claims"])
    with pytest.raises(TaskForbidden, match="excluded"):
        answers.assign(TASK, "fred", "ann", "", 1)
    with pytest.raises(TaskForbidden, match="delegate it to one of its candidates"):
        answers.delegate(TASK, "ann", "cy", "", 1)


def test_timers_come_in_order_and_end_with_the_task() -> None:
    """Reminders, then the escalation, then expiry; a closed task has no timer."""
    assert timers.next_time(TASK) == 10
    assert timers.elapse(TASK, 9) is None
    once, _ = timers.elapse(TASK, 10) or (TASK, "")
    assert (once.reminded, once.reminded_at, timers.next_time(once)) == (1, 10, 20)
    both, event = timers.elapse(TASK, 30) or (TASK, "")
    assert (both.reminded, event, timers.next_time(both)) == (2, "reminded", 50)
    escalated, event = timers.elapse(both, 50) or (TASK, "")
    assert (event, timers.next_time(escalated)) == ("escalated", 100)
    assert timers.elapse(TASK, 100) is None
    with pytest.raises(TaskClosed, match="expired"):
        answers.answer(TASK, "ann", "completed", "", 100, b"")
    assert timers.next_time(answers.close(TASK, "expired", 100)) is None


@pytest.mark.parametrize(
    ("changes", "stuck"),
    [
        ({"groups": ()}, False),
        ({"groups": (), "candidates": ("bert", "FRED")}, True),
        ({"groups": (), "candidates": ("bert",), "escalated_at": 1}, False),
        ({"candidates": ("bert",)}, False),
        ({"groups": (), "candidates": ()}, False),
        ({"groups": (), "candidates": ("bert",), "status": "completed"}, False),
        ({"kind": "approval", "groups": (), "candidates": (), "tier": "high", "starter": None}, True),
        ({"kind": "approval", "groups": (), "candidates": ("gus",), "tier": "high", "starter": "gus"}, True),
    ],
)
def test_a_task_that_nobody_can_answer_is_found(changes: dict[str, object], stuck: bool) -> None:
    """As far as people are known by name."""
    assert eligibility.is_unanswerable(replace(TASK, **changes)) is stuck


def test_every_problem_of_an_answer_has_its_place() -> None:
    """A pointer escapes special characters of names. A form must not refer to anything outside."""
    schema = {"type": "object", "properties": {"a/b~c": {"type": "array", "items": {"type": "integer"}}}}
    assert [place for place, _ in forms.problems(schema, {"a/b~c": [1, "x", None]})] == ["/a~1b~0c/1", "/a~1b~0c/2"]
    with pytest.raises(InvalidAnswer, match="stays open"):
        forms.check_answer(TASK, {})
    with pytest.raises(InvalidRequest, match="no form to complete"):
        forms.check_answer(replace(TASK, kind="outcome"), {})
    with pytest.raises(InvalidRequest, match="no JSON Schema"):
        forms.check_form({"$ref": "https://example.org/form"})

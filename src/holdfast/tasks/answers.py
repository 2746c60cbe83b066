"""The states of a task, and the answers that change them.

``TRANSITIONS`` is the law: state, event, next state. Everything that changes a task's state reads it. A task is open
while it is offered or owned; its row has the status ``requested`` for both, and the name of its holder. Events come
from people (an answer, a claim), from time (a reminder, an escalation, expiry) and from the run (cancelled). The
possible answers depend on the subject: see ``ANSWERS``.

Two-person approvals need two different people. A task can be passed to one person by name, by assignment or by
delegation, and only that person may answer it then. It can be passed only to somebody who may answer it anyway, so the
rules still hold. ``eligibility`` decides who may answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Final, Literal

import cbor2
import msgspec

from holdfast.errors import InvalidRequest, TaskClosed, TaskForbidden
from holdfast.people.names import NAME, is_name, person
from holdfast.store.governance import TaskAnswer, TaskKind, TaskRow, TaskStatus
from holdfast.store.receipts import ReceiptRow
from holdfast.tasks.eligibility import (
    APPROVED,
    approvers,
    describe_people,
    holder_of,
    is_barred,
    is_candidate,
    is_excluded,
    is_pattern,
)

REJECTED: Final = "rejected"
HAPPENED: Final = "happened"
DID_NOT_HAPPEN: Final = "did not happen"
GIVEN_UP: Final = "given up"
COMPLETED: Final = "completed"
CLAIMED: Final = "claimed"
RELEASED: Final = "released"
ASSIGNED: Final = "assigned"
DELEGATED: Final = "delegated"
REMINDED: Final = "reminded"
ESCALATED: Final = "escalated"
EXPIRED: Final = "expired"
CANCELLED: Final = "cancelled"
ONE_OF_TWO: Final = "approved by one of two"

Tier = Literal["low", "med", "high"]
State = Literal["offered", "owned", "approved", "rejected", "completed", "expired", "cancelled"]

_ALWAYS: Final[dict[str, State]] = {
    ASSIGNED: "owned",
    DELEGATED: "owned",
    ONE_OF_TWO: "offered",  # the second may be any other candidate
    APPROVED: "approved",
    REJECTED: "rejected",
    HAPPENED: "approved",
    DID_NOT_HAPPEN: "approved",
    GIVEN_UP: "rejected",
    COMPLETED: "completed",
    EXPIRED: "expired",
    CANCELLED: "cancelled",
}

TRANSITIONS: Final[dict[State, dict[str, State]]] = {
    "offered": {**_ALWAYS, CLAIMED: "owned", REMINDED: "offered", ESCALATED: "offered"},
    "owned": {**_ALWAYS, RELEASED: "offered", REMINDED: "owned", ESCALATED: "owned"},
    "approved": {},
    "rejected": {},
    "completed": {},
    "expired": {},
    "cancelled": {},
}

ANSWERS: Final[dict[TaskKind, tuple[str, ...]]] = {
    "approval": (APPROVED, REJECTED),
    "outcome": (HAPPENED, DID_NOT_HAPPEN, GIVEN_UP),
    "form": (COMPLETED,),
}
"""The decisions that a person may make, by subject."""

CONTINUING: Final = frozenset({APPROVED, HAPPENED, DID_NOT_HAPPEN, COMPLETED})
"""The answers after which the run continues, or the act is done."""

_SUBJECTS: Final[dict[TaskKind, str]] = {
    "approval": "approving an action",
    "outcome": "the outcome of an act",
    "form": "a form",
}


def task_id(promise: str, generation: int, kind: TaskKind, proposal: bytes, serial: int | str = 0) -> str:
    """A short id; ``serial`` distinguishes the tasks of a call that asks more than once."""
    name = f"{promise}\0{generation}\0{kind}\0{proposal.hex()}\0{serial}"
    return f"{kind[0]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def is_about(task: TaskRow, receipt: ReceiptRow) -> bool:
    """Whether it asks about this very attempt: the answer about an earlier attempt must not be taken for this one's."""
    return task.kind == "outcome" and cbor2.loads(task.details).get("token") == receipt.token


def asks_about(task: TaskRow) -> str:
    """The id of the receipt whose outcome it asks for."""
    return str(cbor2.loads(task.details)["receipt"])


# -- states ------------------------------------------------------------------------------------------------------------


def state_of(task: TaskRow) -> State:
    """Its state; the status ``requested`` in the row stands for two states."""
    if task.status == "requested":
        return "offered" if holder_of(task) is None else "owned"
    return task.status


def move(task: TaskRow, event: str, **fields: Any) -> TaskRow:
    """The next version, after this event. Raises TaskClosed or InvalidRequest where the table has no such step."""
    state = state_of(task)
    following = TRANSITIONS[state].get(event)
    if following is None:
        if not TRANSITIONS[state]:
            raise TaskClosed(f"task {task.id} is {task.status}{_by(task)}: nothing more can be said to it")
        raise InvalidRequest(f"task {task.id} is {state}: it cannot be {event}")
    status: TaskStatus = "requested" if following == "offered" or following == "owned" else following
    if following == "offered":
        fields = {"owner": None, "delegated_to": None, **fields} if state == "owned" or event == ONE_OF_TWO else fields
    return msgspec.structs.replace(task, version=task.version + 1, status=status, **fields)


def close(task: TaskRow, status: Literal["expired", "cancelled"], now: int) -> TaskRow:
    """The task, closed without an answer."""
    return move(task, status, closed_at=now)


def is_expired(task: TaskRow, now: int) -> bool:
    """Whether its time is over, although it is not closed yet."""
    return task.status == "requested" and task.expires_at is not None and task.expires_at <= now


def verdict_of(task: TaskRow) -> str:
    """The verdict of its last answer, or its status where it has none."""
    return task.answers[-1].verdict if task.answers else task.status


def standing_of(task: TaskRow) -> str:
    """Its status for people. An outcome is not approved: it happened, did not happen, or was given up."""
    answered = task.kind == "outcome" and task.status in ("approved", "rejected")
    return verdict_of(task) if answered else task.status


# -- people's answers --------------------------------------------------------------------------------------------------


def answer(
    task: TaskRow,
    who: str,
    verdict: str,
    reason: str,
    now: int,
    value: bytes | None = None,
    groups: Collection[str] = (),
) -> TaskRow:
    """The task after a person's answer. Raises TaskClosed, TaskForbidden or InvalidRequest."""
    if verdict not in ANSWERS[task.kind]:
        fitting = " or ".join(map(repr, ANSWERS[task.kind]))
        raise InvalidRequest(
            f"task {task.id} is about {_SUBJECTS[task.kind]}: the answer is {fitting}, not {verdict!r}"
        )
    _check(task, who, reason, now, groups, deciding=verdict in CONTINUING)
    answers = (*task.answers, TaskAnswer(who, verdict, reason, now, value))
    people = {person(said.who) for said in answers if said.verdict == APPROVED}
    if verdict == APPROVED and task.two_person and len(people) < 2:
        return move(task, ONE_OF_TWO, answers=answers)
    return move(task, verdict, answers=answers, closed_at=now)


def claim(task: TaskRow, who: str, reason: str, now: int, groups: Collection[str] = ()) -> TaskRow:
    """The task, claimed by a person who may answer it; nobody else may then. A second claim changes nothing."""
    _check(task, who, reason, now, groups, deciding=True)
    if holder_of(task) is not None:  # the holder claims again: the check refuses everybody else
        return task
    return move(task, CLAIMED, answers=_added(task, who, CLAIMED, reason, now), owner=who, delegated_to=None)


def release(task: TaskRow, who: str, reason: str, now: int) -> TaskRow:
    """The task, given back by its holder: all its candidates may answer again."""
    _check_open(task, who, reason, now)
    holder = holder_of(task)
    if holder is None:
        raise InvalidRequest(f"task {task.id} has no holder: there is nothing to release")
    if person(holder) != person(who):
        raise TaskForbidden(f"{who} may not release task {task.id}: it is {holder}'s")
    return move(task, RELEASED, answers=_added(task, who, RELEASED, reason, now))


def assign(task: TaskRow, who: str, to: str, reason: str, now: int, groups: Collection[str] = ()) -> TaskRow:
    """The task, given to one person by somebody who need not be a candidate; ``groups`` are those of ``to``.

    That must be somebody who may answer it anyway.
    """
    check_receiver_name(to)
    _check_open(task, who, reason, now)
    if is_excluded(task, who):
        raise TaskForbidden(f"{who} is excluded from task {task.id}, and may not assign it")
    _check_receiver(task, to, groups)
    answers = _added(task, who, f"{ASSIGNED} to {to}", reason, now)
    return move(task, ASSIGNED, answers=answers, owner=to, delegated_to=None)


def delegate(
    task: TaskRow,
    who: str,
    to: str,
    reason: str,
    now: int,
    groups: Collection[str] = (),
    to_groups: Collection[str] = (),
) -> TaskRow:
    """The task, delegated to another person, who alone may answer it. Raises as ``answer`` does.

    It also raises where ``to`` may not answer. ``who`` need not be allowed to approve: the starter of a run may
    delegate its approval. ``groups`` are those of ``who``, ``to_groups`` those of ``to``.
    """
    check_receiver_name(to)
    _check(task, who, reason, now, groups, deciding=False)
    _check_receiver(task, to, to_groups)
    answers = _added(task, who, f"{DELEGATED} to {to}", reason, now)
    return move(task, DELEGATED, answers=answers, owner=None, delegated_to=to)


def _added(task: TaskRow, who: str, verdict: str, reason: str, now: int) -> tuple[TaskAnswer, ...]:
    """The task's answers with one more."""
    return (*task.answers, TaskAnswer(who, verdict, reason, now))


# -- checks of people --------------------------------------------------------------------------------------------------


def check_receiver_name(to: str) -> None:
    """Raises InvalidRequest where a task cannot go to somebody of this name."""
    if not is_name(to):
        raise InvalidRequest(f"say to whom the task goes: {NAME}, not {to!a:.60}")
    if is_pattern(to):
        raise InvalidRequest(f"{to!r} is a pattern, and a task goes to one person: give their name")


def _check_open(task: TaskRow, who: str, reason: str, now: int) -> None:
    if not is_name(who):
        raise InvalidRequest(f"say who answers: {NAME}, not {who!a:.60}")
    if not isinstance(reason, str):
        raise InvalidRequest(f"the reason is a text, not {reason!r:.60}")
    if not TRANSITIONS[state_of(task)]:
        raise TaskClosed(f"task {task.id} is {task.status}{_by(task)}: nothing more can be said to it")
    if is_expired(task, now):
        raise TaskClosed(f"task {task.id} has expired: retry the run to ask again")


def _check(task: TaskRow, who: str, reason: str, now: int, groups: Collection[str], *, deciding: bool) -> None:
    _check_open(task, who, reason, now)
    holder = holder_of(task)
    if is_excluded(task, who):
        raise TaskForbidden(f"{who} may not answer task {task.id}: they are excluded from it")
    if person(who) != person(holder) if holder is not None else not is_candidate(task, who, groups):
        others = holder or describe_people(task)
        raise TaskForbidden(f"{who} may not answer task {task.id}: {others} may")
    if deciding and is_barred(task, who):
        raise TaskForbidden(_describe_bar(task, who, "another person must"))
    if deciding and person(who) in map(person, approvers(task)):
        raise TaskForbidden(f"{who} has approved task {task.id} already: a second, different person must")


def _check_receiver(task: TaskRow, to: str, groups: Collection[str]) -> None:
    """Refuse to pass a task to somebody who may not answer it: it would be stuck, or would evade a rule."""
    if is_excluded(task, to):
        raise TaskForbidden(f"{to} may not answer task {task.id}, not even by delegation: they are excluded from it")
    if not is_candidate(task, to, groups):
        raise TaskForbidden(
            f"{to} may not answer task {task.id}: delegate it to one of its candidates, {describe_people(task)}"
        )
    if is_barred(task, to):
        raise TaskForbidden(_describe_bar(task, to, "name another person"))
    if person(to) in map(person, approvers(task)):
        raise TaskForbidden(f"{to} has approved task {task.id} already: name a second, different person")


def _describe_bar(task: TaskRow, who: str, instead: str) -> str:
    subject = "an approval" if task.kind == "approval" else "the outcome of an act"
    if task.starter is None:
        why = f"nobody knows who started the run, and that person may not give {subject} of tier high"
        return f"{why}: give it up or reject it, and start the run with actor="
    return f"{who} started the run, and may not give {subject} of tier high: {instead}"


def _by(task: TaskRow) -> str:
    return f" by {task.answers[-1].who}" if task.answers else ""

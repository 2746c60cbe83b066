"""Tasks: what a person may say to one, and what it is then. Pure: a task and an answer in, the next version out.

A task is open while it is ``requested``. Two-person approvals need two different people. Where the tier is high,
whoever started the run can neither approve it nor say what became of it; so where nobody knows who that was, nobody
can. The candidates are names or patterns, and none
means anyone. A task can be passed on to one person by name (delegation), who alone may answer it then; only to someone
who could have answered it anyway, so that delegation undoes none of these rules.
"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import Final, Literal

import cbor2
import msgspec

from holdfast.errors import InvalidRequest, TaskClosed, TaskForbidden
from holdfast.people.names import NAME, is_name, person
from holdfast.store.governance import ReceiptRow, TaskAnswer, TaskKind, TaskRow, TaskStatus

APPROVED: Final = "approved"
REJECTED: Final = "rejected"
HAPPENED: Final = "happened"
DID_NOT_HAPPEN: Final = "did not happen"
GIVEN_UP: Final = "given up"

Tier = Literal["low", "med", "high"]

_LETTING: Final = frozenset({APPROVED, HAPPENED, DID_NOT_HAPPEN})
"""The answers after which the run goes on, or the act is done."""

_PATTERN: Final = "*?["
"""What makes a pattern of a name; as a person it would be whoever calls themselves that."""

_STATUS: dict[tuple[TaskKind, str], TaskStatus] = {
    ("approval", APPROVED): "approved",
    ("approval", REJECTED): "rejected",
    ("outcome", HAPPENED): "approved",
    ("outcome", DID_NOT_HAPPEN): "approved",
    ("outcome", GIVEN_UP): "rejected",
}
"""What a task is after a decisive answer; other pairs make no sense."""


def task_id(promise: str, generation: int, kind: TaskKind, proposal: bytes, serial: int | str = 0) -> str:
    """A short name; ``serial`` tells apart what one call asks more than once."""
    told = f"{promise}\0{generation}\0{kind}\0{proposal.hex()}\0{serial}"
    return f"{kind[0]}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def is_about(task: TaskRow, receipt: ReceiptRow) -> bool:
    """Whether it asks about this very attempt: what people said of an earlier one must not be taken for its outcome."""
    return task.kind == "outcome" and cbor2.loads(task.details).get("token") == receipt.token


def asks_about(task: TaskRow) -> str:
    """The id of the receipt whose outcome it asks for."""
    return str(cbor2.loads(task.details)["receipt"])


def answer(task: TaskRow, who: str, verdict: str, reason: str, now: int, value: bytes | None = None) -> TaskRow:
    """The task after a person's answer. Raises TaskClosed, TaskForbidden or InvalidRequest."""
    status = _STATUS.get((task.kind, verdict))
    if status is None:
        fitting = " or ".join(repr(word) for kind, word in _STATUS if kind == task.kind)
        raise InvalidRequest(f"task {task.id} is about {_about(task)}: the answer is {fitting}, not {verdict!r}")
    _check(task, who, reason, now, deciding=verdict in _LETTING)
    answers = (*task.answers, TaskAnswer(who, verdict, reason, now, value))
    people = {person(said.who) for said in answers if said.verdict == APPROVED}
    if verdict == APPROVED and task.two_person and len(people) < 2:
        # The second may be any other candidate, and whoever it was delegated to has answered.
        return msgspec.structs.replace(task, version=task.version + 1, answers=answers, delegated_to=None)
    return msgspec.structs.replace(task, version=task.version + 1, answers=answers, status=status, closed_at=now)


def delegate(task: TaskRow, who: str, to: str, reason: str, now: int) -> TaskRow:
    """The task, to be answered by another person alone. Raises as ``answer`` does, also where ``to`` could not approve.

    Whoever delegates need not be able to approve: the starter of a run may pass its approval on to somebody else.
    """
    if not is_name(to):
        raise InvalidRequest(f"say to whom the task goes: {NAME}, not {to!a:.60}")
    if any(sign in to for sign in _PATTERN):
        raise InvalidRequest(f"{to!r} is a pattern, and a task goes to one person: give their name")
    _check(task, who, reason, now, deciding=False)
    _check_heir(task, to)
    said = TaskAnswer(who, f"delegated to {to}", reason, now)
    return msgspec.structs.replace(task, version=task.version + 1, answers=(*task.answers, said), delegated_to=to)


def close(task: TaskRow, status: Literal["expired", "cancelled"], now: int) -> TaskRow:
    """The task, closed without an answer."""
    return msgspec.structs.replace(task, version=task.version + 1, status=status, closed_at=now)


def is_expired(task: TaskRow, now: int) -> bool:
    """Whether its time is over, though nobody has noted that yet."""
    return task.status == "requested" and task.expires_at is not None and task.expires_at <= now


def verdict_of(task: TaskRow) -> str:
    """What was last said to it."""
    return task.answers[-1].verdict if task.answers else task.status


def standing_of(task: TaskRow) -> str:
    """How it stands, in a word. An outcome is not approved: it happened, did not happen, or was given up."""
    answered = task.kind == "outcome" and task.status in ("approved", "rejected")
    return verdict_of(task) if answered else task.status


def is_candidate(task: TaskRow, who: str) -> bool:
    """Whether this person was asked, whoever it is delegated to."""
    return not task.candidates or any(fnmatchcase(who, pattern) for pattern in task.candidates)


def approvers(task: TaskRow) -> list[str]:
    """Who has approved it so far, in order."""
    return [said.who for said in task.answers if said.verdict == APPROVED]


def is_barred(task: TaskRow, who: str) -> bool:
    """Whether it is another person's to let the act be done, because this one started the run and the tier is high.

    Where nobody knows who started it, it may have been anyone.
    """
    return task.tier == "high" and (task.starter is None or person(who) == person(task.starter))


def _check(task: TaskRow, who: str, reason: str, now: int, *, deciding: bool) -> None:
    if not is_name(who):
        raise InvalidRequest(f"say who answers: {NAME}, not {who!a:.60}")
    if not isinstance(reason, str):
        raise InvalidRequest(f"the reason is a text, not {reason!r:.60}")
    if task.status != "requested":
        raise TaskClosed(f"task {task.id} is {task.status}{_by(task)}: nothing more can be said to it")
    if is_expired(task, now):
        raise TaskClosed(f"task {task.id} has expired: retry the run to ask again")
    heir = task.delegated_to
    if heir is not None and not is_candidate(task, heir):  # as once was possible: policy wants somebody else
        heir = None
    is_heir = heir is not None and person(who) == person(heir)
    if not is_heir and (heir is not None or not is_candidate(task, who)):
        told = heir or ", ".join(task.candidates)
        raise TaskForbidden(f"{who} may not answer task {task.id}: {told} may")
    if deciding and is_barred(task, who):
        raise TaskForbidden(_barred(task, who, "another person must"))
    if deciding and person(who) in map(person, approvers(task)):
        raise TaskForbidden(f"{who} has approved task {task.id} already: a second, different person must")


def _check_heir(task: TaskRow, to: str) -> None:
    """Refuse to pass an approval on to somebody who could not give it: it would be stuck, or a rule gone around."""
    if not is_candidate(task, to):
        candidates = ", ".join(task.candidates)
        raise TaskForbidden(f"{to} may not answer task {task.id}: delegate it to one of its candidates, {candidates}")
    if is_barred(task, to):
        raise TaskForbidden(_barred(task, to, "name another person"))
    if person(to) in map(person, approvers(task)):
        raise TaskForbidden(f"{to} has approved task {task.id} already: name a second, different person")


def _barred(task: TaskRow, who: str, instead: str) -> str:
    subject = "an approval" if task.kind == "approval" else "the outcome of an act"
    if task.starter is None:
        told = f"nobody knows who started the run, and {subject} of tier high is not theirs, whoever it was"
        return f"{told}: give it up or reject it, and start the run with actor="
    return f"{who} started the run, and {subject} of tier high is not theirs: {instead}"


def _by(task: TaskRow) -> str:
    return f" by {task.answers[-1].who}" if task.answers else ""


def _about(task: TaskRow) -> str:
    return "approving an action" if task.kind == "approval" else "what became of an act"

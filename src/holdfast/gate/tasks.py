"""Tasks: what a person may say to one, and what it is then. Pure: a task and an answer in, the next version out.

A task is open while it is ``requested``. Two-person approvals need two different people. Where the tier is high,
whoever started the run cannot approve it. Anyone can be told by name to answer instead (delegation); the candidates are
names or patterns, and none means anyone.
"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from typing import Final, Literal

import cbor2
import msgspec

from holdfast.errors import InvalidRequest, TaskClosed, TaskForbidden
from holdfast.store.governance import Receipt, Said, Task, TaskKind, TaskStatus

APPROVED: Final = "approved"
REJECTED: Final = "rejected"
HAPPENED: Final = "happened"
DID_NOT_HAPPEN: Final = "did not happen"
GIVEN_UP: Final = "given up"

Tier = Literal["low", "med", "high"]

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


def is_about(task: Task, receipt: Receipt) -> bool:
    """Whether it asks about this very attempt: what people said of an earlier one must not be taken for its outcome."""
    return task.kind == "outcome" and cbor2.loads(task.details).get("token") == receipt.token


def asks_about(task: Task) -> str:
    """The id of the receipt whose outcome it asks for."""
    return str(cbor2.loads(task.details)["receipt"])


def answer(task: Task, who: str, verdict: str, reason: str, now: int, value: bytes | None = None) -> Task:
    """The task after a person's answer. Raises TaskClosed, TaskForbidden or InvalidRequest."""
    status = _STATUS.get((task.kind, verdict))
    if status is None:
        fitting = " or ".join(repr(word) for kind, word in _STATUS if kind == task.kind)
        raise InvalidRequest(f"task {task.id} is about {_about(task)}: the answer is {fitting}, not {verdict!r}")
    _check(task, who, now, deciding=verdict == APPROVED)
    answers = (*task.answers, Said(who, verdict, reason, now, value))
    if verdict == APPROVED and task.two_person and len({said.who for said in answers if said.verdict == APPROVED}) < 2:
        return msgspec.structs.replace(task, version=task.version + 1, answers=answers)
    return msgspec.structs.replace(task, version=task.version + 1, answers=answers, status=status, closed_at=now)


def delegate(task: Task, who: str, to: str, reason: str, now: int) -> Task:
    """The task, to be answered by another person. Raises as ``answer`` does."""
    if not _is_name(to):
        raise InvalidRequest("say to whom the task goes: a name, without blanks around it")
    _check(task, who, now, deciding=False)
    said = Said(who, f"delegated to {to}", reason, now)
    return msgspec.structs.replace(task, version=task.version + 1, answers=(*task.answers, said), delegated_to=to)


def close(task: Task, status: Literal["expired", "cancelled"], now: int) -> Task:
    """The task, closed without an answer."""
    return msgspec.structs.replace(task, version=task.version + 1, status=status, closed_at=now)


def is_expired(task: Task, now: int) -> bool:
    """Whether its time is over, though nobody has noted that yet."""
    return task.status == "requested" and task.expires_at is not None and task.expires_at <= now


def verdict_of(task: Task) -> str:
    """What was last said to it."""
    return task.answers[-1].verdict if task.answers else task.status


def _check(task: Task, who: str, now: int, *, deciding: bool) -> None:
    if not _is_name(who):
        raise InvalidRequest("say who answers: a name, without blanks around it")
    if task.status != "requested":
        raise TaskClosed(f"task {task.id} is {task.status}{_by(task)}: nothing more can be said to it")
    if is_expired(task, now):
        raise TaskClosed(f"task {task.id} has expired: retry the run to ask again")
    if not _is_candidate(task, who):
        told = task.delegated_to or ", ".join(task.candidates)
        raise TaskForbidden(f"{who} may not answer task {task.id}: {told} may")
    if deciding and task.tier == "high" and who == task.starter:
        raise TaskForbidden(f"{who} started the run, and an approval of tier high is another person's: delegate it")
    if deciding and any(said.who == who and said.verdict == APPROVED for said in task.answers):
        raise TaskForbidden(f"{who} has approved task {task.id} already: a second, different person must")


def _is_name(text: str) -> bool:
    """Whether it names a person. With a blank more, one person would pass for two, or not for who started the run."""
    return bool(text) and text == text.strip() and text.isprintable()


def _is_candidate(task: Task, who: str) -> bool:
    if task.delegated_to is not None:
        return who == task.delegated_to
    return not task.candidates or any(fnmatchcase(who, pattern) for pattern in task.candidates)


def _by(task: Task) -> str:
    return f" by {task.answers[-1].who}" if task.answers else ""


def _about(task: Task) -> str:
    return "approving an action" if task.kind == "approval" else "what became of an act"

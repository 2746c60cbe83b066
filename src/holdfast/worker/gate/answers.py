"""Answers of people, held against the audit: an answer that no entry records is none.

An answer, its entry and the message to the run are one commit. So who reads the message can read the entry, and a run
is judged by its answers in the turn that takes the message in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from holdfast.audit.check.task_accounts import task_problem
from holdfast.audit.collector import asked_of
from holdfast.audit.records import Asked
from holdfast.gate.call import Call
from holdfast.runs.messages import ANSWERED
from holdfast.store import protocol as p
from holdfast.store.patience import patiently

Recorded = Mapping[str, Sequence[Asked]]
"""What the audit records of a run's tasks, by task."""


def has_answers(inbox: Iterable[p.Received]) -> bool:
    """Whether a person has answered something that the run asked."""
    return any(message.kind == ANSWERED for _, message in inbox)


async def recorded_answers(store: p.Store, key: p.Key) -> Recorded:
    """Ask the audit what it records of this run's tasks."""
    return await patiently(partial(asked_of, store, [key]))


def confirm(call: Call, recorded: Recorded) -> None:
    """Note of each answer to the call that the audit records it, or what is wrong with it."""
    for task in call.unwitnessed:
        if (problem := task_problem(task, recorded.get(task.id, ()))) is not None:
            call.problem = problem
        else:
            call.witnessed += ((task.id, task.version),)

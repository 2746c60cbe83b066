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
from holdfast.runs import messages
from holdfast.store import protocol as p
from holdfast.store.patience import patiently

Recorded = Mapping[str, Sequence[Asked]]
"""The entries that were read of tasks, by task: a task that is not in it was not looked up."""


def answered_tasks(inbox: Iterable[p.Received]) -> list[str]:
    """The tasks of calls at the gate that people have answered; forms are not among them: see ``asker``."""
    return [task for _, message in inbox if (task := messages.task_at_gate(message)) is not None]


async def recorded_answers(store: p.Store, tenant: str, tasks: Sequence[str]) -> Recorded:
    """Ask the audit what it records of these tasks."""
    return await patiently(partial(asked_of, store, tenant, tasks))


def confirm(call: Call, recorded: Recorded) -> None:
    """Note of each answer to the call that the audit records it, or what is wrong with it.

    An answer whose entries were not read stays unwitnessed: the governor reads them before the call is judged.
    """
    for task in call.unwitnessed:
        if (entries := recorded.get(task.id)) is None:
            continue
        if (problem := task_problem(task, entries)) is not None:
            call.problem = problem
        else:
            call.witnessed += ((task.id, task.version),)

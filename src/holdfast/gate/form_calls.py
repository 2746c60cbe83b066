"""A run's forms, while this worker leases it: one object per call, with its state.

``TRANSITIONS`` is the law: state, event, next state. A call is judged only while it ``waits``. While a change by a
timer is committed, or the audit is read, the call has another state, so nothing is done twice.
"""

from __future__ import annotations

from typing import Final, Literal

from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.tasks.timers import next_time

State = Literal["waits", "changing", "looking", "refuted", "settled"]
FormEvent = Literal["change", "changed", "look", "seen", "refute", "settle"]

TRANSITIONS: Final[dict[State, dict[FormEvent, State]]] = {
    "waits": {"change": "changing", "look": "looking"},
    "changing": {"changed": "waits", "look": "looking", "settle": "settled"},
    "looking": {"seen": "waits", "refute": "refuted", "settle": "settled"},
    "refuted": {},  # the audit does not confirm its answer: the run is parked
    "settled": {},
}


class FormCall:
    """One form that a run asks, with the newest version of its task that is known here."""

    __slots__ = ("problem", "promise", "state", "task")

    def __init__(self, promise: PromiseId, task: p.TaskRow) -> None:
        self.promise = promise
        self.task = task
        self.state: State = "waits"
        self.problem = ""  # the problem of an answer that the audit does not confirm

    def move(self, event: FormEvent) -> None:
        """Change the state by the table."""
        self.state = TRANSITIONS[self.state][event]

    @property
    def is_due(self) -> bool:
        """Whether it is to be judged now: its task is closed, or the audit does not confirm the task's answer."""
        return self.state == "refuted" or self.is_answered

    @property
    def is_answered(self) -> bool:
        """Whether its task is closed, and nobody has looked at that yet."""
        return self.state == "waits" and self.task.status != "requested"

    def next_time(self) -> int | None:
        """When the next timer of its task is due."""
        return next_time(self.task) if self.state == "waits" else None


class FormCalls:
    """The open forms of one run, by promise."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[PromiseId, FormCall] = {}

    def __bool__(self) -> bool:
        return bool(self.calls)

    def learn(self, task: p.TaskRow) -> None:
        """Take in a task of the store. The newer version counts."""
        promise = PromiseId(task.root).child(task.position)
        call = self.calls.get(promise)
        if call is None:
            self.calls[promise] = FormCall(promise, task)
        elif task.id == call.task.id and task.version > call.task.version:
            call.task = task

    def task_of(self, promise: PromiseId) -> p.TaskRow | None:
        """The task that the call waits for."""
        call = self.calls.get(promise)
        return None if call is None else call.task

    @property
    def is_busy(self) -> bool:
        """Whether a call must continue in this worker."""
        return any(call.state in ("changing", "looking") for call in self.calls.values())

    @property
    def wants_turn(self) -> bool:
        """Whether a call needs a turn now."""
        return any(call.is_due for call in self.calls.values())

    def next_time(self) -> int | None:
        """When the next timer of one of them is due."""
        times = [time for call in self.calls.values() if (time := call.next_time()) is not None]
        return min(times, default=None)

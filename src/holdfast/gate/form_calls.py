"""A run's forms, while this worker leases it: one object per call, with its state.

``TRANSITIONS`` is the law: a state and what happens, the next state. A call is judged only while it ``waits``. What
needs the store's answer, a change by time or a look at the audit, has a state of its own: nothing is done twice.
"""

from __future__ import annotations

from typing import Final, Literal

from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.tasks.timers import next_time

State = Literal["waits", "changing", "looking", "refuted", "settled"]
Happening = Literal["change", "changed", "look", "seen", "refute", "settle"]

TRANSITIONS: Final[dict[State, dict[Happening, State]]] = {
    "waits": {"change": "changing", "look": "looking"},
    "changing": {"changed": "waits", "look": "looking", "settle": "settled"},
    "looking": {"seen": "waits", "refute": "refuted", "settle": "settled"},
    "refuted": {},  # the run is parked for it
    "settled": {},
}


class FormCall:
    """One form that a run asks: its task, as far as it is known here."""

    __slots__ = ("problem", "promise", "state", "task")

    def __init__(self, promise: PromiseId, task: p.TaskRow) -> None:
        self.promise = promise
        self.task = task
        self.state: State = "waits"
        self.problem = ""  # what is wrong with an answer that the audit does not tell of

    def goes(self, happening: Happening) -> None:
        """Take the step that the table names."""
        self.state = TRANSITIONS[self.state][happening]

    @property
    def is_due(self) -> bool:
        """Whether it is to be judged now: its task is closed, or what closed it is not in the audit."""
        return self.state == "refuted" or (self.state == "waits" and self.task.status != "requested")

    def next_time(self) -> int | None:
        """When time next does something to it."""
        return next_time(self.task) if self.state == "waits" else None


class FormCalls:
    """The forms that one run has open, by promise."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: dict[PromiseId, FormCall] = {}

    def __bool__(self) -> bool:
        return bool(self.calls)

    def learn(self, task: p.TaskRow) -> None:
        """Take in what the store knows. The newer version counts."""
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
        """Whether something here must move on in this worker."""
        return any(call.state in ("changing", "looking") for call in self.calls.values())

    @property
    def is_restless(self) -> bool:
        """Whether something here wants a turn now."""
        return any(call.is_due for call in self.calls.values())

    def next_time(self) -> int | None:
        """When time next does something to one of them."""
        times = [time for call in self.calls.values() if (time := call.next_time()) is not None]
        return min(times, default=None)

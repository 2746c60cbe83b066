"""A run that this worker leases, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.errors import EngineError
from holdfast.gate.effects import Performable
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival
from holdfast.kernel.execution import Execution
from holdfast.runs import messages
from holdfast.runs.birth import lineage_of
from holdfast.store.protocol import Governed, Key, Received, Renewal, Run
from holdfast.worker.steps.performer import Performance


class Warm(NamedTuple):
    """The execution of a run that was handed back, and where its journal stood then."""

    generation: int
    version: int
    head: bytes
    execution: Execution

    def fits(self, run: Run) -> bool:
        """Whether the run has not moved since."""
        return (self.generation, self.version, self.head) == (run.generation, run.version, run.head)


class Held:
    """One leased run: where its journal stands, its execution, what has arrived, and which steps run."""

    __slots__ = (
        "alarm",
        "arrivals",
        "committing",
        "consumed",
        "created_at",
        "dropped",
        "epoch",
        "execution",
        "fresh",
        "gate",
        "generation",
        "head",
        "id",
        "inherited",
        "key",
        "lineage",
        "parent",
        "parent_position",
        "pause",
        "priority",
        "row",
        "scheduled",
        "steps",
        "through",
        "version",
        "warm",
        "workflow",
    )

    def __init__(self, run: Run) -> None:
        self.row = run
        self.key: Key = run.key
        self.workflow = run.workflow
        self.id = PromiseId(run.root)
        self.generation = run.generation
        self.epoch = run.epoch
        self.version = run.version
        self.head = run.head
        self.priority = run.priority
        self.parent = run.parent
        self.parent_position = run.parent_position
        self.created_at = run.created_at
        self.consumed = run.consumed
        self.pause = run.pause
        self.through = run.consumed
        self.execution: Execution | None = None
        self.warm: Execution | None = None  # what it goes on with, as soon as all is known that it must know
        self.gate = RunCalls(run.writes) if run.governed else None
        self.lineage = 0
        self.fresh = True  # its outstanding work has not been asked for by this worker yet
        self.inherited: set[PromiseId] | None = None  # the steps that whoever held it before may have begun
        self.arrivals: list[Arrival] = []
        self.steps: dict[PromiseId, Performance] = {}
        self.committing = False
        self.scheduled = False
        self.dropped = False
        self.alarm: asyncio.TimerHandle | None = None

    @property
    def live(self) -> Execution:
        """Its execution. Raises EngineError where it has none."""
        if self.execution is None:
            raise EngineError(f"run {self.key.run} is not in memory")
        return self.execution

    def gate_of_run(self) -> RunCalls:
        """Its side of the gate, from its first action on."""
        if self.gate is None:
            self.gate = RunCalls(0)
        return self.gate

    def learn(self, governed: Governed) -> None:
        """Take in what the store knows of its side of the gate. Failures of earlier lineages are no matter of this."""
        receipts = [each for each in governed.receipts if each.state != "failed" or each.root == self.id.root]
        self.gate_of_run().learn(receipts, governed.tasks)

    def next_due(self) -> int | None:
        """When it next wants a turn without being told: a timer, a retry, or a task that expires."""
        due = self.live.next_due()
        expiry = None if self.gate is None else self.gate.next_expiry()
        return due if expiry is None else expiry if due is None else min(due, expiry)

    def renew(self, renewal: Renewal) -> None:
        """Go on as the next generation, whose execution is yet to be made."""
        self.id = PromiseId(renewal.root)
        self.generation += 1
        self.version = renewal.segment.first + renewal.segment.count
        self.head = renewal.segment.head
        self.execution = None
        self.fresh = True

    def warm_up(self) -> None:
        """Go on with the execution that was kept for it."""
        if self.warm is None:
            raise EngineError(f"no execution of run {self.key.run} was kept")
        self.run_as(self.warm)
        self.warm = None

    def run_as(self, execution: Execution) -> None:
        """Go on with this execution."""
        self.execution = execution
        self.lineage = lineage_of(execution.started.idempotency_key)

    def take_in(self, inbox: list[Received]) -> None:
        """Add messages from the inbox, each once. What was meant for an earlier lineage is of no use to this one."""
        for position, message in inbox:
            if position > self.through:
                arrival = messages.read(message, self.id)
                if isinstance(arrival, messages.CallChanged):
                    self._hear(arrival)
                elif arrival is not None:
                    self.arrivals.append(arrival)
                self.through = position

    def _hear(self, change: messages.CallChanged) -> None:
        """Take in news of a call at the gate; the next turn judges it, if the run asks for it now."""
        calls = self.gate_of_run()
        if change.task is not None:
            calls.learn([], [change.task])
        if self.live.request_of(change.promise_id) is not None:
            call = calls.call(change.promise_id)
            call.stale = call.stale or change.task is None
            calls.move(call, "news")

    def inline_step(self, promise: PromiseId) -> Performable | None:
        """The step of this call, where the body brought it along. A run that is rebuilt has reached the call again."""
        inline: Mapping[PromiseId, Performable] | None = getattr(self.live.program, "inline", None)
        return inline.get(promise) if inline else None

    def silence(self) -> None:
        """Forget the alarm."""
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None

    def cool(self) -> Warm | None:
        """Give the execution away for later. This object is done: what still comes for it must not move the run."""
        execution, self.execution = self.execution, None
        self.drop()
        return None if execution is None else Warm(self.generation, self.version, self.head, execution)

    def drop(self) -> None:
        """Stop its steps and forget its execution; nothing more comes of this object."""
        self.dropped = True
        self.silence()
        for performance in self.steps.values():
            performance.cancel()
        self.steps.clear()
        for execution in (self.execution, self.warm):
            if execution is not None:
                execution.program.close()
        self.execution = self.warm = None

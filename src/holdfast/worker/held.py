"""A run that this worker leases, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from holdfast.errors import EngineError
from holdfast.gate.effects import Performable
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, Begun, CancelArrived
from holdfast.kernel.execution import Execution
from holdfast.kernel.signal_nodes import at_hand
from holdfast.runs import messages
from holdfast.runs.birth import lineage_of
from holdfast.runs.carried import AHEAD
from holdfast.runs.lanes import CellOrigin
from holdfast.runs.payload_room import PayloadPlace
from holdfast.store.protocol import MACHINE, Advance, Governed, Key, Received, Renewal, Run
from holdfast.worker.gate.answers import Recorded, confirm
from holdfast.worker.lanes.caution import Caution
from holdfast.worker.steps.performance import Performance

EVENTS_AT_ONCE: Final = 500
"""So many messages are taken into one turn of a lane; one, where its last worker died over it: see ``caution``."""

_NO_STEPS: Final[Mapping[PromiseId, Performable]] = {}


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
        "admitted",
        "alarm",
        "arrivals",
        "cancel_first",
        "caution",
        "committing",
        "consumed",
        "dropped",
        "epoch",
        "execution",
        "fresh",
        "gate",
        "generation",
        "head",
        "id",
        "inherited",
        "inline",
        "is_lane",
        "is_offered",
        "key",
        "lineage",
        "most_signals",
        "names",
        "parent",
        "parent_position",
        "pause",
        "poison",
        "priority",
        "reading_inbox",
        "reference",
        "results",
        "row",
        "scheduled",
        "signals",
        "steps",
        "taken_results",
        "through",
        "version",
        "warm",
        "workflow",
    )

    def __init__(self, run: Run) -> None:
        self.row = run
        self.key: Key = run.key
        self.workflow = run.workflow
        self.is_lane = run.program_kind == MACHINE
        self.admitted = False  # whether the code here may run it by the manifest in force: of a lane
        self.is_offered = False  # whether other workers were asked to take it, because of an effect of other code
        self.id = PromiseId(run.root)
        self.generation = run.generation
        self.epoch = run.epoch
        self.version = run.version
        self.head = run.head
        self.priority = run.priority
        self.parent = run.parent
        self.parent_position = run.parent_position
        self.consumed = run.consumed
        self.reference = run.reference  # as the store has it
        self.pause = run.pause
        self.caution = Caution() if self.is_lane and run.crashes else None
        self.poison: str | None = None  # of a lane: its next event has killed too many workers
        self.through = run.consumed
        self.reading_inbox = False  # whether its inbox will be read in a moment
        self.execution: Execution | None = None
        self.warm: Execution | None = None  # the execution that was kept of it, until its inbox is read
        self.gate = RunCalls(run.writes) if run.governed else None
        self.lineage = 0
        self.names: dict[str, str | None] = {}  # what the store was asked for the present turn
        self.signals: dict[bytes, bytes] = {}  # the blobs at hand of the signals that it carries
        self.most_signals = AHEAD  # how many of these blobs are kept, and read when one is missing
        self.fresh = True  # its outstanding work has not been asked for by this worker yet
        self.inherited: set[PromiseId] | None = None  # the steps that its holder before may have begun
        self.inline: Mapping[PromiseId, Performable] = _NO_STEPS  # the steps that its body brought along, by call
        self.arrivals: list[Arrival] = []
        self.results: list[PayloadPlace] = []  # the room of the large results among them
        self.taken_results: list[PayloadPlace] = []  # of those that the present turn has taken, until it is durable
        self.steps: dict[PromiseId, Performance] = {}
        self.cancel_first = run.crashes > 0  # what it would get before a cancellation has failed, or may kill again
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

    @property
    def hears_progress(self) -> bool:
        """Whether it wants to hear how far what it asked for is: a lane of a machine that accepts ``Progress``."""
        return self.is_lane and bool(getattr(self.live.program, "hears_progress", False))

    def origin_of(self, promise: PromiseId) -> CellOrigin | None:
        """The cell that asked for a call; None where a workflow did."""
        if not self.is_lane or self.execution is None:
            return None
        found: CellOrigin | None = self.execution.program.origin_of(promise)  # type: ignore[attr-defined]  # a lane's
        return found

    def gate_of_run(self) -> RunCalls:
        """Its side of the gate, from its first action on."""
        if self.gate is None:
            self.gate = RunCalls(0)
        return self.gate

    def learn(self, governed: Governed) -> None:
        """Take in what the store knows of its side of the gate. Failures of earlier lineages are no matter of this."""
        receipts = [each for each in governed.receipts if each.state != "failed" or each.root == self.id.root]
        self.gate_of_run().learn(receipts, governed.tasks)
        self.gate_of_run().undos.learn(governed.taken)

    def stop_clocks(self, gate: RunCalls) -> None:
        """Let the clocks of calls that wait for people stand still, and go on later by as much."""
        for call in gate.asked():
            waited, still = call.waited()
            self.live.stop_clock(call.promise, waited, still=still)

    def next_due(self) -> int | None:
        """When it next wants a turn although nothing arrives: a timer, a retry, or a task that expires."""
        if (gate := self.gate) is None:  # nearly always
            return self.live.next_due()
        self.stop_clocks(gate)
        due, expiry = self.live.next_due(), gate.next_expiry()
        return due if expiry is None else expiry if due is None else min(due, expiry)

    @property
    def present_reference(self) -> str | None:
        """Its business reference after the turn that was just taken."""
        return self.live.program.reference

    def must_hear_cancel(self, inbox: Sequence[Received] = ()) -> bool:
        """Whether it is asked to stop, by what has arrived or by a message that was not taken in, and its program does
        not know it yet."""
        if self.execution is not None and self.execution.ledger.cancel_requested:
            return self.execution.must_hear_cancel
        asked = any(type(arrival) is CancelArrived for arrival in self.arrivals)
        return asked or any(messages.is_cancel(message) for _, message in inbox)

    def renew(self, renewal: Renewal) -> None:
        """Go on as the next generation, whose execution is yet to be made."""
        self.id = PromiseId(renewal.root)
        self.generation += 1
        self.version = renewal.segment.first + renewal.segment.count
        self.head = renewal.segment.head
        self.execution = None
        self.fresh = True

    def learn_signals(self, carried: Payload, blobs: Mapping[bytes, bytes]) -> None:
        """Take in blobs of the signals that it carries. What was there for earlier generations alone is forgotten now
        and then: each time that there is twice as much as was kept then."""
        self.signals.update(blobs)
        if len(self.signals) > 2 * self.most_signals:
            self.signals = at_hand(carried, self.signals)[0]
            self.most_signals = max(self.most_signals, len(self.signals))

    def warm_up(self) -> None:
        """Go on with the execution that was kept for it."""
        if self.warm is None:
            raise EngineError(f"no execution of run {self.key.run} was kept")
        self.run_as(self.warm)
        self.warm = None

    def run_as(self, execution: Execution) -> None:
        """Go on with this execution."""
        self.execution = execution
        execution.program.names = self.names
        self.inline = getattr(execution.program, "inline", _NO_STEPS)
        if self.poison is not None:
            execution.program.poison = self.poison  # type: ignore[attr-defined]  # a lane's
        self.lineage = lineage_of(execution.started.idempotency_key)
        if execution.carried is not None:
            self.signals = execution.carried.nodes

    def take_in(self, inbox: list[Received], recorded: Recorded | None = None) -> None:
        """Add messages from the inbox, each once. What was meant for an earlier lineage is of no use to this one.

        ``recorded`` is what the audit records of the run's tasks, where it was read for these messages.
        """
        for position, message in inbox:
            if self.is_lane and not self._takes_more():
                return  # the rest comes when these are handled
            if position > self.through:
                arrival = messages.read(message, self.id)
                if isinstance(arrival, messages.CallChanged):
                    self._learn_change(arrival, recorded)
                elif arrival is not None:
                    self.arrivals.append(arrival)
                    if self.caution is not None:
                        self.caution.has_message = True
                self.through = position

    def _takes_more(self) -> bool:
        """Whether a lane takes another message into its next turn."""
        if self.caution is None:
            return len(self.arrivals) < EVENTS_AT_ONCE
        if self.execution is None or self.execution.has_news:  # it is being rebuilt, or has something to handle first
            return False
        return all(type(each) is Begun for each in self.arrivals)

    @property
    def only_records(self) -> bool:
        """Whether its next turn records what has arrived, and the program does not get it: the run is paused, or is a
        lane that must be cautious."""
        return self.pause is not None or (self.caution is not None and self.caution.records(self))

    def take_arrivals(self) -> tuple[list[Arrival], bool]:
        """What has arrived and is for the next turn, and whether the program gets it in that turn."""
        resume = not self.only_records
        if self.results:
            self.taken_results += self.results
            self.results = []
        if self.caution is None:
            taken, self.arrivals = self.arrivals, []
        else:
            taken, self.arrivals = self.caution.take(self)
        return taken, resume

    def note_result(self, performance: Performance) -> None:
        """A large result has come, which takes room until the turn that takes it in is durable.

        A lane may have to wait for people before its next turn, so its results take none.
        """
        if not self.is_lane and not self.dropped and (result := performance.take_result()) is not None:
            self.results.append(result)

    def end_turn(self) -> None:
        """The turn's commit is answered: what the turn took in needs no room any more."""
        self.committing = False
        self.free_room()

    def free_room(self) -> None:
        """Large results that a turn has taken need no room any more."""
        for result in self.taken_results:
            result.release()
        self.taken_results.clear()

    @property
    def has_more(self) -> bool:
        """Whether another turn is to follow the one that was taken."""
        return bool(self.arrivals) or (self.caution is not None and self.caution.has_recorded)

    def _learn_change(self, change: messages.CallChanged, recorded: Recorded | None) -> None:
        """Take in news of a call at the gate; the next turn judges it, if the run asks for it now."""
        calls = self.gate_of_run()
        if change.task is not None and change.task.kind == "form":  # it is no call that is judged: see ``asker``
            calls.learn([], [change.task])
        elif self.live.request_of(change.promise_id) is not None:  # else it is about an act that the run gave up
            if change.task is not None:
                calls.learn([], [change.task])
            call = calls.call(change.promise_id)
            call.stale = call.stale or change.task is None
            if recorded is not None:
                confirm(call, recorded)
            calls.move(call, "news")

    def reach(self, change: Advance, now: int) -> None:
        """Stand where a turn that is durable has led."""
        if (segment := change.segment) is not None:
            self.version, self.head = segment.first + segment.count, segment.head
        self.consumed = change.consumed
        if self.caution is None or self.execution is None:
            return
        if self.poison is not None:  # what comes now is not what has killed
            self.poison = self.execution.program.poison = None  # type: ignore[attr-defined]  # a lane's
        if self.caution.is_over(self, now):
            self.caution = None

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
        self.taken_results += self.results
        self.free_room()
        for performance in self.steps.values():
            performance.cancel()
        self.steps.clear()
        for execution in (self.execution, self.warm):
            if execution is not None:
                execution.program.close()
        self.execution = self.warm = None

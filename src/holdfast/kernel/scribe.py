"""The scribe writes a program's commands with the pen. A command that names a promise takes the next position."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Protocol

import msgspec

from holdfast.errors import RetryDiverged
from holdfast.journal import events as e
from holdfast.journal.former import UNSAID, Answers, content_of, read_answers, read_former
from holdfast.journal.payload import NOTHING, ONCE, Ok, Outcome, Payload, RetryPolicy
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.kernel.carried_signals import SignalsMissing
from holdfast.kernel.commands import PATCH
from holdfast.kernel.former_calls import FormerCalls, Met
from holdfast.kernel.outstanding import Outstanding, Pending
from holdfast.kernel.pen import Halt, Pen
from holdfast.kernel.requests import Abandon, Carry, Invoke, Request, Stop

_NOTED: Final = Ok(NOTHING)


class Entropy(Protocol):
    """A source of randomness."""

    def random(self) -> float: ...

    def randbytes(self, n: int) -> bytes: ...


class KernelScribe:
    """The commands of a running program, and the requests that follow. See ``program.Scribe`` for the contract."""

    __slots__ = (
        "_entropy",
        "_has_gaps",
        "_open",
        "_pen",
        "_requests",
        "_stopped",
        "_taken",
        "former",
        "inherited",
        "kept",
        "next_child",
        "run",
        "undone",
    )

    def __init__(self, run: PromiseId, pen: Pen, outstanding: Outstanding, entropy: Entropy) -> None:
        self.run = run
        self._pen = pen
        self._open = outstanding
        self._entropy = entropy
        self.next_child = 0
        self._requests: dict[PromiseId, Request] = {}
        self._stopped: dict[PromiseId, Stop] = {}
        self.undone: list[tuple[PromiseId, str, bool]] = []  # see ``Turn``
        self.kept: list[PromiseId] = []
        self.inherited: list[tuple[PromiseId, int]] = []
        self.former: FormerCalls | None = None  # of a retried run
        self._has_gaps = False
        self._taken: dict[PromiseId, Met] = {}  # calls of this turn that got a former outcome

    @property
    def version(self) -> int:
        return self._pen.ledger.version

    def request(self, request: Request) -> None:
        """Ask the worker for this once the turn is durable. Of two requests about one promise the later one is kept."""
        self._requests[request.promise_id] = request

    def take_requests(self) -> list[Request]:
        """The requests since the last call."""
        if not self._requests and not self._stopped:
            return []
        requests, self._requests = [*self._requests.values(), *self._stopped.values()], {}
        self._stopped = {}
        return requests

    def _allocate(self) -> PromiseId:
        promise = PromiseId(self.run.root, (*self.run.path, self.next_child))
        self.next_child += 1
        return promise

    def invoke(
        self,
        kind: str,
        function_name: str,
        input: Payload,
        retry_policy: RetryPolicy,
        queue: str | None = None,
        undoes: PromiseId | None = None,
        *,
        repeatable: bool = False,
    ) -> PromiseId:
        again = 0 if undoes is None else self._open.again.get(undoes, 0)  # a call that is done again is undone again
        met = None
        if self._has_gaps:
            self._skip_gap()
        if self.former is None:
            issued = e.InvokeScheduled(self._allocate(), kind, function_name, input, retry_policy, undoes, again)
        else:
            self.next_child = self.former.free_from(self.next_child, content_of(kind, function_name, input, undoes))
            issued = e.InvokeScheduled(self._allocate(), kind, function_name, input, retry_policy, undoes, again)
            met = self._met(issued, self.former, repeatable=repeatable)
            issued = msgspec.structs.replace(issued, again=met.again, place=met.place)
        pen = self._pen
        recorded = pen.upcoming()
        event = pen.command(issued)
        assert isinstance(event, e.InvokeScheduled)
        promise = event.promise_id
        if event.again:
            self._open.again[promise] = event.again
        scheduled_at = pen.now if recorded is None else recorded.timestamp
        pending = Pending(event, queue, scheduled_at)
        self._open.add_call(pending)
        if recorded is None and met is not None and met.outcome is not None:
            self._taken[promise] = met
        elif recorded is None:
            self._requests[promise] = pending.request()
        return promise

    def _met(self, issued: e.InvokeScheduled, former: FormerCalls, *, repeatable: bool) -> Met:
        try:
            return former.call(issued, repeatable=repeatable, live=self._pen.upcoming() is None)
        except RetryDiverged as diverged:
            self._pen.halted = diverged
            raise Halt from None

    def carry_former(self, started: e.ExecutionStarted, met: Collection[int] = ()) -> None:
        """Know the calls of earlier generations, of which these were met before."""
        self._has_gaps = started.former is not None or bool(started.inherited)
        if started.former is not None:
            self.former = FormerCalls(read_former(started.former), self.answers, met)

    def _skip_gap(self) -> None:
        """A replay follows a gap that an earlier generation left where a child was called before it."""
        recorded = self._pen.upcoming()
        if recorded is not None and isinstance(recorded.event, e.InvokeScheduled):
            self.next_child = max(self.next_child, recorded.event.promise_id.path[-1])

    def answers(self) -> Answers:
        """What people have said about the kept results of this run."""
        given = UNSAID
        said = self._pen.ledger.signals.get(e.RETRY)
        for payload, _ in () if said is None else said.buffered.values():
            given = given.joined(read_answers(payload))
        return given

    def take_former(self) -> list[tuple[PromiseId, Outcome]]:
        """The calls and timers of this turn that have a former outcome, in the order in which they had ended."""
        if not self._taken:
            return []
        taken, self._taken = self._taken, {}
        ordered = sorted(taken.items(), key=lambda item: item[1].order)
        return [(promise, met.outcome) for promise, met in ordered if met.outcome is not None]

    def note(self, kind: str, function_name: str, input: Payload, freight: object) -> None:
        pen, promise = self._pen, self._allocate()
        live = pen.upcoming() is None
        pen.command(e.InvokeScheduled(promise, kind, function_name, input, ONCE))
        pen.command(e.InvokeStarted(promise, 1))
        pen.command(e.InvokeCompleted(promise, _NOTED, 1))
        if live:
            self._requests[promise] = Carry(promise, kind, freight)

    def upcoming(self) -> e.Event | None:
        recorded = self._pen.upcoming()
        return None if recorded is None else recorded.event

    def upcoming_call(self, kind: str) -> str | None:
        recorded = self._pen.upcoming()
        event = None if recorded is None else recorded.event
        return event.function_name if isinstance(event, e.InvokeScheduled) and event.kind == kind else None

    def keep(self, calls: Sequence[PromiseId]) -> None:
        if self._pen.upcoming() is None:
            self.kept.extend(calls)

    def abandon(self, promise_id: PromiseId) -> None:
        pending = self._open.forget(promise_id)
        if self._taken.pop(promise_id, None) is not None or pending is None:
            return
        if type(self._requests.get(promise_id)) is Invoke:  # requested in this turn: nobody has begun it
            del self._requests[promise_id]
        elif self._pen.upcoming() is None:
            self.request(Abandon(promise_id, pending.event.kind, pending.queue, pending.event.place))

    def stop(self, promise_id: PromiseId) -> None:
        pending = self._open.invocations.get(promise_id)
        if pending is None or pending.stopped:
            return
        pending.stopped = True
        if type(self._requests.get(promise_id)) is Invoke:
            self._requests[promise_id] = pending.request()  # the one before does not say that it is stopped
        if self._pen.upcoming() is None:
            event = pending.event
            self._stopped[promise_id] = Stop(promise_id, event.kind, pending.queue, pending.attempt, event.place)

    def take_resting(self) -> list[Pending]:
        """The stopped invocations of which no attempt is under way: their next one will not be requested."""
        if not self._stopped:
            return []
        found = [self._open.invocations[promise] for promise in self._stopped if promise in self._open.invocations]
        resting = [pending for pending in found if self._rests(pending)]
        for pending in resting:
            self._requests.pop(pending.event.promise_id, None)
            del self._stopped[pending.event.promise_id]
        return resting

    def _rests(self, pending: Pending) -> bool:
        """Whether the next attempt has not begun. One whose time has come in this turn is requested, and not begun,
        unless the run was taken over: its holder before may have begun it."""
        if pending.retry_at is not None:
            return pending.retry_at > self._pen.clock  # else another worker may have taken it from its queue
        return pending.failed_here and type(self._requests.get(pending.event.promise_id)) is Invoke

    def timer(self, duration: int) -> PromiseId:
        promise, live = self._allocate(), self._pen.upcoming() is None
        met = None if self.former is None else self.former.timer(promise.path[-1], duration)
        is_fired = met is not None and met.outcome is not None
        event = self._pen.command(e.TimerScheduled(promise, duration, self._pen.clock + (0 if is_fired else duration)))
        assert isinstance(event, e.TimerScheduled)
        if live and is_fired and met is not None:
            self._taken[promise] = met
        self._open.set_timer(event.promise_id, event.fire_at)
        return event.promise_id

    def receive(self, name: str) -> tuple[PromiseId, Payload | None]:
        promise = self._allocate()
        buffered = self._oldest(name)
        if buffered is None or name in self._open.receivers:  # an older receive goes first
            self._open.add_receive(promise, name)
            return promise, None
        delivery, payload = buffered
        self._pen.command(e.SignalReceived(promise, name, payload, delivery))
        return promise, payload

    def _oldest(self, name: str) -> tuple[int, Payload] | None:
        try:
            return self._pen.ledger.oldest_unconsumed(name)
        except SignalsMissing as missing:
            self._pen.halted = missing
            raise Halt from None

    def is_buffered(self, name: str) -> bool:
        return self._oldest(name) is not None

    def take_revision(self) -> Payload | None:
        """Receive the oldest revision of the run's code; None where there is none. For the kernel, not the program.

        Raises Nondeterminism where the journal has something else at this place.
        """
        if self._pen.ledger.oldest_unconsumed(e.REVISION) is None:
            return None
        try:
            return self.receive(e.REVISION)[1]
        except Halt as halt:
            raise self._pen.halted or halt from None

    def random(self, size: int) -> bytes:
        event = self._pen.command(e.RandomGenerated(self._allocate(), self._entropy.randbytes(size)))
        assert isinstance(event, e.RandomGenerated)
        return event.value

    def now(self) -> int:
        event = self._pen.command(e.TimeRecorded(self._allocate(), self._pen.now))
        assert isinstance(event, e.TimeRecorded)
        return event.time

    def join_set(self) -> JoinSetId:
        join_set = JoinSetId(self._allocate())
        self._pen.command(e.JoinSetCreated(join_set))
        return join_set

    def submit(self, join_set: JoinSetId, promise_id: PromiseId) -> None:
        self._pen.command(e.JoinSetSubmitted(join_set, promise_id))

    def consume(self, join_set: JoinSetId, promise_id: PromiseId, result: Outcome) -> None:
        self._pen.command(e.JoinSetAwaited(join_set, promise_id, result))

    def patched(self, name: str) -> bool:
        marker = PATCH + name.encode()
        if (recorded := self._pen.upcoming()) is not None:
            event = recorded.event
            if not (isinstance(event, e.RandomGenerated) and event.value == marker):
                return False
        self._pen.command(e.RandomGenerated(self._allocate(), marker))
        return True

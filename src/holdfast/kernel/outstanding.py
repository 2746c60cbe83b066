"""The open requests of a run: invocations, timers and receives, and when the next of them is due."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import msgspec

from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.former_calls import CHILD
from holdfast.kernel.requests import Invoke, Request
from holdfast.kernel.waits import Wait


class Pending(msgspec.Struct, gc=False):
    """An invocation that is scheduled and not settled."""

    event: e.InvokeScheduled
    queue: str | None
    scheduled_at: int
    attempt: int = 1
    retry_at: int | None = None
    last_retry_at: int | None = None  # when the present attempt was due, even after it has begun
    stopped: bool = False  # no further attempt begins
    failed_here: bool = False  # its last attempt failed in this process: nobody else can have begun the next one

    def request(self) -> Invoke:
        """The request for its present attempt."""
        event = self.event
        return Invoke(
            event.promise_id,
            event.kind,
            event.function_name,
            event.input,
            self.attempt,
            self.queue,
            self.retry_at or 0,
            _mark(event),
            event.retry_policy,
            self.stopped,
            event.undoes,
            event.place,
        )


def _mark(event: e.InvokeScheduled) -> str:
    if event.undoes is None and not event.again and event.place is None:  # the usual case
        return ""
    mark = ("" if event.undoes is None else "undo") + (str(event.again) if event.again else "")
    return mark if event.place is None else f"@{event.place}:{mark}"


class Outstanding:
    """The open promises of one run. ``receivers`` has the waiting receives by the signal's name, oldest first."""

    __slots__ = ("_alarms", "_names", "_postponed", "_unnamed", "again", "invocations", "moved", "receivers", "timers")

    def __init__(self) -> None:
        self.invocations: dict[PromiseId, Pending] = {}
        self.moved: dict[PromiseId, PromiseId] = {}  # children that are answered under the place of an earlier try
        self.timers: dict[PromiseId, int] = {}
        self.again: dict[PromiseId, int] = {}  # calls that were undone and done again, with how often
        self.receivers: dict[str, OrderedDict[PromiseId, None]] = {}  # a plain dict finds its first entry slowly
        self._names: dict[PromiseId, str] = {}
        self._unnamed: dict[PromiseId, None] = {}
        self._alarms: list[tuple[int, PromiseId]] = []
        self._postponed: dict[PromiseId, int | None] = {}  # timers that fire later than the journal says, or not yet

    def add_call(self, pending: Pending) -> None:
        """An invocation is scheduled."""
        event = pending.event
        self.invocations[event.promise_id] = pending
        if event.place is not None and event.kind == CHILD:  # the message of its end names its place
            promise = event.promise_id
            self.moved[PromiseId(promise.root, (*promise.path[:-1], event.place))] = promise

    def add_receive(self, promise: PromiseId, name: str) -> None:
        """A receive begins to wait, after earlier ones of the same name."""
        self.receivers.setdefault(name, OrderedDict())[promise] = None
        self._names[promise] = name
        self._unnamed[promise] = None

    def receives(self) -> list[tuple[PromiseId, str]]:
        """The receives that wait, each with its signal's name, oldest first."""
        return list(self._names.items())

    def first_receive(self, name: str) -> PromiseId | None:
        """The receive that the next signal of this name is for."""
        return next(iter(self.receivers.get(name, ())), None)

    def end_receive(self, promise: PromiseId) -> None:
        """A receive no longer waits: it got its signal, or was given up."""
        name = self._names.pop(promise, None)
        if name is None:
            return
        waiting = self.receivers[name]
        del waiting[promise]
        if not waiting:
            del self.receivers[name]
        self._unnamed.pop(promise, None)

    def unnamed(self) -> tuple[e.Signal, ...]:
        """The waiting receives that the journal has not named yet."""
        if not self._unnamed:  # the usual case
            return ()
        return tuple([e.Signal(self._names[promise], promise) for promise in self._unnamed])

    def all_named(self) -> None:
        """The journal has named every waiting receive."""
        if self._unnamed:
            self._unnamed.clear()

    def set_timer(self, promise: PromiseId, fire_at: int) -> None:
        self.timers[promise] = fire_at
        heapq.heappush(self._alarms, (fire_at, promise))

    def postpone(self, promise: PromiseId, by: int | None) -> None:
        """Let an open timer fire so much later than the journal says; None: not for now. No record of it is needed:
        when a timer has fired is recorded."""
        fire_at = self.timers.get(promise)
        if fire_at is None:
            return
        due = None if by is None else fire_at + by
        if due != self._postponed.get(promise, fire_at):
            self._postponed[promise] = due
            if due is not None:
                heapq.heappush(self._alarms, (due, promise))

    def _fires_at(self, promise: PromiseId) -> int | None:
        fire_at = self.timers.get(promise)
        return fire_at if fire_at is None or not self._postponed else self._postponed.get(promise, fire_at)

    def set_retry(self, pending: Pending, failed_attempt: int, retry_at: int) -> None:
        """The next attempt follows at ``retry_at``. That of queued work is not due here: the queue keeps its time."""
        pending.attempt = failed_attempt + 1
        pending.retry_at = pending.last_retry_at = retry_at
        if pending.queue is None:
            heapq.heappush(self._alarms, (retry_at, pending.event.promise_id))

    def next_due(self) -> int | None:
        """The time of the earliest timer or retry."""
        while self._alarms:
            due, promise = self._alarms[0]
            if self._fires_at(promise) == due:
                return due
            pending = self.invocations.get(promise)
            if pending is not None and pending.retry_at == due:
                return due
            heapq.heappop(self._alarms)
        return None

    def pop_due(self, now: int) -> PromiseId | None:
        """The promise whose timer or retry is due first, if any is."""
        due = self.next_due()
        return heapq.heappop(self._alarms)[1] if due is not None and due <= now else None

    def forget(self, promise: PromiseId) -> Pending | None:
        """Nobody waits for this promise any more. Gives its invocation, if it was one."""
        if self.timers.pop(promise, None) is not None:
            return None
        pending = self.invocations.pop(promise, None)
        if pending is None:
            self.end_receive(promise)
        return pending

    def requests(self) -> list[Request]:
        """A request for every invocation that does not wait for a retry: for a worker that takes the run over."""
        return [
            pending.request()
            for pending in self.invocations.values()
            if pending.retry_at is None or pending.queue is not None
        ]

    def waits(self) -> list[Wait]:
        """All waits, in order of position."""
        found = [
            Wait(
                pending.event.kind,
                pending.event.function_name,
                promise.path[-1],
                pending.retry_at,
                place=pending.event.place,
            )
            for promise, pending in self.invocations.items()
        ]
        found += [Wait("timer", "", promise.path[-1], self._fires_at(promise)) for promise in self.timers]
        found += [Wait("receive", name, promise.path[-1]) for promise, name in self._names.items()]
        return sorted(found, key=lambda wait: wait.position)

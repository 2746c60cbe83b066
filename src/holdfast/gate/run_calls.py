"""The calls that one run has at the gate, and the changes that its next commit must include for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.gate.call import MOVING, Call, CallEvent, CallState, next_state
from holdfast.gate.form_calls import FormCalls
from holdfast.gate.undos import Undos
from holdfast.journal.promise import PromiseId
from holdfast.store.governance import CloseReceipt, Note, TaskRow
from holdfast.store.receipts import ReceiptRow

Closing = CloseReceipt | Note


class OtherAct(NamedTuple):
    """What a call waits for that its run does not move: ``run`` is to take the act of a receipt back, or does that act
    under the same key."""

    run: str
    receipt: str
    by_key: bool = False


class RunCalls:
    """One run's side of the gate, while a worker leases it. ``writes`` is how many of its writes are counted.

    ``others`` are the acts of others that calls wait for. They are shown with the next turn.
    """

    __slots__ = ("_asked", "_counts", "_shown", "calls", "closings", "forms", "others", "undos", "writes")

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.calls: dict[PromiseId, Call] = {}
        self.forms = FormCalls()
        self.undos = Undos()
        self.others: dict[PromiseId, OtherAct] = {}
        self._shown: Mapping[PromiseId, OtherAct] = {}
        self.closings: dict[object, Closing] = {}  # for the next commit, in order: by attempt, or by the note itself
        self._asked: set[PromiseId] = set()  # calls that people were asked about
        self._counts: dict[CallState, int] = {}  # calls by state: a run may have thousands, and every turn asks

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, promise: PromiseId) -> Call:
        """The call of this promise. A missing one is made."""
        call = self.calls.get(promise)
        if call is None:
            call = self.calls[promise] = Call(promise)
            self._counts["idle"] = self._counts.get("idle", 0) + 1
        return call

    def move(self, call: Call, event: CallEvent) -> None:
        """Change a call's state by an event. Raises EngineError where its state does not have the event.

        A call that is over is dropped, unless it has an open task: the turn that takes its outcome in must cancel that.
        """
        before, call.state = call.state, next_state(call.state, event)
        if self.others:
            self.others.pop(call.promise, None)
        if self.calls.get(call.promise) is not call:
            return
        counts = self._counts
        counts[before] -= 1
        if call.state == "over" and not call.open_tasks:
            del self.calls[call.promise]
        else:
            counts[call.state] = counts.get(call.state, 0) + 1

    def drop(self, call: Call) -> None:
        """Forget a call that has no fact that its next attempt needs."""
        if self.calls.get(call.promise) is call:
            del self.calls[call.promise]
            self._counts[call.state] -= 1

    def learn(self, receipts: Sequence[ReceiptRow], tasks: Sequence[TaskRow]) -> None:
        """Take in receipts and tasks of the store. A task that outlives its call is no matter of the run any more."""
        outlived = {receipt.asked for receipt in receipts if receipt.asked is not None}
        tasks = [task for task in tasks if task.id not in outlived]
        for receipt in receipts:
            self.call(PromiseId(receipt.root).child(receipt.position)).learn_receipt(receipt)
        for task in tasks:
            if task.kind == "form":
                self.forms.learn(task)
            elif task.status != "cancelled":
                self._learn(self.call(_place_of(task)), task)
        for task in tasks:  # now it is known which calls there are
            if task.kind != "form" and task.status == "cancelled" and _place_of(task) in self.calls:
                self._learn(self.calls[_place_of(task)], task)

    def _learn(self, call: Call, task: TaskRow) -> None:
        call.learn_task(task)
        self._asked.add(call.promise)

    def ask(self, call: Call, task: TaskRow) -> None:
        """A person is asked about a call from now on."""
        call.note_wait(task)
        self._asked.add(call.promise)
        self.move(call, "asked")

    def asked(self) -> list[Call]:
        """The calls that people were asked about, or are."""
        self._asked &= self.calls.keys()
        return [self.calls[promise] for promise in sorted(self._asked)]

    def _in(self, *states: CallState) -> int:
        return sum(self._counts.get(state, 0) for state in states)

    def resting(self) -> Iterator[Call]:
        """The calls that are neither being committed nor being done."""
        if len(self.calls) == self._in("committing", "acting"):  # nearly always
            return iter(())
        return (call for call in list(self.calls.values()) if call.state not in ("committing", "acting"))

    @property
    def has_calls(self) -> bool:
        """Whether a call, a form or an undo of the run is at the gate."""
        return bool(self.calls or self.forms or self.undos)

    def show(self) -> bool:
        """Whether calls wait for acts of others: the turn that is planned shows them."""
        self._shown = dict(self.others)
        return bool(self.others)

    @property
    def is_moving(self) -> bool:
        """Whether a call must continue in this worker."""
        if self.undos and self.undos.is_moving:
            return True
        return any(self._counts.get(state) for state in MOVING) or (bool(self.forms) and self.forms.is_busy)

    @property
    def wants_turn(self) -> bool:
        """Whether the run needs a turn now: something may have come while the last turn was being committed."""
        if self.closings or self._counts.get("due") or self.others != self._shown:
            return True
        return bool((self.forms and self.forms.wants_turn) or (self.undos and self.undos.free()))

    # -- time ------------------------------------------------------------------------------------------------------

    def next_expiry(self) -> int | None:
        """When the first open task expires, or another timer of a form is due.

        A call that is being checked does not count: it is judged again after the check.
        """
        form = self.forms.next_time() if self.forms else None
        times = [
            call.approval.expires_at
            for call in self.resting()
            if call.approval is not None
            and call.approval.status == "requested"
            and call.approval.expires_at is not None
            and call.state != "checking"
        ]
        return min(times if form is None else [*times, form], default=None)

    def is_expired(self, now: int) -> bool:
        """Whether an open task's time is over."""
        expiry = self.next_expiry()
        return expiry is not None and expiry <= now

    # -- changes for the next commit -------------------------------------------------------------------------------

    def carry(self, closing: Closing) -> None:
        """Add this to the next commit. It closes each attempt's receipt only once: two closings would conflict.

        A known outcome stays. An unknown outcome is replaced by the next one.
        """
        attempt = _attempt_of(closing)
        before = self.closings.get(attempt)
        if before is None or _is_unknown(before):
            self.closings[attempt] = closing

    def before_turn(self) -> tuple[tuple[Closing, ...], int]:
        """The state that ``undo_turn`` restores."""
        return tuple(self.closings.values()), self.writes

    def undo_turn(self, before: tuple[tuple[Closing, ...], int]) -> None:
        """Restore the state before a turn that is not committed."""
        closings, self.writes = before
        self.closings = {_attempt_of(closing): closing for closing in closings}

    def put_back(self, closings: Sequence[Closing]) -> None:
        """Put back the changes of a refused commit, before those that were added since."""
        since = self.closings.values()
        self.closings = {}
        for closing in (*closings, *since):
            self.carry(closing)

    def take_closings(self) -> tuple[Closing, ...]:
        """Take all changes out, for the next commit."""
        closings, self.closings = tuple(self.closings.values()), {}
        return closings


def _place_of(task: TaskRow) -> PromiseId:
    return PromiseId(task.root).child(task.position)


def _attempt_of(closing: Closing) -> object:
    """The attempt whose receipt it closes. A note closes none: each is kept, under a key of its own."""
    return (closing.receipt.key, closing.receipt.token) if isinstance(closing, CloseReceipt) else id(closing)


def _is_unknown(closing: Closing) -> bool:
    return isinstance(closing, CloseReceipt) and closing.receipt.state == "unknown"

"""The calls that one run has at the gate, and what its next commit must carry for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.gate.call import MOVING, Call, CallEvent, CallState, next_state
from holdfast.gate.form_calls import FormCalls
from holdfast.journal.promise import PromiseId
from holdfast.store.governance import CloseReceipt, Note, ReceiptRow, TaskRow

Closing = CloseReceipt | Note


class RunCalls:
    """One run's side of the gate, while a worker leases it. ``writes`` is how many of its writes are counted."""

    __slots__ = ("_counts", "calls", "closings", "forms", "writes")

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.calls: dict[PromiseId, Call] = {}
        self.forms = FormCalls()
        self.closings: list[Closing] = []  # what the next commit must carry
        self._counts: dict[CallState, int] = {}  # calls by state: a run may have thousands, and every turn asks

    # -- calls -----------------------------------------------------------------------------------------------------

    def call(self, promise: PromiseId) -> Call:
        """The call of this promise, which may be new."""
        call = self.calls.get(promise)
        if call is None:
            call = self.calls[promise] = Call(promise)
            self._counts["idle"] = self._counts.get("idle", 0) + 1
        return call

    def move(self, call: Call, event: CallEvent) -> None:
        """Let something happen to a call. Raises EngineError where that cannot happen in its state.

        A call that is over is dropped, unless people are still asked about it: the turn that takes its outcome in must
        withdraw that.
        """
        before, call.state = call.state, next_state(call.state, event)
        if self.calls.get(call.promise) is not call:
            return
        counts = self._counts
        counts[before] -= 1
        if call.state == "over" and not call.open_tasks:
            del self.calls[call.promise]
        else:
            counts[call.state] = counts.get(call.state, 0) + 1

    def drop(self, call: Call) -> None:
        """Forget a call of which nothing is known that its next attempt must know."""
        if self.calls.get(call.promise) is call:
            del self.calls[call.promise]
            self._counts[call.state] -= 1

    def learn(self, receipts: Sequence[ReceiptRow], tasks: Sequence[TaskRow]) -> None:
        """Take in what the store knows."""
        for receipt in receipts:
            self.call(PromiseId(receipt.root).child(receipt.position)).learn_receipt(receipt)
        for task in tasks:
            if task.kind == "form":
                self.forms.learn(task)
            else:
                self.call(PromiseId(task.root).child(task.position)).learn_task(task)

    def _in(self, *states: CallState) -> int:
        return sum(self._counts.get(state, 0) for state in states)

    def resting(self) -> Iterator[Call]:
        """The calls that are neither being committed nor being done."""
        if len(self.calls) == self._in("committing", "acting"):  # nearly always
            return iter(())
        return (call for call in list(self.calls.values()) if call.state not in ("committing", "acting"))

    @property
    def is_moving(self) -> bool:
        """Whether something here must move on in this worker."""
        return any(self._counts.get(state) for state in MOVING) or (bool(self.forms) and self.forms.is_busy)

    @property
    def wants_turn(self) -> bool:
        """Whether something here wants a turn now; it may have come while the last one was being committed."""
        return bool(self.closings or self._counts.get("due") or (self.forms and self.forms.is_restless))

    # -- time ------------------------------------------------------------------------------------------------------

    def next_expiry(self) -> int | None:
        """When the first open task expires, or time does something else to a form.

        What is being looked up is judged again when that is done.
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

    # -- what the next commit carries --------------------------------------------------------------------------------

    def carry(self, closing: Closing) -> None:
        """Let the next commit carry this. A receipt is closed by it once: committed again, two would undo each other.

        What is known of an attempt stands; of what is unknown the last word does.
        """
        for index, before in enumerate(self.closings):
            if isinstance(closing, CloseReceipt) and _attempt_of(before) == _attempt_of(closing):
                if _is_unknown(before):
                    self.closings[index] = closing
                return
        self.closings.append(closing)

    def before_turn(self) -> tuple[tuple[Closing, ...], int]:
        """What ``undo_turn`` must have back."""
        return tuple(self.closings), self.writes

    def undo_turn(self, before: tuple[tuple[Closing, ...], int]) -> None:
        """The turn is not committed: what it did here is forgotten, and what happened before is not."""
        self.closings[:], self.writes = before

    def put_back(self, closings: Sequence[Closing]) -> None:
        """A commit that carried these was refused: they come before what has gathered since."""
        self.closings[:0] = closings

    def take_closings(self) -> tuple[Closing, ...]:
        """What the next commit carries; from now on it is that commit's matter."""
        closings, self.closings = tuple(self.closings), []
        return closings


def _attempt_of(closing: Closing) -> tuple[str, str] | None:
    return (closing.receipt.key, closing.receipt.token) if isinstance(closing, CloseReceipt) else None


def _is_unknown(closing: Closing) -> bool:
    return isinstance(closing, CloseReceipt) and closing.receipt.state == "unknown"

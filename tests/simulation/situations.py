"""The rare situations in which seeds found bugs at the gate, each seen as it happens.

A seed is kept because it reaches one of them. Where a change of the engine makes it miss its situation, it proves
nothing any more, and its test says so. What is watched here changes nothing: a seed is the same simulation without it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import cbor2

from holdfast.audit import records
from holdfast.gate.run_calls import Closing, RunCalls
from holdfast.journal import events as e
from holdfast.journal.codec import decode_segment
from holdfast.journal.payload import Err, Ok
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.store import protocol as p
from tests.simulation.gated import DEPLOYED

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

MET_UNDER_ONE_WORKER: Final = "two runs of one worker meet at a key"
ASKED_ABOUT_TWO_ATTEMPTS: Final = "a person is asked about a second attempt, after an answer about the first"
GIVEN_UP_AS_RETRY_IS_DUE: Final = "a call is given up in the turn in which its retry is due"
MET_ENDED_RUN: Final = "a key is taken by an act that an ended run gave up"
CLOSED_BY_NEWER_CODE: Final = "a worker with other code closes a receipt"
DENIED_WHILE_ASKED: Final = "a call is denied while its approval is asked for"
MET_OWN_ACT: Final = "a key is taken by an act that the same run gave up"
ASKED_FOR_TWO_CALLS: Final = "people are asked about one attempt for two calls"
OTHER_CALL_AT_ITS_PLACE: Final = "in a retried run another act stands at the place of one that was done"
UNKNOWN_AFTER_SUCCESS: Final = "an act's outcome is called unknown in the turn that records its success"
UNKNOWN_TWICE_AND_LOST: Final = "an outcome is called unknown twice in one turn, whose answer is lost"
PROBED_FOR_TWO_CALLS: Final = "one attempt is probed for two calls"
STOPPED_BEFORE_IT_BEGAN: Final = "a definition stops an act that was not begun"
STOPPED_BETWEEN_ATTEMPTS: Final = "a definition stops a call that rests between two attempts"
CHILD_STOPPED: Final = "a definition stops a child, and waits for its end"

ALL: Final = (
    MET_UNDER_ONE_WORKER,
    ASKED_ABOUT_TWO_ATTEMPTS,
    GIVEN_UP_AS_RETRY_IS_DUE,
    MET_ENDED_RUN,
    CLOSED_BY_NEWER_CODE,
    DENIED_WHILE_ASKED,
    MET_OWN_ACT,
    ASKED_FOR_TWO_CALLS,
    OTHER_CALL_AT_ITS_PLACE,
    UNKNOWN_AFTER_SUCCESS,
    UNKNOWN_TWICE_AND_LOST,
    PROBED_FOR_TWO_CALLS,
    STOPPED_BEFORE_IT_BEGAN,
    STOPPED_BETWEEN_ATTEMPTS,
    CHILD_STOPPED,
)

STOPS: Final = {
    "it was stopped before it began": STOPPED_BEFORE_IT_BEGAN,
    "it was stopped before its next attempt": STOPPED_BETWEEN_ATTEMPTS,
}
"""Situations by the recorded failure."""

Attempt = tuple[str, str, str]
"""A tenant, an idempotency key and the token of one attempt."""


class Situations:
    """What one simulation has come to."""

    def __init__(self, simulation: Simulation) -> None:
        self.reached: Counter[str] = Counter()
        self._simulation = simulation
        self._retries: dict[PromiseId, int] = {}  # when the next attempt of a call is due
        self._awaited: dict[p.Key, frozenset[PromiseId] | None] = {}  # None where a wait lists nothing
        self._probed: defaultdict[Attempt, set[PromiseId]] = defaultdict(set)
        self._unknown_twice: set[Attempt] = set()

    # -- what a store is given, and answers ------------------------------------------------------------------------

    def committed(self, change: p.Change, answer: p.Answer, owner: str | None) -> None:
        """A change was applied, of a run that this worker held until then."""
        if not isinstance(change, p.Advance | p.Start) or not isinstance(answer, p.Advanced | p.Started):
            return
        if isinstance(change, p.Advance) and change.segment is not None:
            self._read(change.key, change.segment)
        for extra, reply in zip(change.attached, answer.attached, strict=True):
            match extra, reply:
                case p.OpenReceipt(receipt=receipt), p.Taken(receipt=found):
                    self._met(change.key, receipt, found)
                case p.PutTask(task=task), p.Tasked() if task.kind == "outcome" and task.version == 1:
                    self._asked(task)
                case p.CloseReceipt(receipt=receipt), p.Closed():
                    self._closed(change, receipt, owner)
        self._denied(change.attached)
        if change.segment is not None:
            self._pass(self._tables.runs[change.key].root, change.segment.at)

    def lost(self, batch: Iterable[p.Change]) -> None:
        """The answer to a batch that was applied is lost."""
        for change in batch:
            for extra in change.attached if isinstance(change, p.Advance) else ():
                if isinstance(extra, p.CloseReceipt) and _attempt(extra.receipt) in self._unknown_twice:
                    self.reached[UNKNOWN_TWICE_AND_LOST] += 1

    def _read(self, key: p.Key, segment: p.Segment) -> None:
        root = PromiseId(self._tables.runs[key].root)
        for entry in decode_segment(segment.events, root, segment.first):
            match entry.event:
                case e.InvokeRetrying(promise_id=promise, retry_at=due):
                    self._retries[promise] = due
                case e.InvokeStarted(promise_id=promise) | e.InvokeCompleted(promise_id=promise):
                    self._retries.pop(promise, None)
                    self._stopped(entry.event)
                case e.CancelRequested(reason="its parent waits for its end"):
                    self.reached[CHILD_STOPPED] += 1
                case e.ExecutionAwaiting(waiting_on=awaited, kind=kind):
                    self._awaited[key] = None if isinstance(kind, e.Open) else frozenset(awaited)

    def _stopped(self, event: e.Event) -> None:
        """What became of a call that a definition stopped."""
        if isinstance(event, e.InvokeCompleted) and isinstance(event.result, Err):
            situation = STOPS.get(event.result.failure.message)
            self.reached.update([] if situation is None else [situation])

    def _pass(self, root: bytes, time: int) -> None:
        """A turn at this time has asked for every retry that was due."""
        for promise in [promise for promise, due in self._retries.items() if promise.root == root and due <= time]:
            del self._retries[promise]

    def _met(self, key: p.Key, mine: p.ReceiptRow, found: p.ReceiptRow) -> None:
        """A key was taken."""
        if found.state == "pending" and found.run != mine.run and _worker(found) == _worker(mine):
            self.reached[MET_UNDER_ONE_WORKER] += 1
        if found.state not in ("pending", "unknown"):
            return
        holder = self._tables.runs.get(p.Key(found.tenant, found.run))
        if found.run != mine.run and holder is not None and holder.standing in p.ENDED:
            self.reached[MET_ENDED_RUN] += 1
        promise = PromiseId(found.root).child(found.position)
        awaited = self._awaited.get(key)
        if found.root == mine.root and awaited is not None and promise not in awaited:
            self.reached[MET_OWN_ACT] += 1

    def _asked(self, task: p.TaskRow) -> None:
        """People are asked what became of an attempt."""
        about = _subject(task)
        for other in self._tables.tasks.values():
            if other.kind != "outcome" or other.tenant != task.tenant or other.id == task.id:
                continue
            same_call = (other.root, other.position) == (task.root, task.position)
            if same_call and _subject(other) != about and other.status in ("approved", "rejected"):
                self.reached[ASKED_ABOUT_TWO_ATTEMPTS] += 1
            if not same_call and _subject(other) == about:
                self.reached[ASKED_FOR_TWO_CALLS] += 1

    def _closed(self, change: p.Advance | p.Start, receipt: p.ReceiptRow, owner: str | None) -> None:
        promise = PromiseId(receipt.root).child(receipt.position)
        due = self._retries.get(promise)
        at = change.segment.at if change.segment is not None else None
        if receipt.abandoned and due is not None and at is not None and due <= at:
            self.reached[GIVEN_UP_AS_RETRY_IS_DUE] += 1
        if receipt.action in DEPLOYED and self._code(owner) != self._code(_worker(receipt)):
            self.reached[CLOSED_BY_NEWER_CODE] += 1

    def _code(self, worker: str | None) -> bool | None:
        for process in self._simulation.lives:
            if process.app.worker is not None and process.app.worker.id == worker:
                return process.is_deployed
        return None

    def _denied(self, changes: Iterable[Any]) -> None:
        """Whether a decision denies a call whose approval the same commit withdraws."""
        denied: set[str] = set()
        for change in changes:
            if isinstance(change, p.Note) and change.kind == "decision":
                record = records.decode(change.body)
                if isinstance(record, records.Decided) and record.effect == "deny":
                    denied.add(record.promise)
        for change in changes:
            if isinstance(change, p.CancelTask):
                task = self._tables.tasks[change.tenant, change.id]
                if task.kind == "approval" and str(PromiseId(task.root).child(task.position)) in denied:
                    self.reached[DENIED_WHILE_ASKED] += 1

    # -- what workers do -------------------------------------------------------------------------------------------

    def probed(self, tenant: str, key: str, promise: PromiseId) -> None:
        """A probe looks what became of the attempt that has this key."""
        receipt = self._tables.receipts.get((tenant, key))
        if receipt is None:
            return
        calls = self._probed[_attempt(receipt)]
        calls.add(promise)
        if len(calls) > 1:
            self.reached[PROBED_FOR_TWO_CALLS] += 1

    @contextmanager
    def watching_closings(self) -> Iterator[None]:
        """See what becomes of two closings of one attempt that one commit would carry."""
        carry: Callable[[RunCalls, Closing], None] = RunCalls.carry

        def watched(calls: RunCalls, closing: Closing) -> None:
            for before in calls.closings.values():
                if isinstance(closing, p.CloseReceipt) and isinstance(before, p.CloseReceipt):
                    self._carried(before.receipt, closing.receipt)
            carry(calls, closing)

        RunCalls.carry = watched  # type: ignore[method-assign]
        try:
            yield
        finally:
            RunCalls.carry = carry  # type: ignore[method-assign]

    def _carried(self, before: p.ReceiptRow, after: p.ReceiptRow) -> None:
        if _attempt(before) != _attempt(after) or after.state != "unknown":
            return
        if before.state == "unknown":
            self._unknown_twice.add(_attempt(after))
        elif before.state == "succeeded":
            self.reached[UNKNOWN_AFTER_SUCCESS] += 1

    # -- what journals say in the end ------------------------------------------------------------------------------

    def at_rest(self) -> None:
        """Everything has ended: look at the generations of runs that were retried."""
        store = self._simulation.store
        for key, generation in store.retried:
            journals = store.generations(key)
            before = _done(journals[generation - 1])
            for promise, call in _done(journals[generation]).items():
                done = before.get(promise)
                if done is not None and done.input != call.input:
                    self.reached[OTHER_CALL_AT_ITS_PLACE] += 1

    @property
    def _tables(self) -> Any:
        return self._simulation.chronicle.tables


def _calls(journal: list[e.Entry]) -> dict[PromiseId, e.InvokeScheduled]:
    return {
        event.promise_id: event
        for entry in journal
        if isinstance(event := entry.event, e.InvokeScheduled) and event.kind == ACTION
    }


def _done(journal: list[e.Entry]) -> dict[PromiseId, e.InvokeScheduled]:
    """The calls that have succeeded."""
    calls = _calls(journal)
    return {
        event.promise_id: calls[event.promise_id]
        for entry in journal
        if isinstance(event := entry.event, e.InvokeCompleted)
        and isinstance(event.result, Ok)
        and event.promise_id in calls
    }


def _attempt(receipt: p.ReceiptRow) -> Attempt:
    return receipt.tenant, receipt.key, receipt.token


def _worker(receipt: p.ReceiptRow) -> str:
    return receipt.token.rpartition("~")[0]


def _subject(task: p.TaskRow) -> tuple[str, str]:
    """The receipt and the attempt that people are asked about."""
    details = cbor2.loads(task.details)
    return details["receipt"], details["token"]

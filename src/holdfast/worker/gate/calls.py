"""What a held run has at the gate: the acts under way, what is known of earlier ones, what its next commit carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.audit.records import type_of
from holdfast.gate.judgement import Known
from holdfast.gate.policy.policy import Policy, Ruling
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.actions import Action
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.store import protocol as p
from holdfast.tasks.answers import is_about
from holdfast.worker.gate.form_calls import FormCalls
from holdfast.worker.performer import Call, Performance

if TYPE_CHECKING:
    from holdfast.worker.held import Held


class Passage(msgspec.Struct, gc=False):
    """What one action does to the next commit, and what follows when the first of these changes is answered."""

    changes: tuple[p.Gating, ...] = ()
    then: Callable[[p.Answer | None], None] | None = None


class Case:
    """One call before the gate. ``arguments`` are its arguments by name as plain data, ``call`` what its function gets.

    The two share nothing: a function may change what it is given.
    """

    __slots__ = (
        "action",
        "arguments",
        "call",
        "digest",
        "held",
        "name",
        "now",
        "promise",
        "proposal",
        "request",
        "told",
    )

    def __init__(
        self,
        held: Held,
        request: Invoke,
        action: Action[..., Any],
        proposal: Proposal,
        arguments: dict[str, Any],
        call: Call,
        name: str,
        now: int,
    ) -> None:
        self.held = held
        self.request = request
        self.action = action
        self.proposal = proposal
        self.arguments = arguments
        self.call = call
        self.now = now
        self.promise = request.promise_id
        self.name = name
        self.digest = proposal.digest()
        self.told = self.digest.hex()

    @property
    def operation(self) -> tuple[str, str]:
        """What is done to whom, whatever the function is called."""
        return self.proposal.connector, self.proposal.operation

    def misfit(self, result: Payload) -> BaseException | None:
        """Why the act cannot have given this result, with which its run could never go on; None where it can."""
        try:
            self.action.read_result(result)
        except BaseException as error:  # a class of the author's own may refuse it in its own way
            if is_interrupt(error):
                raise
            return error
        return None

    @property
    def fields(self) -> dict[str, str]:
        """The types of the arguments; "secret" where one is, or holds, a secret."""
        secrets = self.action.secrets.names
        return {name: "secret" if name in secrets else type_of(value) for name, value in self.proposal.fields.items()}


class Clearance:
    """An act that may be done: its receipt is open. ``counts`` is whether it was counted as one write more."""

    __slots__ = ("case", "counts", "performance", "probing", "receipt")

    def __init__(self, case: Case, receipt: p.ReceiptRow, *, counts: bool = False, probing: bool = False) -> None:
        self.case = case
        self.receipt = receipt
        self.counts = counts
        self.probing = probing
        self.performance: Performance | None = None

    @property
    def promise(self) -> PromiseId:
        return self.case.promise

    @property
    def request(self) -> Invoke:
        return self.case.request

    @property
    def begun(self) -> bool:
        return self.performance is not None and self.performance.begun


class Ruled(msgspec.Struct, frozen=True, gc=False):
    """What a policy said of a proposal, and of what it knew then."""

    policy: Policy
    proposal: Proposal
    facts: RunFacts
    ruling: Ruling


class Gatehouse:
    """One run's side of the gate, while this worker leases it."""

    __slots__ = (
        "again",
        "approvals",
        "cleared",
        "closings",
        "counted",
        "forms",
        "keys",
        "looked",
        "looking",
        "meeting",
        "outcomes",
        "passing",
        "probed",
        "receipts",
        "refuted",
        "rulings",
        "unsure",
        "witnessed",
        "writes",
    )

    def __init__(self, writes: int) -> None:
        self.writes = writes
        self.forms = FormCalls()
        self.receipts: dict[PromiseId, p.ReceiptRow] = {}  # attempts of unknown outcome
        self.approvals: dict[PromiseId, p.TaskRow] = {}
        self.outcomes: dict[PromiseId, p.TaskRow] = {}
        self.counted: set[PromiseId] = set()  # calls that failed before this worker had the run: writes already counted
        self.probed: set[PromiseId] = set()
        self.cleared: dict[PromiseId, Clearance] = {}
        self.passing: set[PromiseId] = set()  # calls whose judgement is being committed
        self.meeting: set[PromiseId] = set()  # calls that wait for another run's act under the same key
        self.closings: list[p.CloseReceipt | p.Note] = []  # what the next commit must carry
        self.again: dict[PromiseId, Invoke] = {}  # calls to be judged once more
        self.looking: set[PromiseId] = set()  # calls to be judged once more when the store has been looked at
        self.rulings: dict[PromiseId, Ruled] = {}  # what took its time, to be used in the next turn
        self.keys: dict[PromiseId, str] = {}  # the key of each call that an older version gave another
        self.looked: set[str] = set()  # tasks whose receipt was looked for
        self.witnessed: set[tuple[str, int]] = set()  # answered tasks, by id and version, that the audit tells of
        self.refuted: dict[PromiseId, str] = {}  # calls with an answer that it does not tell of, and what is wrong
        self.unsure: set[PromiseId] = set()  # calls whose receipt was closed elsewhere: what is known here is old

    def learn(self, receipts: Sequence[p.ReceiptRow], tasks: Sequence[p.TaskRow]) -> None:
        """Take in what the store knows. Of a task the newer version counts."""
        for receipt in receipts:
            promise = PromiseId(receipt.root).child(receipt.position)
            if receipt.state == "failed":
                self.counted.add(promise)
                continue
            before = self.receipts.get(promise)
            if before is None or before.token != receipt.token:  # of the same attempt more may be known here
                self.receipts[promise] = receipt
        for task in tasks:
            if task.kind == "form":
                self.forms.learn(task)
                continue
            known = self.approvals if task.kind == "approval" else self.outcomes
            promise = PromiseId(task.root).child(task.position)
            last = known.get(promise)
            if last is None or self._rank(promise, task) > self._rank(promise, last):
                known[promise] = task

    def _rank(self, promise: PromiseId, task: p.TaskRow) -> tuple[bool, int, int]:
        """Which of two tasks of a call counts. The clocks of workers differ: the attempt is the better witness."""
        receipt = self.receipts.get(promise)
        about = task.kind == "outcome" and receipt is not None and is_about(task, receipt)
        return (about, task.created_at, task.version)

    def unwitnessed(self, promise: PromiseId) -> list[p.TaskRow]:
        """The call's answered tasks of which it is not known that the audit tells the answer."""
        asked = (self.outcomes.get(promise), self.approvals.get(promise))
        answered = [task for task in asked if task is not None and task.status in ("approved", "rejected")]
        return [task for task in answered if (task.id, task.version) not in self.witnessed]

    def known(self, promise: PromiseId) -> Known:
        """What is known of a call before it is judged."""
        receipt = self.receipts.get(promise)
        return Known(
            receipt,
            self.outcomes.get(promise),
            self.approvals.get(promise),
            promise in self.probed,
            promise in self.counted or (receipt is not None and is_of(receipt, promise)),
        )

    def carry(self, closing: p.CloseReceipt | p.Note) -> None:
        """Let the next commit carry this. A receipt is closed by it once: committed again, two would undo each other.

        What is known of an attempt stands; of what is unknown the last word does.
        """
        for index, before in enumerate(self.closings):
            if isinstance(closing, p.CloseReceipt) and _attempt_of(before) == _attempt_of(closing):
                if _is_unknown(before):
                    self.closings[index] = closing
                return
        self.closings.append(closing)

    @property
    def is_involved(self) -> bool:
        """Whether there is more to look at than the calls that are asked for now."""
        return bool(self.again or self.receipts or self.approvals or self.outcomes or self.unsure)

    @property
    def busy(self) -> bool:
        """Whether something here must move on in this worker."""
        return bool(self.cleared or self.meeting or self.looking or self.again or (self.forms and self.forms.is_busy))

    @property
    def restless(self) -> bool:
        """Whether something here wants a turn now; it may have come while the last one was being committed."""
        return bool(self.again or self.closings or (self.forms and self.forms.is_restless))

    def task_of(self, promise: PromiseId) -> p.TaskRow | None:
        """The task that the call waits for."""
        for known in (self.outcomes, self.approvals):
            task = known.get(promise)
            if task is not None and task.status == "requested":
                return task
        return None

    def is_expired(self, now: int) -> bool:
        """Whether an open task's time is over, or time has something else to do to one."""
        expiry = self.next_expiry()
        return expiry is not None and expiry <= now

    def next_expiry(self) -> int | None:
        """When the first open task expires, or time does something else to it."""
        form = self.forms.next_time() if self.forms else None
        if not self.approvals:
            return form
        # What is being looked up, or committed, is judged again when that is done.
        times = [
            task.expires_at
            for promise, task in self.approvals.items()
            if task.status == "requested"
            and task.expires_at is not None
            and promise not in self.looking
            and promise not in self.passing
        ]
        return min(times if form is None else [*times, form], default=None)

    def forget(self, promise: PromiseId) -> None:
        """The call is settled."""
        for known in (self.receipts, self.approvals, self.outcomes, self.again, self.refuted):
            known.pop(promise, None)
        self.keys.pop(promise, None)
        self.rulings.pop(promise, None)
        self.probed.discard(promise)
        self.counted.discard(promise)
        self.meeting.discard(promise)
        self.looking.discard(promise)


def is_of(receipt: p.ReceiptRow, promise: PromiseId) -> bool:
    """Whether the receipt is this call's, and not that of another call under the same key."""
    return receipt.root == promise.root and receipt.position == promise.path[-1]


def _attempt_of(closing: p.CloseReceipt | p.Note) -> tuple[str, str] | None:
    return (closing.receipt.key, closing.receipt.token) if isinstance(closing, p.CloseReceipt) else None


def _is_unknown(closing: p.CloseReceipt | p.Note) -> bool:
    return isinstance(closing, p.CloseReceipt) and closing.receipt.state == "unknown"

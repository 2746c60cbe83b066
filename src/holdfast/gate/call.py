"""A call at the gate: one effect that one run asks for, from the first judgement to the outcome.

Everything that changes the state of a call is in this table: state, event, next state. An event that a state does not
have is an error of the engine. The events:

- ``news``: something about the call became known: a person answered, a task expired, a receipt was closed elsewhere
- ``unasked``: the call was to be judged, but its run no longer asks for it, or not yet again
- ``doubted``: something must be looked up before the call can be judged; ``checked``: it was looked up
- ``asked``: a person must answer first
- ``decided``: the decision is being committed, and the commit's answer determines the next step
- ``opened``, ``probed``: the commit was answered, and the act, or its probe, may begin
- ``key_taken``: another call has the key; ``key_freed``: the outcome of that call is known
- ``found``: the outcome of the act is known, and is being read or recorded
- ``missed``: a probe found that the act was not done
- ``failed``: this attempt failed, and the run may ask for another; ``settled``: the run gets the outcome
- ``abandoned``: nobody waits for the call any more
- ``called_off``: nobody waits for it, and its act does not begin; ``ended``: the act of an abandoned call has ended
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeGuard

from holdfast.errors import EngineError
from holdfast.gate.effects import Arguments, Effect, Intent
from holdfast.gate.judgement import Found, Known, SlowRuling
from holdfast.gate.proposals import Proposal
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke
from holdfast.store.governance import TaskRow
from holdfast.store.receipts import ReceiptRow
from holdfast.tasks.answers import DID_NOT_HAPPEN, is_about, verdict_of

CallState = Literal[
    "idle",  # nothing is under way: it was not judged yet, or is between two attempts
    "due",  # the next turn of its run judges it
    "checking",  # the store or the audit is being read, or a slow policy evaluated
    "waiting",  # a person is being asked
    "committing",  # the decision is being committed
    "blocked",  # another call has its key
    "acting",  # its receipt is open, and its act is to begin or has begun
    "probing",  # its probe is to begin or has begun
    "concluding",  # its outcome is being read or recorded
    "abandoned",  # nobody waits for it, but its act or probe is still under way
    "over",  # its run has the outcome, or does not want it
]
CallEvent = Literal[
    "news",
    "unasked",
    "doubted",
    "checked",
    "asked",
    "decided",
    "opened",
    "probed",
    "key_taken",
    "key_freed",
    "found",
    "missed",
    "failed",
    "settled",
    "abandoned",
    "called_off",
    "ended",
]

TRANSITIONS: Final[Mapping[CallState, Mapping[CallEvent, CallState]]] = {
    "idle": {
        "news": "due",
        "doubted": "checking",
        "asked": "waiting",
        "decided": "committing",
        "abandoned": "over",
    },
    "due": {
        "news": "due",
        "unasked": "idle",
        "doubted": "checking",
        "asked": "waiting",
        "decided": "committing",
        "abandoned": "over",
    },
    "checking": {
        "news": "checking",
        "checked": "due",
        "abandoned": "over",
    },
    "waiting": {
        "news": "due",
        "abandoned": "over",
    },
    "committing": {
        "news": "committing",
        "opened": "acting",
        "probed": "probing",
        "key_taken": "blocked",
        "found": "concluding",
        "doubted": "checking",
        "settled": "over",
        "abandoned": "over",
    },
    "blocked": {
        "news": "blocked",
        "key_freed": "due",
        "doubted": "checking",
        "abandoned": "over",
    },
    "acting": {
        "news": "acting",
        "failed": "idle",
        "doubted": "checking",
        "settled": "over",
        "abandoned": "abandoned",
        "called_off": "over",
    },
    "probing": {
        "news": "probing",
        "found": "concluding",
        "missed": "due",
        "doubted": "checking",
        "abandoned": "abandoned",
    },
    "concluding": {
        "news": "concluding",
        "doubted": "checking",
        "settled": "over",
        "abandoned": "over",
    },
    "abandoned": {
        "news": "abandoned",
        "ended": "over",
    },
    "over": {
        "news": "over",
        "abandoned": "over",
    },
}

JUDGED: Final[frozenset[CallState]] = frozenset({"idle", "due"})
"""The states in which a call may be judged. If it were judged in another state, its act could be done twice."""

MOVING: Final[frozenset[CallState]] = frozenset(
    {"due", "checking", "committing", "blocked", "acting", "probing", "concluding", "abandoned"}
)
"""The states that the worker that holds the run will end without a further event from outside."""


def next_state(state: CallState, event: CallEvent) -> CallState:
    """The state after the event. Raises EngineError where the table has no such event for the state."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise EngineError(f"a call at the gate that is {state} cannot be {event}")
    return following


class RunningAttempt(Protocol):
    """The part of an attempt that its call can see while the performer has it."""

    @property
    def begun(self) -> bool: ...
    @property
    def done(self) -> bool:
        """Whether it has returned, with any result."""
        ...

    @property
    def unknown(self) -> bool:
        """Whether it failed, and it is not known whether its act was done."""
        ...

    def cancel(self) -> None:
        """Keep it from beginning."""
        ...


class Call:
    """One call, and all that is known of it here. ``state`` changes only by ``TRANSITIONS``: see ``RunCalls.move``.

    ``ask`` sets the fields ``request`` to ``reverses``. It is called before a judgement, so they are set in every state
    that a judgement leads to.
    """

    __slots__ = (
        "approval",
        "arguments",
        "attempt",
        "attempt_arguments",
        "counts",
        "digest",
        "digest_hex",
        "earlier",
        "effect",
        "examined",
        "failed_keys",
        "found",
        "key",
        "name",
        "outcome",
        "probed",
        "problem",
        "promise",
        "proposal",
        "receipt",
        "repeats",
        "request",
        "reverses",
        "rounds",
        "ruling",
        "stale",
        "state",
        "waits",
        "witnessed",
    )

    request: Invoke
    effect: Effect
    proposal: Proposal
    arguments: Mapping[str, Any]
    attempt_arguments: Arguments
    reverses: str | None
    digest: bytes
    digest_hex: str
    receipt: ReceiptRow  # of the act that is being done or probed

    def __init__(self, promise: PromiseId) -> None:
        self.promise = promise
        self.name = str(promise)
        self.state: CallState = "idle"
        self.earlier: ReceiptRow | None = None  # an attempt under its key whose outcome is unknown
        self.outcome: TaskRow | None = None
        self.approval: TaskRow | None = None
        self.probed = False
        # The keys of attempts that failed at its place: they are counted as writes.
        self.failed_keys: frozenset[str] = frozenset()
        self.stale = False  # its receipt was closed elsewhere, and must be read again
        self.rounds: dict[str, int] = {}  # of keys that it has had: a retried run may call it with other arguments
        self.found: Found | None = None  # what has its key, once that was looked for
        self.key: str | None = None  # its key, where an older version gave it another than the proposal's
        self.ruling: SlowRuling | None = None  # for the next turn
        self.examined: str | None = None  # the outcome task whose receipt was looked for
        self.witnessed: tuple[tuple[str, int], ...] = ()  # answered tasks, by id and version, that the audit records
        self.problem: str | None = None  # the problem of an answer that the audit does not record
        self.counts = False  # whether its act counts as another write
        self.repeats = False  # whether its act repeats an attempt of unknown outcome
        self.attempt: RunningAttempt | None = None
        self.waits: dict[str, tuple[int, int | None]] = {}  # its tasks: when they were asked, and when closed

    def ask(self, request: Invoke, effect: Effect, intent: Intent) -> None:
        """Take in the request and its intent."""
        self.request = request
        self.effect = effect
        self.proposal = intent.proposal
        self.arguments = intent.arguments
        self.attempt_arguments = intent.attempt_arguments
        self.reverses = intent.reverses
        self.digest = intent.proposal.digest()
        self.digest_hex = self.digest.hex()

    # -- facts -----------------------------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """The round of its key: each act under it that was taken back ends one."""
        return self.rounds.get(self.proposal.key, 1)

    def learn_receipt(self, receipt: ReceiptRow) -> None:
        """Take in the stored receipt of an attempt."""
        if is_of(receipt, self.promise):
            self.rounds[receipt.first_key] = max(self.rounds.get(receipt.first_key, 1), receipt.round)
        if receipt.state == "failed":
            self.failed_keys |= {receipt.first_key}
        elif self.earlier is None or self.earlier.token != receipt.token:  # the receipt here may be newer
            self.earlier = receipt

    def learn_task(self, task: TaskRow) -> None:
        """Take in a task. The newest task counts, in its newest version. One that was cancelled before the call was
        known here counts no more; only its time does."""
        self.note_wait(task)
        if task.status == "cancelled" and task.id not in self._present:
            return
        if task.kind == "approval":
            if self.approval is None or self._rank(task) > self._rank(self.approval):
                self.approval = task
        elif self.outcome is None or self._rank(task) > self._rank(self.outcome):
            self.outcome = task

    @property
    def _present(self) -> set[str]:
        return {task.id for task in (self.outcome, self.approval) if task is not None}

    def note_wait(self, task: TaskRow) -> None:
        """A person is asked, or no longer."""
        began, ended = self.waits.get(task.id, (task.created_at, None))
        self.waits[task.id] = began, ended if task.closed_at is None else task.closed_at

    def waited(self) -> tuple[int, bool]:
        """How long it has waited for people, in microseconds, and whether it still does."""
        total, until = 0, 0
        for began, ended in sorted(self.waits.values(), key=lambda wait: wait[0]):
            if ended is not None and ended > until:
                total += max(0, ended - max(began, until))  # the clocks of those who asked and answered differ
                until = ended
        return total, bool(self.open_tasks)

    def _rank(self, task: TaskRow) -> tuple[bool, int, int]:
        """The task of the higher rank counts. The clocks of workers differ, so the attempt comes before the time."""
        about = task.kind == "outcome" and self.earlier is not None and is_about(task, self.earlier)
        return (about, task.created_at, task.version)

    @property
    def known(self) -> Known:
        """The facts for its judgement. In a retried run another call may have failed at its place before."""
        own = self.proposal.key in self.failed_keys or (self.earlier is not None and is_of(self.earlier, self.promise))
        return Known(self.earlier, self.outcome, self.approval, self.probed, own, self.found)

    @property
    def unwitnessed(self) -> list[TaskRow]:
        """The answered tasks whose answer was not found in the audit yet."""
        answered = [task for task in (self.outcome, self.approval) if task is not None and is_answered(task)]
        return [task for task in answered if (task.id, task.version) not in self.witnessed]

    @property
    def decider(self) -> str | None:
        """The person whose answer let its act be done, gave its outcome, or refused it; None where nobody was asked."""
        answered = [task for task in (self.outcome, self.approval) if task is not None and is_answered(task)]
        return answered[0].answers[-1].who if answered and answered[0].answers else None

    @property
    def open_tasks(self) -> list[TaskRow]:
        """The open tasks about it, of either kind."""
        return [task for task in (self.outcome, self.approval) if task is not None and task.status == "requested"]

    @property
    def is_open(self) -> bool:
        """Whether it has an attempt whose outcome is open, or an open task."""
        return is_unaccounted(self.earlier, self.promise) or bool(self.open_tasks)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether it has a fact that its next attempt needs."""
        return any(fact is not None for fact in (self.earlier, self.outcome, self.approval, self.key))

    @property
    def may_have_begun(self) -> bool:
        """Whether an attempt of its own was begun whose end its run does not know."""
        return self.earlier is not None and is_of(self.earlier, self.promise) and self.earlier.state != "failed"

    @property
    def was_not_done(self) -> bool:
        """Whether a person has said that the attempt of unknown outcome was not done."""
        earlier, task = self.earlier, self.outcome
        about = earlier is not None and task is not None and is_about(task, earlier)
        return about and task is not None and verdict_of(task) == DID_NOT_HAPPEN

    @property
    def is_harmless(self) -> bool:
        """Whether it makes no difference if its act was done: it reads, and its author allows that it is repeated."""
        return not self.effect.writes and self.effect.safe_to_retry

    @property
    def may_repeat(self) -> bool:
        """Whether an attempt of unknown outcome is repeated without asking a person: if that is safe, one that died
        with its worker always, and one that has ended while attempts are left."""
        before, most = self.earlier, self.request.retry.max_attempts
        has_ended = before is not None and before.state == "unknown" and is_of(before, self.promise)
        return self.effect.safe_to_retry and not (has_ended and before is not None and before.attempt >= most)

    @property
    def begun(self) -> bool:
        """Whether its act, or its probe, has begun."""
        return self.attempt is not None and self.attempt.begun

    def forget(self) -> None:
        """Drop the facts of a settled call: nothing needs them any more."""
        self.earlier = self.approval = self.outcome = None
        self.ruling = self.problem = None


def is_answered(task: TaskRow) -> bool:
    """Whether people have answered it."""
    return task.status in ("approved", "rejected")


def is_of(receipt: ReceiptRow, promise: PromiseId) -> bool:
    """Whether the receipt is this call's, and not that of another call under the same key."""
    return receipt.root == promise.root and receipt.position == promise.path[-1]


def is_unaccounted(receipt: ReceiptRow | None, promise: PromiseId) -> TypeGuard[ReceiptRow]:
    """Whether this is the call's own attempt, and its outcome is still open: neither known nor given up."""
    if receipt is None or not is_of(receipt, promise):
        return False
    return receipt.state == "pending" or (receipt.state == "unknown" and not receipt.abandoned)

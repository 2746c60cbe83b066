"""A call at the gate: one effect that one run asks for, from the first judgement to the outcome.

Everything that changes the state of a call is in this table: state, event, next state. An event that a state does not
have is an error of the engine. The words of the events:

- ``news``: something about the call became known: a person answered, a task expired, a receipt was closed elsewhere
- ``unasked``: when it came to be judged, its run did not ask for it any more, or not yet again
- ``doubted``: something must be looked up before the call can be judged; ``checked``: it was looked up
- ``asked``: a person must answer first
- ``decided``: what was decided is being committed, and the commit's answer says how the call goes on
- ``opened``, ``probed``: the commit was answered, and the act, or its probe, may begin
- ``key_taken``: another call has the key; ``key_freed``: its outcome is known
- ``found``: what came of the act is known, and is being read or recorded
- ``missed``: a probe found that the act was not done
- ``failed``: this attempt failed, and the run may ask for another; ``settled``: the run is told the outcome
- ``abandoned``: nobody waits for the call any more
- ``called_off``: nobody waits for it, and its act does not begin; ``ended``: the act that nobody waits for has ended
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeGuard

import msgspec

from holdfast.errors import EngineError
from holdfast.gate.effects import Arguments, Effect, Intent
from holdfast.gate.judgement import Known
from holdfast.gate.policy.policy import Policy, Ruling
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke
from holdfast.store.governance import ReceiptRow, TaskRow
from holdfast.tasks.answers import is_about

CallState = Literal[
    "idle",  # nothing is under way here: it was not judged yet, or is between two attempts
    "due",  # the next turn of its run judges it
    "checking",  # the store, the audit or a slow policy is being asked
    "waiting",  # a person is being asked
    "committing",  # what was decided is being committed
    "blocked",  # another call has its key
    "acting",  # its receipt is open, and its act is to begin or has begun
    "probing",  # its probe is to begin or has begun
    "concluding",  # its outcome is being read or recorded
    "abandoned",  # nobody waits for it, and its act or probe goes on to the end
    "over",  # its run knows the outcome, or does not want it
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
"""The states in which a call may be judged: judged in another, it could be done twice."""

MOVING: Final[frozenset[CallState]] = frozenset(
    {"due", "checking", "committing", "blocked", "acting", "probing", "concluding", "abandoned"}
)
"""The states that end by themselves in the worker that holds the run."""


def next_state(state: CallState, event: CallEvent) -> CallState:
    """The state after the event. Raises EngineError where the table has no such event for the state."""
    following = TRANSITIONS[state].get(event)
    if following is None:
        raise EngineError(f"a call at the gate that is {state} cannot be {event}")
    return following


class RunningAttempt(Protocol):
    """What a call knows of its act while the performer has it."""

    @property
    def begun(self) -> bool: ...
    @property
    def done(self) -> bool:
        """Whether it returned, whatever came of its result."""
        ...

    @property
    def unknown(self) -> bool:
        """Whether it failed, and nobody can tell whether its act was done."""
        ...

    def cancel(self) -> None:
        """Let it not begin."""
        ...


class SlowRuling(msgspec.Struct, frozen=True, gc=False):
    """What a policy that took its time said of a proposal, and of what was known then."""

    policy: Policy
    proposal: Proposal
    facts: RunFacts
    ruling: Ruling

    def is_about(self, policy: Policy, proposal: Proposal, facts: RunFacts) -> bool:
        """Whether it is still the same policy, and the same question."""
        return self.policy is policy and (self.proposal, self.facts) == (proposal, facts)


class Call:
    """One call, and all that is known of it here. ``state`` changes by ``TRANSITIONS`` alone: see ``RunCalls.move``.

    What it asks for (``request`` to ``reverses``) is known as soon as ``ask`` was called, so in every state that a
    judgement leads to.
    """

    __slots__ = (
        "approval",
        "arguments",
        "attempt",
        "counted",
        "counts",
        "digest",
        "digest_hex",
        "earlier",
        "effect",
        "examined",
        "given",
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
        "ruling",
        "stale",
        "state",
        "witnessed",
    )

    request: Invoke
    effect: Effect
    proposal: Proposal
    arguments: Mapping[str, Any]
    given: Arguments
    reverses: str | None
    digest: bytes
    digest_hex: str
    receipt: ReceiptRow  # of the act that is being done, or looked for

    def __init__(self, promise: PromiseId) -> None:
        self.promise = promise
        self.name = str(promise)
        self.state: CallState = "idle"
        self.earlier: ReceiptRow | None = None  # an attempt under its key whose outcome is unknown
        self.outcome: TaskRow | None = None
        self.approval: TaskRow | None = None
        self.probed = False
        self.counted = False  # an attempt failed before this worker had the run: it is counted as a write
        self.stale = False  # its receipt was closed elsewhere: what is known here is old
        self.key: str | None = None  # the one of two that it has, where an older version gave it another
        self.ruling: SlowRuling | None = None  # for the next turn
        self.examined: str | None = None  # the outcome task whose receipt was looked for
        self.witnessed: tuple[tuple[str, int], ...] = ()  # answered tasks, by id and version, that the audit records
        self.problem: str | None = None  # what is wrong with an answer that it does not record
        self.counts = False  # whether its act is counted as one write more
        self.repeats = False  # whether its act repeats an attempt of unknown outcome
        self.attempt: RunningAttempt | None = None

    def ask(self, request: Invoke, effect: Effect, intent: Intent) -> None:
        """Take in what it asks for."""
        self.request = request
        self.effect = effect
        self.proposal = intent.proposal
        self.arguments = intent.arguments
        self.given = intent.given
        self.reverses = intent.reverses
        self.digest = intent.proposal.digest()
        self.digest_hex = self.digest.hex()

    # -- what is known ---------------------------------------------------------------------------------------------

    def learn_receipt(self, receipt: ReceiptRow) -> None:
        """Take in what the store has of an attempt."""
        if receipt.state == "failed":
            self.counted = True
        elif self.earlier is None or self.earlier.token != receipt.token:  # of the same attempt more may be known here
            self.earlier = receipt

    def learn_task(self, task: TaskRow) -> None:
        """Take in a task. The youngest counts, in its newest version."""
        if task.kind == "approval":
            if self.approval is None or self._rank(task) > self._rank(self.approval):
                self.approval = task
        elif self.outcome is None or self._rank(task) > self._rank(self.outcome):
            self.outcome = task

    def _rank(self, task: TaskRow) -> tuple[bool, int, int]:
        """Which of two tasks of a call counts. The clocks of workers differ: the attempt is the better witness."""
        about = task.kind == "outcome" and self.earlier is not None and is_about(task, self.earlier)
        return (about, task.created_at, task.version)

    @property
    def known(self) -> Known:
        """What is known before it is judged."""
        own = self.counted or (self.earlier is not None and is_of(self.earlier, self.promise))
        return Known(self.earlier, self.outcome, self.approval, self.probed, own)

    @property
    def unwitnessed(self) -> list[TaskRow]:
        """The answered tasks of which it is not known that the audit records the answer."""
        answered = [task for task in (self.outcome, self.approval) if task is not None and is_answered(task)]
        return [task for task in answered if (task.id, task.version) not in self.witnessed]

    @property
    def open_tasks(self) -> list[TaskRow]:
        """All that people are asked about it, of either kind."""
        return [task for task in (self.outcome, self.approval) if task is not None and task.status == "requested"]

    @property
    def is_open(self) -> bool:
        """Whether somebody must still account for it: for an attempt, or for a question to people."""
        return is_unaccounted(self.earlier, self.promise) or bool(self.open_tasks)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether something is known that its next attempt must know."""
        return any(known is not None for known in (self.earlier, self.outcome, self.approval, self.key))

    @property
    def begun(self) -> bool:
        """Whether its act, or its probe, has begun."""
        return self.attempt is not None and self.attempt.begun

    # -- what is forgotten -----------------------------------------------------------------------------------------

    def forget(self) -> None:
        """It is settled: what is known of it is of no use any more."""
        self.earlier = self.approval = self.outcome = None
        self.ruling = None
        self.problem = None


def is_answered(task: TaskRow) -> bool:
    """Whether people have said what it asks."""
    return task.status in ("approved", "rejected")


def is_of(receipt: ReceiptRow, promise: PromiseId) -> bool:
    """Whether the receipt is this call's, and not that of another call under the same key."""
    return receipt.root == promise.root and receipt.position == promise.path[-1]


def is_unaccounted(receipt: ReceiptRow | None, promise: PromiseId) -> TypeGuard[ReceiptRow]:
    """Whether this is the call's own attempt, of which nobody knows or has said that it is left at that."""
    if receipt is None or not is_of(receipt, promise):
        return False
    return receipt.state == "pending" or (receipt.state == "unknown" and not receipt.abandoned)

"""The gate's judgement of one proposed action: the next thing to do, from its arguments alone.

The order is the law. First comes an earlier attempt whose outcome is unknown: a denial must not hide an act that may
have been done. Then come the allowlist, the caps, the policy, the key and the approval. A denial refuses a recorded
result, too; nobody is asked to approve what was done under the key with the same request.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

from holdfast.gate.policy.policy import Approval, Policy, Ruling
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.store.governance import TaskRow
from holdfast.store.receipts import ReceiptRow
from holdfast.tasks.answers import DID_NOT_HAPPEN, GIVEN_UP, HAPPENED, is_about, is_expired, verdict_of
from holdfast.tasks.eligibility import approvers

NO_STARTER: Final = (
    "the person who started the run must not approve it, and nobody knows who that was: start the run with actor="
)


class Found(msgspec.Struct, frozen=True, gc=False):
    """The receipt that has the call's key, as it was looked for before people are asked; None where none has it."""

    receipt: ReceiptRow | None


class Known(msgspec.Struct, frozen=True, gc=False):
    """The facts about a call before it is judged: an earlier attempt under its key, its outcome task, its approval.

    ``own`` is whether this call itself has made an attempt before, and not only another call under the same key.
    ``found`` is what has the key, where that was looked for.
    """

    receipt: ReceiptRow | None = None
    outcome: TaskRow | None = None
    approval: TaskRow | None = None
    probed: bool = False
    own: bool = False
    found: Found | None = None


class SlowRuling(msgspec.Struct, frozen=True, gc=False):
    """The ruling of a slow policy, with the proposal and the facts that it is about."""

    policy: Policy
    proposal: Proposal
    facts: RunFacts
    ruling: Ruling

    def is_about(self, policy: Policy, proposal: Proposal, facts: RunFacts) -> bool:
        """Whether it is the ruling of this policy on this proposal and these facts."""
        return self.policy is policy and (self.proposal, self.facts) == (proposal, facts)


class Act(msgspec.Struct, frozen=True, gc=False):
    """Do it. ``instead_of`` is the token of the attempt that it repeats; ``counts`` is whether it is another write."""

    ruling: Ruling
    task: TaskRow | None = None
    instead_of: str | None = None
    counts: bool = False


class Reuse(msgspec.Struct, frozen=True, gc=False):
    """Take the recorded result of this receipt: what people would be asked to approve was done."""

    ruling: Ruling
    receipt: ReceiptRow


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Do not do it, and give the workflow an error. ``expired`` is a task whose time is over, to be closed."""

    error: Literal["ActionDenied", "ApprovalRejected", "ApprovalExpired"]
    stage: str
    reason: str
    rule: str | None = None
    policy: str | None = None
    expired: TaskRow | None = None


class Ask(msgspec.Struct, frozen=True, gc=False):
    """Ask for an approval. It supersedes one that was for another proposal, or that is not enough."""

    ruling: Ruling
    superseded: TaskRow | None = None


class Await(msgspec.Struct, frozen=True, gc=False):
    """A task is open: wait for its answer."""

    task: TaskRow


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Probe the outcome of this attempt."""

    receipt: ReceiptRow


class AskOutcome(msgspec.Struct, frozen=True, gc=False):
    """Ask a person for the outcome of this attempt."""

    receipt: ReceiptRow


class Recall(msgspec.Struct, frozen=True, gc=False):
    """Take the result of this attempt from a person's answer: it was done."""

    receipt: ReceiptRow
    task: TaskRow


Judgement = Act | Reuse | Refuse | Ask | Await | Probe | AskOutcome | Recall


def judge(
    proposal: Proposal,
    run: RunFacts,
    policy: Policy,
    known: Known,
    now: int,
    *,
    safe_to_retry: bool,
    has_probe: bool,
    attempt: int = 1,
    ruling: Ruling | None = None,
) -> Judgement:
    """What to do about this call now. ``ruling`` is that of the policy, where it was evaluated before."""
    instead_of = None
    if known.receipt is not None:
        unknown = _unknown(known, safe_to_retry=safe_to_retry, has_probe=has_probe)
        if unknown is not None:
            return unknown
        instead_of = known.receipt.token
    ruling = ruling or policy.decide(proposal, run, now)
    if ruling.stage == "allowlist":
        return Refuse("ActionDenied", ruling.stage, ruling.reason, ruling.rule, ruling.policy)
    counts = proposal.writes and attempt == 1 and not known.own  # all attempts of a call are one write
    cap = policy.max_writes(run.tenant, run.workflow) if counts else None
    if cap is not None and run.writes >= cap:
        reason = f"the run has written {run.writes} times, and its cap max_writes_per_run is {cap}"
        return Refuse("ActionDenied", "caps", reason)
    match ruling.effect:
        case "allow":
            return Act(ruling, None, instead_of, counts)
        case "needs_approval":
            verdict = _by_key(proposal, ruling, known) or _approval(proposal, run, ruling, known.approval, now)
            return verdict if verdict is not None else Act(ruling, known.approval, instead_of, counts)
        case _:
            return Refuse("ActionDenied", ruling.stage, ruling.reason, ruling.rule, ruling.policy)


def _unknown(known: Known, *, safe_to_retry: bool, has_probe: bool) -> Judgement | None:
    """What to do about an attempt of unknown outcome; None where it is repeated."""
    receipt, task = known.receipt, known.outcome
    assert receipt is not None
    if receipt.state in ("succeeded", "failed"):  # the outcome is known by now: opening the receipt again gives it
        return None
    if task is not None and is_about(task, receipt):
        verdict = verdict_of(task)
        if task.status == "requested":
            return Await(task)
        if verdict == HAPPENED:
            return Recall(receipt, task)
        if verdict == GIVEN_UP:
            reason = f"{task.answers[-1].who} gave it up: {task.answers[-1].reason or 'no reason was given'}"
            return Refuse("ApprovalRejected", "outcome", reason)
        if verdict == DID_NOT_HAPPEN:
            return None
    if has_probe and not known.probed:
        return Probe(receipt)
    return None if safe_to_retry else AskOutcome(receipt)


def misuse_of_key(proposal: Proposal, receipt: ReceiptRow) -> str | None:
    """The reason why the call may not have its key: it stands for another act, and the two cannot be distinguished."""
    if (receipt.connector, receipt.operation) == (proposal.connector, proposal.operation):
        return None
    return (
        f"its idempotency key {receipt.key!r} belongs to {receipt.action} ({receipt.connector} {receipt.operation}), "
        f"receipt {receipt.id}: let the key say which act it is for"
    )


def _by_key(proposal: Proposal, ruling: Ruling, known: Known) -> Judgement | None:
    """What the receipt under the key decides, before people are asked; None where they are to be asked."""
    found = known.receipt if known.found is None else known.found.receipt
    if found is None or found.state == "failed":  # its key is free
        return None
    if (reason := misuse_of_key(proposal, found)) is not None:
        return Refuse("ActionDenied", "key", reason)
    done = found.state == "succeeded" and found.request == proposal.request
    return Reuse(ruling, found) if done else None


def _approval(proposal: Proposal, run: RunFacts, ruling: Ruling, task: TaskRow | None, now: int) -> Judgement | None:
    """What to do about an approval that policy wants; None where it is given."""
    wanted = ruling.approval
    assert wanted is not None
    if wanted.tier == "high" and run.actor is None:
        return Refuse("ActionDenied", "approval", f"{ruling.reason}; {NO_STARTER}", ruling.rule, ruling.policy)
    if task is None:
        return Ask(ruling)
    if task.proposal != proposal.digest() or not _is_enough(task, wanted):
        return Ask(ruling, task if task.status == "requested" else None)
    if is_expired(task, now) or task.status == "expired":
        reason = f"nobody answered approval {task.id} in time"
        expired = task if task.status == "requested" else None
        return Refuse("ApprovalExpired", "approval", reason, ruling.rule, ruling.policy, expired)
    match task.status:
        case "approved":
            return None
        case "rejected":
            last = task.answers[-1]
            reason = f"{last.who} rejected it ({task.id}): {last.reason or 'no reason was given'}"
            return Refuse("ApprovalRejected", "approval", reason, ruling.rule, ruling.policy)
        case "cancelled":
            return Ask(ruling)
        case _:
            return Await(task)


_TIERS = {"low": 0, "med": 1, "high": 2}


def _is_enough(task: TaskRow, wanted: Approval) -> bool:
    """Whether the task's approval is at least what policy wants now: tier, number of people, candidates."""
    if _TIERS.get(task.tier, 0) < _TIERS.get(wanted.tier, 2) or (wanted.two_person and not task.two_person):
        return False
    if task.status != "approved" or not wanted.candidates:
        return True
    return all(any(fnmatchcase(who, pattern) for pattern in wanted.candidates) for who in approvers(task))

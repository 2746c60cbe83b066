"""The governor: it passes the effects of held runs through the gate.

The way of a call: it is judged while its turn is planned, so that the decision and the opened receipt are attached to
the commit that makes its intent durable; the commit's answer begins the act; its end closes the receipt in the commit
that records the completion.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from functools import partial
from typing import Final

import cbor2
import msgspec

from holdfast.audit import task_changes
from holdfast.errors import StoreCorrupt
from holdfast.gate import judgement as j
from holdfast.gate.call import JUDGED, Call, is_of, is_unaccounted
from holdfast.gate.effects import Effect, Effects, Performable, is_effect
from holdfast.gate.policy.policy import Policy
from holdfast.gate.proposals import RunFacts
from holdfast.gate.run_calls import RunCalls
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke, Request
from holdfast.programs.function.failures import describe
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.programs.function.reversal import ANYWAY, REVERSE
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.step import STOPPED
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.tasks import answers as tasks
from holdfast.worker.attached import Attached
from holdfast.worker.gate import entries, orphans, questions
from holdfast.worker.gate.acts import Acts, misfit_of
from holdfast.worker.gate.asker import Asker
from holdfast.worker.gate.openings import Openings
from holdfast.worker.gate.releaser import Releaser, left_calls
from holdfast.worker.gate.settler import Floor, Settler
from holdfast.worker.gate.undoings import Undoings
from holdfast.worker.held import Held
from holdfast.worker.spans import Spans
from holdfast.worker.steps.receipt_signer import ReceiptSigner

_REMEDY: Final = "find out who changed it (`holdfast audit verify`), mend it or restore a backup, then resume the run."

Judged = list[Attached]
"""What to commit about a call, and what to do then; nothing where it is under way or waits."""


class Governor:
    """Judges the effects of this worker's runs, and keeps their receipts."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        worker: str,
        policy: Callable[[], Policy],
        effects: Effects,
        floor: Floor,
        spans: Spans | None = None,
        signer: ReceiptSigner | None = None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._policy = policy
        self._effects = effects
        self._settler = Settler(store, clock, floor, spans)
        self._signer = signer or ReceiptSigner()
        self.acts = Acts(committer, clock, self._settler, floor, self._signer)
        self._openings = Openings(store, committer, clock, self._settler, self.acts, floor)
        self._asker = Asker(store, self._settler)
        self.undoings = Undoings(store, committer, clock, self._settler)
        self._releaser = Releaser(self.acts)
        self._attempts = itertools.count(1)

    # -- judging ---------------------------------------------------------------------------------------------------

    def due(self, held: Held, now: int) -> list[Request]:
        """The calls to be judged once more: answered, or their task has expired; and those that nobody waits for."""
        calls = held.gate
        if calls is None:
            return []
        forms = self._asker.due(held, now) if calls.forms else []
        if calls.undos:
            forms = [*forms, *calls.undos.free()]
        if not calls.calls:
            return forms
        left = [*forms, *left_calls(held, calls)]
        if held.live.ended:
            return left
        again: list[Request] = []
        for call in calls.resting():
            expired = call.approval is not None and tasks.is_expired(call.approval, now)
            if expired and held.live.request_of(call.promise) is not None:
                calls.move(call, "news")
            if call.state == "due" and (request := self._due(held, calls, call)) is not None:
                again.append(request)
        return [*left, *again]

    def reads_answers(self, held: Held, calls: RunCalls) -> bool:
        """Whether the run must wait with its next turn for the answer to a form, which is being read."""
        return bool(calls.forms) and self._asker.reads_answers(held)

    def _due(self, held: Held, calls: RunCalls, call: Call) -> Request | None:
        """What to judge of a call that is due; None where nobody waits for it."""
        request = held.live.request_of(call.promise)
        if request is None:  # nobody waits for it any more by now, or it waits for its retry
            calls.move(call, "unasked")
            return None
        return request

    def judge(self, held: Held, request: Invoke, now: int) -> Judged:
        """What to commit about a call and what to do then."""
        if held.live.ended:  # nobody would wait for it
            return []
        if request.kind == FORM:
            return self._asker.judge(held, request, now)
        call = held.gate_of_run().call(request.promise_id)
        if call.state not in JUDGED:
            return []
        call.request = request
        if call.problem is not None:
            problem, call.problem = call.problem, None
            raise StoreCorrupt(f"{problem} Nothing is done because of it: {_REMEDY}")
        if call.stale:
            call.stale = False
            self._settler.check(held, call)
            return []
        if request.stopped and not call.may_have_begun:
            return self._end_unbegun(held, call, now)
        if call.unwitnessed:  # an answer of which no message came: the run was taken over
            self._settler.witness(held, call)
            return []
        asked = call.outcome
        if asked is not None and call.earlier is None and asked.id != call.examined:
            # It was asked about an attempt that is not this run's own, or whose outcome has become known since.
            call.examined = asked.id
            self._settler.check(held, call)
            return []
        return self._propose(held, call, now)

    def _propose(self, held: Held, call: Call, now: int) -> Judged:
        """Have the effect propose what it would do, and judge the proposal."""
        request = call.request
        effect = self._effects.find(request.function_name, request.input)
        if not is_effect(effect):
            return self._refuse_missing(held, call, effect, now)
        if held.is_lane and (failure := self._signer.locked(effect)) is not None:
            note = entries.unread(held, request, effect, failure.message, now)
            return self._settle_with(held, call, note, failure, now)
        try:
            intent = effect.propose(request.input, request.name)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return self._refuse_unread(held, call, effect, error, now)
        if intent.proposal.former is not None:
            if call.key is None:
                self._settler.judge_after(held, call, self._settler.choose_key(held, call, effect, intent.proposal))
                return []
            proposal = msgspec.structs.replace(intent.proposal, key=call.key, former=None)
            intent = msgspec.structs.replace(intent, proposal=proposal)
        call.ask(request, effect, intent)
        if held.generation:
            orphans.set_aside(held, call, now)
        return self._judge(held, call, now)

    def _judge(self, held: Held, call: Call, now: int) -> Judged:
        policy, facts, proposal = self._policy(), _facts(held), call.proposal
        ruled, call.ruling = call.ruling, None
        if ruled is not None and not ruled.is_about(policy, proposal, facts):
            ruled = None
        if ruled is None and not policy.is_quick(proposal, facts):
            self._settler.judge_after(held, call, self._ask_policy(call, policy, facts, now))
            return []
        verdict = j.judge(
            proposal,
            facts,
            policy,
            call.known,
            now,
            safe_to_retry=call.may_repeat,
            has_probe=call.effect.probe is not None,
            attempt=call.request.attempt,
            ruling=None if ruled is None else ruled.ruling,
        )
        match verdict:
            case j.Act() if call.request.stopped and call.was_not_done:
                return self._end_unbegun(held, call, now)
            case j.Act():
                return self._act(held, call, verdict, now)
            case j.Reuse(receipt=found):
                note = entries.done_before(held, call, verdict.ruling, found, now)
                changes: list[p.Gating] = [note, *questions.withdrawn(call, now)]
                return self._decide(held, call, changes, partial(self._openings.reuse, held, call, found))
            case j.Refuse():
                return self._refuse(held, call, verdict, now)
            case j.Ask() if call.found is None and call.name not in proposal.key:  # another call may have this key
                self._settler.judge_after(held, call, self._settler.find_receipt(held, call))
                return []
            case j.Ask():
                return self._ask(held, call, verdict, now)
            case j.Await():
                held.gate_of_run().move(call, "asked")
                return []
            case j.Probe(receipt=receipt):
                call.receipt = receipt
                return self._decide(held, call, [], lambda _: self.acts.begin_probe(held, call))
            case j.AskOutcome(receipt=receipt):
                return self._ask_outcome(held, call, receipt, now)
            case j.Recall():
                return self._recall(held, call, verdict, now)

    async def _ask_policy(self, call: Call, policy: Policy, facts: RunFacts, now: int) -> None:
        """Ask a policy that may take its time, while other runs go on. The next turn judges by its ruling."""
        proposal = call.proposal
        ruling = await asyncio.get_running_loop().run_in_executor(None, policy.decide, proposal, facts, now)
        call.ruling = j.SlowRuling(policy, proposal, facts, ruling)

    # -- verdicts --------------------------------------------------------------------------------------------------

    def _decide(
        self, held: Held, call: Call, changes: list[p.Gating], then: Callable[[p.Answer | None], None]
    ) -> Judged:
        """Commit this; what follows depends on how the first of these changes is answered."""
        held.gate_of_run().move(call, "decided")
        if not changes:
            return [Attached(None, then)]
        first, *others = changes
        return [Attached(first, then), *map(Attached, others)]

    def _settle_with(self, held: Held, call: Call, note: p.Note, failure: Failure, now: int) -> Judged:
        """Record a refusal, withdraw what is asked, and let the call fail.

        A worker that died may have held an act for it, whose result the run never got.
        """
        changes: list[p.Gating] = [note, *questions.withdrawn(call, now), _let_go(held, call.promise)]
        return self._decide(held, call, changes, lambda _: self._settler.settle(held, call, Err(failure)))

    def _end_unbegun(self, held: Held, call: Call, now: int) -> Judged:
        """The run wants the call to end, and nothing of it was done: it fails, and what it asks is withdrawn."""
        effect = self._effects.find(call.request.function_name, call.request.input)
        note = entries.unread(held, call.request, effect if is_effect(effect) else None, STOPPED.failure.message, now)
        return self._settle_with(held, call, note, STOPPED.failure, now)

    def _refuse_missing(self, held: Held, call: Call, found: Performable | None, now: int) -> Judged:
        request = call.request
        what = "is no action any more" if found is not None else "is not known here"
        reason = f"action {request.function_name!r} {what}: deploy the code that defines it, then retry"
        failure = Failure("holdfast.errors:InvalidDefinition", reason)
        return self._settle_with(held, call, entries.unread(held, request, None, reason, now), failure, now)

    def _refuse_unread(self, held: Held, call: Call, effect: Effect, error: BaseException, now: int) -> Judged:
        """The arguments do not fit what the effect declares: nothing can be judged."""
        request = call.request
        try:
            failure = effect.scrub(describe(error), effect.arguments(request.input))
        except Exception:
            failure = Failure("holdfast.errors:Undecodable", "the arguments cannot be read")
        # The message may quote an argument, and the audit has of values only type, size and hash.
        reason = f"the arguments do not fit what {effect.name} declares ({failure.type.rpartition(':')[2]})"
        return self._settle_with(held, call, entries.unread(held, request, effect, reason, now), failure, now)

    def _act(self, held: Held, call: Call, verdict: j.Act, now: int) -> Judged:
        calls, before = held.gate_of_run(), call.earlier
        call.earlier = None
        if before is not None and before.first_key == call.proposal.key:
            call.rounds[before.first_key] = before.round
        call.repeats = is_unaccounted(before, call.promise)
        if before is not None and before.state == "pending" and is_of(before, call.promise):
            calls.carry(entries.unknown(held, call, before, now))  # repeated: the audit must show that it was begun
        call.receipt = entries.opened(held, call, self._token(), verdict.task, now)
        call.counts = verdict.counts
        calls.writes += verdict.counts
        limits = self._policy().write_limits(held.key.tenant) if verdict.counts else None
        heeds = held.row.workflow == REVERSE and ANYWAY not in held.row.attributes
        opening = p.OpenReceipt(call.receipt, verdict.instead_of, limits, heeds)
        changes: list[p.Gating] = [opening, entries.allowed(held, call, verdict.ruling, verdict.task, now)]
        # What it asks became known in another way, or policy wants nobody asked any more.
        changes.extend(questions.withdrawn(call, now))
        return self._decide(held, call, changes, partial(self._openings.answered, held, call))

    def _refuse(self, held: Held, call: Call, verdict: j.Refuse, now: int) -> Judged:
        message = f"{call.effect.name} on {call.proposal.target or call.proposal.connector}: {verdict.reason}"
        failure = Failure(f"holdfast.errors:{verdict.error}", message)
        note = entries.refused(held, call, verdict, now)
        if verdict.expired is None:
            return self._settle_with(held, call, note, failure, now)
        task, change = verdict.expired, task_changes.expired(verdict.expired, now, note)
        call.approval = change.task

        def then(answer: p.Answer | None) -> None:
            if isinstance(answer, p.Tasked):
                self._settler.settle(held, call, Err(failure))
            else:  # someone answered at the last moment; it may be open all the same, and the run may end at once
                call.approval = task
                self._settler.check(held, call)

        return self._decide(held, call, [change], then)

    def _ask(self, held: Held, call: Call, verdict: j.Ask, now: int) -> Judged:
        task = questions.approval(held, call, verdict.ruling, call.approval, now)
        call.approval, call.found = task, None
        held.gate_of_run().ask(call, task)
        changes: list[p.Gating] = []
        if verdict.superseded is not None:
            changes.append(task_changes.cancelled(verdict.superseded, now))
            call.note_wait(tasks.close(verdict.superseded, "cancelled", now))
        changes.append(task_changes.put(task, "requested", now))
        changes.append(entries.referred(held, call, verdict.ruling, task, now))
        return list(map(Attached, changes))

    def _ask_outcome(self, held: Held, call: Call, receipt: p.ReceiptRow, now: int, known: str | None = None) -> Judged:
        """Ask a person what became of an attempt; ``known`` is what is known, where the receipt does not show it."""
        before = call.outcome
        task = questions.outcome_task(held, call, receipt, before, known, now)
        call.outcome = task
        held.gate_of_run().ask(call, task)
        changes: list[p.Gating] = [task_changes.put(task, "requested", now)]
        if before is not None and before.status == "requested":  # it asks about an earlier attempt
            changes.append(task_changes.cancelled(before, now))
            call.note_wait(tasks.close(before, "cancelled", now))
        if receipt.state == "pending":
            closing = entries.unknown(held, call, receipt, now)
            call.earlier = closing.receipt
            changes.append(closing)
        return list(map(Attached, changes))

    def _recall(self, held: Held, call: Call, verdict: j.Recall, now: int) -> Judged:
        """A person knows that it happened: their answer is the result, and the receipt names them. An act of another
        call is reused then, like any other.

        A result that the workflow could not read would stop it for good, so then they are asked again.
        """
        answer = verdict.task.answers[-1]
        value = answer.value or cbor2.dumps(None)
        if (misfit := misfit_of(call, Payload(value))) is not None:
            known = f"{answer.who} said that it happened, with a result that it cannot have given"
            return self._ask_outcome(held, call, verdict.receipt, now, f"{known}: {misfit.__cause__ or misfit}")
        receipt = msgspec.structs.replace(
            verdict.receipt,
            state="succeeded",
            result=value,
            error=None,
            closed_at=now,
            task=verdict.task.id,
            abandoned=False,
            asked=None,
        )
        closing = entries.close(held, call, receipt, now, proposal=verdict.task.proposal)

        def then(answer: p.Answer | None) -> None:
            if isinstance(answer, p.Closed) and is_of(receipt, call.promise):
                call.earlier = None
                self._settler.settle(held, call, Ok(Payload(value)))
            else:
                self._settler.check(held, call)

        return self._decide(held, call, [closing], then)

    def abandon(self, held: Held, promise: PromiseId, now: int) -> Judged:
        """Nobody waits for a call any more: what it asks is closed. An act that has begun goes on to its end."""
        if held.gate is not None and promise in held.gate.forms.calls:
            return self._asker.abandon(held, promise, now)
        return [*self._releaser.abandon(held, promise, now), Attached(_let_go(held, promise))]

    def stop(self, held: Held, promise: PromiseId, now: int) -> Judged:
        """The run wants a call to end, and waits for that. One that was not begun ends now. An act that has begun goes
        on to its end, and the question what became of one is answered first."""
        calls, request = held.gate, held.live.request_of(promise)
        call = None if calls is None else calls.calls.get(promise)
        if calls is None or call is None or request is None:
            return []
        if call.state == "waiting" and not call.may_have_begun:
            calls.move(call, "news")
        return self.judge(held, request, now)

    def _token(self) -> str:
        """The name of one attempt, and of no other: two runs may have the same key, and one call may be done again."""
        return f"{self._worker}~{next(self._attempts)}"


def _facts(held: Held) -> RunFacts:
    row, writes = held.row, 0 if held.gate is None else held.gate.writes
    trigger = None if row.trigger_type is None else f"{row.trigger_type}:{row.trigger_ref or ''}"
    tenant, run = row.key
    return RunFacts(tenant, run, row.workflow, row.workspace, row.actor, row.attributes, writes, trigger)


def _let_go(held: Held, promise: PromiseId) -> p.SetHolds:
    """A call that ends without a result relies on no act."""
    return p.SetHolds(held.key.tenant, held.key.run, ((promise.root, promise.path[-1]),), "let_go")

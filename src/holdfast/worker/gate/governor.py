"""The governor: it passes the actions of held runs through the gate.

The way of an action: it is judged while its turn is planned, so that the decision and the opened receipt ride in the
commit that makes its intent durable; the commit's answer begins the act; its end closes the receipt in the commit that
records the completion.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import cbor2
import msgspec

from holdfast.audit import task_changes
from holdfast.errors import StoreCorrupt
from holdfast.gate import judgement as j
from holdfast.gate.policy.policy import Policy
from holdfast.gate.proposals import Proposal, RunFacts
from holdfast.journal.forms import FORM
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import ACTION
from holdfast.kernel.requests import Abandon, Invoke, Request
from holdfast.programs.function.actions import Action
from holdfast.programs.function.decorators import Step
from holdfast.programs.function.failures import describe
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.tasks import answers as tasks
from holdfast.worker.gate import entries, questions
from holdfast.worker.gate.acts import Acts
from holdfast.worker.gate.asker import Asker
from holdfast.worker.gate.calls import Case, Clearance, Gatehouse, Passage, Ruled, is_of
from holdfast.worker.gate.settler import Floor, Settler
from holdfast.worker.held import Held

log = logging.getLogger("holdfast.gate")

_REMEDY: Final = "find out who changed it (`holdfast audit verify`), mend it or restore a backup, then resume the run."


class Governor:
    """Judges the actions of this worker's runs, and keeps their receipts."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        worker: str,
        policy: Callable[[], Policy],
        steps: Any,
    ) -> None:
        self._store = store
        self._worker = worker
        self._policy = policy
        self._steps = steps
        self._settler = Settler(store, clock)
        self.acts = Acts(store, committer, clock, self._settler)
        self._asker = Asker(store, self._settler)
        self._attempts = itertools.count(1)

    def stand_on(self, floor: Floor) -> None:
        """Say who performs acts and takes what comes of them."""
        self._settler.floor = floor

    # -- judging ---------------------------------------------------------------------------------------------------

    def due(self, held: Held, now: int) -> list[Request]:
        """The calls to be judged once more: answered, or their task has expired; and those that nobody waits for."""
        gate = held.gate
        if gate is None:
            return []
        forms = self._asker.due(held, now) if gate.forms else []
        if not (gate.is_involved or held.live.ended):
            return forms
        left = [*forms, *self._left(held, gate)]
        if held.live.ended:
            return left
        for promise, task in gate.approvals.items():
            if tasks.is_expired(task, now) and (request := held.live.request_of(promise)) is not None:
                gate.again[promise] = request
        for promise in [promise for promise in gate.again if promise in gate.unsure]:
            self._settler.reconsider(held, gate.again.pop(promise))
        gate.unsure.clear()
        again, gate.again = gate.again, {}
        # Nobody may wait for a call any more by the time that it comes to be judged again.
        judged = [request for promise in again if (request := held.live.request_of(promise)) is not None]
        return [*left, *judged]

    def _left(self, held: Held, gate: Gatehouse) -> list[Request]:
        """The calls of which something is open here, an attempt or a task, although their run waits for them no more.

        Most are abandoned by the run itself. One whose retry was due in the turn that cancelled it never was asked for
        by this turn, so it is not; and a run may end with calls under way.
        """
        open_ = {promise for promise, receipt in gate.receipts.items() if entries.is_unaccounted(receipt, promise)}
        for known in (gate.approvals, gate.outcomes):
            open_ |= {promise for promise, task in known.items() if task.status == "requested"}
        if held.live.ended:
            open_ |= gate.cleared.keys()
        elif open_:
            awaited = {wait.position for wait in held.live.waits() if wait.kind == ACTION}
            open_ = {promise for promise in open_ if promise.path[-1] not in awaited}
        return [Abandon(promise, ACTION, None) for promise in sorted(open_, key=lambda each: each.path)]

    def judge(self, held: Held, request: Invoke, now: int) -> Passage | None:
        """What to commit about a call and what to do then; None where it is under way or waits."""
        gate = held.gate_of_run()
        promise = request.promise_id
        if held.live.ended:  # nobody would wait for it
            return None
        if request.kind == FORM:
            return self._asker.judge(held, request, now)
        if promise in gate.cleared or promise in gate.meeting or promise in gate.passing or promise in gate.looking:
            return None
        if (problem := gate.refuted.pop(promise, None)) is not None:
            raise StoreCorrupt(f"{problem} Nothing is done because of it: {_REMEDY}")
        if unwitnessed := gate.unwitnessed(promise):
            self._settler.witness(held, request, unwitnessed)
            return None
        asked = gate.outcomes.get(promise)
        if asked is not None and promise not in gate.receipts and asked.id not in gate.looked:
            # It was asked about an attempt that is not this run's own, or whose outcome has become known since.
            gate.looked.add(asked.id)
            self._settler.reconsider(held, request)
            return None
        passage = self._judged(held, request, now)
        if passage is None or passage.then is None:
            return passage
        follow = passage.then

        def then(answer: p.Answer | None) -> None:
            gate.passing.discard(promise)
            follow(answer)

        gate.passing.add(promise)  # until the commit is answered: judged twice, it would be done twice
        return Passage(passage.changes, then)

    def _judged(self, held: Held, request: Invoke, now: int) -> Passage | None:
        gate, promise = held.gate_of_run(), request.promise_id
        action = self._steps.get(request.function_name)
        if not isinstance(action, Action):
            return self._refuse_missing(held, request, action, now)
        try:
            given, call = action.signature.read_twice(request.input)
            arguments = action.with_defaults(given)
            name = str(promise)
            proposal = action.propose(arguments, request.name, given)
        except BaseException as error:
            if is_interrupt(error):
                raise
            return self._refuse_unread(held, request, action, error, now)
        if proposal.former is not None:
            if promise not in gate.keys:
                gate.looking.add(promise)
                self._settler.background(self._choose_key(held, request, action, proposal))
                return None
            proposal = msgspec.structs.replace(proposal, key=gate.keys[promise], former=None)
        case = Case(held, request, action, proposal, arguments, call, name, now)
        if held.generation:
            self._set_aside(case)
        policy, facts = self._policy(), self._facts(held)
        ruled = gate.rulings.pop(promise, None)
        if ruled is not None and (ruled.policy is not policy or (ruled.proposal, ruled.facts) != (proposal, facts)):
            ruled = None  # it is about something else by now
        if ruled is None and not policy.is_quick(proposal, facts):
            gate.looking.add(promise)
            self._settler.background(self._rule_apart(held, request, policy, proposal, facts, now))
            return None
        verdict = j.judge(
            proposal,
            facts,
            policy,
            gate.known(promise),
            now,
            safe_to_retry=action.safe_to_retry,
            has_probe=action.probe is not None,
            attempt=request.attempt,
            ruling=None if ruled is None else ruled.ruling,
        )
        match verdict:
            case j.Act():
                return self._act(case, verdict)
            case j.Refuse():
                return self._refuse(case, verdict)
            case j.Ask():
                return self._ask(case, verdict)
            case j.Await():
                return None
            case j.Probe(receipt=receipt):
                probe = Clearance(case, receipt, probing=True)
                return Passage(then=lambda _: self.acts.begin(held, probe))
            case j.AskOutcome(receipt=receipt):
                return self._ask_outcome(case, receipt)
            case j.Recall():
                return self._recall(case, verdict)

    async def _rule_apart(
        self, held: Held, request: Invoke, policy: Policy, proposal: Proposal, facts: RunFacts, now: int
    ) -> None:
        """Ask a policy that may take its time, while other runs go on. The next turn judges by what it says."""
        gate, promise = held.gate_of_run(), request.promise_id
        ruling = await asyncio.get_running_loop().run_in_executor(None, policy.decide, proposal, facts, now)
        if held.dropped or promise not in gate.looking:
            return
        gate.rulings[promise] = Ruled(policy, proposal, facts, ruling)
        gate.looking.discard(promise)
        gate.again[promise] = request
        self._settler.floor.stir(held)

    async def _choose_key(self, held: Held, request: Invoke, action: Action[..., Any], proposal: Proposal) -> None:
        """Find out whether an older version did the act, and kept its receipt under the key that it gave it."""
        gate, promise, former = held.gate_of_run(), request.promise_id, proposal.former or ""
        found = await patiently(partial(self._store.receipt_of_key, held.key.tenant, former))
        if held.dropped or promise not in gate.looking:
            return
        gate.keys[promise] = proposal.key
        if found is not None:
            maker = str(PromiseId(found.root).child(found.position))
            if action.is_under(proposal.key, cbor2.loads(found.request), maker):
                gate.keys[promise] = former
        gate.looking.discard(promise)
        gate.again[promise] = request
        self._settler.floor.stir(held)

    def _set_aside(self, case: Case) -> None:
        """A retried run may come to another call at the place of one of unknown outcome: that is not its own."""
        gate, promise = case.held.gate_of_run(), case.promise
        receipt = gate.receipts.get(promise)
        if receipt is None or receipt.request == case.proposal.request or receipt.key == case.proposal.key:
            return
        gate.probed.discard(promise)
        if is_of(receipt, promise):
            if entries.is_unaccounted(receipt, promise):
                gate.carry(entries.abandoned(case.held, promise, receipt, case.now))
            gate.receipts.pop(promise)

    def _facts(self, held: Held) -> RunFacts:
        row = held.row
        trigger = None if row.trigger_type is None else f"{row.trigger_type}:{row.trigger_ref or ''}"
        writes = 0 if held.gate is None else held.gate.writes
        return RunFacts(
            row.key.tenant, row.key.run, row.workflow, row.workspace, row.actor, row.attributes, writes, trigger
        )

    def _refuse_missing(self, held: Held, request: Invoke, found: Step[..., Any] | None, now: int) -> Passage:
        what = "is no action any more" if found is not None else "is not known here"
        told = f"action {request.function_name!r} {what}: deploy the code that defines it, then retry"
        failure = Failure("holdfast.errors:InvalidDefinition", told)
        note = entries.unread(held, request, None, told, now)
        withdrawn = questions.withdrawn(held.gate_of_run(), request.promise_id, now)
        return Passage((note, *withdrawn), lambda _: self._settler.settle(held, request, Err(failure)))

    def _refuse_unread(
        self, held: Held, request: Invoke, action: Action[..., Any], error: BaseException, now: int
    ) -> Passage:
        """The arguments do not fit what the action says of them: nothing can be judged."""
        try:
            failure = action.secrets.scrub(describe(error), action.arguments(request.input))
        except Exception:
            failure = Failure("holdfast.errors:Undecodable", "the arguments cannot be read")
        # The message may quote an argument, and the audit tells of values by type, size and hash alone.
        told = f"the arguments do not fit what {action.name} declares ({failure.type.rpartition(':')[2]})"
        note = entries.unread(held, request, action, told, now)
        withdrawn = questions.withdrawn(held.gate_of_run(), request.promise_id, now)
        return Passage((note, *withdrawn), lambda _: self._settler.settle(held, request, Err(failure)))

    # -- verdicts --------------------------------------------------------------------------------------------------

    def _act(self, case: Case, verdict: j.Act) -> Passage:
        held, request, gate = case.held, case.request, case.held.gate_of_run()
        before = gate.receipts.pop(request.promise_id, None)
        if before is not None and before.state == "pending" and is_of(before, case.promise):
            gate.carry(entries.unknown(case, before))  # it is repeated, and the audit must show that it was begun
        receipt = entries.opened(case, self._token(), verdict.task)
        gate.writes += verdict.counts
        limits = self._policy().write_limits(held.key.tenant) if verdict.counts else None
        opening = p.OpenReceipt(receipt, verdict.instead_of, limits)
        changes: list[p.Gating] = [opening, entries.decided(case, "allow", verdict.ruling, task=verdict.task)]
        # What it asks became known in another way, or policy wants nobody asked any more.
        changes.extend(questions.withdrawn(gate, request.promise_id, case.now))
        clearance = Clearance(case, receipt, counts=verdict.counts)
        return Passage(tuple(changes), partial(self.acts.opened, held, clearance))

    def _refuse(self, case: Case, verdict: j.Refuse) -> Passage:
        held, request = case.held, case.request
        message = f"{case.action.name} on {case.proposal.target or case.proposal.connector}: {verdict.reason}"
        failure = Failure(f"holdfast.errors:{verdict.error}", message)
        note = entries.refused(case, verdict)
        if verdict.expired is None:
            withdrawn = questions.withdrawn(held.gate_of_run(), request.promise_id, case.now)
            return Passage((note, *withdrawn), lambda _: self._settler.settle(held, request, Err(failure)))
        task, change = verdict.expired, task_changes.expired(verdict.expired, case.now, note)
        held.gate_of_run().approvals[request.promise_id] = change.task

        def then(answer: p.Answer | None) -> None:
            if isinstance(answer, p.Tasked):
                self._settler.settle(held, request, Err(failure))
            else:  # someone answered at the last moment; it may be open all the same, and the run may end at once
                held.gate_of_run().approvals[request.promise_id] = task
                self._settler.reconsider(held, request)

        return Passage((change,), then)

    def _ask(self, case: Case, verdict: j.Ask) -> Passage:
        gate = case.held.gate_of_run()
        before = gate.approvals.get(case.request.promise_id)
        task = questions.approval(case, verdict.ruling, before)
        gate.approvals[case.request.promise_id] = task
        changes: list[p.Gating] = []
        if verdict.superseded is not None:
            changes.append(task_changes.cancelled(verdict.superseded, case.now))
        changes.append(task_changes.put(task, "requested", case.now))
        changes.append(entries.decided(case, "needs_approval", verdict.ruling, task=task))
        return Passage(tuple(changes))

    def _ask_outcome(self, case: Case, receipt: p.ReceiptRow, known: str | None = None) -> Passage:
        """Ask a person what became of an attempt; ``known`` is what is known, where the receipt does not say it."""
        gate = case.held.gate_of_run()
        before = gate.outcomes.get(case.request.promise_id)
        task = questions.outcome_task(case, receipt, before, gate.approvals.get(case.promise), known)
        gate.outcomes[case.request.promise_id] = task
        changes: list[p.Gating] = [task_changes.put(task, "requested", case.now)]
        if before is not None and before.status == "requested":  # it asks about an earlier attempt
            changes.append(task_changes.cancelled(before, case.now))
        if receipt.state == "pending":
            closing = entries.unknown(case, receipt)
            gate.receipts[case.request.promise_id] = closing.receipt
            changes.append(closing)
        return Passage(tuple(changes))

    def _recall(self, case: Case, verdict: j.Recall) -> Passage:
        """A person knows that it happened: their word is the result, and the receipt says whose word it is.

        A result that the workflow could not read would stop it for good, so then they are asked again.
        """
        said = verdict.task.answers[-1]
        value = said.value or cbor2.dumps(None)
        if (misfit := case.misfit(Payload(value))) is not None:
            told = f"{said.who} said that it happened, with a result that it cannot have given"
            return self._ask_outcome(case, verdict.receipt, f"{told}: {misfit.__cause__ or misfit}")
        receipt = msgspec.structs.replace(
            verdict.receipt,
            state="succeeded",
            result=value,
            error=None,
            closed_at=case.now,
            task=verdict.task.id,
            abandoned=False,
        )
        closing = entries.close(case, receipt, case.now, proposal=verdict.task.proposal)

        def then(answer: p.Answer | None) -> None:
            if isinstance(answer, p.Closed):
                case.held.gate_of_run().receipts.pop(case.promise, None)
                self._settler.settle(case.held, case.request, Ok(Payload(value)))
            else:
                self._settler.reconsider(case.held, case.request)

        return Passage((closing,), then)

    def abandon(self, held: Held, promise: PromiseId, now: int) -> Passage | None:
        """Nobody waits for a call any more: what it asks is closed. An act that has begun goes on to its end."""
        gate = held.gate
        if gate is None:
            return None
        if promise in gate.forms.calls:
            return self._asker.abandon(held, promise, now)
        withdrawn = questions.withdrawn(gate, promise, now)
        receipt, clearance = gate.receipts.get(promise), gate.cleared.get(promise)
        gate.forget(promise)
        if clearance is not None and not clearance.begun and not clearance.probing:
            gate.carry(self.acts.never_begun(clearance))
            self.acts.call_off(gate, clearance)
        else:
            receipt = receipt if clearance is None else clearance.receipt
            if entries.is_unaccounted(receipt, promise):
                # The run may end now, and its worker die: then nobody would ever say that the outcome is unknown.
                gate.carry(entries.abandoned(held, promise, receipt, now))
        return Passage(withdrawn) if withdrawn else None

    def _token(self) -> str:
        """The name of one attempt, and of no other: two runs may meet at a key, and one call may be done anew."""
        return f"{self._worker}~{next(self._attempts)}"

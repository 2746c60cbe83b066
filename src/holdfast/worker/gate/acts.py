"""Acts: they begin when their receipt is open, and what came of them closes it.

An act that has begun is never cut off. Where its run is lost or gone meanwhile, the receipt is closed by a commit of
its own, and whoever holds the run finds it there.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final

import cbor2
import msgspec

from holdfast.audit.notes import named
from holdfast.gate.judgement import Refuse
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.kernel.arrivals import AttemptFailed, Settled
from holdfast.kernel.requests import Invoke
from holdfast.runs import messages
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.tasks import answers as tasks
from holdfast.worker.gate import entries
from holdfast.worker.gate.calls import Clearance, Gatehouse, is_of
from holdfast.worker.gate.settler import Settler
from holdfast.worker.held import Held
from holdfast.worker.performer import Outcome

log = logging.getLogger("holdfast.gate")

MEETING_SECONDS: Final = (0.05, 5.0)
"""How soon, and at most how late, to look again after another run's act under the same key."""

FORLORN_LIMIT: Final = 1000


class Acts:
    """The acts of this worker's runs, and their receipts."""

    def __init__(self, store: p.Store, committer: Committer, clock: Clock, settler: Settler) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._settler = settler

    def opened(self, held: Held, clearance: Clearance, answer: p.Answer | Exception | None) -> None:
        """An opening was answered: begin the act, take the recorded result, or wait for whoever has the key."""
        gate, promise = held.gate_of_run(), clearance.promise
        if isinstance(answer, p.Taken | p.Capped):  # nothing is written by this call, unless it is judged once more
            gate.writes -= clearance.counts
        match answer:
            case p.Opened() if held.dropped:  # the run was lost meanwhile: whoever has it may ask what became of it
                self._send(held.key, self.never_begun(clearance))
            case p.Opened() if held.live.ended or held.live.request_of(promise) is None:  # nobody waits for it any more
                self._ride(held, self.never_begun(clearance))
                self._settler.floor.stir(held)
            case p.Opened():
                self.begin(held, clearance)
            case _ if held.dropped:
                return
            case p.Capped():
                self._refuse_capped(held, clearance, answer)
            case p.Taken(receipt=found) if (found.connector, found.operation) != clearance.case.operation:
                self._conflict(held, clearance, found)
            case p.Taken(receipt=found) if found.state == "succeeded":
                self._reuse(held, clearance, found)
            case p.Taken(receipt=found) if is_of(found, promise):
                gate.learn([found], [])
                self._settler.reconsider(held, clearance.request)
            case p.Taken(receipt=found):
                gate.meeting.add(promise)
                self._settler.background(self._meet(held, clearance.request, found, MEETING_SECONDS[0]))
            case other:
                told = Failure("holdfast.errors:EngineError", f"the receipt could not be opened: {other!r}")
                self._settler.settle(held, clearance.request, Err(told))

    def _refuse_capped(self, held: Held, clearance: Clearance, full: p.Capped) -> None:
        """The run, or one above it, has no write left: another of the family was faster."""
        told = (
            f"run {full.run} has written {full.writes} times with its children, and its cap max_writes_per_run is "
            f"{full.most}"
        )
        held.gate_of_run().carry(named(entries.refused(clearance.case, Refuse("ActionDenied", "caps", told))))
        self._settler.settle(held, clearance.request, Err(Failure("holdfast.errors:ActionDenied", told)))

    def _conflict(self, held: Held, clearance: Clearance, found: p.ReceiptRow) -> None:
        """The key stands for another act: its result is not this one's, and this one cannot be told from it."""
        case, gate = clearance.case, held.gate_of_run()
        told = (
            f"its idempotency key {found.key!r} belongs to {found.action} ({found.connector} {found.operation}), "
            f"receipt {found.id}: let the key say which act it is for"
        )
        gate.carry(named(entries.refused(case, Refuse("ActionDenied", "key", told))))
        self._settler.settle(held, clearance.request, Err(Failure("holdfast.errors:ActionDenied", told)))

    async def _meet(self, held: Held, request: Invoke, found: p.ReceiptRow, wait: float) -> None:
        """Another call has the key: wait for its outcome, or take that up where nobody is about to tell it.

        Then the call is judged once more, by the policy of that moment. What was allowed before the wait may be denied.
        """
        present = await patiently(partial(self._store.receipt, found.tenant, found.id))
        known = present is None or present.token != found.token or present.state in ("succeeded", "failed")
        forlorn = present is not None and not known and await patiently(partial(self._is_forlorn, present))
        gate, promise = held.gate_of_run(), request.promise_id
        if held.dropped or promise not in gate.meeting:
            return
        if not known and not forlorn:
            again = partial(self._meet_again, held, request, found, wait)
            asyncio.get_running_loop().call_later(wait, again)
            return
        gate.meeting.discard(promise)
        if forlorn and present is not None:
            gate.receipts[promise] = present
            self._settler.reconsider(held, request)
        else:
            gate.again[promise] = request
            self._settler.floor.stir(held)

    def _meet_again(self, held: Held, request: Invoke, found: p.ReceiptRow, waited: float) -> None:
        if not held.dropped and request.promise_id in held.gate_of_run().meeting:
            self._settler.background(self._meet(held, request, found, min(waited * 2, MEETING_SECONDS[1])))

    async def _is_forlorn(self, receipt: p.ReceiptRow) -> bool:
        """Whether nobody will tell by itself what became of an attempt: no act is under way, and its call is over.

        While its own call waits, that one probes, tries again or has people asked: two that did would both record it.
        """
        if receipt.closed_at is None:
            worker = receipt.token.rpartition("~")[0]
            if any(each.id == worker for each in await self._store.workers()):
                return False
        rows = await self._store.get([p.Key(receipt.tenant, receipt.run)])
        if not rows or rows[0].standing in p.ENDED or receipt.abandoned:
            return True
        asked = await self._store.tasks(p.TaskQuery(receipt.tenant, None, receipt.run), FORLORN_LIMIT)
        statuses = {task.status for task in asked if tasks.is_about(task, receipt)}
        return bool(statuses) and statuses <= {"rejected", "cancelled"}  # it was given up

    def begin(self, held: Held, clearance: Clearance) -> None:
        """Let the act, or its probe, be done."""
        if held.dropped:
            return
        held.gate_of_run().cleared[clearance.promise] = clearance
        self._settler.floor.perform_action(held, clearance)

    def _reuse(self, held: Held, clearance: Clearance, found: p.ReceiptRow) -> None:
        """It was done before, under this key: the recorded result is the result."""
        gate = held.gate_of_run()
        gate.carry(entries.reused(clearance.case, found, self._clock.now()))
        if found.error is not None:
            failure = Failure("holdfast.errors:Unencodable", found.error)
            self._settler.settle(held, clearance.request, Err(failure))
        elif found.result_blob is None:
            self._settler.settle(held, clearance.request, Ok(Payload(found.result or cbor2.dumps(None))))
        else:
            gate.meeting.add(clearance.promise)
            self._settler.background(self._reuse_large(held, clearance.request, found.result_blob))

    async def _reuse_large(self, held: Held, request: Invoke, digest: bytes) -> None:
        data = await patiently(partial(self._store.blob, held.key.tenant, digest))
        held.gate_of_run().meeting.discard(request.promise_id)
        if data is not None:
            self._settler.settle(held, request, Ok(Payload(data)))
        else:
            lost = Failure("holdfast.errors:StoreCorrupt", "the recorded result of the act is missing from the store")
            self._settler.settle(held, request, Err(lost))

    def finish(self, held: Held, clearance: Clearance, outcome: Outcome) -> None:
        """An attempt, or a probe, has ended: keep what came of it."""
        gate = held.gate_of_run()
        gate.cleared.pop(clearance.promise, None)
        if clearance.probing:
            self._probed(held, clearance, outcome)
            return
        outcome = self._scrubbed(clearance, outcome)
        closing = entries.outcome(clearance, outcome, self._clock.now())
        unknown = closing.receipt.state == "unknown"
        if unknown and not clearance.case.action.safe_to_retry:
            gate.receipts[clearance.promise] = closing.receipt
            self._ride(held, closing)
            self._settler.reconsider(held, clearance.request)
            return
        if unknown:
            gate.receipts[clearance.promise] = closing.receipt
        self._ride(held, closing)
        if not held.dropped:
            self._settler.floor.arrive(held, outcome)

    def _probed(self, held: Held, clearance: Clearance, outcome: Outcome) -> None:
        gate, now = held.gate_of_run(), self._clock.now()
        gate.probed.add(clearance.promise)
        found: Any = None
        if isinstance(outcome, Settled) and isinstance(outcome.outcome, Ok):
            found = cbor2.loads(outcome.outcome.value.data)
        told = found.get("type") if isinstance(found, dict) else None
        name = clearance.case.action.name
        if told == "Happened":
            result = Payload(cbor2.dumps(found.get("value"), canonical=True))
            misfit = clearance.case.misfit(result)
            if misfit is None:
                settled = Settled(clearance.promise, Ok(result), clearance.request.attempt, clearance.receipt.opened_at)
                gate.receipts.pop(clearance.promise, None)
                self._tell(held, clearance, settled, entries.outcome(clearance, settled, now))
                return
            log.warning("what the probe of %s found cannot be read: %s", name, misfit)
        elif told == "DidNotHappen":
            closing = entries.failed(clearance, "the probe found that it did not happen", now)
            self._ride(held, closing)
            gate.receipts[clearance.promise] = closing.receipt  # the store does not know yet: it would say pending
            gate.again[clearance.promise] = clearance.request
            self._settler.floor.stir(held)
            return
        else:
            log.warning("the probe of %s could not tell what became of it", name)
        self._settler.reconsider(held, clearance.request)

    def _tell(self, held: Held, clearance: Clearance, settled: Settled, closing: p.CloseReceipt) -> None:
        """Close the receipt with what a probe found, and only then tell the run.

        Another call under the same key may have asked, too, and be told first: then this one takes what is recorded.
        """
        if held.dropped:
            self._send(held.key, closing)
            return
        meeting, promise = held.gate_of_run().meeting, clearance.promise
        meeting.add(promise)

        def closed(answer: p.Answer | Exception) -> None:
            meeting.discard(promise)
            if held.dropped:
                return
            if isinstance(answer, p.Closed):
                self._settler.floor.arrive(held, settled)
            else:
                self._settler.reconsider(held, clearance.request)

        self._committer.submit(closing, closed)

    def _scrubbed(self, clearance: Clearance, outcome: Outcome) -> Outcome:
        """The outcome without the secrets that its error may quote."""
        secrets = clearance.case.action.secrets
        if not secrets:
            return outcome
        if isinstance(outcome, AttemptFailed):
            return msgspec.structs.replace(outcome, failure=secrets.scrub(outcome.failure, clearance.case.arguments))
        if isinstance(outcome.outcome, Err):
            failure = secrets.scrub(outcome.outcome.failure, clearance.case.arguments)
            return msgspec.structs.replace(outcome, outcome=Err(failure))
        return outcome

    def _ride(self, held: Held, closing: p.CloseReceipt) -> None:
        """Let the next commit of the run carry it; a run that is gone has none, so it goes alone."""
        if held.dropped:
            self._send(held.key, closing)
        else:
            held.gate_of_run().carry(closing)

    def _send(self, key: p.Key, closing: p.CloseReceipt | p.Note) -> None:
        def closed(answer: p.Answer | Exception) -> None:
            if isinstance(answer, p.Closed) and isinstance(closing, p.CloseReceipt):
                stir = p.Deliver(key, messages.stirred(closing.receipt, self._clock.now()))
                self._committer.submit(stir, lambda _: self._settler.floor.delivered(key))

        self._committer.submit(closing, closed)

    def salvage(self, held: Held, carried: tuple[p.CloseReceipt | p.Note, ...] = ()) -> None:
        """The run is let go: what its next commit should have carried goes alone, and acts not begun are closed."""
        gate = held.gate
        for closing in carried:
            self._send(held.key, closing)
        if gate is None:
            return
        closings, gate.closings = gate.closings, []
        for closing in closings:
            self._send(held.key, closing)
        for clearance in list(gate.cleared.values()):
            if not clearance.begun and not clearance.probing:
                self.call_off(gate, clearance)
                self._send(held.key, self.never_begun(clearance))

    def call_off(self, gate: Gatehouse, clearance: Clearance) -> None:
        """Let an act that has not begun never begin."""
        gate.cleared.pop(clearance.promise, None)
        if clearance.performance is not None:
            clearance.performance.cancel()

    def never_begun(self, clearance: Clearance) -> p.CloseReceipt:
        """What closes the receipt of an act that was cleared and not begun."""
        return entries.failed(clearance, "the worker let it go before it began", self._clock.now())

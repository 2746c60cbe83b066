"""Openings: what follows when the store has answered that a receipt is open, or that its key is another's."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import cbor2

from holdfast.audit.notes import named
from holdfast.gate.call import Call, is_of
from holdfast.gate.judgement import Refuse, misuse_of_key
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.tasks import answers as tasks
from holdfast.worker.gate import entries
from holdfast.worker.gate.acts import Acts
from holdfast.worker.gate.settler import Floor, Settler
from holdfast.worker.held import Held

LOOK_AGAIN_SECONDS: Final = (0.05, 5.0)
"""How soon, and at most how late, to look again after another run's act under the same key."""

TASKS_AT_ONCE: Final = 1000


class Openings:
    """Begins acts whose key was free; for the others it takes the recorded result, refuses or waits."""

    def __init__(
        self, store: p.Store, committer: Committer, clock: Clock, settler: Settler, acts: Acts, floor: Floor
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._settler = settler
        self._acts = acts
        self._floor = floor

    def answered(self, held: Held, call: Call, answer: p.Answer | None) -> None:
        """An opening was answered: begin the act, take the recorded result, or wait for the call that has the key."""
        calls = held.gate_of_run()
        if isinstance(answer, p.Taken | p.Capped | p.HeldBy):  # nothing is written, unless it is judged once more
            calls.writes -= call.counts
        match answer:
            case p.Opened():
                self._acts.begin(held, call)
            case _ if held.dropped:
                return
            case p.Capped():
                self._refuse_capped(held, call, answer)
            case p.HeldBy(run=run):
                self._refuse(held, call, "holders", f"run {run} relies on the act that it would take back")
            case p.Taken(receipt=found) if found.id == call.reverses and found.reversed_by is not None:
                calls.move(call, "found")
                self._settler.background(self._take_over(held, call, found))
            case p.Taken(receipt=found) if found.id == call.reverses:
                self._settler.judge_after(held, call, self._await_taker(held, call, found))
            case p.Taken(receipt=found) if (reason := misuse_of_key(call.proposal, found)) is not None:
                self._refuse(held, call, "key", reason)
            case p.Taken(receipt=found) if found.reversed_by is not None and not call.effect.key_once:
                self._settler.judge_after(held, call, self._settler.find_receipt(held, call))
            case p.Taken(receipt=found) if found.state == "succeeded":
                self._reuse(held, call, found)
            case p.Taken(receipt=found) if is_of(found, call.promise):
                call.learn_receipt(found)
                self._settler.check(held, call)
            case p.Taken(receipt=found):
                calls.move(call, "key_taken")
                self._settler.background(self._wait_for_key(held, call, found, LOOK_AGAIN_SECONDS[0]))
            case other:
                failure = Failure("holdfast.errors:EngineError", f"the receipt could not be opened: {other!r}")
                self._settler.settle(held, call, Err(failure))

    # -- refusing ----------------------------------------------------------------------------------------------------

    def _refuse_capped(self, held: Held, call: Call, full: p.Capped) -> None:
        """The run, or one above it, has no write left: another of the family was faster."""
        reason = (
            f"run {full.run} has written {full.writes} times with its children, and its cap max_writes_per_run is "
            f"{full.most}"
        )
        self._refuse(held, call, "caps", reason)

    def _refuse(self, held: Held, call: Call, stage: str, reason: str) -> None:
        note = entries.refused(held, call, Refuse("ActionDenied", stage, reason), self._clock.now())
        held.gate_of_run().carry(named(note))
        self._settler.settle(held, call, Err(Failure("holdfast.errors:ActionDenied", reason)))

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def _wait_for_key(self, held: Held, call: Call, found: p.ReceiptRow, wait: float) -> None:
        """Another call has the key: wait for its outcome, or look for it where nobody will record it.

        Then the call is judged once more, by the policy of that moment. What was allowed before the wait may be denied.
        """
        present = await patiently(partial(self._store.receipt, found.tenant, found.id))
        known = present is None or present.token != found.token or present.state in ("succeeded", "failed")
        orphaned = present is not None and not known and await patiently(partial(self._is_orphaned, present))
        if held.dropped or call.state != "blocked":
            return
        if not known and not orphaned:
            asyncio.get_running_loop().call_later(wait, self._look_again, held, call, found, wait)
        elif orphaned and present is not None:
            call.earlier = present
            self._settler.check(held, call)
        else:
            held.gate_of_run().move(call, "key_freed")
            self._floor.give_turn(held)

    def _look_again(self, held: Held, call: Call, found: p.ReceiptRow, waited: float) -> None:
        if not held.dropped and call.state == "blocked":
            wait = min(waited * 2, LOOK_AGAIN_SECONDS[1])
            self._settler.background(self._wait_for_key(held, call, found, wait))

    async def _is_orphaned(self, receipt: p.ReceiptRow) -> bool:
        """Whether nobody will record what became of an attempt: no act is under way, and its call is over.

        While its own call waits, that one probes, tries again or has people asked: two that did would both record it.
        """
        if receipt.closed_at is None:
            worker = receipt.token.rpartition("~")[0]
            if any(each.id == worker for each in await self._store.workers()):
                return False
        rows = await self._store.get([p.Key(receipt.tenant, receipt.run)])
        if not rows or rows[0].standing in p.ENDED or receipt.abandoned:
            return True
        asked = await self._store.tasks(p.TaskQuery(receipt.tenant, None, receipt.run), TASKS_AT_ONCE)
        statuses = {task.status for task in asked if tasks.is_about(task, receipt)}
        return bool(statuses) and statuses <= {"rejected", "cancelled"}  # it was given up

    # -- acts that were taken back -----------------------------------------------------------------------------------

    async def _await_taker(self, held: Held, call: Call, found: p.ReceiptRow) -> None:
        """An act is being taken back: the call that needs its receipt is judged once more when that has ended."""
        wait = LOOK_AGAIN_SECONDS[0]
        while (await patiently(partial(self._store.stakes, found.tenant, found.id))).taking is not None:
            await asyncio.sleep(wait)
            wait = min(wait * 2, LOOK_AGAIN_SECONDS[1])
            if held.dropped or call.state != "checking":
                return

    async def _take_over(self, held: Held, call: Call, found: p.ReceiptRow) -> None:
        """The act that this one would reverse was taken back: the call has the outcome of the reversal that did so."""
        by = await patiently(partial(self._store.receipt, found.tenant, found.reversed_by or ""))
        if held.dropped or call.state != "concluding":
            return
        if by is not None and misuse_of_key(call.proposal, by) is None:
            self._take(held, call, by)
        else:
            reason = f"receipt {found.id} was taken back already, by {found.reversed_by}"
            self._settler.settle(held, call, Err(Failure("holdfast.errors:NotReversible", reason)))

    # -- reusing -----------------------------------------------------------------------------------------------------

    def reuse(self, held: Held, call: Call, found: p.ReceiptRow, _: p.Answer | None) -> None:
        """The decision to take a recorded result is committed: nothing was opened, so nothing can be done instead."""
        if not held.dropped:
            self._reuse(held, call, found)

    def _reuse(self, held: Held, call: Call, found: p.ReceiptRow) -> None:
        """It was done before, under this key: the recorded result is the result.

        The run relies on the act from here on. If it is being taken back, the call is judged once more after that. Only
        in a retried run may the call have let its own act go before.
        """
        held.gate_of_run().move(call, "found")
        is_own = is_of(found, call.promise) and not held.generation
        if is_own or found.reversed_by is not None:  # the latter: its key counts only once
            self._take(held, call, found)
            return
        caller = p.ActCaller(held.key.run, call.promise.root, call.promise.path[-1])
        hold = p.Hold(found.tenant, found.key, found.id, caller, self._clock.now())
        self._committer.submit(hold, partial(self._is_held, held, call, found))

    def _is_held(self, held: Held, call: Call, found: p.ReceiptRow, answer: p.Answer | Exception) -> None:
        if held.dropped or call.state != "concluding":
            return
        if isinstance(answer, p.Holding):
            self._take(held, call, found)
        else:
            self._settler.background(self._look_for_taker(held, call, found))

    async def _look_for_taker(self, held: Held, call: Call, found: p.ReceiptRow) -> None:
        """The act is being taken back: wait for that, unless a person has given up to find out whether it was."""
        taking = (await patiently(partial(self._store.stakes, found.tenant, found.id))).taking
        by = None if taking is None else await patiently(partial(self._store.receipt, found.tenant, taking[0]))
        if held.dropped or call.state != "concluding":
            return
        if by is not None and by.is_given_up:
            reason = f"nobody knows whether receipt {by.id} has taken back the act under its key, receipt {found.id}"
            self._refuse(held, call, "key", reason)
        else:
            call.found = None  # what was looked for before is not so any more
            self._settler.judge_after(held, call, self._await_taker(held, call, found))

    def _take(self, held: Held, call: Call, found: p.ReceiptRow) -> None:
        calls = held.gate_of_run()
        calls.carry(entries.reused(held, call, found, self._clock.now()))
        if found.error is not None:
            failure = Failure("holdfast.errors:Unencodable", found.error)
            self._settler.settle(held, call, self._acts.seal(held, call, Err(failure)))
        elif found.result_blob is None:
            recorded = Ok(Payload(found.result or cbor2.dumps(None)))
            self._settler.settle(held, call, self._acts.seal(held, call, recorded))
        else:
            self._settler.background(self._reuse_large(held, call, found.result_blob))

    async def _reuse_large(self, held: Held, call: Call, digest: bytes) -> None:
        data = await patiently(partial(self._store.blob, held.key.tenant, digest))
        if held.dropped or call.state != "concluding":
            return
        if data is not None:
            self._settler.settle(held, call, self._acts.seal(held, call, Ok(Payload(data))))
        else:
            lost = Failure("holdfast.errors:StoreCorrupt", "the recorded result of the act is missing from the store")
            self._settler.settle(held, call, Err(lost))

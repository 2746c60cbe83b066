"""The settler: how a call at the gate comes back to its run, with an outcome or to be judged once more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Protocol

import cbor2

from holdfast.gate.call import Call, is_of, is_unaccounted
from holdfast.gate.effects import Effect
from holdfast.gate.judgement import Found
from holdfast.gate.proposals import Proposal
from holdfast.journal.attribution import decided_by
from holdfast.journal.payload import Err, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import CallSettled
from holdfast.kernel.requests import Invoke
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.tasks import answers as tasks
from holdfast.worker.gate import orphans
from holdfast.worker.gate.answers import confirm, recorded_answers
from holdfast.worker.held import Held
from holdfast.worker.spans import Spans
from holdfast.worker.steps.performance import Outcome

REJECTED: Final = "holdfast.errors:ApprovalRejected"
"""The recorded name of the error of a call that a person refused."""


class Floor(Protocol):
    """What the gate needs of the advancer."""

    def perform_effect(self, held: Held, call: Call) -> None: ...
    def arrive(self, held: Held, arrival: Outcome) -> None: ...
    def give_turn(self, held: Held) -> None: ...
    def delivered(self, key: p.Key) -> None: ...


class Settler:
    """Brings calls back to their runs, which stand on the ``floor``."""

    def __init__(self, store: p.Store, clock: Clock, floor: Floor, spans: Spans | None = None) -> None:
        self._store = store
        self._clock = clock
        self._floor = floor
        self._spans = spans
        self._tasks: set[asyncio.Task[None]] = set()

    def settle(self, held: Held, call: Call, outcome: Ok[Payload] | Err) -> None:
        """The call is over: its run learns the outcome."""
        if held.dropped:
            return
        calls, now = held.gate_of_run(), self._clock.now()
        if is_unaccounted(call.earlier, call.promise):  # refused, and what an attempt came to is not known
            calls.carry(orphans.left(held, call, call.earlier, now))
        if isinstance(outcome, Ok) or outcome.failure.type == REJECTED:
            outcome = decided_by(outcome, call.decider)
        asked = call.open_tasks
        call.forget()
        for task in asked:  # a cap or another policy decided first: the turn that takes this in withdraws it
            call.learn_task(task)
        calls.move(call, "settled")
        if self._spans is not None:
            failure = outcome.failure if isinstance(outcome, Err) else None
            self._spans.settled(held.row, call.request, failure, now)
        self._floor.arrive(held, CallSettled(call.promise, outcome, call.request.attempt, now))

    def check(self, held: Held, call: Call) -> None:
        """Something has changed: judge the call once more, by what the store knows now."""
        if not held.dropped:
            self.judge_after(held, call, self._look_up(held, call))

    def judge_after(self, held: Held, call: Call, work: Coroutine[Any, Any, None]) -> None:
        """Judge the call once more when this is done."""
        held.gate_of_run().move(call, "doubted")
        self.background(self._judge_after(held, call, work))

    async def _judge_after(self, held: Held, call: Call, work: Coroutine[Any, Any, None]) -> None:
        await work
        if not _is_moot(held, call):
            held.gate_of_run().move(call, "checked")
            self._floor.give_turn(held)

    async def _look_up(self, held: Held, call: Call) -> None:
        """Read what the store knows by now."""
        known, asked = call.earlier, call.outcome
        id = known.id if known is not None else None if asked is None else tasks.asks_about(asked)
        present = None
        if id is not None:
            present = await patiently(partial(self._store.receipt, held.key.tenant, id))
        elif call.request.stopped:  # it may have succeeded while nobody held the run, and nothing else would find that
            caller = p.ActCaller(held.key.run, call.promise.root, call.promise.path[-1])
            (present,) = await patiently(partial(self._store.acts_of, held.key.tenant, [caller]))
            if present is not None and (present.reversed_by is not None or not is_of(present, call.promise)):
                present = None
        found = (await patiently(partial(self._store.governed, [held.key]))).get(held.key)
        if _is_moot(held, call):
            return
        if known is not None and (present is None or present.token != known.token):
            call.earlier = None  # another attempt has the key by now
        elif present is not None and (present.state in ("succeeded", "failed") or _asks(asked, present)):
            call.earlier = present
        if found is not None:
            held.learn(found)

    async def find_receipt(self, held: Held, call: Call) -> None:
        """Look which receipt has the call's key. If its act was taken back, the key is that of the next round."""
        tenant, first = held.key.tenant, call.proposal.key
        found = await patiently(partial(self._store.receipt_of_key, tenant, first))
        while found is not None and found.reversed_by is not None and not call.effect.key_once:
            call.rounds[first] = found.round + 1
            found = await patiently(partial(self._store.receipt_of_key, tenant, f"{first}#{call.round}"))
        call.found = Found(found)

    async def choose_key(self, held: Held, call: Call, effect: Effect, proposal: Proposal) -> None:
        """Find out whether an older version did the act, and kept its receipt under the key that it gave it."""
        former = proposal.former or ""
        found = await patiently(partial(self._store.receipt_of_key, held.key.tenant, former))
        call.key = proposal.key
        if found is not None:
            maker = str(PromiseId(found.root).child(found.position))
            if effect.has_key(proposal.key, cbor2.loads(found.request), maker):
                call.key = former

    def witness(self, held: Held, call: Call) -> None:
        """Judge the call once more when it is known whether the audit records its answers."""
        self.judge_after(held, call, self._witness(held, call))

    async def _witness(self, held: Held, call: Call) -> None:
        recorded = await recorded_answers(self._store, held.key.tenant, [task.id for task in call.unwitnessed])
        if not _is_moot(held, call):
            confirm(call, recorded)

    def give_turn(self, held: Held) -> None:
        """Something about the run has changed: it gets a turn."""
        self._floor.give_turn(held)

    def bring(self, held: Held, request: Invoke, outcome: Ok[Payload] | Err) -> None:
        """Give a run the outcome of a call that has no more to do here."""
        if not held.dropped:
            self._floor.arrive(held, CallSettled(request.promise_id, outcome, request.attempt, self._clock.now()))

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_moot(held: Held, call: Call) -> bool:
    """Whether nobody waits any more for what was looked up."""
    return held.dropped or call.state != "checking"


def _asks(task: p.TaskRow | None, receipt: p.ReceiptRow) -> bool:
    return task is not None and tasks.is_about(task, receipt)

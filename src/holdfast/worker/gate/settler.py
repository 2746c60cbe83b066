"""The settler: how a call at the gate comes back to its run, with an outcome or to be judged once more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Protocol

from holdfast.audit.check.task_accounts import task_problem
from holdfast.audit.collector import asked_of
from holdfast.journal.payload import Err, Ok
from holdfast.kernel.arrivals import Settled
from holdfast.kernel.requests import Invoke
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.tasks import answers as tasks
from holdfast.worker.gate import entries as recording
from holdfast.worker.gate import questions as asking
from holdfast.worker.gate.calls import Clearance
from holdfast.worker.held import Held
from holdfast.worker.performer import Outcome


class Floor(Protocol):
    """What the gate needs of the advancer."""

    def perform_action(self, held: Held, clearance: Clearance) -> None: ...
    def arrive(self, held: Held, arrival: Outcome) -> None: ...
    def stir(self, held: Held) -> None: ...
    def delivered(self, key: p.Key) -> None: ...


class Settler:
    """Brings calls back to their runs."""

    def __init__(self, store: p.Store, clock: Clock) -> None:
        self.floor: Floor
        self._store = store
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def settle(self, held: Held, request: Invoke, outcome: Ok | Err) -> None:
        """The call is over: its run learns the outcome."""
        if not held.dropped:
            gate, promise = held.gate_of_run(), request.promise_id
            receipt = gate.receipts.get(promise)
            if recording.is_unaccounted(receipt, promise):  # refused, and what an attempt came to is not known
                gate.carry(recording.abandoned(held, promise, receipt, self._clock.now()))
            asked = asking.open_tasks(gate, promise)
            gate.forget(promise)
            gate.learn([], asked)  # a cap or another policy decided first: the turn that takes this in withdraws it
            self.floor.arrive(held, Settled(request.promise_id, outcome, request.attempt, self._clock.now()))

    def reconsider(self, held: Held, request: Invoke) -> None:
        """Something has changed: judge the call once more, by what the store knows now."""
        if not held.dropped:
            held.gate_of_run().looking.add(request.promise_id)
            self.background(self._look_again(held, request))

    async def _look_again(self, held: Held, request: Invoke) -> None:
        """Read what the store knows by now, then judge once more."""
        gate, promise = held.gate_of_run(), request.promise_id
        known, asked = gate.receipts.get(promise), gate.outcomes.get(promise)
        id = known.id if known is not None else None if asked is None else tasks.asks_about(asked)
        present = None
        if id is not None:
            present = await patiently(partial(self._store.receipt, held.key.tenant, id))
        found = (await patiently(partial(self._store.governed, [held.key]))).get(held.key)
        if held.dropped or promise not in gate.looking:
            return
        if known is not None and (present is None or present.token != known.token):
            gate.receipts.pop(promise, None)  # another attempt has the key by now
        elif present is not None and (present.state in ("succeeded", "failed") or _asks(asked, present)):
            gate.receipts[promise] = present
        if found is not None:
            held.learn(found)
        gate.looking.discard(promise)
        gate.again[promise] = request
        self.floor.stir(held)

    def witness(self, held: Held, request: Invoke, answered: list[p.TaskRow]) -> None:
        """Judge the call once more when it is known that the audit tells of these answers, or that it does not."""
        if not held.dropped:
            held.gate_of_run().looking.add(request.promise_id)
            self.background(self._witness(held, request, answered))

    async def _witness(self, held: Held, request: Invoke, answered: list[p.TaskRow]) -> None:
        """An answer and its entry are one commit: what was read of the one, the other tells."""
        gate, promise = held.gate_of_run(), request.promise_id
        told = await patiently(partial(asked_of, self._store, [held.key]))
        if held.dropped or promise not in gate.looking:
            return
        for task in answered:
            if (problem := task_problem(task, told.get(task.id, ()))) is not None:
                gate.refuted[promise] = problem
            else:
                gate.witnessed.add((task.id, task.version))
        gate.looking.discard(promise)
        gate.again[promise] = request
        self.floor.stir(held)

    def stir(self, held: Held) -> None:
        """Something about the run has changed: it gets a turn."""
        self.floor.stir(held)

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Let it run beside."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _asks(task: p.TaskRow | None, receipt: p.ReceiptRow) -> bool:
    return task is not None and tasks.is_about(task, receipt)

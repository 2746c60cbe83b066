"""Undoings: an undo of an act begins when its run has taken the receipt, and not if another run relies on the act.

The store decides by compare-and-set (see ``store/holding``): of all undos and reversals of an act one takes its
receipt. The others wait for that one, and take its outcome; if it gives the receipt back, they try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Final

import cbor2

from holdfast.audit.records import UNDONE
from holdfast.gate.run_calls import OtherAct
from holdfast.gate.undos import GatedUndo, Undos
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.requests import Invoke
from holdfast.kernel.turn import Turn
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.worker.attached import Attached
from holdfast.worker.gate import entries
from holdfast.worker.gate.settler import Settler
from holdfast.worker.held import Held

LOOK_AGAIN_SECONDS: Final = (0.05, 5.0)
"""How soon, and at most how late, to look again whether another one has ended."""


class Undoings:
    """Takes the receipts of acts that held runs undo."""

    def __init__(self, store: p.Store, committer: Committer, clock: Clock, settler: Settler) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._settler = settler

    def passes(self, held: Held, request: Invoke) -> bool:
        """Whether the undo may be done now. If not, it is asked for again by ``Undos.free``, or settled."""
        undos = held.gate_of_run().undos
        undo = undos.calls.get(request.promise_id)
        if undo is None:
            undo = undos.add(request)
        if undo.state == "free":
            undos.move(undo, "passed")
        undo.request = request
        return undo.state == "begun"

    def begun(self, held: Held) -> list[Attached]:
        """What follows the commit of a turn: the receipts of what it wants to undo are looked for. Before it, the
        store has not closed the receipt of an act that has ended in this very turn."""
        undos = None if held.gate is None else held.gate.undos
        asked = undos.asked() if undos else []
        return [Attached(None, lambda _: self._begin(held, asked))] if asked else []

    def _begin(self, held: Held, asked: list[GatedUndo]) -> None:
        for undo in asked:
            if (undos := _undos_with(held, undo)) is not None:
                undos.move(undo, "committed")
                self._settler.background(self._look(held, undo))

    async def _look(self, held: Held, undo: GatedUndo) -> None:
        """Find the receipt of the undone call, and take it."""
        undone = undo.request.undoes
        assert undone is not None
        caller = p.ActCaller(held.key.run, undone.root, undone.path[-1])
        (receipt,) = await patiently(partial(self._store.acts_of, held.key.tenant, [caller]))
        if (undos := _undos_with(held, undo)) is None:
            return
        undo.receipt = receipt
        if receipt is None:  # a plain step, or an act of a version that kept no receipts
            undos.move(undo, "missing")
            self._settler.give_turn(held)
            return
        undos.move(undo, "found")
        note = entries.taken_back(held, receipt, undo.name, "taken", self._clock.now())
        change = p.TakeBack(receipt.tenant, receipt.key, receipt.id, caller, undo.name, (note,))
        self._committer.submit(change, partial(self._answered, held, undo, receipt))

    def _answered(self, held: Held, undo: GatedUndo, receipt: p.ReceiptRow, answer: p.Answer | Exception) -> None:
        if (undos := _undos_with(held, undo)) is None:
            return
        match answer:
            case p.TookBack():
                undos.move(undo, "taken")
                self._settler.give_turn(held)
            case p.HeldBy(run=run, kept=kept):
                self._settle(held, undo, receipt, f"{'kept by' if kept else 'left to'} {run}")
            case p.Taken(receipt=found) if found.reversed_by is not None:
                self._settle(held, undo, receipt, f"taken back by {found.reversed_by}")
            case _:
                undos.move(undo, "busy")
                self._settler.background(self._wait(held, undo, receipt, LOOK_AGAIN_SECONDS[0]))

    async def _wait(self, held: Held, undo: GatedUndo, receipt: p.ReceiptRow, wait: float) -> None:
        """Wait until the one that has the receipt has ended."""
        stakes = await patiently(partial(self._store.stakes, receipt.tenant, receipt.id))
        taker = None if stakes.taking is None else stakes.taking[0]
        other = None if taker is None else await patiently(partial(self._store.receipt, receipt.tenant, taker))
        if (undos := _undos_with(held, undo)) is None:
            return
        held.gate_of_run().others.pop(undo.request.promise_id, None)
        if stakes.taking is None:
            undos.move(undo, "freed")
            await self._look(held, undo)
        elif other is not None and other.is_given_up:
            undos.drop(undo.request.promise_id)
            reason = f"nobody knows whether receipt {other.id} has taken the act of receipt {receipt.id} back"
            self._settler.bring(held, undo.request, Err(Failure("holdfast.errors:OutcomeUnknown", reason)))
        else:
            held.gate_of_run().others[undo.request.promise_id] = OtherAct(stakes.taking[1], receipt.id)
            self._settler.show(held)
            asyncio.get_running_loop().call_later(wait, self._wait_more, held, undo, receipt, wait)

    def _wait_more(self, held: Held, undo: GatedUndo, receipt: p.ReceiptRow, waited: float) -> None:
        if _undos_with(held, undo) is not None:
            wait = min(waited * 2, LOOK_AGAIN_SECONDS[1])
            self._settler.background(self._wait(held, undo, receipt, wait))

    def _settle(self, held: Held, undo: GatedUndo, receipt: p.ReceiptRow, why: str) -> None:
        """There is nothing to do any more: the journal and the audit say why."""
        calls = held.gate_of_run()
        calls.carry(entries.taken_back(held, receipt, undo.name, why, self._clock.now()))
        calls.undos.drop(undo.request.promise_id)
        self._settler.bring(held, undo.request, Ok(Payload(cbor2.dumps(why))))

    def settled(self, held: Held, turn: Turn) -> Iterator[Attached]:
        """What undos in this turn, their ends, and acts that it declares done, change of receipts."""
        yield from self.begun(held)
        for promise, name, done in turn.undone:
            yield from self._ended(held, promise, name, done=done)
        if turn.former:
            former = tuple([(call.root, place, call.path[-1]) for call, place in turn.former])
            yield Attached(p.HoldFormer(held.key.tenant, held.key.run, former, self._clock.now()))
        if turn.kept:
            calls = tuple([(call.root, call.path[-1]) for call in turn.kept])
            yield Attached(p.SetHolds(held.key.tenant, held.key.run, calls))

    def _ended(self, held: Held, promise: PromiseId, name: str, *, done: bool) -> Iterator[Attached]:
        if held.gate is None:
            return
        undos, now = held.gate.undos, self._clock.now()
        if (receipt := undos.receipt_of(promise, name)) is None:
            undos.drop(promise)
            return
        note = entries.taken_back(held, receipt, name, UNDONE if done else "given back", now)
        change = p.SettleTaking(receipt.tenant, receipt.key, receipt.id, name, done, (note,))
        yield Attached(change, lambda _: undos.drop(promise))


def _undos_with(held: Held, undo: GatedUndo) -> Undos | None:
    """The undos of the run, while this one is awaited here."""
    undos = None if held.dropped or held.gate is None else held.gate.undos
    return undos if undos is not None and undos.calls.get(undo.request.promise_id) is undo else None

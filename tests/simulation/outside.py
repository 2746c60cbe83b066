"""The outside world: it remembers every act, and stops the simulation at one that the gate should have refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.journal.promise import PromiseId
from holdfast.programs.function.actions import Action
from holdfast.store import protocol as p
from holdfast.worker.steps.performance import Performance
from tests.simulation.broken import Broken
from tests.simulation.chronicle import Chronicle, Place
from tests.simulation.rules import Demand

if TYPE_CHECKING:
    from tests.simulation.world import Process


class Deed(msgspec.Struct):
    """One act: who did it, for which promise, and its outcome. ``result`` is None until it is done.

    Its result contains the number, and not the token: results become arguments, and a token names a real process.
    """

    number: int
    place: Place
    key: p.Key
    promise: PromiseId
    token: str
    writes: bool
    worker: str
    began: float
    ended: float | None = None
    result: str | None = None


class Outside:
    """All acts, by tenant and key."""

    def __init__(self, chronicle: Chronicle) -> None:
        self.deeds: dict[Place, list[Deed]] = {}
        self._chronicle = chronicle

    def all(self) -> list[Deed]:
        return [deed for deeds in self.deeds.values() for deed in deeds]

    def result(self, place: Place) -> str | None:
        """The result of the first act that was done under this key."""
        return next((deed.result for deed in self.deeds.get(place, ()) if deed.result is not None), None)

    def is_first(self, deed: Deed) -> bool:
        return self.deeds[deed.place][0] is deed

    def under_way(self, workers: set[str]) -> bool:
        """Whether one of these workers is still acting."""
        return any(deed.ended is None and deed.worker in workers for deed in self.all())

    def begin(
        self,
        process: Process,
        action: Action[..., Any],
        arguments: dict[str, Any],
        performance: Performance,
        demand: Demand,
        time: float,
    ) -> Deed:
        """Begin an act. Raises Broken where it must not begin."""
        promise = performance.promise
        proposal = action.proposal_of(arguments, performance.name)
        key = performance.info.key
        place = (performance.key.tenant, key)
        about = f"act {key} of run {performance.key.run}"
        self._is_its_key(about, place, proposal.key)
        receipt = self._receipt(about, place, promise, process)
        if not self._chronicle.is_allowed(str(promise), proposal.digest().hex()):
            _stop(f"{about} began without a decision that allows it (G1)")
        if not (action.safe_to_retry or action.probe is not None):
            self._may_repeat(about, place)
        self._is_approved(about, receipt, proposal.digest(), demand)
        worker = receipt.token.rpartition("~")[0]
        deed = Deed(len(self.all()) + 1, place, performance.key, promise, receipt.token, proposal.writes, worker, time)
        self.deeds.setdefault(place, []).append(deed)
        return deed

    def _is_its_key(self, about: str, place: Place, first: str) -> None:
        """It has the key that it proposed, or that of a later round: each act of an earlier round was taken back."""
        tenant, key = place
        number = 1 if key == first else int(key.removeprefix(f"{first}#"))
        for before in [first, *(f"{first}#{round}" for round in range(2, number))][: number - 1]:
            receipt = self._chronicle.tables.receipts.get((tenant, before))
            if receipt is None or receipt.reversed_by is None:
                _stop(f"{about} is of round {number}, and the act under {before} was not taken back: {receipt}")

    def _receipt(self, about: str, place: Place, promise: PromiseId, process: Process) -> p.ReceiptRow:
        receipt = self._chronicle.tables.receipts.get(place)
        worker = process.app.worker
        if place in self._chronicle.succeeded:
            _stop(f"{about} began again after its receipt had succeeded (G2)")
        if receipt is None or receipt.state != "pending":
            _stop(f"{about} began without a pending receipt: {receipt}")
        if (receipt.root, receipt.position) != (promise.root, promise.path[-1]):
            _stop(f"{about} began under the receipt of another call")
        if worker is None or not receipt.token.startswith(f"{worker.id}~"):
            _stop(f"{about} began under the receipt of another worker's attempt")
        if any(deed.token == receipt.token for deed in self.deeds.get(place, ())):
            _stop(f"{about} began twice in one attempt (G2)")
        return receipt

    def _may_repeat(self, about: str, place: Place) -> None:
        """What cannot be repeated begins again only where every attempt failed, or did not happen, as a person said."""
        known = self._chronicle.failed | self._chronicle.denied
        if open_ := [deed for deed in self.deeds.get(place, ()) if deed.token not in known]:
            _stop(f"{about} began again, and nobody said that it had not happened (G2): {open_}")

    def _is_approved(self, about: str, receipt: p.ReceiptRow, digest: bytes, demand: Demand) -> None:
        if demand.effect == "deny":
            _stop(f"{about} began, and policy denies it (G1)")
        if receipt.proposal != digest:
            _stop(f"{about} is not what its receipt says")
        if demand.effect == "allow":
            return
        task = self._chronicle.tables.tasks.get((receipt.tenant, receipt.task or ""))
        if task is None or task.kind != "approval" or task.status != "approved":
            _stop(f"{about} began without an approval (G4): {task}")
        if task.proposal != digest or (task.root, task.position) != (receipt.root, receipt.position):
            _stop(f"{about} began with the approval of something else (G4)")
        people = {said.who for said in task.answers if said.verdict == "approved"}
        if len(people) < (2 if demand.two_person else 1):
            _stop(f"{about} began with the approval of {people} alone (G4)")
        if demand.tier == "high" and task.starter in people:
            _stop(f"{about} was approved by the person who started it (G4)")
        if task.expires_at is not None and task.answers[-1].at >= task.expires_at:
            _stop(f"{about} was approved after the approval had expired (G4)")


def _stop(text: str) -> NoReturn:
    raise Broken(text)

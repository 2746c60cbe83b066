"""The taker: it leases queued steps of the queues that this worker serves, and performs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import cbor2
import msgspec

from holdfast.gate.effects import Performable
from holdfast.journal.payload import ONCE, Failure, Payload, policy_of
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, CallSettled
from holdfast.runs import messages
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.step import hears_progress, origin_of
from holdfast.runs.lanes import LANE_EVENT, ProgressFrame
from holdfast.runs.log_records import about
from holdfast.runs.payload_room import PayloadPlace
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.worker.presence.lease import LocalLease
from holdfast.worker.roles.claimer import LAPSED_SECONDS, LOOK_SECONDS
from holdfast.worker.steps.performance import Outcome, Performance
from holdfast.worker.steps.performer import Performer
from holdfast.worker.steps.progress import ProgressReports, Taken
from holdfast.worker.steps.receipt_signer import ReceiptSigner

log = logging.getLogger("holdfast.taker")

LATE_SECONDS: Final = 0.25
"""A claim whose answer took longer is not believed without another look."""


class Taker(Role):
    """Serves queues, each up to its concurrency in this worker."""

    name = "taker"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        performer: Performer,
        clock: Clock,
        worker: str,
        queues: Mapping[str, int],
        steps: Mapping[str, Performable],
        delivered: Callable[[p.Key], None],
        lease: LocalLease,
        signer: ReceiptSigner,
    ) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._performer = performer
        self._clock = clock
        self._worker = worker
        self._queues = queues
        self._steps = steps
        self._delivered = delivered
        self._lease = lease
        self._signer = signer
        self._names: Sequence[str] = ()
        self._counted = -1  # how many steps there were when these were named
        self._doubts = 0
        self._running: dict[str, dict[tuple[p.Key, int], Performance]] = {queue: {} for queue in queues}

    @property
    def running(self) -> int:
        return sum(map(len, self._running.values()))

    async def round(self) -> float | None:
        if not self._lease.alive():
            return LAPSED_SECONDS
        await self._mind_withdrawn()
        wanted = {queue: limit - len(self._running[queue]) for queue, limit in self._queues.items()}
        wanted = {queue: room for queue, room in wanted.items() if room > 0}
        if not wanted:
            return LOOK_SECONDS
        if self._doubts:
            await self._reconcile()
        self._doubts += 1  # until the answer is here, and the lease is known to be alive
        losses, asked = self._lease.losses, self._lease.time()
        claim = await self._store.claim_work(self._worker, wanted, self._clock.now(), self._taken())
        if not self._lease.held_since(losses):
            return LAPSED_SECONDS
        if claim.work and self._lease.time() - asked > LATE_SECONDS:
            return 0.0  # some of it may have been withdrawn by now, and offered again: look what is still leased
        self._doubts -= 1
        await self._begin_all(claim.work)
        if claim.next_available_at is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.001, (claim.next_available_at - self._clock.now()) / 1e6))

    def _taken(self) -> Sequence[str]:
        """The steps that are taken here. Those of executors whose keys are not here are left to other workers."""
        if len(self._steps) != self._counted:  # more may be declared while it works
            self._counted = len(self._steps)
            self._names = [name for name, step in self._steps.items() if self._signer.lack(step) is None]
        return self._names

    def doubt(self) -> None:
        """The store may know of leases that this worker does not: look before the next claim."""
        self._doubts += 1
        self.wake()

    async def _reconcile(self) -> None:
        """Begin what a claim whose answer was lost, or came too late, has leased to this worker."""
        known = self._doubts
        losses = self._lease.losses
        leased = await self._store.leased(self._worker)
        if self._lease.held_since(losses):
            running = {place for places in self._running.values() for place in places}
            await self._begin_all([work for work in leased.work if (work.key, work.position) not in running])
            self._doubts -= known

    def lose_all(self) -> None:
        """Every lease is lost."""
        for running in self._running.values():
            for performance in running.values():
                performance.cancel()
            running.clear()

    async def _mind_withdrawn(self) -> None:
        """Call off work that its run no longer wants."""
        before = [(running, place) for running in self._running.values() for place in running]
        if not before:
            return
        leased = {(work.key, work.position) for work in (await self._store.leased(self._worker)).work}
        for running, place in before:
            if place not in leased and (performance := running.pop(place, None)) is not None:
                performance.cancel()

    async def _begin_all(self, works: Sequence[p.Work]) -> None:
        for work in works:
            try:
                self._begin(work)
            except Exception as error:
                await self._set_aside(work, error)

    async def _set_aside(self, work: p.Work, error: Exception) -> None:
        """Work that cannot be read must not keep the rest: its run is parked, and offers it again when it goes on."""
        name, of = work.name, f"of run {work.key.run}, tenant {work.key.tenant},"
        log.error("the queued step %s %s cannot be read", name, of, exc_info=error, extra=about(work.key))
        problem = (
            f"its queued step {name!r} at position {work.position} cannot be read ({type(error).__name__}: {error})"
        )
        reason = f"{problem}: resume the run to have it offered anew."
        await patiently(partial(self._store.pause, work.key, reason, self._clock.now()))
        self._committer.submit(p.Withdraw(work.key, work.position), lambda _: self._delivered(work.key))

    def _begin(self, work: p.Work) -> None:
        root, data, codec, *rest = cbor2.loads(work.body)
        promise = PromiseId(root).child(work.position)
        place = (work.key, work.position)
        step = self._steps.get(work.name)
        if step is None:
            message = f"queue {work.queue!r} is served here, but no step is called {work.name!r}: deploy its code"
            failure = Failure("holdfast.errors:InvalidDefinition", message)
            self._finish(work, AttemptFailed(promise, failure, work.attempt, self._clock.now()))
            return
        self._running[work.queue][place] = self._performer.perform(
            step,
            work.key,
            promise,
            work.attempt,
            Payload(data, codec),
            self._reported,
            self._beaten,
            work,
            mark=rest[0] if rest else "",  # work that an older version offered has none
            begun_before=work.claims > 1,
            retry=policy_of(rest[1]) if len(rest) > 1 else ONCE,
            trace=rest[2] if len(rest) > 2 else None,
            reports=self._reports(work) if hears_progress(rest) else None,
        )

    def _reports(self, work: p.Work) -> ProgressReports:
        """What takes reports to the cell that asked. Changes of one run are made in the order in which they were
        submitted, so the lane has every frame before it has what came of the attempt."""

        def send(frame: ProgressFrame) -> Taken:
            answered: list[p.Answer | Exception] = []

            def done(answer: p.Answer | Exception) -> None:
                answered.append(answer)
                self._delivered(work.key)

            message = messages.signal(LANE_EVENT, frame.write(), self._clock.now())
            self._committer.submit(p.Deliver(work.key, message), done)
            return lambda: bool(answered)

        return ProgressReports(asyncio.get_running_loop(), work.position, work.attempt, work.epoch, send)

    def _reported(self, performance: Performance, outcome: Outcome) -> None:
        work: p.Work = performance.owner
        origin = origin_of(cbor2.loads(work.body))
        result = performance.take_result()
        self._finish(work, self._signer.sign(origin, performance.promise, performance.step, outcome), result)

    def _beaten(self, performance: Performance, details: bytes) -> None:
        work: p.Work = performance.owner
        self._committer.submit(p.Beat(work.key, work.position, details, self._clock.now()), lambda _: None)

    def _finish(self, work: p.Work, arrival: Outcome, result: PayloadPlace | None = None) -> None:
        """Hand in an outcome. Until that is durable the work counts as running: else it might be begun again."""
        now = self._clock.now()
        match arrival:
            case CallSettled(outcome=outcome, attempt=attempt, started_at=started_at):
                message = messages.settled(
                    arrival.promise_id, outcome, attempt, started_at, now, begun_before=work.claims > 1
                )
            case AttemptFailed():
                message = messages.attempt_failed(msgspec.structs.replace(arrival, begun_before=work.claims > 1), now)
        change = p.FinishWork(work.key, work.position, work.epoch, message)
        self._committer.submit(change, lambda _: self._finished(work, result))

    def _finished(self, work: p.Work, result: PayloadPlace | None) -> None:
        """It is durable. The answer may come late: by then its next attempt may be running here, in its place."""
        if result is not None:
            result.release()
        running, place = self._running[work.queue], (work.key, work.position)
        if (performance := running.get(place)) is not None and performance.owner is work:
            del running[place]
        self._delivered(work.key)
        self.wake()

"""The claimer: it leases ready runs, as many as there is room for, and wakes when a timer is due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from holdfast.errors import StoreCorrupt
from holdfast.programs.catalogue import Catalogue
from holdfast.runs.checkpoints import load
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.advancer import Advancer
from holdfast.worker.gate.answers import Recorded, answered_tasks, recorded_answers
from holdfast.worker.presence.lease import LocalLease

T = TypeVar("T")

BATCH: Final = 200
LOOK_SECONDS: Final = 5.0
"""Hints can be lost: so often the store is looked at without one."""
LAPSED_SECONDS: Final = 0.5
"""While its own lease has lapsed a worker takes nothing; the heart is about to find out."""


class Claimer(Role):
    """Leases runs for the advancer."""

    name = "claimer"

    def __init__(
        self,
        store: p.Store,
        advancer: Advancer,
        clock: Clock,
        worker: str,
        catalogue: Catalogue,
        capacity: int,
        lease: LocalLease,
        limits: Callable[[], p.Limits | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._limits = limits
        self._store = store
        self._advancer = advancer
        self._clock = clock
        self._worker = worker
        self._catalogue = catalogue
        self._capacity = capacity
        self._lease = lease
        self._doubts = 0
        self.limited = False
        """Whether caps held for the last claim: then only a claim decides what begins."""

    @property
    def room(self) -> int:
        return self._capacity - len(self._advancer.held)

    async def round(self) -> float | None:
        await self._mind_held()
        if not self._lease.alive():
            return LAPSED_SECONDS
        room = min(self.room, BATCH)
        if room <= 0:
            self._advancer.freed.clear()
            await self._advancer.freed.wait()
            return 0
        now = self._clock.now()
        if self._doubts:
            await self._reconcile()
        self._doubts += 1  # until the answer is here, and the lease is known to be alive
        losses = self._lease.losses
        declined = self._advancer.has_declined
        serves = self._catalogue.serves()
        claim = await self._store.claim(self._worker, serves, room, now, self._limits(), declined)
        if not self._lease.held_since(losses):
            return LAPSED_SECONDS
        self._doubts -= 1
        self.limited = claim.limited
        if claim.runs:
            await self._take(claim.runs)
        if len(claim.runs) == room:
            return 0
        if claim.next_wake_at is None:
            return LOOK_SECONDS
        return min(LOOK_SECONDS, max(0.001, (claim.next_wake_at - self._clock.now()) / 1e6))

    def expect(self, due: int) -> None:
        """A run that is handed back wants to be woken then, perhaps earlier than any that the last claim found."""
        seconds = (due - self._clock.now()) / 1e6
        if seconds < LOOK_SECONDS:  # the rest is seen by a look that comes before
            self.wake_within(seconds)

    def doubt(self) -> None:
        """The store may know of leases that this worker does not: look before the next claim."""
        self._doubts += 1
        self.wake()

    async def _reconcile(self) -> None:
        """Take what a claim whose answer was lost has leased to this worker."""
        known = self._doubts
        losses = self._lease.losses
        leased = await self._store.leased(self._worker)
        if not self._lease.held_since(losses):
            return
        orphans = [run for run in leased.runs if not self._advancer.holds(run)]
        if orphans:
            await self._take(orphans)
        self._doubts -= known

    async def _take(self, runs: list[p.Run]) -> None:
        cold = [run for run in runs if self._advancer.take(run)]
        warm = [run for run in runs if run not in cold]
        lost: set[p.Key] = set()
        gated = [run for run in runs if run.governed]
        governed = await self._read("receipts and tasks", gated, self._keyed(self._store.governed), lost)
        await self._learn_code(cold)
        loaded = await self._read("journal and inbox", cold, partial(load, self._store), lost)
        for run in cold:
            journal = loaded.get(run.key)
            if journal is not None:
                await self._give(run, journal, journal.messages, governed, lost)
        inboxes = await self._read("inbox", warm, self._keyed(self._store.messages), lost)
        for run in warm:
            if run.key not in lost:
                await self._give(run, None, inboxes.get(run.key, []), governed, lost)

    async def _give(
        self,
        run: p.Run,
        journal: p.Loaded | None,
        inbox: list[p.Received],
        governed: dict[p.Key, p.Governed],
        lost: set[p.Key],
    ) -> None:
        """Give the advancer what was read of a run; with answers of people, what the audit records of them, too."""
        tasks = answered_tasks(inbox)
        reading = partial(self._recorded, tasks)
        recorded = await self._read("audit entries", [run] if tasks else [], reading, lost)
        if run.key not in lost:
            self._advancer.loaded(run, journal, inbox, governed.get(run.key), recorded.get(run.key))

    async def _recorded(self, tasks: Sequence[str], runs: Sequence[p.Run]) -> dict[p.Key, Recorded]:
        return {run.key: await recorded_answers(self._store, run.key.tenant, tasks) for run in runs}

    @staticmethod
    def _keyed(
        read: Callable[[Sequence[p.Key]], Awaitable[dict[p.Key, T]]],
    ) -> Callable[[Sequence[p.Run]], Awaitable[dict[p.Key, T]]]:
        return lambda runs: read([run.key for run in runs])

    async def _learn_code(self, runs: Sequence[p.Run]) -> None:
        """Read the code that the store keeps for these runs and that is not known here. Most runs have none."""
        lacking: dict[str, set[bytes]] = {}
        for run in runs:
            if run.code_digest is not None and self._catalogue.lacks(run.key.tenant, run.code_digest):
                lacking.setdefault(run.key.tenant, set()).add(run.code_digest)
        for tenant, digests in lacking.items():
            found = await patiently(partial(self._store.code, tenant, sorted(digests)))
            self._catalogue.learn(tenant, found.values())

    async def _read(
        self,
        what: str,
        runs: Sequence[p.Run],
        read: Callable[[Sequence[p.Run]], Awaitable[dict[p.Key, T]]],
        lost: set[p.Key],
    ) -> dict[p.Key, T]:
        """What the store has of these runs. A run of which it cannot be read is parked and ``lost``; others go on."""
        runs = [run for run in runs if run.key not in lost]
        if not runs:
            return {}
        try:
            return await patiently(partial(read, runs), unless=(StoreCorrupt,))
        except Exception as error:
            if len(runs) == 1:
                lost.add(runs[0].key)
                self._advancer.unreadable(runs[0], what, error)
                return {}
        found: dict[p.Key, T] = {}
        for run in runs:
            found |= await self._read(what, [run], read, lost)
        return found

    async def _mind_held(self) -> None:
        """Tell held runs of messages and pauses that came through other processes."""
        if not self._advancer.held:
            return
        changed = await self._store.arrivals(self._worker)
        for run in changed:
            if run.pause is not None:
                self._advancer.paused(run.key, run.pause)
        keys = [run.key for run in changed if run.pause is None and run.key in self._advancer.held]
        if keys:
            for key, inbox in (await self._store.messages(keys)).items():
                self._advancer.receive(key, inbox)

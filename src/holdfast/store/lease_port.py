"""The store's side of leases: who lives, who has which runs and which work, and who may not have them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.store.admission import Limits
from holdfast.store.outage import Outage
from holdfast.store.rows import ClaimedRuns, ClaimedWork, Declined, Leased, Run, WorkerRow
from holdfast.store.values import Key, Serves


class LeasePort(Protocol):
    """What workers ask for, and give back."""

    outage: Outage
    """Whether this process reaches the store. Twins share it; whoever calls the store reports to it."""

    async def register(self, worker: WorkerRow, ttl_seconds: float) -> None:
        """Register a worker, alive for ``ttl_seconds``."""
        ...

    async def beat(self, worker: str, ttl_seconds: float) -> bool:
        """Prolong a worker's life. False where it is no longer registered: all of its leases are lost."""
        ...

    async def report_clock(self, worker: str, ahead: int) -> None:
        """Keep in the worker's row by how much its clock is ahead of the store's; negative where it is behind, 0 where
        it is not off by more than it may be. Nothing is done where it is not registered."""
        ...

    async def unregister(self, worker: str, now: int) -> None:
        """Forget a worker and release all its leases. This does not count as a crash of the runs."""
        ...

    async def rescue(self, now: int, by: str | None = None, *, cautious: bool = False) -> list[str] | None:
        """Forget workers that are known to be dead or have expired, end their leases, and name the workers.

        Leases of workers that are not registered end, too: a worker may have claimed after it was forgotten.

        ``by`` is the worker that asks. It is never among those, and where it is expired itself nothing is done, and the
        answer is None: what kept it from beating may have kept the others. A ``cautious`` one has only just begun, and
        cannot know whether an outage is just over: silence alone is no death then.
        """
        ...

    async def claim(
        self,
        worker: str,
        serves: Serves,
        limit: int,
        now: int,
        limits: Limits | None = None,
        has_declined: bool = False,
    ) -> ClaimedRuns:
        """Wake the runs whose timers are due, then lease ready runs: highest priority first, then oldest.

        Only runs that the worker ``serves``: of functions by their name, of other kinds of programs by the kind.

        A worker that ``has_declined`` runs does not get them again. For another worker this need not be looked up.

        With ``limits``, root runs that have not begun are leased only where ``admission.admit`` allows it, after the
        others. No two claims admit at the same time. ``next_wake_at`` includes the time when a rate lets the next run
        begin. The caps of items (``caps``) are laid over the limits, so there may be some where none are given.
        """
        ...

    async def decline(self, worker: str, key: Key, epoch: int, reason: str, now: int) -> bool:
        """Release a leased run, ready, for workers whose code fits its journal. The store keeps that this worker has
        declined it until the run is resumed or has a new generation, or the worker is forgotten.

        False, and nothing done, where no other living worker serves it and has not declined it; True where the lease
        was lost. ``rescue`` offers a run that all living workers have declined once more: then the last gets False.
        """
        ...

    async def declined(self, key: Key) -> list[Declined]:
        """The workers that have declined a run in its present generation, oldest first."""
        ...

    async def claim_work(
        self, worker: str, wanted: Mapping[str, int], now: int, steps: Sequence[str] | None = None
    ) -> ClaimedWork:
        """Lease free work that is available, per queue at most the ``wanted`` number: highest priority first, then
        oldest.

        With ``steps`` only work of these names: the rest is for workers whose code has those steps.
        """
        ...

    async def leased(self, worker: str) -> Leased:
        """Everything leased to this worker. It asks this when a claim's answer was lost."""
        ...

    async def arrivals(self, worker: str) -> list[Run]:
        """The runs leased to this worker that have messages not consumed, or were paused."""
        ...

"""The operators of a simulation: they retry, fork and reverse at any time, even what others have just done."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, Final

from holdfast import Holdfast
from holdfast.client.filters import run_rows
from holdfast.errors import (
    InvalidRequest,
    NotReversible,
    ReceiptNotFound,
    RetryRefused,
    RunConflict,
    RunEnded,
    StoreUnavailable,
)
from holdfast.store import protocol as p
from tests.simulation.people import NAMES

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

RETRIES: Final = 3
FORKS: Final = 3
"""How often one run is retried, and how many forks there are: a simulation must end."""

PATIENCE_SECONDS: Final = 15


class Operators:
    """They steer through a client, or through a worker's process, which may die while they do."""

    def __init__(self, simulation: Simulation) -> None:
        self.busy = 0
        self._simulation = simulation
        self._source = simulation.source
        self._retries: Counter[p.Key] = Counter()
        self._forks = 0

    async def live(self) -> None:
        while not self._simulation.faults.healed:
            await asyncio.sleep(self._source.expovariate(0.4))
            await self._steer()

    async def last(self) -> None:
        """When everything has ended, steer a few times at once: most can be retried and reversed then."""
        await asyncio.gather(*(self._steer() for _ in range(self._source.choice((0, 2, 5)))))

    async def _steer(self) -> None:
        roll = self._source.random()
        if roll < 0.45:
            await self._one_of("retry", self._ended(), self._retry)
        elif roll < 0.6 and self._forks < FORKS:
            await self._one_of("fork", run_rows(self._simulation.client.store), self._fork)
        else:
            await self._one_of("reverse", self._receipts(), self._reverse)

    async def _one_of(self, what: str, listed: AsyncIterator[Any], steer: Any) -> None:
        found = [each async for each in listed]
        if not found:
            return
        chosen, who = self._source.choice(found), self._source.choice(NAMES)
        self.busy += 1
        try:
            for _ in range(self._source.choice((1, 1, 1, 2))):
                await self._try(what, self._anywhere(lambda app: steer(app, chosen, who)))
                await asyncio.sleep(0.001)  # nobody steers twice at the same moment
        finally:
            self.busy -= 1

    async def _anywhere(self, steer: Any) -> None:
        simulation, source = self._simulation, self._source
        if simulation.processes and source.random() < 0.5:
            process = source.choice(simulation.processes)
            await process.inside(steer(process.app))
        else:
            await steer(simulation.client)

    async def _ended(self) -> AsyncIterator[p.Run]:
        async for run in run_rows(self._simulation.client.store):
            if run.standing in ("failed", "cancelled") and self._retries[run.key] < RETRIES:
                yield run

    async def _retry(self, app: Holdfast, run: p.Run, who: str) -> None:
        self._retries[run.key] += 1
        await app.run(run.key.run, tenant=run.key.tenant).retry(by=who)

    async def _fork(self, app: Holdfast, run: p.Run, who: str) -> None:
        self._forks += 1
        id = f"{run.key.run.replace('~', '.')} again {self._forks}" if self._source.random() < 0.5 else None
        sequence = self._source.randint(1, max(1, run.version))
        handle = await app.run(run.key.run, tenant=run.key.tenant).fork(sequence, id=id, by=who)
        self._simulation.handles.append(self._simulation.client.run(handle.id, tenant=handle.tenant))

    async def _receipts(self) -> AsyncIterator[tuple[str, str]]:
        """The receipts to choose from: mostly of acts that can be reversed."""
        for tenant in self._simulation.tenants:
            async for receipt in self._simulation.client.receipts.list(tenant=tenant):
                if receipt.reverse is not None or self._source.random() < 0.1:
                    yield tenant, receipt.id

    async def _reverse(self, app: Holdfast, place: tuple[str, str], who: str) -> None:
        tenant, id = place
        await app.receipts.reverse(id, by=who, tenant=tenant)

    async def _try(self, what: str, steering: Coroutine[Any, Any, None]) -> None:
        try:
            with contextlib.suppress(TimeoutError, StoreUnavailable):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await steering
                    self._simulation.reached[f"an operator: {what}"] += 1
        except (InvalidRequest, NotReversible, ReceiptNotFound, RetryRefused, RunConflict, RunEnded) as error:
            self._simulation.reached[f"an operator: {what}: {type(error).__name__}"] += 1

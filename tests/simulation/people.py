"""The people of a simulation: they approve, reject, delegate and report outcomes, sometimes twice, wrongly or late."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any, Final

from holdfast import Holdfast
from holdfast.errors import InvalidRequest, StoreUnavailable, TaskClosed, TaskForbidden
from holdfast.views import TaskInfo

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

NAMES: Final = ("ann", "bob", "cy", "dan")
UNINVOLVED: Final = "eve"
"""A person who neither starts, retries nor resumes a run, so may answer what those may not."""


class People:
    """They answer through a client, or through a worker's process, which may die while they do."""

    def __init__(self, simulation: Simulation, source: random.Random | None = None) -> None:
        self._simulation = simulation
        self._source = source or simulation.source

    async def live(self) -> None:
        while not self._simulation.faults.healed:
            await asyncio.sleep(self._source.expovariate(0.7))
            found = [task async for task in self._simulation.client.tasks.list(status=None)]
            open_ = [task for task in found if task.status == "requested"]
            if open_ and self._source.random() < 0.85:
                await self._meddle(self._source.choice(open_))
            elif found:
                await self._meddle(self._source.choice(found))

    async def _meddle(self, task: TaskInfo) -> None:
        """Answer a task, sometimes twice."""
        who = task.delegated_to or task.owner or self._source.choice(NAMES)
        for _ in range(self._source.choice((1, 1, 1, 2))):
            await self._try(self._answer_through_an_app(task, who))
            await asyncio.sleep(0.001)  # nobody answers twice at the same moment

    def _answer_through_an_app(self, task: TaskInfo, who: str) -> Any:
        simulation, source = self._simulation, self._source
        if simulation.processes and source.random() < 0.4:
            process = source.choice(simulation.processes)
            return process.inside(self._answer(process.app, task, who))
        return self._answer(simulation.client, task, who)

    async def _answer(self, app: Holdfast, task: TaskInfo, who: str) -> None:
        roll = self._source.random()
        if task.kind == "outcome":
            await self._report(app, task, who, roll)
        elif task.kind == "form":
            await self._fill_in(app, task, who, roll)
        elif roll < 0.65:
            await app.tasks.approve(task.id, by=who, tenant=task.tenant)
            self._reached("approved")
        elif roll < 0.8:
            await app.tasks.reject(task.id, by=who, tenant=task.tenant)
            self._reached("rejected")
        else:
            await app.tasks.delegate(task.id, by=who, to=self._source.choice(NAMES), tenant=task.tenant)
            self._reached("delegated")

    async def _fill_in(self, app: Holdfast, task: TaskInfo, who: str, roll: float) -> None:
        """Mostly an answer that fits the form; or the task gets another owner."""
        tasks, tenant = app.tasks, task.tenant
        if roll < 0.5:
            await tasks.complete(task.id, {"word": who}, by=who, tenant=tenant)
            self._reached("completed")
        elif roll < 0.6:
            await tasks.complete(task.id, {"word": 1}, by=who, tenant=tenant)
        elif roll < 0.75:
            await tasks.claim(task.id, by=who, tenant=tenant)
            self._reached("claimed")
        elif roll < 0.85:
            await tasks.release(task.id, by=who, tenant=tenant)
            self._reached("released")
        else:
            give = tasks.assign if roll < 0.92 else tasks.delegate
            await give(task.id, by=who, to=self._source.choice(NAMES), tenant=tenant)
            self._reached("given away")

    async def _report(self, app: Holdfast, task: TaskInfo, who: str, roll: float) -> None:
        """Say what became of an act. It is mostly true."""
        result = await self._truth(task)
        if roll < 0.15:
            await app.tasks.give_up(task.id, by=who, tenant=task.tenant)
            self._reached("given up")
        elif (result is not None) != (roll < 0.25):
            given = result or "somebody's word"
            await app.tasks.happened(task.id, by=who, result=given, tenant=task.tenant)
            self._reached("happened")
        else:
            await app.tasks.did_not_happen(task.id, by=who, tenant=task.tenant)
            self._reached("did not happen")

    async def _truth(self, task: TaskInfo) -> str | None:
        receipt = await self._simulation.store.receipt(task.tenant, task.details["receipt"])
        return None if receipt is None else self._simulation.outside.result((receipt.tenant, receipt.key))

    async def settle(self, task: TaskInfo) -> None:
        """Those who may answer do."""
        tasks = self._simulation.client.tasks
        holder = task.delegated_to or task.owner
        for who in (holder,) if holder else (*NAMES, UNINVOLVED):
            if task.kind == "form":
                await self._try(tasks.complete(task.id, {"word": who}, by=who, tenant=task.tenant))
            elif task.kind == "outcome":
                await self._try(self._report(self._simulation.client, task, who, self._source.random()))
            else:
                await self._try(tasks.approve(task.id, by=who, tenant=task.tenant))

    async def _try(self, answering: Any) -> None:
        try:
            with contextlib.suppress(TimeoutError, StoreUnavailable):
                async with asyncio.timeout(15):
                    await answering
        except (TaskClosed, TaskForbidden, InvalidRequest) as error:
            self._reached(type(error).__name__)

    def _reached(self, what: str) -> None:
        self._simulation.reached[f"a person: {what}"] += 1

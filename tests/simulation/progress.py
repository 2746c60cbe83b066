"""The end of a simulated life: whatever is not at its end is asked why, and people do what is advised."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from holdfast import RunHandle
from holdfast.client.filters import run_rows
from holdfast.runs.advice import Advice, AdviceCode
from holdfast.runs.signals import KEY_MARK
from holdfast.store import protocol as p
from tests.follower import Asked, Follower, NoProgress
from tests.simulation.people import People
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

PATIENCE: Final = 100
"""So many rounds of five seconds what passes by itself may take: no timer, and no time for an answer, is longer."""


class Progress:
    """Follows the advice for the runs of a simulation: for those that no other run waits for."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        source = random.Random(f"progress of {simulation.seed}")
        self._people = People(simulation, source)
        self._tenant = ""
        hands = {
            AdviceCode.SEND_SIGNAL: self._send,
            AdviceCode.APPROVE: self._answer,
            AdviceCode.ANSWER_FORM: self._answer,
            AdviceCode.ANSWER_OUTCOME: self._answer,
            AdviceCode.CANCEL_RUN: self._cancel,
            AdviceCode.RESUME: self._resume,
            AdviceCode.LEAVE_CHILDREN: self._leave,
            AdviceCode.START_WORKER: self._work,
            AdviceCode.SERVE_CODE: self._work,
            AdviceCode.SERVE_QUEUE: self._work,
        }
        self._followers = {
            tenant: Follower(source, hands, self._look, simulation.reached, patience=PATIENCE)
            for tenant in simulation.tenants
        }

    async def round(self) -> bool:
        """Follow the advice for all that is not at its end. Whether there was anything. Raises Violation."""
        client, found = self._simulation.client, False
        for tenant, follower in self._followers.items():
            rows = {run.key: run async for run in run_rows(client.store, tenant=tenant)}
            tasks = [task async for task in client.tasks.list(tenant=tenant)]
            asking = {task.run for task in tasks}
            asked = [
                Asked(run.key.run, await self._handle(tenant, run.key.run).advice())
                for run in rows.values()
                if self._is_asked(run, rows, asking)
            ]
            mark = [(run.key.run, run.generation, run.version, run.standing, run.pause) for run in rows.values()]
            self._tenant = tenant
            try:
                await follower.round(asked, (mark, [(task.id, task.version) for task in tasks]))
            except NoProgress as error:
                raise Violation(str(error)) from None
            found = found or bool(asked)
        return found

    def _is_asked(self, run: p.Run, rows: dict[p.Key, p.Run], asking: set[str]) -> bool:
        """Whether it is not at its end, and no other run waits for it."""
        if run.standing in p.ENDED:
            return run.key.run in asking
        parent = None if run.parent is None else rows.get(p.Key(run.key.tenant, run.parent))
        return parent is None or parent.standing in p.ENDED

    def _handle(self, tenant: str, id: str) -> RunHandle[Any]:
        return self._simulation.client.run(id, tenant=tenant)

    async def _look(self, advice: Advice) -> tuple[Advice, ...]:
        return await self._handle(self._tenant, advice.thing).advice()

    async def _send(self, advice: Advice) -> None:
        name, _, key = advice.more.partition(KEY_MARK)
        await self._simulation.signal(self._handle(self._tenant, advice.thing), name, key or None)

    async def _answer(self, advice: Advice) -> None:
        await self._people.settle(await self._simulation.client.tasks.get(advice.thing, tenant=self._tenant))

    async def _cancel(self, advice: Advice) -> None:
        await self._handle(self._tenant, advice.thing).cancel("nobody may answer")

    async def _resume(self, advice: Advice) -> None:
        handle = self._handle(self._tenant, advice.thing)
        if (await handle.info()).pause_reason is not None:  # another run that waits for it may have said so, too
            await handle.resume()

    async def _leave(self, advice: Advice) -> None:
        await self._handle(self._tenant, advice.thing).cancel("enough", leave_children=True)

    async def _work(self, advice: Advice) -> None:
        await self._simulation.boot(0.0)

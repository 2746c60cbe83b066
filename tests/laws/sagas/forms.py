"""The forms that programs ask: the engine's own governor for the hand, and the people who answer."""

from __future__ import annotations

import itertools
from typing import Final

from holdfast import Holdfast
from holdfast.errors import EngineError
from holdfast.gate.call import Call
from holdfast.gate.policy.policy import NO_POLICY
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.worker.gate.governor import Governor
from holdfast.worker.held import Held
from holdfast.worker.steps.performance import Outcome

ANN: Final = "ann"


class Floor:
    """What the governor needs of an advancer, for runs whose turns the hand takes. No program here has an action."""

    def perform_effect(self, held: Held, call: Call) -> None:
        raise EngineError(f"{call.name} of run {held.key.run} is an act")

    def arrive(self, held: Held, arrival: Outcome) -> None:
        if not held.dropped:
            held.arrivals.append(arrival)

    def give_turn(self, held: Held) -> None:
        """Every held run gets turns until it ends."""

    def delivered(self, key: p.Key) -> None:
        """Every turn reads the inbox."""


def governor(store: p.Store, clock: Clock, worker: str) -> Governor:
    """The gate of the hand's worker."""
    return Governor(store, Committer(store), clock, worker, lambda: NO_POLICY, {}, Floor())


class People:
    """They answer forms, or claim them and answer later. Each answer differs from all before."""

    def __init__(self, client: Holdfast) -> None:
        self._tasks = client.tasks
        self._numbers = itertools.count(1)

    async def answer(self, task: p.TaskRow) -> str:
        """Fill the form in; gives the answer."""
        word = f"a{next(self._numbers)}"
        await self._tasks.complete(task.id, {"word": word}, by=task.owner or ANN, tenant=task.tenant)
        return word

    async def claim(self, task: p.TaskRow) -> None:
        """Claim it: the task gets a new version and stays open."""
        await self._tasks.claim(task.id, by=ANN, tenant=task.tenant)


def is_moving(held: Held) -> bool:
    """Whether something has come for the run from the gate, or is about to."""
    return bool(held.arrivals) or (held.gate is not None and (held.gate.is_moving or held.gate.wants_turn))

"""A call whose decision is being committed is not judged a second time: its act would begin twice."""

from __future__ import annotations

import asyncio
import random

from holdfast import Holdfast
from holdfast.gate.call import Call
from holdfast.gate.effects import Effects
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.function.functions import Functions
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import EPOCH_MICROSECONDS
from holdfast.worker.executions import Executions
from holdfast.worker.gate.governor import Governor
from holdfast.worker.held import Held
from holdfast.worker.steps.performance import Outcome
from holdfast.worker.turn_plan import Plan
from holdfast.worker.watchdog import Watchdog
from tests.unit.worker.ground import FREE
from tests.unit.worker.paying import pay, paying


class StillClock:
    """The time does not pass: nothing is due by itself."""

    def now(self) -> int:
        return EPOCH_MICROSECONDS


class Begun:
    """The floor that the gate stands on: it counts the acts that begin."""

    def __init__(self) -> None:
        self.acts = 0

    def perform_effect(self, held: Held, call: Call) -> None:
        self.acts += 1

    def arrive(self, held: Held, arrival: Outcome) -> None:
        """Nothing is done, so nothing comes of it."""

    def give_turn(self, held: Held) -> None:
        """The test takes the turns."""

    def delivered(self, key: p.Key) -> None:
        """No other run is here."""


def _openings(plan: Plan) -> list[str]:
    return [each.receipt.key for each in plan.change.attached if isinstance(each, p.OpenReceipt)]


def test_a_call_whose_decision_is_being_committed_is_not_judged_again() -> None:
    """Whatever gives the run another turn meanwhile: one receipt is opened, and one act begins."""
    clock, store, floor = StillClock(), MemoryStore(lambda: EPOCH_MICROSECONDS), Begun()
    executions = Executions(Catalogue([Functions({paying.name: paying})]), clock, random.Random(1), Watchdog(3600.0))
    effects = Effects({pay.name: pay}, lambda _: False, lambda *_: None)
    governor = Governor(store, Committer(store), clock, "worker", lambda: FREE, effects, floor)

    async def start() -> tuple[p.Run, p.Loaded]:
        async with Holdfast(store, worker=False, clock=clock, workflows=[paying]) as app:
            await app.start(paying, "rent", id="one")
        await store.open()  # the client closed it
        (run,) = (await store.claim("worker", p.Serves((paying.name,)), 1, clock.now())).runs
        return run, (await store.load([run.key]))[run.key]

    async def commit(plan: Plan) -> None:
        (answer,) = await store.commit([plan.change])
        assert isinstance(answer, p.Advanced)
        plan.follow(answer.attached)

    with asyncio.Runner() as runner:
        run, loaded = runner.run(start())
        held = Held(run)
        executions.rebuild(held, loaded.segments, loaded.blobs)  # programs run in no task
        turn = executions.advance(held, [])
        first, second = (executions.plan(held, turn, governor) for _ in range(2))
        assert (len(_openings(first)), _openings(second)) == (1, [])
        runner.run(commit(first))
        assert floor.acts == 1
        held.drop()

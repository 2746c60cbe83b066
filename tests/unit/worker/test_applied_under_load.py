"""A manifest that is applied while events arrive and workers die: nothing is lost, done twice, or left standing."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import ManifestBlocked, ProposalConflict
from holdfast.programs.machine.proposals import HELD
from holdfast.store import protocol as p
from tests.unit.worker.governed_machines import TWO, Placed, governed, handled, lanes, shop, stage, till
from tests.unit.worker.ground import Ground, Line


@pytest.fixture(autouse=True)
def fresh_till() -> None:
    till.charged.clear()
    till.open()


class DiesWhenLanesAreHeld(Line):
    """A line that dies with the commit that lets lanes stand still."""

    async def commit(self, changes: Any) -> Any:
        await self._pass()
        answer = await self._store.commit(changes)
        acts = [act for each in changes if isinstance(each, p.Operate) for act in each.changes]
        self.dead = self.dead or any(isinstance(act, p.Pause) for act in acts)
        await self._pass()
        return answer


async def _applied(app: Holdfast, proposal: str) -> int:
    """Apply it as soon as nothing blocks; how often something did."""
    for tries in range(1000):
        try:
            await app.machines.apply(proposal)
        except ManifestBlocked:
            await asyncio.sleep(0.3)
        else:
            return tries
    raise AssertionError("it was blocked for ever")


@pytest.mark.parametrize("seed", range(4))
def test_events_that_arrive_meanwhile_are_handled_once(virtual: Ground, seed: int) -> None:
    """Those before by the old code, those after by the new, and each charges once."""

    async def main(ground: Ground) -> None:
        chance = random.Random(seed)
        async with shop(ground) as old, shop(ground, TWO) as new:
            await old.emit(Placed("first", 500))
            await handled(old)

            async def send() -> None:
                for number in range(40):
                    await old.emit(Placed(f"o{number}", 500), id=f"e{number}")
                    await asyncio.sleep(chance.random() * 0.4)

            sending = asyncio.create_task(send())
            await asyncio.sleep(chance.random() * 4)
            proposal = await governed(new)
            while True:
                try:
                    await _applied(new, proposal)
                    break
                except ProposalConflict:  # a worker has recorded what its code declares since
                    proposal = await governed(new)
            marker = await new.emit(Placed("last", 500))
            await new.cell(TWO, "last").state(after=marker.places[0])
            await sending
            await handled(new)
            while till.charged.count("notified last") < 1:
                await new.changed(0.1)
            stages = {number: await stage(new, f"o{number}") for number in range(40)}
            assert set(stages.values()) <= {"paid", "settled"}
            assert await stage(new, "last") == "settled"
            charged = [each for each in till.charged if not each.startswith("notified")]
            assert sorted(charged) == sorted(["first", "last", *(f"o{number}" for number in range(40))])
            assert all(run.pause is None for run in await lanes(new))

    virtual.play(main)


def test_a_process_that_dies_while_it_applies_leaves_lanes_that_can_go_on(virtual: Ground) -> None:
    """The lanes say why they stand still; applied again, the proposal is in force, and they go on."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            await app.emit(Placed("a", 500))
            await handled(app)
        async with shop(ground, TWO, worker=False, line=DiesWhenLanesAreHeld) as app:
            proposal = await governed(app)
            applying = asyncio.create_task(app.machines.apply(proposal))
            await asyncio.sleep(60)
            assert not applying.done()
            applying.cancel()
        async with shop(ground, TWO) as app:
            assert [run.pause for run in await lanes(app)] == [f"{HELD}proposal {proposal}"]
            await app.machines.apply(proposal)
            await app.emit(Placed("b", 5))
            await handled(app)
            assert await stage(app, "b") == "free"

    virtual.play(main)

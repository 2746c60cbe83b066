"""Two versions of a machine's code side by side, while no manifest was applied: what one of them cannot read is the
other's."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast
from tests.unit.worker.governed_machines import (
    KIND,
    THREE,
    Placed,
    handled,
    order,
    queued_charge,
    sending,
    shop,
    stage,
    till,
)
from tests.unit.worker.ground import Ground, kill, line_of


@pytest.fixture(autouse=True)
def fresh_till() -> None:
    till.charged.clear()
    till.open()


async def _taken_over(ground: Ground, new: Holdfast) -> None:
    """An older worker asks for an effect and dies, when the newer one has long been there."""
    await new.emit(Placed("b", 5))
    await handled(new)
    line_of(new).cut = True
    till.close("a")
    async with shop(ground) as old:
        await old.emit(Placed("a", 500))
        while not till.charged:
            await old.changed(0.1)
        kill(old)
    line_of(new).cut = False
    till.open()


def test_a_receipt_of_an_effect_that_newer_code_dropped_parks_its_cell_where_nobody_can_read_it(
    virtual: Ground,
) -> None:
    """It is kept: released where the older code runs, it is handled."""

    async def main(ground: Ground) -> None:
        async with shop(ground, THREE) as new:
            await _taken_over(ground, new)
            while (record := await new.cell(KIND, "a").record()) is None or record.status != "parked":
                await new.changed(0.1)
            assert "no longer declares governed.charge" in record.reason
        async with shop(ground) as old:
            await old.cell(KIND, "a").release()
            await handled(old)
            assert await stage(old, "a") == "paid"

    virtual.play(main)


def test_a_queued_effect_of_other_code_is_not_begun_beside_its_queue(virtual: Ground) -> None:
    """The newer code does not say that the step has a queue: its work is there all the same."""

    async def main(ground: Ground) -> None:
        till.close("a")
        async with shop(ground, THREE) as new:
            await new.emit(Placed("b", 5))
            await handled(new)
            line_of(new).cut = True
            async with shop(ground, order(sending, (queued_charge,))) as old:
                await old.emit(Placed("a", 500))
                while not till.charged:
                    await old.changed(0.1)
                kill(old)
            line_of(new).cut = False
            await new.emit(Placed("a", 5))
            while till.charged.count("a") < 2:  # the work of the dead worker is taken once more
                await new.changed(0.1)
            await asyncio.sleep(60)
            assert till.charged == ["a", "a"]
            till.open()

    virtual.play(main)


def test_newer_code_leaves_a_cell_that_waits_for_a_dropped_effect_to_an_older_worker(virtual: Ground) -> None:
    """Whichever of them takes the lane over: nobody has to release a cell."""

    async def main(ground: Ground) -> None:
        async with shop(ground, THREE) as new:
            await _taken_over(ground, new)
            async with shop(ground) as old:
                line_of(old).cut = True
                await asyncio.sleep(15)
                line_of(old).cut = False
                await handled(old)
                assert await stage(old, "a") == "paid"

    virtual.play(main)

"""A manifest that mends a parked cell: what is held for the cell does not keep it from being applied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast import Holdfast, Ok
from holdfast.cells.cell import CellRecord
from holdfast.errors import ManifestBlocked
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.occurrences import Settled
from tests.unit.worker.governed_machines import (
    KIND,
    Cancelled,
    Order,
    Placed,
    charge,
    governed,
    handled,
    order,
    shop,
    stage,
    till,
)
from tests.unit.worker.ground import Ground


def faulty(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    """It cannot be cancelled while it charges."""
    match state, event:
        case None, Placed(cents=cents):
            cell.do(charge, cell.key, cents)
            return Order("charging", cents)
        case Order(), Cancelled():
            raise ValueError("a bug")
        case Order(), Settled(outcome=Ok()):
            return replace(state, stage="paid")
    return state


def mended(state: Order | None, event: Placed | Cancelled | Settled, cell: Cell) -> Order | None:
    match state, event:
        case Order(), Cancelled():
            return replace(state, stage="cancelled")
        case Order(), Settled(outcome=Ok()):
            return replace(state, stage=f"{state.stage}, then paid")
    return state


def without(state: Order | None, event: Placed | Cancelled, cell: Cell) -> Order | None:
    """It asks for nothing."""
    return state


FAULTY, MENDED, WITHOUT = order(faulty), order(mended), order(without, ())


@pytest.fixture(autouse=True)
def fresh_till() -> None:
    till.charged.clear()
    till.open()


async def record(app: Holdfast) -> CellRecord:
    """The one cell."""
    found = await app.cell(KIND, "a").record()
    assert found is not None
    return found


async def park(app: Holdfast, *, held: int) -> None:
    """Park the cell while its charge is under way, then let that end: so much is held for it in the end."""
    till.close("a")
    await app.emit(Placed("a", 500))
    while not till.charged:
        await app.changed(0.1)
    await app.emit(Cancelled("a"))
    while (await record(app)).status != "parked":
        await app.changed(0.1)
    if held > 1:
        till.open()
    while (await record(app)).held_count < held:
        await app.changed(0.1)


def test_a_receipt_that_is_held_does_not_block_the_manifest_that_mends_its_cell(ground: Ground) -> None:
    """Once applied, a release has the new code handle the event that parked the cell, then the receipt."""

    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app, shop(ground, MENDED, worker=False) as other:
            await park(app, held=2)
            proposal = await governed(other)
            await other.machines.apply(proposal)
        async with shop(ground, MENDED) as app:
            await app.cell(KIND, "a").release(by="ann", reason="mended")
            await handled(app)
            assert await stage(app, "a") == "cancelled, then paid"

    ground.play(main)


def test_a_receipt_that_has_not_come_still_blocks(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app, shop(ground, MENDED, worker=False) as other:
            await park(app, held=1)
            with pytest.raises(ManifestBlocked, match="1 effects are in flight"):
                await other.machines.apply(await governed(other))
            till.open()

    virtual.play(main)


def test_a_manifest_without_the_effect_is_not_blocked_by_what_is_held(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app, shop(ground, WITHOUT, worker=False) as other:
            await park(app, held=2)
            await other.machines.apply(await governed(other))
            assert (await other.machines.manifest()).source == "applied"

    virtual.play(main)


def test_code_without_the_effect_takes_over_what_is_held(virtual: Ground) -> None:
    """Where no manifest is applied: what is held is not in flight, so the newer code is not kept from the machine. Nor
    does it block a first manifest that leaves the machine as this code declares it."""

    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app:
            await park(app, held=2)
        async with shop(ground, WITHOUT) as app:
            await app.cell(KIND, "a").release(drop=True, by="ann")
            while "no longer declares" not in (await record(app)).reason:
                await app.changed(0.1)
            await app.machines.apply(await governed(app))
            await app.cell(KIND, "a").release(drop=True, by="ann")
            while (await record(app)).status == "parked":
                await app.changed(0.1)
            assert await stage(app, "a") == "charging"

    virtual.play(main)


def test_a_cell_is_not_said_to_wait_for_what_is_held(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app:
            await park(app, held=1)
            assert [each.kind for each in (await app.cell(KIND, "a").diagnose()).causes] == ["parked", "receipt"]
            till.open()
            while (await record(app)).held_count < 2:
                await app.changed(0.1)
            assert [each.kind for each in (await app.cell(KIND, "a").diagnose()).causes] == ["parked"]
            (listed,) = [each async for each in app.machines.cells(KIND)]
            assert (listed.held, listed.intents) == (2, ())

    virtual.play(main)


def test_a_fork_has_the_receipts_that_are_held(virtual: Ground) -> None:
    """They have come: released there, the cell handles them. A later fork of the fork has them, too."""

    async def main(ground: Ground) -> None:
        async with shop(ground, FAULTY) as app:
            await park(app, held=2)
            await app.machines.fork(FAULTY, "later", by="ann")
            await app.machines.fork(FAULTY, "last", tenant="later", by="ann")
        async with shop(ground, MENDED) as app:
            for tenant in ("later", "last"):
                cell = app.cell(KIND, "a", tenant=tenant)
                assert [each.kind for each in (await cell.diagnose()).causes][:1] == ["parked"]
                await cell.release(by="ann")
                while (state := await cell.state()) is None or state.stage == "charging":
                    await app.changed(0.1)
                assert state.stage == "cancelled, then paid"
        async with shop(ground, FAULTY) as app:
            assert all([each.good async for each in app.machines.verify(KIND)])

    virtual.play(main)

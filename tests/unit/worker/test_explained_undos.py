"""A run that waits for another's act says which run that is, which receipt it is about, and what moves that run."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast, Receipt, RunCancelled, action, receive, workflow
from holdfast.errors import RunFailed
from tests.unit.worker.ground import Ground, asked, policy_of, receipts, rested, until

DONE: list[str] = []
HELD: list[asyncio.Event] = []
ASKS_TO_REFUND = policy_of({"when": "action.operation == 'refund'", "effect": "needs_approval", "tier": "med"}, {})


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    HELD.clear()


@action(connector="bank", operation="refund", target="{order}", name="told.refund")
async def refund(order: str) -> None:
    DONE.append(f"refund {order}")


@action(connector="bank", operation="back", name="told.back")
async def back(receipt: Receipt) -> str:
    DONE.append("back")
    await HELD[0].wait()
    raise ConnectionResetError("nobody knows")


@action(
    connector="bank", operation="pay", target="{order}", idempotency_key="pay:{order}",
    undo=refund, reverse=back, name="told.pay",
)  # fmt: skip
async def pay(order: str) -> str:
    DONE.append(f"pay {order}")
    if order == "slow":
        await HELD[0].wait()
    return order


@workflow(name="told.shop")
async def shop(order: str) -> str:
    paid = await pay(order)
    await receive("go")
    return paid


async def explained(app: Holdfast, run: str, words: str) -> str:
    """What is said of the run, once that names the other."""
    while words not in (said := await app.run(run).explain()):
        await app.changed(0.05)
    return said


def test_an_undo_that_waits_for_a_reversal_says_so(ground: Ground) -> None:
    """First the reversal is under way; then nobody knows what became of it, and a person is asked."""

    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        async with ground.engine(shop) as app:
            run = await app.start(shop, "o-1", id="one")
            await rested(app, "one")
            (receipt,) = await receipts(app, "one")
            reversal = await app.receipts.reverse(receipt.id, by="ben", anyway=True)
            await until(app, lambda: DONE[-1] == "back")
            await run.cancel("enough", by="ann")
            waits = f"run {reversal.id}, which takes that act back (receipt {receipt.id}), before told.refund is done."
            said = await explained(app, "one", waits)
            assert f" {reversal.id}: It is being worked on by worker" in said
            HELD[0].set()
            task = await asked(app, reversal.id)
            said = await explained(app, "one", task.id)
            assert waits in said
            assert f"(`holdfast tasks show {task.id}` tells what is known)" in said
            await app.tasks.happened(task.id, by="cleo", result="back")
            with pytest.raises(RunCancelled):
                await run.result(60)
            assert "receipt" not in await run.explain()

    ground.play(main)
    assert DONE == ["pay o-1", "back"]


def test_a_reversal_that_waits_for_an_undo_says_so(ground: Ground) -> None:
    """The undo waits for a person, whose task is named."""

    async def main(ground: Ground) -> None:
        async with ground.engine(shop, policy=ASKS_TO_REFUND) as app:
            run = await app.start(shop, "o-1", id="one")
            await rested(app, "one")
            await run.cancel("enough", by="ann")
            task = await asked(app, "one")
            (receipt,) = await receipts(app, "one")
            reversal = await app.receipts.reverse(receipt.id, by="ben", anyway=True)
            said = await explained(app, reversal.id, f"run one, which takes that act back (receipt {receipt.id})")
            assert " one: For " in said
            assert f"a person to approve told.refund (`holdfast approve {task.id} --as NAME`)" in said
            await app.tasks.approve(task.id, by="cleo")
            with pytest.raises(RunFailed, match="taken back already"):
                await reversal.result(60)
            with pytest.raises(RunCancelled):
                await run.result(60)

    ground.play(main)
    assert DONE == ["pay o-1", "refund o-1"]


def test_a_call_that_waits_for_another_under_its_key_says_so(ground: Ground) -> None:
    """And no more, once it has what that one did."""

    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        async with ground.engine(shop) as app:
            await app.start(shop, "slow", id="one")
            await until(app, lambda: bool(DONE))
            await app.start(shop, "slow", id="two")
            (receipt,) = await receipts(app, "one")
            said = await explained(app, "two", "run one, which acts under the same key")
            assert f"(receipt {receipt.id}), before told.pay is done. one: It is being worked on by" in said
            HELD[0].set()
            await rested(app, "two")
            assert "waiting for signal 'go'" in await app.run("two").explain()

    ground.play(main)
    assert DONE == ["pay slow"]

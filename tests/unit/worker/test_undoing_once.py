"""One act has one receipt, and is taken back at most once: by the last run that relies on it, or by a person."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Happened,
    Holdfast,
    OutcomeUnknown,
    Receipt,
    RunCancelled,
    RunFailed,
    TerminalError,
    action,
    keep_done,
    receive,
    step,
    step_info,
    workflow,
)
from holdfast.audit.records import Operated
from holdfast.client.runs.handle import RunHandle
from holdfast.errors import NotReversible, RetryRefused
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground, Line, asked, kill, line_of, notes, receipts, rested, until

WORLD: list[str] = []
"""What was really done, in order."""
GO: list[threading.Event] = []
PAID: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    WORLD.clear()
    GO[:] = [threading.Event()]
    PAID[:] = [asyncio.Event()]


@step(name="once.refund")
async def refund(order: str) -> None:
    WORLD.append(f"refund {order}")


@step(name="once.slow_refund")
async def slow_refund(order: str) -> None:
    WORLD.append("refunding")
    await asyncio.to_thread(GO[0].wait, 60)
    WORLD.append(f"refund {order}")


@action(connector="bank", operation="back", target="{receipt.target}", name="once.back")
async def back(receipt: Receipt) -> str:
    WORLD.append(f"back {receipt.target}")
    return f"back {receipt.target}"


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="pay:{order}",
    undo=refund,
    reverse=back,
    name="once.pay",
)
async def pay(order: str) -> str:
    WORLD.append(f"pay {order} as {step_info().key}")
    return order


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="slow:{order}",
    undo=slow_refund,
    reverse=back,
    name="once.pay_slowly_undone",
)
async def pay_slowly_undone(order: str) -> str:
    WORLD.append(f"pay {order}")
    return order


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="long:{order}",
    undo=refund,
    reverse=back,
    name="once.pay_for_long",
)
async def pay_for_long(order: str) -> str:
    WORLD.append(f"paying {order}")
    await PAID[0].wait()
    WORLD.append(f"pay {order}")
    return order


@action(connector="bank", operation="pay", target="{order}", idempotency_key="odd:{order}", name="once.pay_and_forget")
async def pay_and_forget(order: str) -> str:
    WORLD.append(f"pay {order}")
    raise OutcomeUnknown("the line broke")


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="odd:{order}",
    undo=refund,
    reverse=back,
    name="once.pay_oddly",
)
async def pay_oddly(order: str) -> str:
    WORLD.append(f"pay {order} again")
    return order


def look(order: str) -> Happened:
    return Happened(order)


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="odd:{order}",
    undo=refund,
    reverse=back,
    probe=look,
    name="once.pay_with_a_look",
)
async def pay_with_a_look(order: str) -> str:
    WORLD.append(f"pay {order} again")
    return order


@action(
    connector="bank",
    operation="open",
    target="{order}",
    idempotency_key="open:{order}",
    key_once=True,
    undo=refund,
    name="once.open",
)
async def open_once(order: str) -> str:
    WORLD.append(f"open {order}")
    return order


@workflow(name="once.shop")
async def shop(order: str) -> str:
    """Pay, wait for a word, and end by it."""
    result = await pay(order)
    word = await receive("word", str)
    if word == "keep":
        keep_done()
        word = await receive("word", str)
    if word != "good":
        raise ArithmeticError(word)
    return result


@workflow(name="once.twice")
async def twice(order: str) -> str:
    await pay(order)
    await pay(order)
    return await receive("word", str)


@workflow(name="once.slowly")
async def slowly(order: str) -> str:
    await pay_slowly_undone(order)
    return await receive("word", str)


@workflow(name="once.for_long")
async def for_long(order: str) -> str:
    return await pay_for_long(order)


@workflow(name="once.forgetting")
async def forgetting(order: str) -> str:
    return await pay_and_forget(order)


@workflow(name="once.oddly")
async def oddly(order: str, probes: bool) -> str:
    result = await (pay_with_a_look if probes else pay_oddly)(order)
    if await receive("word", str) != "good":
        raise ArithmeticError
    return result


@workflow(name="once.hasty")
async def hasty(order: str) -> str:
    """Pay, unless that takes long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            return await pay(order)
    return "not paid"


@workflow(name="once.opening")
async def opening(order: str) -> str:
    result = await open_once(order)
    if await receive("word", str) != "good":
        raise ArithmeticError
    return result


FLOWS = (shop, twice, slowly, for_long, forgetting, oddly, hasty, opening)


async def begun(app: Holdfast, flow: Any, id: str, order: str = "o-1") -> RunHandle[Any]:
    """A run that waits for its word."""
    run = await app.start(flow, order, id=id, actor="ann")
    await rested(app, id)
    return run


async def over(run: RunHandle[Any], word: str) -> str:
    """Say the word, and give how the run has ended."""
    await run.signal("word", word)
    try:
        await run.result(60)
    except RunFailed:
        return "failed"
    return "completed"


async def sound(app: Holdfast) -> None:
    """The audit tells one story of it."""
    found = await app.audit.verify()
    assert [claim.text for claim in found.claims if claim.state == "broken"] == []


def test_the_last_run_that_relies_on_an_act_undoes_it(ground: Ground) -> None:
    """Two runs share a key. The one that fails first leaves the act to the other, and says so."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            one, two = [await begun(app, shop, id) for id in ("one", "two")]
            assert WORLD == ["pay o-1 as pay:o-1"]
            (receipt,) = await receipts(app)
            assert (await app.receipts.get(receipt.id)).holders == {"one": "open", "two": "open"}
            assert await over(one, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1"]
            assert "left to two" in str([entry async for entry in one.journal()])
            assert (await app.receipts.get(receipt.id)).holders == {"two": "open"}
            assert await over(two, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1", "refund o-1"]
            undone = (await app.receipts.get(receipt.id)).reversed_by
            assert undone is not None
            assert undone.endswith(":undo")
            await sound(app)

    ground.play(main)


@pytest.mark.parametrize("first", ["good", "bad"])
def test_a_run_that_completed_keeps_the_act(first: str, ground: Ground) -> None:
    """Whichever ends first."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            one, two = [await begun(app, shop, id) for id in ("one", "two")]
            runs = (one, two) if first == "good" else (two, one)
            for run in runs:
                await over(run, "good" if run is one else "bad")
            assert WORLD == ["pay o-1 as pay:o-1"]
            (receipt,) = await receipts(app)
            assert (await app.receipts.get(receipt.id)).holders == {"one": "kept"}
            await sound(app)

    ground.play(main)


def test_a_run_that_uses_an_act_twice_undoes_it_once(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await begun(app, twice, "one")
            await run.cancel("enough")
            with pytest.raises(RunCancelled):
                await run.result(60)
            assert WORLD == ["pay o-1 as pay:o-1", "refund o-1"]
            await sound(app)

    ground.play(main)


def test_what_was_declared_done_is_kept_for_others(ground: Ground) -> None:
    """Its run fails afterwards, and another one that relies on the act fails, too."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            one, two = [await begun(app, shop, id) for id in ("one", "two")]
            await one.signal("word", "keep")
            await rested(app, "one")
            assert await over(one, "bad") == "failed"
            assert await over(two, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1"]
            await sound(app)

    ground.play(main)


def test_after_it_was_taken_back_the_key_stands_for_another_act(ground: Ground) -> None:
    """Each round has a key and a receipt of its own."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            for number in (1, 2, 3):
                run = await begun(app, shop, f"run {number}")
                assert await over(run, "good" if number == 3 else "bad") == ("completed" if number == 3 else "failed")
            late = await begun(app, shop, "late")
            assert await over(late, "good") == "completed"
            assert [
                *("pay o-1 as pay:o-1", "refund o-1", "pay o-1 as pay:o-1#2", "refund o-1"),
                "pay o-1 as pay:o-1#3",
            ] == WORLD
            rows = sorted(await receipts(app), key=lambda row: row.round)
            assert [(row.key, row.round) for row in rows] == [("pay:o-1", 1), ("pay:o-1#2", 2), ("pay:o-1#3", 3)]
            assert len({row.id for row in rows}) == 3
            await sound(app)

    ground.play(main)


def test_a_key_that_counts_once_is_used_up(ground: Ground) -> None:
    """The recorded result is given again, although the act was taken back."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            assert await over(await begun(app, opening, "one"), "bad") == "failed"
            assert await over(await begun(app, opening, "two"), "good") == "completed"
            assert WORLD == ["open o-1", "refund o-1"]
            await sound(app)

    ground.play(main)


def test_a_person_takes_nothing_back_on_which_an_open_run_relies(ground: Ground) -> None:
    """Unless they insist: then the run that fails later finds it taken back."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            one, two = [await begun(app, shop, id) for id in ("one", "two")]
            (receipt,) = await receipts(app)
            with pytest.raises(NotReversible, match=r"open runs rely on its act \(one, two\)"):
                await app.receipts.reverse(receipt.id, by="ben")
            assert await over(one, "good") == "completed"
            with pytest.raises(NotReversible, match=r"open runs rely on its act \(two\)"):
                await app.receipts.reverse(receipt.id, by="ben")
            reversal = await app.receipts.reverse(receipt.id, by="ben", reason="now", anyway=True)
            assert await reversal.result(60) == "back o-1"
            assert await over(two, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1", "back o-1"]
            said = [r for r in await notes(app, Operated) if r.act == "reverse"]
            assert said[0].details["anyway"] == "two"
            await sound(app)

    ground.play(main)


def test_after_all_ended_a_person_takes_it_back_once(ground: Ground) -> None:
    """A run that completed relies on it, and the person decides. What was undone is not taken back again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            assert await over(await begun(app, shop, "one"), "good") == "completed"
            (receipt,) = await receipts(app)
            for _ in range(2):
                assert await (await app.receipts.reverse(receipt.id, by="ben")).result(60) == "back o-1"
            assert WORLD == ["pay o-1 as pay:o-1", "back o-1"]
            assert await over(await begun(app, shop, "two"), "bad") == "failed"
            (undone,) = [row for row in await receipts(app) if row.key == "pay:o-1#2"]
            with pytest.raises(NotReversible, match="was taken back already, by the undo"):
                await app.receipts.reverse(undone.id, by="ben")
            await sound(app)

    ground.play(main)


def test_a_reversal_and_an_undo_at_the_same_time_take_it_back_once(tmp_path: Path) -> None:
    """The undo is under way, and its worker dies; a person insists on the reversal. It waits for the undo."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await begun(app, slowly, "one")
            await run.cancel("enough")
            await until(app, lambda: WORLD[-1] == "refunding")
            (receipt,) = await receipts(app)
            kill(app)
        async with ground.engine(*FLOWS) as app:
            await until(app, lambda: WORLD.count("refunding") == 2)
            reversal = await app.receipts.reverse(receipt.id, by="ben", anyway=True)
            GO[0].set()
            with pytest.raises(RunFailed, match="was taken back already, by"):
                await reversal.result(60)
            with pytest.raises(RunCancelled):
                await app.run("one").result(60)
            assert "back o-1" not in WORLD
            assert (await app.store.stakes("default", receipt.id)).taking is None
            await sound(app)

    Ground(tmp_path / "store.db").play(main)


def test_an_act_that_ends_as_its_run_is_cancelled_is_taken_before_it_is_undone(ground: Ground) -> None:
    """Its receipt is closed by the turn that wants to undo it, so it is looked for after that turn's commit."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await app.start(for_long, "o-1", id="one", actor="ann")
            await until(app, lambda: bool(WORLD))
            await run.cancel("enough")
            while "CancelRequested" not in str([entry async for entry in run.journal()]):
                await app.changed(0.05)
            PAID[0].set()
            with pytest.raises(RunCancelled):
                await run.result(60)
            assert WORLD == ["paying o-1", "pay o-1", "refund o-1"]
            (receipt,) = await receipts(app)
            assert receipt.reversed_by is not None
            with pytest.raises(NotReversible, match="was taken back already, by the undo"):
                await app.receipts.reverse(receipt.id, by="ben")
            await sound(app)

    ground.play(main)


@pytest.mark.parametrize("probes", [True, False], ids=["by a probe", "by people"])
def test_a_run_for_which_an_act_of_another_is_found_out_relies_on_it(probes: bool, ground: Ground) -> None:
    """The run that did it has ended, so the second one looks or asks. It completes, and the third undoes nothing."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            one = await app.start(forgetting, "o-1", id="one", actor="ann")
            await asked(app, "one")
            await one.cancel("enough")
            with pytest.raises(RunCancelled):
                await one.result(60)
            two, three = [await app.start(oddly, "o-1", probes, id=id, actor="ann") for id in ("two", "three")]
            if not probes:
                task = await asked(app, "two")
                await app.tasks.happened(task.id, by="ben", result="o-1")
            assert await over(two, "good") == "completed"
            assert await over(three, "bad") == "failed"
            assert WORLD == ["pay o-1"]
            (receipt,) = await receipts(app)
            assert (await app.receipts.get(receipt.id)).holders == {"two": "kept"}
            await sound(app)

    ground.play(main)


class DiesOfHolding(Line):
    """A way to the store of an engine that is killed as soon as it holds an act."""

    async def commit(self, changes: Sequence[p.Change]) -> Any:
        answer = await self._store.commit(changes)
        self.dead = self.dead or any(isinstance(change, p.Hold) for change in changes)
        await self._pass()
        return answer


def test_a_call_that_ends_without_a_result_relies_on_nothing() -> None:
    """Its worker had held the act for it and died; then its run gave it up. So the other run undoes the act."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS, line=DiesOfHolding(ground.store)) as app:
            await begun(app, shop, "one")
            await app.start(hasty, "o-1", id="two", actor="ann")
            await until(app, lambda: line_of(app).dead)
        async with ground.engine(*FLOWS) as app:
            assert await app.run("two").result(60) == "not paid"
            assert await over(app.run("one"), "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1", "refund o-1"]
            await sound(app)

    Ground(None).play(main)


def test_an_undo_that_fails_gives_the_receipt_back(ground: Ground) -> None:
    """Then a person may take the act back."""

    async def main(ground: Ground) -> None:
        async with ground.engine(broken) as app:
            run = await app.start(broken, id="one", actor="ann")
            with pytest.raises(RunFailed, match="could not all be taken back"):
                await run.result(60)
            (receipt,) = await receipts(app)
            assert receipt.reversed_by is None
            assert await (await app.receipts.reverse(receipt.id, by="ben")).result(60) == "back o-1"
            assert WORLD == ["pay", "back o-1"]
            await sound(app)

    ground.play(main)


@step(name="once.no_refund")
async def no_refund() -> None:
    raise ArithmeticError("the bank is closed")


@action(connector="bank", operation="pay", target="o-1", undo=no_refund, reverse=back, name="once.pay_for_good")
async def pay_for_good() -> None:
    WORLD.append("pay")


@workflow(name="once.broken")
async def broken() -> None:
    await pay_for_good()
    raise ArithmeticError("no")


@pytest.mark.parametrize("ends", ["origin", "fork"])
def test_a_fork_and_its_origin_take_an_act_back_once(ends: str, ground: Ground) -> None:
    """Both rely on it. The last one to fail undoes it; of one that completes it is kept."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await begun(app, shop, "one")
            fork = await run.fork((await run.info()).events, by="ben")
            await rested(app, fork.id)
            first, last = (run, fork) if ends == "origin" else (fork, run)
            assert await over(first, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1"]
            assert await over(last, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1", "refund o-1"]
            await sound(app)

    ground.play(main)


@step(name="once.ship")
async def ship(order: str) -> str:
    if WORLD.count("no parcel") < 2:
        WORLD.append("no parcel")
        raise ArithmeticError("there is no parcel")
    return order


@workflow(name="once.ordering")
async def ordering(order: str) -> str:
    await pay(order)
    return await ship(order)


@workflow(name="once.shipping")
async def shipping(order: str) -> str:
    await pay_plainly(order)
    return await ship(order)


@action(connector="bank", operation="pay", target="{order}", reverse=back, name="once.pay_plainly")
async def pay_plainly(order: str) -> str:
    WORLD.append(f"pay {order}")
    return order


def test_a_retried_run_does_again_what_was_undone(ground: Ground) -> None:
    """Under a new key each time; the act that is done last stands."""

    async def main(ground: Ground) -> None:
        async with ground.engine(ordering) as app:
            run = await app.start(ordering, "o-1", id="one", actor="ann")
            for _ in range(2):
                with pytest.raises(RunFailed):
                    await run.result(60)
                assert (await run.plan_retry()).again == ("once.pay", "once.ship")
                await run.retry(by="ben")
            assert await run.result(60) == "o-1"
            assert [line for line in WORLD if line != "no parcel"] == [
                *("pay o-1 as pay:o-1", "refund o-1", "pay o-1 as pay:o-1#2", "refund o-1"),
                "pay o-1 as pay:o-1#3",
            ]
            await sound(app)

    ground.play(main)


def test_a_retried_run_does_again_what_a_person_took_back(ground: Ground) -> None:
    """It has no undo, so the failed run left it. It would ship what is not paid."""

    async def main(ground: Ground) -> None:
        async with ground.engine(shipping) as app:
            run = await app.start(shipping, "o-1", id="one", actor="ann")
            with pytest.raises(RunFailed):
                await run.result(60)
            (receipt,) = await receipts(app)
            await (await app.receipts.reverse(receipt.id, by="ben")).result(60)
            await run.retry(by="ben")
            with pytest.raises(RunFailed):
                await run.result(60)
            await run.retry(by="ben")
            assert await run.result(60) == "o-1"
            assert [line for line in WORLD if line != "no parcel"] == ["pay o-1", "back o-1", "pay o-1"]
            await sound(app)

    ground.play(main)


@action(connector="bank", operation="back", target="{receipt.target}", name="once.back_slowly")
async def back_slowly(receipt: Receipt) -> str:
    WORLD.append("taking back")
    await PAID[0].wait()
    WORLD.append(f"back {receipt.target}")
    return f"back {receipt.target}"


@action(connector="bank", operation="pay", target="{order}", reverse=back_slowly, name="once.pay_firmly")
async def pay_firmly(order: str) -> str:
    WORLD.append(f"pay {order}")
    return order


@workflow(name="once.shipping_firmly")
async def shipping_firmly(order: str) -> str:
    await pay_firmly(order)
    return await ship(order)


def test_a_run_is_not_retried_while_an_act_of_it_is_taken_back(ground: Ground) -> None:
    """It would rely on the act, and go on without it. Afterwards it does the act again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(shipping_firmly) as app:
            run = await app.start(shipping_firmly, "o-1", id="one", actor="ann")
            with pytest.raises(RunFailed):
                await run.result(60)
            (receipt,) = await receipts(app)
            reversal = await app.receipts.reverse(receipt.id, by="ben")
            await until(app, lambda: "taking back" in WORLD)
            with pytest.raises(RetryRefused, match="is taking that back"):
                await run.retry(by="ben")
            assert await run.status() == "failed"
            PAID[0].set()
            await reversal.result(60)
            await run.retry(by="ben")
            with pytest.raises(RunFailed):
                await run.result(60)
            assert WORLD.count("pay o-1") == 2
            await sound(app)

    ground.play(main)


def test_a_retried_run_relies_again_on_its_own_act_that_it_had_left_to_another(ground: Ground) -> None:
    """The other could not undo it. So it stands, and the call that did it gets its recorded result."""

    async def main(ground: Ground) -> None:
        async with ground.engine(late) as app:
            one, two = [await begun(app, late, id) for id in ("one", "two")]
            for run, error in ((one, RunCancelled), (two, RunFailed)):
                await run.cancel("enough")
                with pytest.raises(error):
                    await run.result(60)
            await one.retry(by="ben")
            await rested(app, "one")
            (receipt,) = await receipts(app)
            assert (await app.receipts.get(receipt.id)).holders == {"one": "open"}
            await two.retry(by="ben")
            await rested(app, "two")
            await two.cancel("enough")
            with pytest.raises(RunCancelled):
                await two.result(60)
            assert WORLD == ["pay o-1", "refund o-1"]
            await sound(app)

    ground.play(main)


@step(name="once.draw", repeatable=True)
async def draw() -> str:
    return "o-2" if "open" in WORLD else "o-1"


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="drawn:{order}",
    undo=refund,
    name="once.pay_if_open",
)
async def pay_if_open(order: str) -> str:
    if "closed" in WORLD and "open" not in WORLD:
        raise TerminalError("the bank is closed")
    WORLD.append(f"pay {order} as {step_info().key}")
    return order


@workflow(name="once.drawing")
async def drawing() -> str:
    await pay("crate")  # it is undone, so all that follows is done again
    await pay_if_open(await draw())
    return await receive("word", str)


def test_a_retried_call_with_another_key_begins_the_first_round_of_that_key(ground: Ground) -> None:
    """The receipt of its failed attempt is one of the second round, of another key."""

    async def main(ground: Ground) -> None:
        async with ground.engine(drawing) as app:
            one = await app.start(drawing, id="one", actor="ann")
            await rested(app, "one")
            await one.cancel("enough")
            with pytest.raises(RunCancelled):
                await one.result(60)
            WORLD.append("closed")
            two = await app.start(drawing, id="two", actor="ann")
            with pytest.raises(RunFailed):
                await two.result(60)
            WORLD.append("open")
            await two.retry(by="ben")
            await two.signal("word", "good")
            assert await two.result(60) == "good"
            drawn = sorted(row.key for row in await receipts(app) if row.key.startswith("drawn:"))
            assert drawn == ["drawn:o-1", "drawn:o-1#2", "drawn:o-2"]
            assert WORLD[-1] == "pay o-2 as drawn:o-2"
            await sound(app)

    ground.play(main)


@step(name="once.refund_at_last", retries=0)
async def refund_at_last(order: str) -> None:
    WORLD.append(f"refund {order}")
    if WORLD.count(f"refund {order}") == 1:
        raise ArithmeticError("the bank is closed")


@action(
    connector="bank",
    operation="pay",
    target="{order}",
    idempotency_key="late:{order}",
    undo=refund_at_last,
    name="once.pay_late",
)
async def pay_late(order: str) -> str:
    WORLD.append(f"pay {order}")
    return order


@workflow(name="once.late")
async def late(order: str) -> str:
    await pay_late(order)
    if await receive("word", str) == "doubtful":
        await ship(order)
    return await receive("word", str)


def test_a_retried_run_relies_again_on_what_it_could_not_undo(ground: Ground) -> None:
    """It had let the act go. Another run that fails now leaves the act to it."""

    async def main(ground: Ground) -> None:
        WORLD.append("no parcel")  # there is one at the second attempt
        async with ground.engine(late) as app:
            one, two = [await begun(app, late, id) for id in ("one", "two")]
            await two.cancel("enough")
            with pytest.raises(RunCancelled):
                await two.result(60)
            assert await over(one, "doubtful") == "failed"
            three = await begun(app, late, "three")
            await one.retry(by="ben")
            await rested(app, "one")
            (receipt,) = await receipts(app)
            assert (await app.receipts.get(receipt.id)).holders == {"one": "open", "three": "open"}
            await three.cancel("enough")
            with pytest.raises(RunCancelled):
                await three.result(60)
            assert (await app.receipts.get(receipt.id)).reversed_by is None
            await one.signal("word", "sure")
            assert await one.result(60) == "sure"
            assert WORLD.count("pay o-1") == WORLD.count("refund o-1") == 1
            await sound(app)

    ground.play(main)


def test_what_counts_once_and_was_taken_back_is_not_retried(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await begun(app, opening, "one")
            assert await over(run, "bad") == "failed"
            with pytest.raises(RetryRefused, match="its key counts only once"):
                await run.retry(by="ben")


def test_a_fork_of_a_fork_that_had_undone_an_act_undoes_it_no_more(ground: Ground) -> None:
    """The second fork begins before the undo. The receipt is found by the first, which let it go."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*FLOWS) as app:
            run = await begun(app, shop, "one")
            paid = (await run.info()).events
            assert await over(run, "bad") == "failed"
            first = await run.fork((await run.info()).events, by="ben")
            with pytest.raises(RunFailed):
                await first.result(60)
            second = await first.fork(paid, by="ben")
            await rested(app, second.id)
            assert await over(second, "bad") == "failed"
            assert WORLD == ["pay o-1 as pay:o-1", "refund o-1"]
            await sound(app)

    ground.play(main)

"""Acts are taken back once, through the gate, and the audit records it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, Receipt, RunFailed, action, step, workflow
from holdfast.audit import records as r
from holdfast.errors import NotReversible, ReceiptNotFound
from tests.unit.worker.ground import OPTIONS, Ground, asked, notes, policy_of, receipts

DONE: list[str] = []
FAILS: list[Exception] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    FAILS.clear()


@pytest.fixture
def virtual() -> Ground:
    return Ground(None)


@action(connector="bank", operation="refund", target="{receipt.target}", name="back.refund")
async def refund(receipt: Receipt, note: str = "as asked") -> str:
    DONE.append(f"refund of {receipt.result} for {receipt.arguments['account']} ({receipt.arguments['token']})")
    return "refunded"


@action(
    connector="bank", operation="pay", target="account {account}", reverse=refund, secret=["token"], name="back.pay"
)
async def pay(account: str, token: str = "s3cret") -> str:
    DONE.append(f"pay {account}")
    if FAILS:
        raise FAILS.pop(0)
    return "p-1"


@action(connector="bank", operation="note", name="back.final")
async def final(text: str) -> str:
    return text


@workflow(name="back.paying")
async def paying(account: str) -> str:
    return await pay(account)


@workflow(name="back.finally")
async def finally_(text: str) -> str:
    return await final(text)


async def paid(app: Holdfast, run: str = "one") -> str:
    """Pay; gives the receipt's id."""
    await (await app.start(paying, "a-1", id=run)).result()
    (row,) = await receipts(app, run)
    return row.id


def test_an_act_is_taken_back_by_the_action_that_its_receipt_names(virtual: Ground) -> None:
    """It gets the receipt, secrets masked; its own receipt says what it reverses, the first one by what."""

    async def main(ground: Ground) -> None:
        async with ground.engine(paying) as app:
            id = await paid(app)
            run = await app.receipts.reverse(id, by="bob", reason="a mistake")
            assert await run.result() == "refunded"
            row = await run.info()
            assert (row.actor, row.attributes) == ("bob", {"reverses": id})
            (mine,) = await receipts(app, run.id)
            assert (mine.reverses, mine.target, mine.state) == (id, "account a-1", "succeeded")
            assert (await app.receipts.get(id)).reversed_by == mine.id
            (operated,) = await notes(app, r.Operated, "one")
            assert (operated.act, operated.who, operated.reason) == ("reverse", "bob", "a mistake")
            assert operated.details["receipt"] == id

    virtual.play(main)
    assert DONE == ["pay a-1", "refund of p-1 for a-1 ([secret])"]


def test_asked_twice_it_is_taken_back_once(virtual: Ground) -> None:
    """Both at the same time and later: the same run is found."""

    async def main(ground: Ground) -> None:
        async with ground.engine(paying) as app:
            id = await paid(app)
            runs = [await app.receipts.reverse(id, by=who) for who in ("bob", "cid")]
            for run in runs:
                assert await run.result() == "refunded"
            later = await app.receipts.reverse(id, by="dan")
            assert await later.result() == "refunded"
            assert {run.id for run in (*runs, later)} == {f"reverse:{id}"}

    virtual.play(main)
    assert len(DONE) == 2


def test_a_denied_reversal_can_be_asked_for_again(virtual: Ground) -> None:
    """It is judged as any other action; when policy allows it, asking again does it."""
    strict = policy_of({"when": 'action.operation == "refund"', "effect": "deny"}, {})

    async def main(ground: Ground) -> None:
        async with ground.engine(paying, policy=strict) as app:
            id = await paid(app)
            with pytest.raises(RunFailed, match="denies it"):
                await (await app.receipts.reverse(id, by="bob")).result()
            assert (await app.receipts.get(id)).reversed_by is None
            app.policy.current = policy_of({})
            assert await (await app.receipts.reverse(id, by="bob")).result() == "refunded"

    virtual.play(main)
    assert len(DONE) == 2


def test_a_reversal_that_failed_long_ago_can_be_asked_for_again(virtual: Ground) -> None:
    """The run that should have done it is gone, and its evidence is kept under its id: the next has another."""
    strict = policy_of({"when": 'action.operation == "refund"', "effect": "deny"}, {})

    async def prune(app: Holdfast, run: str) -> None:
        while (await app.run(run).info()).evidence_sha256 is None:  # noqa: ASYNC110  # the archivist makes it
            await asyncio.sleep(1)
        assert await app.store.prune(app.clock.now() + 1, 100) > 0

    async def main(ground: Ground) -> None:
        async with ground.engine(paying, policy=strict, options=replace(OPTIONS, evidence=True)) as app:
            id = await paid(app)
            with pytest.raises(RunFailed, match="denies it"):
                await (await app.receipts.reverse(id, by="bob")).result()
            await prune(app, f"reverse:{id}")
            app.policy.current = policy_of({})
            runs = [await app.receipts.reverse(id, by=who) for who in ("bob", "cid")]
            assert [await run.result() for run in runs] == ["refunded", "refunded"]
            assert {run.id for run in runs} == {f"reverse:{id}:2"}
            await prune(app, f"reverse:{id}:2")
            with pytest.raises(NotReversible, match="was taken back already, by r-"):
                await app.receipts.reverse(id, by="dan")

    virtual.play(main)
    assert len(DONE) == 2


def test_a_reversal_is_approved_as_any_other_action(virtual: Ground) -> None:
    """The person who asks for it counts as its starter: at tier high another person must approve."""
    strict = policy_of(
        {"when": 'action.operation == "refund"', "effect": "needs_approval", "tier": "high"},
        {},
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(paying, policy=strict) as app:
            run = await app.receipts.reverse(await paid(app), by="bob")
            task = await asked(app, run.id)
            assert task.starter == "bob"
            await app.tasks.approve(task.id, by="cid")
            await run.result()

    virtual.play(main)
    assert len(DONE) == 2


def test_what_cannot_be_taken_back_is_refused(virtual: Ground) -> None:
    """No such receipt, an act that failed, an action without a reverse: nothing is started, nothing noted."""

    async def main(ground: Ground) -> None:
        async with ground.engine(paying, finally_) as app:
            with pytest.raises(ReceiptNotFound, match="there is no receipt 'r-0'"):
                await app.receipts.reverse("r-0", by="bob")
            await (await app.start(finally_, "x", id="final")).result()
            (row,) = await receipts(app, "final")
            with pytest.raises(NotReversible, match=r"back\.final declares no reverse="):
                await app.receipts.reverse(row.id, by="bob")
            FAILS.append(ValueError("refused"))
            with pytest.raises(RunFailed):
                await (await app.start(paying, "a-1", id="failed")).result()
            (row,) = await receipts(app, "failed")
            with pytest.raises(NotReversible, match="is failed: only what succeeded"):
                await app.receipts.reverse(row.id, by="bob")
            with pytest.raises(ReceiptNotFound):
                await app.receipts.reverse(row.id, by="bob", tenant="acme")
            assert [each for each in await notes(app, r.Operated) if each.act == "reverse"] == []

    virtual.play(main)


def test_a_reverse_that_is_not_deployed_says_so_and_can_be_retried(virtual: Ground) -> None:
    """The receipt outlives the code: its run fails with what to do."""

    @step(name="back.gone")
    async def gone() -> None: ...

    async def main(ground: Ground) -> None:
        async with ground.engine(paying) as app:
            id = await paid(app)
        async with ground.engine(paying, steps={"back.refund": gone}) as app:
            with pytest.raises(RunFailed, match="deploy the code that defines it"):
                await (await app.receipts.reverse(id, by="bob")).result()
        async with ground.engine(paying) as app:
            assert await (await app.receipts.reverse(id, by="bob")).result() == "refunded"

    virtual.play(main)


def test_an_undo_may_be_an_action(virtual: Ground) -> None:
    """What a failing workflow takes back goes through the gate, too, and is receipted."""

    @action(connector="bank", operation="release", target="{hold}", name="back.release")
    async def release(hold: str) -> None:
        DONE.append(f"release {hold}")

    @action(connector="bank", operation="hold", target="{account}", undo=release, name="back.hold")
    async def hold(account: str) -> str:
        DONE.append(f"hold {account}")
        return f"h-{account}"

    @workflow(name="back.failing")
    async def failing() -> None:
        await hold("a-1")
        raise ValueError("too late")

    async def main(ground: Ground) -> list[Any]:
        async with ground.engine(failing) as app:
            run = await app.start(failing, id="one")
            with pytest.raises(RunFailed, match="too late"):
                await run.result()
            return [(row.operation, row.target, row.state) for row in await receipts(app, "one")]

    assert virtual.play(main) == [("hold", "a-1", "succeeded"), ("release", "h-a-1", "succeeded")]
    assert DONE == ["hold a-1", "release h-a-1"]


def test_receipts_are_listed_page_by_page(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oldest first, all of them, or as many as were asked for, by run, state and connector."""
    monkeypatch.setattr("holdfast.client.governance.receipts.PAGE", 2)

    async def main(ground: Ground) -> None:
        async with ground.engine(paying) as app:
            ids = []
            for number in range(5):
                ids.append(await paid(app, f"run-{number}"))
                await asyncio.sleep(1)
            assert [each.id async for each in app.receipts.list()] == ids
            assert [each.id async for each in app.receipts.list(limit=3)] == ids[:3]
            assert [each.id async for each in app.receipts.list(run="run-2")] == [ids[2]]
            assert [each.id async for each in app.receipts.list(connector="crm")] == []
            assert [each.id async for each in app.receipts.list(state="failed")] == []
            assert [each.id async for each in app.receipts.list(tenant="acme")] == []

    virtual.play(main)

"""Retried and forked runs: what they keep of the journal before, and what they own of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    Receipt,
    RetryPolicy,
    RunFailed,
    RunHandle,
    StepFailed,
    WorkerOptions,
    action,
    receive,
    step,
    workflow,
)
from holdfast.audit.check.bundle import verify_bundle
from holdfast.errors import InvalidRequest
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground, policy_of, receipts, until

DONE: list[str] = []
FAILS: list[Exception] = []

EVIDENT = WorkerOptions(warm_limit=0, retention_days=None)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    FAILS.clear()


@pytest.fixture
def virtual() -> Ground:
    return Ground(None)


@step(name="repairing.flaky")
async def flaky() -> str:
    if FAILS:
        raise FAILS.pop(0)
    return "good"


@action(connector="desk", operation="strike", name="repairing.strike")
async def strike(receipt: Receipt) -> str:
    DONE.append(f"strike {receipt.arguments['word']}")
    return "struck"


@action(
    connector="desk",
    operation="note",
    reverse=strike,
    name="repairing.note",
    retry=RetryPolicy(max_attempts=2, initial=60.0),
)
async def note(word: str) -> str:
    DONE.append(word)
    if FAILS:
        raise FAILS.pop(0)
    return word


@workflow(name="repairing.advised")
async def advised() -> str:
    try:
        return await flaky()
    except StepFailed as error:
        raise ArithmeticError(await receive("advice", str)) from error


@workflow(name="repairing.noting")
async def noting() -> list[str]:
    return [await note("one"), await note("two")]


async def _failed(run: RunHandle[Any]) -> str:
    with pytest.raises(RunFailed) as caught:
        await run.result()
    return str(caught.value)


def test_a_retried_run_keeps_the_signals_that_came_after_its_failed_step(virtual: Ground) -> None:
    """Their senders rely on that."""
    FAILS.extend([ValueError("no"), ValueError("no")])

    async def main(ground: Ground) -> None:
        async with ground.engine(advised) as app:
            run = await app.start(advised, id="one")
            await until(app, lambda: not FAILS[1:])
            await run.signal("advice", "give up")
            assert "give up" in await _failed(run)
            await run.retry(by="ann")
            assert "give up" in await _failed(run)
            assert [entry.event async for entry in run.journal()].count("SignalDelivered") == 1

    virtual.play(main)


@action(connector="desk", operation="free", name="repairing.free")
async def free(seat: str) -> None:
    DONE.append(f"free {seat}")


@step(name="repairing.seat", undo=free)
async def seat() -> str:
    DONE.append("seat")
    return "1A"


@workflow(name="repairing.seated")
async def seated() -> str:
    await seat()
    return await flaky()


def test_an_undo_that_is_an_action_is_done_for_each_success(virtual: Ground) -> None:
    """What a retry does again is undone again: the receipt of the first undo is not its answer."""
    FAILS.extend([ValueError("no"), ValueError("no")])

    async def main(ground: Ground) -> None:
        async with ground.engine(seated) as app:
            run = await app.start(seated, id="one")
            await _failed(run)
            assert await run.retry(by="ann", dry_run=True) == ("repairing.seat", "repairing.flaky")
            await run.retry(by="ann")
            await _failed(run)
            assert DONE == ["seat", "free 1A", "seat", "free 1A"]
            await run.retry(by="ann")
            assert await run.result() == "good"
            assert DONE[4:] == ["seat"]
            assert (await run.verify()).good

    virtual.play(main)


def test_a_reversal_cannot_be_forked(virtual: Ground) -> None:
    """A fork has other keys: the act would be taken back twice."""

    async def main(ground: Ground) -> None:
        async with ground.engine(noting) as app:
            await (await app.start(noting, id="one")).result()
            first, _ = await receipts(app, "one")
            reversal = await app.receipts.reverse(first.id, by="bob")
            await reversal.result()
            with pytest.raises(InvalidRequest, match="takes an act back"):
                await reversal.fork(1, by="ann")
            assert DONE == ["one", "two", "strike one"]

    virtual.play(main)


def test_a_fork_right_behind_an_act_has_evidence_that_is_proved(virtual: Ground) -> None:
    """All acts that it inherits belong to the other run, up to the last one."""

    async def main(ground: Ground) -> None:
        async with ground.engine(noting, options=EVIDENT) as app:
            run = await app.start(noting, id="one")
            await run.result()
            fork = await run.fork(await _behind_the_first_act(run), id="two", by="ann")
            assert await fork.result() == ["one", "two"]
            assert DONE == ["one", "two", "two"]
            (key,) = await app.store.signing_keys()
            verdict = verify_bundle(await _evidence(app, fork), [key.public])
            assert [claim.text for claim in verdict.claims if claim.state == "broken"] == []

    virtual.play(main)


async def _behind_the_first_act(run: RunHandle[list[str]]) -> int:
    async for entry in run.journal():
        if entry.event == "InvokeCompleted" and "ok" in entry.fields["result"]:
            return entry.sequence + 1
    raise AssertionError("nothing was done")


async def _evidence(app: Holdfast, run: RunHandle[list[str]]) -> bytes:
    while (data := await app.store.file(run.key, 0, p.EVIDENCE)) is None:
        await app.changed(0.05)
    return data


def test_a_fork_counts_its_own_writes_from_the_first(virtual: Ground) -> None:
    """An act that was being tried again when the run was forked is a first one there, and its cap counts it."""
    FAILS.append(ValueError("refused"))
    once = policy_of({}, caps={"default": {"max_writes_per_run": 1}})

    async def main(ground: Ground) -> None:
        async with ground.engine(noting, policy=once) as app:
            run = await app.start(noting, id="one")
            await until(app, lambda: not FAILS)
            await asyncio.sleep(1)
            fork = await run.fork((await run.info()).events, id="two", by="ann")
            assert "max_writes_per_run" in await _failed(fork)
            assert [receipt.attempt for receipt in await receipts(app, "two")] == [1]

    virtual.play(main)

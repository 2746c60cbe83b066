"""Ids of runs that were deleted and whose evidence is kept: nobody starts another run under one."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from holdfast import Holdfast, RunFailed, Trigger, spawn, step, workflow
from holdfast.errors import RunConflict
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.store import protocol as p
from holdfast.testing.stores.governance.files import keep

CALLS: list[str] = []
TOLD = "run id 'used' was used before, and its evidence is kept: choose another id."


@workflow(name="retired.child")
async def child(text: str) -> str:
    return text.upper()


@workflow(name="retired.spawning")
async def spawning(id: str) -> str:
    try:
        return await spawn(child, "hello", id=id)
    except RunConflict as error:
        return f"refused: {error}"


@step(name="retired.once")
async def fail_once() -> str:
    CALLS.append("once")
    if len(CALLS) == 1:
        raise ValueError("not yet")
    return "now"


@workflow(name="retired.calling")
async def calling() -> str:
    await fail_once()
    return await child("hello")


async def retire(app: Holdfast, run: str) -> None:
    """Have evidence kept under an id that no run has."""
    data = b"evidence"
    key = p.Key(DEFAULT_TENANT, run)
    await keep(app.store, p.KeptFile(key, 0, p.EVIDENCE, hashlib.sha256(data).digest(), len(data), 0), data)


def test_a_run_is_not_started_under_an_id_whose_evidence_is_kept() -> None:
    """With its first turn taken here or anywhere, by id or by trigger."""

    async def main() -> None:
        for worker in (True, False):
            async with Holdfast("memory://", workflows=[child], worker=worker) as app:
                await retire(app, "used")
                with pytest.raises(RunConflict) as refused:
                    await app.start(child, "hello", id="used")
                assert str(refused.value) == TOLD
                trigger = Trigger("mail", "7")
                await retire(app, trigger.run_id(child.name))
                with pytest.raises(RunConflict, match="choose another id"):
                    await app.start(child, "hello", trigger=trigger)
                assert await app.store.get([p.Key(DEFAULT_TENANT, "used")]) == []

    asyncio.run(main())


def test_a_detached_run_is_not_started_under_one_either() -> None:
    """The workflow that asks for it gets an error, and may go on."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=[child, spawning]) as app:
            await retire(app, "used")
            refused = await (await app.start(spawning, "used")).result(60)
            assert refused == f"refused: starting retired.child failed: RunRetired: {TOLD}"
            assert await (await app.start(spawning, "fresh")).result(60) == "fresh"

    asyncio.run(main())


def test_a_retried_run_is_told_that_its_child_cannot_be_run_again() -> None:
    """Its id follows from the run's own. It would wait for ever for a child that is not there."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=[child, calling]) as app:
            CALLS.clear()
            run = await app.start(calling, id="parent")
            with pytest.raises(RunFailed, match="not yet"):
                await run.result(60)
            await retire(app, "parent~1")
            await run.retry()
            with pytest.raises(RunFailed, match="'parent~1' was run before and deleted, and its evidence is kept"):
                await run.result(60)

    asyncio.run(main())


def test_so_is_a_run_that_has_an_old_one_s_name() -> None:
    """Its lease is given up when it waits for the child: what it must hear goes through its inbox."""

    @workflow(name="retired.parent")
    async def parent() -> str:
        return await child("hello")

    async def main() -> None:
        async with Holdfast("memory://", workflows=[child, parent], worker=False) as app:
            run = await app.start(parent, id="parent")
            await retire(app, "parent~0")
            async with Holdfast(app.store, workflows=[child, parent]):
                with pytest.raises(RunFailed, match="'parent~0' was run before and deleted, and its evidence is kept"):
                    await run.result(60)

    asyncio.run(main())

"""What another has asked meanwhile, or somebody has answered: it is learned, and waited for without turning."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunFailed, action, step, workflow
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from tests.unit.worker.ground import OPTIONS, Ground, asked, line_of, policy_of, receipts

DOOR = asyncio.Event()


@step(name="late.block")
async def block() -> None:
    await DOOR.wait()


@action(connector="crm", operation="put", name="late.put")
async def put(word: str) -> str:
    return word


@workflow(name="late.blocking")
async def blocking() -> None:
    await block()


@workflow(name="late.putting")
async def putting(word: str) -> str:
    return await put(word)


def test_who_asks_what_became_of_an_act_learns_that_it_never_began() -> None:
    """A worker that was cut off had it in its line; another has the run, and has a person asked."""

    async def main(ground: Ground) -> None:
        DOOR.clear()
        async with ground.engine(blocking, putting, options=replace(OPTIONS, step_limit=1)) as first:
            await first.start(blocking, id="blocking")
            await first.start(putting, "a", id="putting")
            await asyncio.sleep(0.5)
            assert [receipt.state for receipt in await receipts(first, "putting")] == ["pending"]
            async with ground.engine(putting) as second:
                line_of(first).cut = True
                task = await asked(second, "putting")
                line_of(first).cut = False
                await asyncio.sleep(60)
                left = await ground.store.task("default", task.id)
                assert left is not None
                assert left.status == "cancelled"
            DOOR.set()

    Ground(None).play(main)


class _Racing(MemoryStore):
    """Somebody answers in part as a task expires, and looking that up takes a while."""

    raced = False
    turns = 0

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        for change in batch:
            if isinstance(change, p.Advance):
                self.turns += self.raced
                for each in change.attached:
                    if isinstance(each, p.PutTask) and each.task.status == "expired" and not self.raced:
                        self.raced = True
                        await super().commit([p.PutTask(replace(each.task, status="requested", closed_at=None))])
        return await super().commit(batch)

    async def governed(self, keys: Sequence[p.Key]) -> dict[p.Key, p.Governed]:
        if self.raced:
            await asyncio.sleep(0.3)
        return await super().governed(keys)


def test_an_expired_task_that_is_looked_up_costs_no_turn_meanwhile() -> None:
    """The run would turn and turn for as long as the look takes."""
    wanted = policy_of({"effect": "needs_approval", "tier": "med", "two_person": True, "expires_in": "1s"})

    async def main() -> int:
        store = _Racing()
        async with Holdfast(store, workflows=[putting], policy=wanted) as app:
            run = await app.start(putting, "a", id="putting")
            with pytest.raises(RunFailed, match="ApprovalExpired"):
                await run.result(timeout=60)
            assert store.raced
            return store.turns

    assert asyncio.run(main()) < 10

"""A run that is paused and resumed while its worker still has a step of it under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import action, step, workflow
from holdfast.errors import StoreUnavailable
from tests.unit.worker.ground import Ground, asked, asking


@step(name="resumed.slowly")
async def slowly() -> str:
    await asyncio.sleep(20)
    return "slowly"


@action(connector="crm", operation="note", name="resumed.note")
async def note(word: str) -> str:
    return word


@workflow(name="resumed.both")
async def both() -> list[str]:
    return list(await asyncio.gather(slowly(), note("noted")))


@workflow(name="resumed.alone")
async def alone() -> str:
    return await slowly()


@pytest.mark.parametrize("answered", [True, False])
def test_it_goes_on_at_once_and_hears_what_was_answered_meanwhile(virtual: Ground, answered: bool) -> None:
    """Its worker once tried for ever to hand it back, since an answer waited, and took no answer in, since it was
    paused."""

    async def main(ground: Ground) -> Any:
        async with ground.engine(both, alone, policy=asking()) as app:
            run = await app.start(both if answered else alone, id="one")
            task = await asked(app, "one") if answered else None
            await asyncio.sleep(1)
            await run.pause("lunch")
            await asyncio.sleep(5)
            if task is not None:
                await app.tasks.approve(task.id, by="ann")
            await run.resume()
            _limit_commits(ground)
            return await run.result()

    assert virtual.play(main) == (["slowly", "noted"] if answered else "slowly")


def _limit_commits(ground: Ground) -> None:
    """Few are needed; without an end to them, virtual time would stand still."""
    commit, left = ground.store.commit, [200]

    async def limited(changes: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            await asyncio.sleep(3600)
            raise StoreUnavailable("there were too many commits")
        return await commit(changes)

    ground.store.commit = limited  # type: ignore[method-assign]

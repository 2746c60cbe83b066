"""The work of a run grows with what it does, and not with the square of it. Operations are counted, not times."""

from __future__ import annotations

import asyncio

from holdfast import WorkerOptions, action, workflow
from tests.operations import counted_lines
from tests.unit.worker.ground import Ground, policy_of

SMALL = 40
LARGE = 160
TIMES = LARGE // SMALL
OPTIONS = WorkerOptions(retention_days=None, evidence=False)


@action(connector="outside", operation="act", name="growth.act")
async def act(number: int) -> int:
    return number


@workflow(name="growth.wide")
async def wide(count: int) -> int:
    return sum(await asyncio.gather(*[act(number) for number in range(count)]))


def test_acts_that_end_together_are_closed_each_at_the_same_cost(virtual: Ground) -> None:
    """A turn closes the receipts of all acts that have ended: none is compared with the others."""

    async def act_widely(ground: Ground, count: int) -> int:
        async with ground.engine(wide, policy=policy_of({}), options=OPTIONS) as app:
            with counted_lines("gate/run_calls.py") as lines:
                assert await (await app.start(wide, count)).result(30) == sum(range(count))
            return lines.total

    small = virtual.play(lambda ground: act_widely(ground, SMALL))
    large = virtual.play(lambda ground: act_widely(ground, LARGE))
    assert large <= 1.2 * TIMES * small

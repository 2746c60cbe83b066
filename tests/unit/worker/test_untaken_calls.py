"""Calls that a definition stops, because of a time-out or a cancellation, and that nobody is there to end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import RunCancelled, step
from tests.unit.worker.ground import Ground, kill, rested
from tests.unit.worker.test_definition_runs import DEFINITIONS, document

UNSERVED = replace(DEFINITIONS, queues={})
DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@step(name="untaken.free")
async def free(result: str) -> None:
    DONE.append(f"free {result}")


@step(name="untaken.queued", queue="nobody-serves-it", undo=free)
async def queued(what: str) -> str:
    DONE.append(f"queued {what}")
    return what


QUEUED: dict[str, Any] = {"call": {"step": "untaken.queued", "with": {"what": "x"}}}


def test_a_queued_step_that_nobody_has_taken_does_not_hold_up_its_time_out(ground: Ground) -> None:
    """It is taken back from its queue, so nobody can begin it later."""
    given = document(
        {"block": {"do": [QUEUED], "timeout": "50ms", "on": {"timeout": []}}},
        {"end": {"end": "late"}},
        name="untaken.a",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=UNSERVED) as app:
            app.definitions.add(given)
            run = await app.start("untaken.a", {}, id="one")
            assert await run.result(30) == "late"
            assert (await run.verify()).good

    ground.play(main)
    assert DONE == []


def test_a_cancelled_run_does_not_wait_for_a_queue_that_nobody_serves(ground: Ground) -> None:
    """Also where the worker dies before it has read that the step was taken back."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=UNSERVED) as app:
            app.definitions.add(document(QUEUED, name="untaken.b"))
            run = await app.start("untaken.b", {}, id="one")
            await rested(app, "one")
            await run.cancel("enough")
            kill(app)
        async with ground.engine(options=UNSERVED) as other:
            with pytest.raises(RunCancelled):
                await other.run("one").result(30)

    ground.play(main)
    assert DONE == []


CHILD = document({"hold": {"wait": "go"}}, {"end": {"end": "=1 / start.n"}}, name="untaken.child")


def test_a_child_that_is_paused_ends_with_its_parents_time_out(ground: Ground) -> None:
    given = document(
        {"kid": {"run": "untaken.child", "with": {"n": 0}, "timeout": "1s", "on": {"timeout": []}}},
        {"end": {"end": "late"}},
        name="untaken.parent",
    )

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            for each in (CHILD, given):
                app.definitions.add(each)
            run = await app.start("untaken.parent", {}, id="one")
            await rested(app, "one~1")
            child = app.run("one~1")
            await child.pause("lunch")
            assert await run.result(30) == "late"
            with pytest.raises(RunCancelled):
                await child.result(30)

    ground.play(main)

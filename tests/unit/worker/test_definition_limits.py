"""Definitions on whole engines at their limits: long loops, two workers at one run, code that is not there."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, step
from holdfast.errors import RunParked
from holdfast.store.memory import MemoryStore
from tests.unit.worker.ground import Ground, kill, rested
from tests.unit.worker.test_definition_runs import DEFINITIONS, document

DONE: Counter[str] = Counter()

LOOP = document(
    {"each": {"repeat": {"over": "=start.items"}, "do": [{"add": {"set": {"state.n": "=state.n + item"}}}]}},
    {"done": {"end": "=state.n"}},
    name="limits.loop",
    state={"n": {"type": "integer", "default": 0}},
)
CHAIN = document(
    {
        "each": {
            "repeat": {"times": 10},
            "do": [
                {"one": {"step": "limits.count", "with": {"key": "=run.id + ' ' + string(index)"}, "as": "state.n"}}
            ],
        }
    },
    {"done": {"end": "=state.n"}},
    name="limits.chain",
)


@step(name="limits.count")
async def count(key: str) -> int:
    DONE[key] += 1
    return DONE[key]


@pytest.mark.long
@pytest.mark.timeout(120)
def test_a_repeat_over_100_000_items_ends_on_a_real_engine_and_its_journal_grows_with_the_items(tmp_path: Path) -> None:
    """A turn for every thousand nodes: four events each, and no more bytes for an item than before."""

    async def main() -> dict[int, int]:
        found = {}
        async with Holdfast(f"sqlite:///{tmp_path / 'store.db'}") as app:
            app.definitions.add(LOOP)
            for size in (10_000, 100_000):
                run = await app.start("limits.loop", {"items": [1] * size})
                assert await run.result(timeout=100) == size
                found[size] = (await run.info()).events
        return found

    assert asyncio.run(main()) == {10_000: 42, 100_000: 402}


def test_two_workers_at_one_store_do_every_step_once(ground: Ground) -> None:
    """Whoever holds a run advances it; the other waits for it, and finds all that was done."""
    DONE.clear()

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as one, ground.engine(options=DEFINITIONS) as other:
            for app in (one, other):
                app.definitions.add(CHAIN)
            runs = [await app.start("limits.chain", {}, id=f"r{n}") for n, app in enumerate([one, other] * 5)]
            for run in runs:
                assert await run.result(60) == 1

    ground.play(main)
    assert set(DONE.values()) == {1}
    assert len(DONE) == 100


def test_a_worker_that_was_taken_for_dead_changes_nothing(virtual: Ground) -> None:
    """The run goes on in another; what the first one had begun is not recorded twice."""
    DONE.clear()

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as one:
            one.definitions.add(CHAIN)
            await one.start("limits.chain", {}, id="r")
            kill(one)
            async with ground.engine(options=DEFINITIONS) as other:
                run = other.run("r")
                await run.result(600)
                assert (await run.verify()).good

    virtual.play(main)
    assert len(DONE) == 10


def test_a_digest_that_is_not_known_here_parks_the_run_and_nothing_is_lost(virtual: Ground) -> None:
    """As after a restore of half a backup: with the code back the run goes on."""

    async def main(ground: Ground) -> Any:
        waits = document({"w": {"wait": "go", "as": "state.x"}}, {"done": {"end": "=state.x"}}, name="limits.wait")
        store = ground.store
        assert isinstance(store, MemoryStore)
        async with ground.engine(options=DEFINITIONS) as app:
            app.definitions.add(waits)
            await app.start("limits.wait", {}, id="r")
            await rested(app, "r")
        lost = dict(store._tables.code)
        store._tables.code.clear()
        async with ground.engine(options=DEFINITIONS) as other:
            run = other.run("r")
            await run.signal("go", 5)
            with pytest.raises(RunParked, match="not in the store: put it there again, then resume"):
                await run.result()
            store._tables.code.update(lost)
            await run.resume()
            return await run.result(600)

    assert virtual.play(main) == 5

"""``run.settled``: what came of a start or an answer, told when the run rests again and never before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import Holdfast, step, workflow
from holdfast.errors import RunNotFound
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.options import WorkerOptions
from holdfast.worker.presence.heart import LoopPulse

SLOW = {"type": "object", "properties": {"again": {"type": "boolean", "default": False}}}
ROUNDS = {
    "holdfast": "definition/1",
    "name": "settled.rounds",
    "version": 1,
    "state": {"rounds": {"type": "integer", "default": 0}},
    "tasks": {"go": {"title": '="round " + string(state.rounds)', "form": SLOW}},
    "steps": [
        {"work": {"step": "settled.work", "with": {"seconds": 3}}},
        {
            "loop": {
                "repeat": {"until": "=!state.answer.again", "most": 5},
                "do": [
                    {"ask": {"task": "go", "as": "state.answer"}},
                    {"count": {"set": {"state.rounds": "=state.rounds + 1"}}},
                    {"more": {"step": "settled.work", "with": {"seconds": 3}}},
                ],
            }
        },
        {"done": {"end": "=state.rounds"}},
    ],
}


@step(name="settled.work")
async def work(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow(name="settled.fails")
async def fails() -> None:
    raise ValueError("no")


def play(main: Any, **options: Any) -> None:
    """Run it in virtual time, with an engine on a store of its own."""

    async def whole() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        chosen = WorkerOptions(evidence=False, **options)
        async with Holdfast(store, clock=clock, pulse=LoopPulse, workflows=[fails], options=chosen) as app:
            app.definitions.add(ROUNDS)
            await main(app)

    run_virtually(whole())


def test_starting_and_answering_tell_the_status_the_state_and_the_next_tasks() -> None:
    """The steps between take three seconds: nothing is told before they are over."""

    async def main(app: Holdfast) -> None:
        loop = asyncio.get_running_loop()
        run = await app.start("settled.rounds", id="one")
        for rounds in range(3):
            begun = loop.time()
            stands = await run.settled(30)
            assert (stands.status, stands.at_rest, stands.state) == (
                "waiting",
                True,
                {"rounds": rounds, **({"answer": {"again": True}} if rounds else {})},
            )
            assert [task.summary for task in stands.tasks] == [f"round {rounds}"]
            assert 3 <= loop.time() - begun < 4
            await app.tasks.complete(stands.tasks[0].id, {"again": rounds < 2}, by="ann")
        stands = await run.settled(30)
        assert (stands.status, stands.result, stands.tasks, stands.error) == ("completed", 3, (), None)

    play(main)


def test_the_rest_before_an_answer_is_never_told_for_the_one_after_it() -> None:
    """Others wait for the same run all the time, so rows are read at any moment around the answer."""

    async def main(app: Holdfast) -> None:
        run = await app.start("settled.rounds", id="one")
        stands = await run.settled(30)
        for rounds in range(1, 5):
            others = [asyncio.create_task(run.settled(30)) for _ in range(rounds)]
            for _ in range(rounds):
                await asyncio.sleep(0)
            await app.tasks.complete(stands.tasks[0].id, {"again": rounds < 4}, by="ann")
            stands = await run.settled(30)
            assert stands.state is not None
            assert stands.state["rounds"] == rounds
            await asyncio.gather(*others)
        assert stands.status == "completed"

    play(main, warm_limit=0)


class SlowReads(MemoryStore):
    """A store whose rows may be on their way for a while."""

    on_the_way: asyncio.Event | None = None

    async def get(self, keys: Sequence[p.Key]) -> list[p.Run]:
        rows = await super().get(keys)
        if self.on_the_way is not None:
            await self.on_the_way.wait()
        return rows


def test_a_row_that_was_read_before_the_answer_tells_nothing_of_it() -> None:
    """Somebody waits, and the row for them is on its way. What comes after it must look again."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = SlowReads(clock.now)
        options = WorkerOptions(evidence=False)
        async with Holdfast(store, clock=clock, pulse=LoopPulse, options=options) as app:
            app.definitions.add(ROUNDS)
            run = await app.start("settled.rounds", id="one")
            stands = await run.settled(30)
            store.on_the_way = asyncio.Event()
            early = asyncio.create_task(app.waiters.wait(run.key, until_rest=True))
            await asyncio.sleep(0.1)
            await app.tasks.complete(stands.tasks[0].id, {}, by="ann")
            late = asyncio.create_task(app.waiters.wait(run.key, until_rest=True))
            await asyncio.sleep(0.1)
            store.on_the_way.set()
            assert getattr(await early, "standing", "") == "waiting"
            assert getattr(await late, "standing", "completed") == "completed"

    run_virtually(main())


def test_a_time_that_is_over_first_tells_how_the_run_stands_then() -> None:
    async def main(app: Holdfast) -> None:
        run = await app.start("settled.rounds", id="one")
        stands = await run.settled(1)
        assert (stands.status, stands.at_rest, stands.tasks) == ("running", False, ())
        assert (await run.settled(30)).at_rest

    play(main)


def test_failed_paused_and_unknown_runs_are_told_at_once() -> None:
    async def main(app: Holdfast) -> None:
        run = await app.start(fails, id="one")
        stands = await run.settled(30)
        assert (stands.status, stands.state, stands.error) == ("failed", None, "ValueError: no")
        other = await app.start("settled.rounds", id="two")
        await other.settled(30)
        await other.pause("a break")
        assert (await other.settled(30)).status == "paused"
        with pytest.raises(RunNotFound):
            await app.run("three").settled(30)

    play(main)


def test_a_run_that_no_worker_has_taken_is_not_at_rest() -> None:
    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        async with Holdfast(MemoryStore(clock.now), clock=clock, worker=False) as app:
            app.definitions.add(ROUNDS)
            run = await app.start("settled.rounds", id="one")
            stands = await run.settled(60)
            assert (stands.status, stands.at_rest, stands.state) == ("queued", False, {})

    run_virtually(main())


def test_another_process_learns_of_the_rest_by_looking() -> None:
    """One engine works, another one answers and waits: no event of its own tells it."""

    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        options = WorkerOptions(evidence=False)
        async with Holdfast(store, clock=clock, pulse=LoopPulse, options=options) as works:
            works.definitions.add(ROUNDS)
            await works.start("settled.rounds", id="one")
            async with Holdfast(store.twin(), clock=clock, worker=False) as asks:
                run = asks.run("one")
                stands = await run.settled(30)
                await asks.tasks.complete(stands.tasks[0].id, {}, by="ann")
                assert (await run.settled(30)).result == 1

    run_virtually(main())

"""Runs that move while they are looked at."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from holdfast import Holdfast, continue_as_new, receive, step, workflow
from holdfast.audit.check.journal import verify_run
from holdfast.runs.journals import row_of
from holdfast.views import JournalEntry


@step(name="moving_add")
async def add(number: int) -> int:
    return number + 1


@workflow(name="moving_waiter")
async def waiter() -> int:
    return await add(int(await receive("go", int)))


@workflow(name="moving_generations")
async def generations(left: int) -> str:
    await receive("next")
    if left:
        continue_as_new(left - 1)
    return "over"


def test_a_run_that_moved_since_its_row_was_read_verifies_all_the_same() -> None:
    """Verification under load must not take progress for damage."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=[waiter]) as app:
            run = await app.start(waiter)
            while await run.status() != "waiting":
                await app.changed(0.05)
            stale = await row_of(app.store, run.key)
            await run.signal("go", 1)
            assert await run.result(60) == 2
            verdict = await verify_run(app.store, stale)
            assert verdict.good, verdict.problem
            assert verdict.events == (await run.info()).events

    asyncio.run(main())


def test_a_journal_that_was_exchanged_as_a_whole_does_not_verify(tmp_path: Path) -> None:
    """A journal of another run may be chained correctly in itself; its promise ids give it away."""
    path = tmp_path / "forged.db"

    async def main() -> None:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            run = await app.start(waiter, id="one")
            await app.start(waiter, id="two")
            assert (await run.verify()).good
            with sqlite3.connect(path) as connection:
                connection.execute(
                    "UPDATE segments SET (events, head) = (SELECT events, head FROM segments WHERE run = 'two')"
                    " WHERE run = 'one'"
                )
            connection.close()
            assert (await run.verify()).law == "INV-6"

    asyncio.run(main())


def test_tail_follows_a_run_into_its_next_generation() -> None:
    """A run that continues as new begins again at sequence 0, and nothing of it is missed."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=[generations]) as app:
            run = await app.start(generations, 2)
            seen: list[JournalEntry] = []
            async for entry in run.tail():
                seen.append(entry)
                if entry.event == "ExecutionAwaiting":
                    await run.signal("next")
            starts = [entry.sequence for entry in seen if entry.event == "ExecutionStarted"]
            ends = [entry for entry in seen if entry.event == "ExecutionCompleted"]
            assert (starts, len(ends)) == ([0, 0, 0], 3)

    asyncio.run(main())

"""Whole engines on virtual time: what is done once, what is done again, and who goes on with it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, RunFailed, WorkerOptions, receive, step, workflow
from holdfast.audit.check.journal import verify_run
from holdfast.errors import RunConflict
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.journals import row_of
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.views import JournalEntry
from holdfast.worker.presence.heart import LoopPulse

COLD = WorkerOptions(warm_limit=0, retention_days=None)
"""Nothing is kept warm: every turn after a wait is a replay."""


@asynccontextmanager
async def engine(*workflows: Workflow[..., Any], store: MemoryStore | None = None) -> AsyncIterator[Holdfast]:
    clock = VirtualClock(asyncio.get_running_loop())
    app = Holdfast(
        store or MemoryStore(clock.now),
        clock=clock,
        entropy=random.Random(1),
        pulse=LoopPulse,
        options=COLD,
        workflows=workflows,
    )
    await app.open()
    try:
        yield app
    finally:
        await app.close(0)


def test_replay_runs_the_body_from_its_start_and_completed_steps_not_at_all() -> None:
    """J-38, J-39: the body is run again after every wait; a step whose completion is recorded is answered from it."""
    done: Counter[str] = Counter()

    @step
    async def note(word: str) -> str:
        done[word] += 1
        return word.upper()

    @workflow
    async def waits() -> list[str]:
        done["body"] += 1
        first = await note("first")
        await receive("go")
        return [first, await note("second")]

    async def main() -> list[str]:
        async with engine(waits) as app:
            handle = await app.start(waits)
            await asyncio.sleep(10)
            await handle.signal("go")
            return await handle.result()

    assert run_virtually(main()) == ["FIRST", "SECOND"]
    assert done == {"body": 2, "first": 1, "second": 1}


def test_a_step_begins_after_its_intent_is_durable() -> None:
    """J-40: the scheduled event is in the store before the step's first line runs."""
    seen: list[list[str]] = []

    @step
    async def look() -> None:
        journal = [entry.event async for entry in app_of["app"].run("one").journal()]
        seen.append(journal)

    @workflow
    async def looks() -> None:
        await look()

    app_of: dict[str, Holdfast] = {}

    async def main() -> None:
        async with engine(looks) as app:
            app_of["app"] = app
            await (await app.start(looks, id="one")).result()

    run_virtually(main())
    assert seen == [["ExecutionStarted", "InvokeScheduled", "ExecutionAwaiting"]]


def test_a_childs_end_moves_its_parent() -> None:
    """J-41, J-42: a child is a run of its own in the same store, and its end, good or bad, goes on with its parent."""

    @workflow
    async def child(word: str) -> str:
        await asyncio.sleep(60)
        if word == "bad":
            raise ValueError(word)
        return word

    @workflow
    async def parent(word: str) -> str:
        return f"the child says {await child(word)}"

    async def main() -> str:
        async with engine(child, parent) as app:
            bad = await app.start(parent, "bad")
            with pytest.raises(RunFailed, match="bad"):
                await bad.result()
            return await (await app.start(parent, "good")).result()

    assert run_virtually(main()) == "the child says good"


def test_a_run_goes_on_in_another_engine_from_where_it_rests() -> None:
    """D-16, D-22: a run stops at its wait, its lease is given up, and any engine may go on: memory is only a cache."""
    done: Counter[str] = Counter()

    @step
    async def note(word: str) -> str:
        done[word] += 1
        return word

    @workflow
    async def two_lives() -> list[str]:
        first = await note("first")
        await receive("go")
        return [first, await note("second")]

    async def main() -> list[str]:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        async with engine(two_lives, store=store) as app:
            await app.start(two_lives, id="one")
            await asyncio.sleep(10)
            row = await app.run("one").info()
            assert (row.worker, row.status) == (None, "waiting")
        async with engine(two_lives, store=store) as app:
            await app.run("one").signal("go")
            result: list[str] = await app.run("one").result()
            return result

    assert run_virtually(main()) == ["first", "second"]
    assert done == {"first": 1, "second": 1}


def test_the_version_grows_with_every_turn_that_is_committed() -> None:
    """D-38: the version is the number of events, so each commit with events has a later one than the one before."""
    versions: list[int] = []

    @step
    async def note() -> None:
        versions.append((await app_of["app"].run("one").info()).events)

    @workflow
    async def thrice() -> None:
        for _ in range(3):
            await note()

    app_of: dict[str, Holdfast] = {}

    async def main() -> int:
        async with engine(thrice) as app:
            app_of["app"] = app
            handle = await app.start(thrice, id="one")
            await handle.result()
            versions.append((await handle.info()).events)
            return len([entry async for entry in handle.journal()])

    assert run_virtually(main()) == versions[-1]
    assert versions == sorted(set(versions))


def test_a_retry_waits_in_the_store_and_not_in_a_worker() -> None:
    """D-45, G-37: the failed attempt, its error and the time of the next are recorded; nobody sleeps on it."""

    @step(retries=1)
    async def fails_once() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionError("nobody answers")
        return "done"

    @workflow
    async def tries() -> str:
        return await fails_once()

    attempts: list[int] = []

    async def main() -> tuple[JournalEntry, Any, str]:
        async with engine(tries) as app:
            handle = await app.start(tries, id="one")
            await asyncio.sleep(0.01)
            retrying = [entry async for entry in handle.journal()][-1]
            return retrying, (await handle.info()).wake_at, await handle.result()

    retrying, wake_at, result = run_virtually(main())
    assert retrying.event == "InvokeRetrying"
    assert (retrying.fields["failed_attempt"], retrying.fields["error"]["message"]) == (1, "nobody answers")
    assert wake_at == retrying.fields["retry_at"]
    assert result == "done"


def test_a_signal_for_a_version_that_is_past_is_refused() -> None:
    """D-39: its sender learns that the run has moved on; one for the present version is delivered."""

    @workflow
    async def decided() -> str:
        return await receive("decision", str)

    async def main() -> str:
        async with engine(decided) as app:
            run = await app.start(decided, id="one")
            while await run.status() != "waiting":  # noqa: ASYNC110  # virtual time: it costs nothing
                await asyncio.sleep(0.01)
            version = (await run.info()).events
            with pytest.raises(RunConflict, match=f"is at version {version}"):
                await run.signal("decision", "no", expected_version=version - 1)
            await run.signal("decision", "yes", expected_version=version)
            return await run.result()

    assert run_virtually(main()) == "yes"


def test_a_journal_under_another_runs_root_is_found_out() -> None:
    """J-74, INV-6: promise ids are unique because each root follows from its run's own id."""

    @workflow
    async def plain() -> str:
        return "done"

    async def main() -> tuple[bool, str | None]:
        async with engine(plain) as app:
            run = await app.start(plain, id="one")
            await run.result()
            good = (await run.verify()).good
            foreign = replace(await row_of(app.store, run.key), key=p.Key("default", "two"))
            app.store._tables.segments[foreign.key] = app.store._tables.segments[run.key]  # type: ignore[attr-defined]
            return good, (await verify_run(app.store, foreign)).law

    assert run_virtually(main()) == (True, "INV-6")


def test_a_worker_whose_lease_has_lapsed_begins_no_step() -> None:
    """Another worker may have the run by then: it is left alone until a heartbeat has been answered again."""
    begun: list[float] = []

    @step
    async def act() -> None:
        begun.append(asyncio.get_running_loop().time())

    @workflow
    async def acts() -> None:
        await act()

    async def main() -> float:
        async with engine(acts) as app:
            assert app.worker is not None
            await asyncio.sleep(0.1)  # the first heartbeat has been answered, the next is seconds away
            app.worker.lease._deadline = 0.0  # as after a long stop of the process
            lapsed_at = asyncio.get_running_loop().time()
            run = await app.start(acts, id="one")
            await asyncio.sleep(1)
            assert begun == []
            await run.result()
            return begun[0] - lapsed_at

    assert run_virtually(main()) > 1

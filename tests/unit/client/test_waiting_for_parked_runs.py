"""A wait without a time-out ends with an error when the run is parked: nothing else would end it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast import Holdfast, RunHandle, RunParked, SyncHoldfast, receive, step, workflow
from holdfast.client import waiters
from holdfast.store.sqlite import store
from holdfast.testing import run_virtually, virtual_engine
from tests.acceptance.processes import until_status


@workflow(name="parking.broken")
async def broken() -> object:
    await receive("go")
    return threading.Lock()


@workflow(name="parking.patient")
async def patient() -> str:
    return await receive("go", str)


HELD: list[asyncio.Event] = []


@step(name="parking.held")
async def held() -> None:
    HELD.append(asyncio.Event())
    await HELD[0].wait()


@workflow(name="parking.broken_after_step")
async def broken_after_step() -> object:
    await held()
    return threading.Lock()


REASON = "unencodable: the result of parking.broken cannot be stored as data"


def test_a_parked_run_raises_its_reason_and_the_remedy() -> None:
    """In virtual time nothing else can happen, and the error has the reason."""

    async def main() -> None:
        async with virtual_engine() as app:
            run = await app.start(broken, id="b-1", tenant="acme")
            waiting = asyncio.ensure_future(run.result())
            await run.signal("go")
            with pytest.raises(RunParked, match=REASON) as raised:
                await waiting
            assert raised.value.reason.startswith(REASON)
            assert "Mend that, then `holdfast resume b-1 --tenant acme` lets it go on" in str(raised.value)
            with pytest.raises(RunParked):  # asked again, it says so at once
                await run.result()

    run_virtually(main())


def test_whoever_waits_where_the_run_is_parked_learns_of_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when its row is read the next time: here that is in an hour, and so is the next look at the file."""
    monkeypatch.setattr(waiters, "LOOK_SECONDS", 3600.0)
    monkeypatch.setattr(store, "WATCH_SECONDS", 3600.0)

    async def main() -> None:
        async with Holdfast(f"sqlite:///{tmp_path}/s.db", workflows=[broken_after_step]) as app:
            run = await app.start(broken_after_step)
            waiting = asyncio.ensure_future(run.result())
            while not HELD:  # noqa: ASYNC110  # the step makes the event
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)  # hints of what was written until now have led to a look
            HELD.pop().set()
            with pytest.raises(RunParked):
                await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


def test_with_a_time_out_a_parked_run_is_waited_for() -> None:
    """Someone may mend it in that time."""

    async def main() -> None:
        async with virtual_engine() as app:
            run = await app.start(broken)
            await run.signal("go")
            with pytest.raises(TimeoutError):
                await run.result(timeout=3600)

    run_virtually(main())


def test_a_run_that_a_person_paused_is_waited_for() -> None:
    """A pause is intended, whatever its reason; it is no problem of the run."""

    async def main() -> None:
        async with virtual_engine() as app:
            run: RunHandle[str] = await app.start(patient)
            await run.pause("nondeterminism: no, lunch")
            waiting = asyncio.ensure_future(run.result())
            await asyncio.sleep(3600)
            assert not waiting.done()
            await run.resume()
            await run.signal("go", "gone")
            assert await waiting == "gone"

    run_virtually(main())


def test_a_run_that_another_process_parks_ends_the_wait(tmp_path: Path) -> None:
    """The store says it, to clients without a worker and without a loop too."""
    url = f"sqlite:///{tmp_path}/s.db"

    async def main() -> None:
        async with Holdfast(url) as worker, Holdfast(url, worker=False) as client:
            run = await worker.start(broken, id="b-1")
            waiting = asyncio.ensure_future(client.run("b-1").result())
            await run.signal("go")
            with pytest.raises(RunParked, match=REASON):
                await waiting
            await until_status(run, "paused")

    asyncio.run(main())
    with SyncHoldfast(url, worker=False) as sync, pytest.raises(RunParked, match=REASON):
        sync.run("b-1").result()

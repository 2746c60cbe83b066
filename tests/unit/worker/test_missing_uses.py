"""Definitions whose steps or code are not here: nothing is lost, the reason names it, and resuming goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, step
from holdfast.errors import RunParked
from tests.unit.worker.ground import OPTIONS, Ground, kill, rested

CALLS: list[str] = []
HELD: list[asyncio.Event] = []
DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    HELD.clear()


@step(name="uses.first")
async def first() -> str:
    CALLS.append("first")
    return "one"


@step(name="uses.second")
async def second() -> str:
    CALLS.append("second")
    if HELD:
        await HELD.pop().wait()
    return "two"


FLOW = {
    "holdfast": "definition/1",
    "name": "uses.flow",
    "version": 1,
    "steps": [
        {"a": {"step": "uses.first", "as": "state.a"}},
        {"go": {"wait": "go"}},
        {"b": {"step": "uses.second", "as": "state.b", "on": {"failure": []}}},
        {"done": {"end": "=[state.a, state.b]"}},
    ],
}


async def waiting(app: Holdfast) -> Any:
    app.definitions.add(FLOW)
    run = await app.start("uses.flow", id="one")
    await rested(app, "one")
    return run


def test_a_run_parks_where_a_step_is_gone_and_goes_on_when_it_is_back(ground: Ground) -> None:
    """No failure of the business: ``on.failure`` does not see it, and the signal is not lost."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            await waiting(app)
        async with ground.engine(options=DEFINITIONS, without=["uses.second"]) as other:
            run = other.run("one")
            await run.signal("go")
            with pytest.raises(RunParked, match=r"no step 'uses\.second' is here: start a worker whose"):
                await run.result()
            assert await run.state() == {"a": "one"}
        async with ground.engine(options=DEFINITIONS) as third:
            run = third.run("one")
            await run.resume()
            assert await run.result(30) == ["one", "two"]
            assert (await run.verify()).good

    ground.play(main)
    assert CALLS == ["first", "second"]


def test_a_step_that_was_asked_for_and_is_gone_parks_its_run(ground: Ground) -> None:
    """The worker died while the step was under way, and the next one has no such step."""

    async def main(ground: Ground) -> None:
        HELD.append(asyncio.Event())
        async with ground.engine(options=DEFINITIONS) as app:
            run = await waiting(app)
            await run.signal("go")
            while CALLS != ["first", "second"]:
                await app.changed(0.05)
            kill(app)
        async with ground.engine(options=DEFINITIONS, without=["uses.second"]) as other:
            with pytest.raises(RunParked, match=r"no step 'uses\.second' is here: start a worker whose"):
                await other.run("one").result()
        async with ground.engine(options=DEFINITIONS) as third:
            run = third.run("one")
            await run.resume()
            assert await run.result(30) == ["one", "two"]

    ground.play(main)
    assert CALLS == ["first", "second", "second"]


def test_a_worker_without_a_step_leaves_the_run_to_one_that_has_it(ground: Ground) -> None:
    """While a version is rolled out, nothing parks."""

    async def main(ground: Ground) -> None:
        async with (
            ground.engine(options=DEFINITIONS, without=["uses.second"]) as old,
            ground.engine(options=DEFINITIONS) as new,
        ):
            runs = []
            new.definitions.add(FLOW)
            for number in range(6):
                runs.append(await new.start("uses.flow", id=str(number)))
                await rested(new, str(number))
            for run in runs:
                await old.run(run.id).signal("go")
            assert [await run.result(60) for run in runs] == [["one", "two"]] * 6
            assert all([(await run.info()).pause_reason is None for run in runs])

    ground.play(main)


def test_a_run_whose_code_is_not_known_here_says_which(ground: Ground) -> None:
    """Somebody deleted it behind the engine's back; put back, the run goes on."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            await waiting(app)
            digest = app.definitions.get("uses.flow")
        assert digest is not None
        code = ground.store.code

        async def nothing(tenant: str, digests: Any) -> dict[bytes, Any]:
            return {}

        ground.store.code = nothing  # type: ignore[method-assign]
        async with ground.engine(options=DEFINITIONS) as other:
            run = other.run("one")
            await run.signal("go")
            with pytest.raises(RunParked, match=f"the code {digest.digest} of definition 'uses.flow' is not in the st"):
                await run.result()
        ground.store.code = code  # type: ignore[method-assign]
        async with ground.engine(options=DEFINITIONS) as third:
            run = third.run("one")
            await run.resume()
            assert await run.result(30) == ["one", "two"]

    ground.play(main)
    assert CALLS == ["first", "second"]

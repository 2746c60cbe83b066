"""What a run of a definition knows of itself, in a fork of it: its own id from the fork on, the other's before."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, step
from tests.unit.worker.ground import OPTIONS, Ground, kill, rested
from tests.unit.worker.test_definition_runs import document

DEFINITIONS = replace(OPTIONS, checkpoint_events=1)


@step(name="forks.note")
async def note(what: str, of: str | None = None) -> str:
    if what in BROKEN:
        raise ValueError("no")
    return what


BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def nothing_broken() -> None:
    BROKEN.clear()


def noted(name: str) -> dict[str, Any]:
    call = {"step": "forks.note", "with": {"what": "=run.id", "of": "=run.token"}, "as": f"state.{name}"}
    return {name: call}


WAITS = document(
    {"go": {"wait": "go"}},
    noted("first"),
    {"more": {"wait": "more"}},
    noted("second"),
    {"last": {"wait": "last"}},
    noted("third"),
    {"end": {"end": "=[state.first, state.second, state.third]"}},
    name="forks.noted",
)


async def begun(app: Holdfast, *signals: str) -> Any:
    app.definitions.add(WAITS)
    run = await app.start("forks.noted", {}, id="one")
    for name in signals:
        await sent(app, "one", name)
    return run


async def sent(app: Holdfast, run: str, name: str) -> None:
    await rested(app, run)
    await app.run(run).signal(name)


async def events_of(app: Holdfast, run: str) -> int:
    await rested(app, run)
    return (await app.run(run).info()).events


@pytest.mark.parametrize("options", [DEFINITIONS, OPTIONS], ids=["from checkpoints", "from journals"])
def test_a_fork_has_its_own_id_and_its_past_that_of_the_run_it_comes_from(ground: Ground, options: Any) -> None:
    """What the past recorded is recorded: a call that was made with the other id is not made again, nor refused."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=options) as app:
            run = await begun(app, "go")
            fork = await run.fork(await events_of(app, "one"), id="two")
            await sent(app, "two", "more")
            again = await fork.fork(await events_of(app, "two"), id="three")
            kill(app)
        async with ground.engine(options=options) as other:
            for id in ("three", "two", "one"):
                if id == "one":
                    await sent(other, id, "more")
                await sent(other, id, "last")
            assert await other.run("one").result(30) == ["one", "one", "one"]
            assert await other.run("two").result(30) == ["one", "two", "two"]
            assert await other.run("three").result(30) == ["one", "two", "three"]
            for id in ("one", "two", "three"):
                assert (await other.run(id).verify()).good
            assert again.id == "three"

    ground.play(main)


def test_a_fork_may_begin_at_any_place_of_the_past(ground: Ground) -> None:
    """Also in the middle of a turn, and inside what a fork has from another run."""

    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "go")
            fork = await run.fork(await events_of(app, "one"), id="two")
            await sent(app, "two", "more")
            last = await events_of(app, "two")
            for sequence in range(1, last + 1):
                other = await fork.fork(sequence, id=f"f{sequence}")
                for name in ("go", "more", "last"):
                    await other.signal(name)
                first, second, third = await other.result(30)
                assert first in ("one", other.id)
                assert second in ("two", other.id)
                assert third == other.id
                assert (await other.verify()).good

    ground.play(main)


def test_a_fork_that_has_failed_is_retried(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(options=DEFINITIONS) as app:
            run = await begun(app, "go")
            fork = await run.fork(await events_of(app, "one"), id="two")
            BROKEN.add("two")
            await sent(app, "two", "more")
            with pytest.raises(Exception, match="no"):
                await fork.result(30)
            BROKEN.clear()
            await fork.retry()
            await sent(app, "two", "last")
            assert await fork.result(30) == ["one", "two", "two"]

    ground.play(main)

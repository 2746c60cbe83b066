"""Schedules that are declared in code: workers make them once, and newer code changes them."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from holdfast import Holdfast, workflow
from holdfast.errors import InvalidDefinition, InvalidFunction
from holdfast.programs.function.decorators import Workflow
from tests.unit.worker.ground import Ground
from tests.unit.worker.scheduled import acts_of, runs_of, words_of

HOURLY = """
holdfast: definition/1
name: hourly
version: {version}
{schedule}
steps:
  - done: {{end: =start}}
"""


def declared(
    schedule: str | datetime.timedelta | None, timezone: str | None = None, name: str = "tidy"
) -> Workflow[..., Any]:
    """A workflow of one code with one declaration; others of its name exist beside it, as in a rollout."""

    async def tidy() -> str:
        return "done"

    return Workflow(tidy, name=name, schedule=schedule, timezone=timezone)


async def made_by(ground: Ground, *workflows: Workflow[..., Any], **more: Any) -> None:
    """Start a worker of this code, and stop it again."""
    async with ground.engine(*workflows, **more):
        await asyncio.sleep(2)


def test_a_decorated_workflow_starts_by_itself(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(declared("0 3 * * *", "Asia/Tokyo")) as app:
            await asyncio.sleep(1)
            info = await app.schedules.show("tidy")
            assert (info.cron, info.timezone, info.workflow, info.owner) == ("0 3 * * *", "Asia/Tokyo", "tidy", None)
        async with ground.engine(declared(datetime.timedelta(minutes=10), name="often")) as app:
            await asyncio.sleep(3600)
            assert len(await runs_of(app, "often")) == 6
            assert {run.standing for run in await runs_of(app, "often")} == {"completed"}

    virtual.play(main)


def test_many_workers_declare_once(virtual: Ground) -> None:
    """One note, whoever starts how often."""

    async def main(ground: Ground) -> None:
        code = declared("0 3 * * *")
        async with ground.engine(code) as app, ground.engine(code), ground.engine(code):
            await asyncio.sleep(5)
            await made_by(ground, code)
            acts = await acts_of(app.store, "tidy")
            assert [(each.act, each.who) for each in acts] == [("schedule_workflow", "code")]

    virtual.play(main)


def test_newer_code_changes_it_and_older_code_does_not_change_it_back(
    virtual: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """In a rollout workers of both start in any order."""

    async def main(ground: Ground) -> None:
        old, new = declared("0 3 * * *"), declared("0 4 * * *")
        for code in (old, new, old, new, old):
            await made_by(ground, code)
        async with ground.engine() as app:
            assert (await app.schedules.show("tidy")).cron == "0 4 * * *"
            assert words_of(await acts_of(app.store, "tidy")) == ["schedule_workflow", "schedule_workflow"]
        assert "schedule tidy follows newer code than this worker's" in caplog.text

    virtual.play(main)


def test_what_people_do_stays(virtual: Ground) -> None:
    """A pause, another time, a deletion: the same code does not undo it. Without its declaration it stays, too."""

    async def main(ground: Ground) -> None:
        code = declared("0 3 * * *")
        async with ground.engine(code) as app:
            await asyncio.sleep(1)
            await app.schedules.change("tidy", cron="0 5 * * *", by="ann")
            await app.schedules.pause("tidy", by="ann")
            await made_by(ground, code)
            info = await app.schedules.show("tidy")
            assert (info.cron, info.status) == ("0 5 * * *", "paused")
            await made_by(ground, declared(None))
            assert (await app.schedules.show("tidy")).status == "paused"
            await app.schedules.delete("tidy", by="ann")
            await made_by(ground, code)
            await made_by(ground, declared("0 7 * * *"))
            assert (await app.schedules.show("tidy")).status == "deleted"

    virtual.play(main)


def test_a_schedule_that_a_person_made_is_not_taken_over(virtual: Ground, caplog: pytest.LogCaptureFixture) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await app.schedules.create("tidy", "tidy", cron="0 1 * * *", by="ann")
            await made_by(ground, declared("0 3 * * *"))
            assert (await app.schedules.show("tidy")).cron == "0 1 * * *"
        assert "schedule tidy was made by a person" in caplog.text

    virtual.play(main)


@pytest.mark.parametrize(
    ("schedule", "timezone", "words"),
    [
        ("0 3 30 2 *", None, "never comes"),
        ("0 3 * * *", "Europe/Atlantis", "there is no time zone"),
        (datetime.timedelta(seconds=0.1), None, "1 second or more"),
        (datetime.timedelta(hours=1), "UTC", "goes with a cron line"),
        (None, "UTC", "a cron line or a timedelta"),
    ],
)
def test_a_decorator_that_cannot_be_followed_is_refused(schedule: Any, timezone: str | None, words: str) -> None:
    with pytest.raises(InvalidFunction, match=words):
        declared(schedule, timezone)


def test_a_workflow_that_needs_arguments_cannot_be_declared() -> None:
    async def needy(region: str) -> str:
        return region

    with pytest.raises(InvalidFunction, match="starts needy without arguments"):
        workflow(schedule="0 3 * * *")(needy)


async def test_publishing_a_definition_makes_its_schedule(holdfast_app: Holdfast) -> None:
    """In the same commit, and the publisher owns it; the newest version says, also that there is none any more."""
    app = holdfast_app
    said = "schedule: {cron: 0 * * * *, input: {region: eu}, overlap: allow}"
    await app.definitions.publish(HOURLY.format(version=1, schedule=said), by="ann")
    await app.definitions.publish(HOURLY.format(version=1, schedule=said), by="ann")
    await asyncio.sleep(3600)
    (run,) = await runs_of(app, "hourly")
    assert await app.run(run.key.run).result() == {"region": "eu"}
    info = await app.schedules.show("hourly")
    assert (info.owner, info.overlap, run.actor) == ("ann", "allow", "ann")
    await app.definitions.publish(HOURLY.format(version=2, schedule="schedule: {every: 30m}"), by="bob")
    await asyncio.sleep(3605)
    assert len(await runs_of(app, "hourly")) == 3
    await app.definitions.publish(HOURLY.format(version=3, schedule=""), by="bob")
    assert (await app.schedules.show("hourly")).over == "version 3 of the definition has no schedule"
    await app.definitions.publish(HOURLY.format(version=4, schedule="schedule: 0 * * * *"), by="bob")
    assert (await app.schedules.show("hourly")).status == "active"
    assert words_of(await acts_of(app.store, "hourly")) == [
        "publish",
        "trigger_scheduled",
        "publish",
        "trigger_scheduled",
        "trigger_scheduled",
        "publish",
        "publish",
    ]


def test_a_definition_that_a_worker_is_given_starts_by_itself(virtual: Ground) -> None:
    """A worker that does not have it leaves its ticks to one that has."""

    async def main(ground: Ground) -> None:
        given = HOURLY.format(version=1, schedule="schedule: {every: 10m}")
        async with ground.engine() as other:
            await made_by(ground, definitions=[given])
            await asyncio.sleep(1500)
            assert await runs_of(other, "hourly") == []
            async with ground.engine(definitions=[given]) as app:
                await asyncio.sleep(700)
                runs = await runs_of(app, "hourly")
                assert runs
                assert {(run.program_kind, run.standing) for run in runs} == {("definition", "completed")}

    virtual.play(main)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("schedule: {}", "it has `cron:`"),
        ("schedule: {cron: 0 3 * * *, every: 15m}", "it has `cron:`"),
        ("schedule: 0 25 * * *", "the hour is 0 to 23"),
        ("schedule: {cron: 0 3 * * *, timezone: Mars/Olympus}", "there is no time zone"),
        ("schedule: {every: 5ms}", "1 second or more"),
        ("schedule: {every: =start.span}", "cannot be an expression"),
        ("schedule: {cron: 0 3 * * *, at: now}", "nobody knows the word 'at'"),
        ("schedule: {cron: 0 3 * * *, overlap: both}", "one of skip"),
        ("schedule: 0 3 * * *\nstart: {type: object, required: [region]}", "cannot be started with this"),
    ],
)
async def test_a_definition_whose_schedule_cannot_be_followed_is_refused(
    holdfast_app: Holdfast, schedule: str, words: str
) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        await holdfast_app.definitions.publish(HOURLY.format(version=1, schedule=schedule))

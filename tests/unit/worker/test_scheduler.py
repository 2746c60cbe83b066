"""The scheduler: a due tick is started once, and every other one is accounted for."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, WorkerOptions
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.schedules.schedule import KIND, decode, encode
from holdfast.schedules.timing import Cron
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock
from holdfast.worker.roles.scheduler import LOOK_SECONDS
from tests.unit.worker.ground import Ground, kill
from tests.unit.worker.scheduled import acts_of, long_report, quick_report, runs_of, ticks_of, time_of, words_of

MINUTES = "*/1 * * * *"
DAY = 86_400.0
KEY = p.ItemKey(DEFAULT_TENANT, KIND, "s")


async def test_a_due_tick_starts_its_run_and_is_noted(holdfast_app: Holdfast) -> None:
    """At its time, with its arguments, its trigger and its owner; the schedule moves on."""
    app = holdfast_app
    made = await app.schedules.create("s", quick_report.bind("us"), cron="0 3 * * *", timezone="Asia/Tokyo", by="ann")
    await asyncio.sleep(3 * DAY)
    runs = await runs_of(app, "s")
    assert [run.key.run for run in runs] == [f"s@2023-11-{day}T18:00:00Z" for day in (15, 16, 17)]
    assert [run.created_at - 1 for run in runs] == [tick.at.timestamp() * 1e6 for tick in made.next[:3]]
    assert {(run.actor, run.trigger_type, run.standing) for run in runs} == {("ann", "schedule", "completed")}
    assert runs[0].trigger_ref == "s@2023-11-15T18:00:00Z"
    assert await app.run(runs[0].key.run).result() == "us"
    acts = await acts_of(app.store, "s")
    assert words_of(acts) == ["schedule_workflow"] + 3 * ["trigger_scheduled"]
    assert [(each.who, each.run, each.details["tick"]) for each in acts[1:]] == [
        ("ann", run.key.run, run.key.run.removeprefix("s@")) for run in runs
    ]


@pytest.mark.parametrize(
    ("overlap", "started", "waiting", "words"),
    [
        ("skip", ["14:00Z", "16:00Z", "18:00Z"], 0, {"trigger_scheduled": 3, "skip_scheduled": 2}),
        ("allow", ["14:00Z", "15:00Z", "16:00Z", "17:00Z", "18:00Z"], 0, {"trigger_scheduled": 5}),
        (
            "queue_one",
            ["14:00Z", "15:00Z", "16:00Z"],
            1,
            {"trigger_scheduled": 3, "queue_scheduled": 3, "skip_scheduled": 1},
        ),
        ("queue_all", ["14:00Z", "15:00Z", "16:00Z"], 2, {"trigger_scheduled": 3, "queue_scheduled": 4}),
        (
            "cancel_other",
            ["14:00Z", "15:00Z", "16:00Z", "17:00Z", "18:00Z"],
            0,
            {"trigger_scheduled": 5, "queue_scheduled": 4},
        ),
    ],
)
async def test_overlap(
    holdfast_app: Holdfast, overlap: str, started: list[str], waiting: int, words: dict[str, int]
) -> None:
    """Runs of 100 seconds, a tick each minute, looked at after five of them."""
    app = holdfast_app
    await app.schedules.create("s", long_report, cron=MINUTES, overlap=overlap)  # type: ignore[arg-type]
    await asyncio.sleep(285)  # until 22:18:05
    assert [tick.removeprefix("22:") for tick in await ticks_of(app, "s")] == started
    info = await app.schedules.show("s")
    assert len(info.waiting) == waiting
    acts = words_of(await acts_of(app.store, "s"))[1:]
    assert {word: acts.count(word) for word in set(acts)} == words
    if overlap == "cancel_other":
        standings = [run.standing for run in await runs_of(app, "s")]
        assert standings == ["cancelled"] * 4 + ["waiting"]


async def test_a_runs_end_starts_the_tick_that_waits_for_it(holdfast_app: Holdfast) -> None:
    """At once, and not at the next look."""
    app = holdfast_app
    await app.schedules.create("s", long_report, cron=MINUTES, overlap="queue_one")
    await asyncio.sleep(200)
    first, second, *_ = await runs_of(app, "s")
    assert first.ended_at is not None
    assert 0 <= second.created_at - first.ended_at < 200_000


def test_each_tick_is_started_once_by_many_schedulers(ground: Ground) -> None:
    """Three engines on one store, one of which dies meanwhile; on SQLite in real time."""

    async def main(ground: Ground) -> None:
        async with ground.engine(quick_report) as one, ground.engine(quick_report), ground.engine(quick_report) as last:
            await one.schedules.create("s", quick_report, cron="* * * * * *", overlap="allow")
            while len(await runs_of(one, "s")) < 2:
                await one.changed(0.05)
            kill(last)
            while len(await runs_of(one, "s")) < 4:
                await one.changed(0.05)
            await one.schedules.pause("s")
            acts = await acts_of(ground.store, "s")
            ticks = [each.details["tick"] for each in acts if each.act == "trigger_scheduled"]
            assert ticks == sorted(set(ticks))
            assert ticks == [run.key.run.removeprefix("s@") for run in await runs_of(one, "s")]
            assert set(words_of(acts)) == {"schedule_workflow", "trigger_scheduled", "pause_schedule"}

    ground.play(main)


def test_a_change_between_the_look_and_the_commit_loses_no_tick_and_is_not_undone(virtual: Ground) -> None:
    """Two moves are due, a missed tick and a start. The change takes the version of the first: the second, which would
    fit by its number, is not made."""

    async def main(ground: Ground) -> None:
        commit, is_armed = ground.store.commit, False

        async def changed_first(batch: Sequence[p.Change]) -> list[p.Answer]:
            nonlocal is_armed
            if is_armed and any(isinstance(each, p.Operate) for each in batch):
                is_armed = False
                await app.schedules.change("s", overlap="allow", by="ann")
            return await commit(batch)

        async with ground.engine(quick_report, options=WorkerOptions(schedules=False)) as app:
            await app.schedules.create("s", quick_report, every=100, catch_up="none", overlap="skip")
            await asyncio.sleep(205)
            ground.store.commit, is_armed = changed_first, True  # type: ignore[method-assign]
            async with ground.engine(quick_report):
                await asyncio.sleep(10)
            assert not is_armed
            assert words_of(await acts_of(ground.store, "s")) == [
                "schedule_workflow",
                "change_schedule",
                "miss_scheduled",
                "trigger_scheduled",
            ]
            assert (await app.schedules.show("s")).overlap == "allow"

    virtual.play(main)


@pytest.mark.parametrize(
    ("catch_up", "window", "started", "missed"),
    [
        ("latest", None, 1, 167),
        ("latest", 60.0, 0, 168),
        ("all", None, 168, 0),
        ("all", 86_400.0, 24, 144),
        ("none", None, 0, 168),
    ],
)
def test_a_scheduler_that_was_down_for_a_week(
    virtual: Ground, catch_up: str, window: float | None, started: int, missed: int
) -> None:
    """Every tick of that week is started, or is in one entry of those that were missed."""

    async def main(ground: Ground) -> None:
        clock = ground.clock
        assert isinstance(clock, VirtualClock)
        async with ground.engine(quick_report, options=WorkerOptions(schedules=False)) as app:
            settings = {"catch_up": catch_up, "catch_up_window": window, "overlap": "allow"}
            await app.schedules.create("s", quick_report, cron="0 * * * *", **settings)  # type: ignore[arg-type]
            await asyncio.sleep(60)
        clock.skew_seconds = 7 * DAY
        async with ground.engine(quick_report) as app:
            await asyncio.sleep(30)
            assert len(await runs_of(app, "s")) == started
            acts = [each for each in await acts_of(app.store, "s") if each.act == "miss_scheduled"]
            assert [int(each.details["count"]) for each in acts] == ([missed] if missed else [])
            assert all(each.reason for each in acts)
            clock.skew_seconds += 3600 - clock.now() / 1e6 % 3600 - 10  # ten seconds before the next tick
            await asyncio.sleep(30)
            assert len(await runs_of(app, "s")) == started + 1

    virtual.play(main)


def test_a_clock_that_jumps_a_day_starts_nothing_twice(virtual: Ground) -> None:
    """Ahead, its ticks are due; back again, nothing is started until the clock is where it was."""

    async def main(ground: Ground) -> None:
        clock = ground.clock
        assert isinstance(clock, VirtualClock)
        async with ground.engine(quick_report) as app:
            await app.schedules.create("s", quick_report, cron="0 * * * *", catch_up="all", overlap="allow")
            clock.skew_seconds = 2 * 3600
            await asyncio.sleep(60)
            assert len(await runs_of(app, "s")) == 2
            clock.skew_seconds = 2 * 3600 + DAY
            await asyncio.sleep(60)
            assert len(await runs_of(app, "s")) == 26
            for hours in (2, 3, 4):
                clock.skew_seconds = hours * 3600
                await asyncio.sleep(60)
                assert len(await runs_of(app, "s")) == 26
            clock.skew_seconds = 4 * 3600 + DAY
            await asyncio.sleep(60)
            assert len(await runs_of(app, "s")) == 28

    virtual.play(main)


def test_workers_whose_clocks_are_apart_start_each_tick_once(virtual: Ground) -> None:
    """The one ahead is first, by as much as its clock is ahead; the other finds that it was done."""

    async def main(ground: Ground) -> None:
        loop = asyncio.get_running_loop()
        behind, ahead = VirtualClock(loop), VirtualClock(loop, 45.0)
        ground.clock = ahead
        async with ground.engine(quick_report):
            ground.clock = behind
            async with ground.engine(quick_report) as app:
                await app.schedules.create("s", quick_report, every=60)
                await asyncio.sleep(601)
                runs = await runs_of(app, "s")
                assert len(runs) == 10
                assert words_of(await acts_of(app.store, "s")) == ["schedule_workflow"] + 10 * ["trigger_scheduled"]

    virtual.play(main)


async def test_a_run_that_is_there_already_moves_the_schedule_on(holdfast_app: Holdfast) -> None:
    """Somebody started a run of that id, or a backfill did: the tick is found, with a note, and not started."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await app.start(quick_report, "by hand", id="s@2023-11-14T23:00:00Z")
    await asyncio.sleep(2 * 3600)
    assert words_of(await acts_of(app.store, "s"))[1:] == ["find_scheduled", "trigger_scheduled"]
    assert await app.run("s@2023-11-14T23:00:00Z").result() == "by hand"


async def test_a_deleted_run_is_not_started_again(holdfast_app: Holdfast) -> None:
    """Its note stays in the audit: a backfill after the retention of runs starts nothing twice."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await asyncio.sleep(3 * 3600)
    assert await app.store.prune(app.clock.now(), 100) == 3
    now = time_of(app)
    found = await app.schedules.backfill("s", now - datetime.timedelta(hours=3), now)
    assert (found.count, found.started, found.existed) == (3, 0, 3)
    assert await runs_of(app, "s") == []


async def test_a_tick_that_cannot_be_started_is_refused_and_the_next_is_tried(holdfast_app: Holdfast) -> None:
    """A definition that is gone, say: the schedule tells why, and goes on."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    row = await app.store.item(KEY)
    assert row is not None
    lost = replace(decode(row.body, "s"), workflow="settlement@3")
    await put(app, replace(row, version=2, body=encode(lost)))
    await asyncio.sleep(2 * 3600)
    acts = await acts_of(app.store, "s")
    assert words_of(acts)[1:] == ["refuse_scheduled", "refuse_scheduled"]
    assert "there is no definition 'settlement@3'" in acts[-1].reason
    text = " ".join(await app.schedules.explain("s"))
    assert "refused: it cannot be started: there is no definition 'settlement@3'" in text


async def put(app: Holdfast, row: p.ItemRow) -> None:
    """Write an item as it could not come about by the client."""
    note = p.Note(
        DEFAULT_TENANT, None, "operator", 0, b'{"kind":"operator","at":0,"act":"x","who":"x"}', id=f"forged {row}"
    )
    assert await app.committer.commit(p.Operate(note, (p.PutItem(row),))) == p.OperatedOn()
    app.hint()


async def test_what_cannot_be_followed_here_keeps_no_other_from_starting(
    holdfast_app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    """A time zone that is gone, and bytes that are no schedule: they are set aside, and due for another worker."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    row = await app.store.item(KEY)
    assert row is not None
    gone = encode(replace(decode(row.body, "s"), timing=Cron("0 * * * *", "Europe/Atlantis")))
    for id, body in (("a", gone), ("b", b"{}")):
        await put(app, replace(row, id=id, version=1, body=body, due_at=1))
    await asyncio.sleep(5 * 3600)
    assert len(await runs_of(app, "s")) == 5
    assert "schedule a of tenant default cannot be followed by this worker: there is no time zone" in caplog.text
    assert "schedule b of tenant default cannot be followed by this worker" in caplog.text
    item = await app.store.item(replace_id("a"))
    assert item is not None
    assert item.version == 1
    text = " ".join(await app.schedules.explain("a"))
    assert "It cannot be followed on this computer: there is no time zone 'Europe/Atlantis'" in text


def replace_id(id: str) -> p.ItemKey:
    return p.ItemKey(DEFAULT_TENANT, KIND, id)


def test_a_tick_is_on_time_by_the_real_clock(tmp_path: Path) -> None:
    """The scheduler wakes by itself, also for a schedule that another process made."""

    async def main(ground: Ground) -> None:
        async with ground.engine(quick_report) as app:
            at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=1.5)
            async with Holdfast(f"sqlite:///{tmp_path / 'store.db'}", worker=False) as other:
                await other.schedules.create("s", "quick_report", at=at)
            while not (runs := await runs_of(app, "s")):
                await app.changed(0.05)
            assert 0 <= runs[0].created_at / 1e6 - at.timestamp() < LOOK_SECONDS / 2
            assert (await app.schedules.show("s")).status == "done"

    Ground(tmp_path / "store.db").play(main)

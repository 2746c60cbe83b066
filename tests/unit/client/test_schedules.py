"""``app.schedules``: made, changed, paused, steered and explained by people."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import (
    InvalidArguments,
    InvalidRequest,
    NotPermitted,
    ScheduleConflict,
    ScheduleNotFound,
    TemplateConflict,
    TemplateNotFound,
)
from holdfast.schedules.cron_fields import LONGEST
from holdfast.templates.template import EventRoute
from tests.unit.worker.scheduled import acts_of, long_report, quick_report, runs_of, time_of, words_of

HOUR = datetime.timedelta(hours=1)


async def test_a_schedule_is_shown_as_it_was_made(holdfast_app: Holdfast) -> None:
    """With all settings, and the next ten times."""
    made = await holdfast_app.schedules.create(
        "s",
        quick_report,
        input={"region": "us"},
        cron="30 2 * * *",
        timezone="Europe/Vienna",
        overlap="queue_one",
        catch_up="all",
        catch_up_window=HOUR,
        jitter=600,
        workspace="finance",
        priority=3,
        attributes={"team": "a"},
        by="ann",
    )
    shown = await holdfast_app.schedules.show("s")
    assert shown == made
    assert (shown.status, shown.workflow, shown.cron, shown.timezone) == (
        "active",
        "quick_report",
        "30 2 * * *",
        "Europe/Vienna",
    )
    assert (shown.named_arguments, shown.overlap, shown.catch_up) == ({"region": "us"}, "queue_one", "all")
    assert (shown.catch_up_window_seconds, shown.jitter_seconds, shown.priority) == (3600.0, 600.0, 3)
    assert (shown.owner, shown.workspace, shown.attributes) == ("ann", "finance", {"team": "a"})
    assert len(shown.next) == 10
    assert shown.due_at is not None
    assert datetime.timedelta(0) <= shown.due_at - shown.next[0].at < datetime.timedelta(seconds=600)
    assert [each.id async for each in holdfast_app.schedules.list()] == ["s"]


async def test_clock_changes_are_marked(holdfast_app: Holdfast) -> None:
    """The time that a clock leaves out, and the first one after it is set back."""
    app = holdfast_app
    at = datetime.datetime(2024, 3, 30, tzinfo=datetime.UTC)
    await asyncio.sleep((at - time_of(app)).total_seconds())
    made = await app.schedules.create("s", quick_report, cron="30 2 * * *", timezone="Europe/Vienna")
    assert [(tick.local, tick.clock_change) for tick in made.next[:3]] == [
        ("2024-03-30 02:30:00 +0100", None),
        ("2024-03-31 03:00:00 +0200", "clocks were set forward by 1h 0m"),
        ("2024-04-01 02:30:00 +0200", None),
    ]


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "say when"),
    ({"cron": "0 3 * * *", "every": 60}, "give one of cron, every and at"),
    ({"cron": "0 3 30 2 *"}, "never comes"),
    ({"cron": "* " * 5_000}, f"at most {LONGEST} characters"),
    ({"cron": "61 * * * *"}, "the minute is 0 to 59"),
    ({"cron": "0 3 * * *", "timezone": "Europe/Atlantis"}, "there is no time zone 'Europe/Atlantis'"),
    ({"every": 60, "timezone": "UTC"}, "a time zone goes with a cron line"),
    ({"every": 0.5}, "1 second or more"),
    ({"every": float("nan")}, "a number of seconds"),
    ({"at": datetime.datetime(2030, 1, 1)}, "a time needs its zone"),
    ({"at": "tomorrow"}, "a datetime with its zone"),
    ({"every": 60, "overlap": "never"}, "overlap is one of skip"),
    ({"every": 60, "catch_up": "some"}, "catch-up is one of latest"),
    ({"every": 60, "catch_up_window": -1}, "0 seconds or more"),
    ({"every": 60, "jitter": -1}, "jitter is 0 seconds or more"),
    ({"every": 60, "attributes": {"template": "x"}}, "is for runs that a template starts"),
    ({"every": 60, "input": "x" * 70_000}, "at most 65536 bytes"),
    ({"every": 60, "priority": "high"}, "priority is a whole number"),
]


@pytest.mark.parametrize(("settings", "words"), BAD, ids=[words for _, words in BAD])
async def test_what_cannot_be_followed_is_refused(holdfast_app: Holdfast, settings: dict[str, Any], words: str) -> None:
    """With a message that says what to change; nothing is made."""
    with pytest.raises(InvalidRequest, match=words):
        await holdfast_app.schedules.create("s", quick_report, **settings)
    assert [each async for each in holdfast_app.schedules.list()] == []


async def test_other_refusals(holdfast_app: Holdfast) -> None:
    """An id that is taken or too long, arguments that do not fit, targets that are none, schedules that are none."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, every=60)
    with pytest.raises(ScheduleConflict, match="there is a schedule 's' already"):
        await app.schedules.create("s", quick_report, every=60)
    with pytest.raises(InvalidRequest, match="at most 150 characters"):
        await app.schedules.create("s" * 151, quick_report, every=60)
    with pytest.raises(InvalidArguments):
        await app.schedules.create("t", long_report.bind("soon"), every=60)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="a workflow or a template"):
        await app.schedules.create("t", every=60)
    with pytest.raises(TemplateNotFound):
        await app.schedules.create("t", template="none", every=60)
    with pytest.raises(ScheduleNotFound):
        await app.schedules.pause("none")
    with pytest.raises(ScheduleNotFound):
        await app.schedules.change("none", every=3)


async def test_each_second_is_a_schedule_like_others(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="* * * * * *", overlap="allow")
    await asyncio.sleep(10.5)
    assert len(await runs_of(app, "s")) == 10


async def test_a_change_loses_no_tick(holdfast_app: Holdfast) -> None:
    """What was due before it is started; the new times begin after it."""
    app = holdfast_app
    await app.schedules.create("s", long_report, cron="0 * * * *", overlap="queue_all", by="ann")
    await asyncio.sleep(47 * 60)  # 23:00:20, and the run goes on
    await app.schedules.change("s", cron="5 * * * *", timezone="UTC", input=1.0, by="bob")
    info = await app.schedules.show("s")
    assert (info.cron, info.owner, info.arguments) == ("5 * * * *", "ann", (1.0,))
    await asyncio.sleep(70 * 60)
    assert [run.key.run for run in await runs_of(app, "s")] == [
        "s@2023-11-14T23:00:00Z",
        "s@2023-11-14T23:05:00Z",
        "s@2023-11-15T00:05:00Z",
    ]
    assert "change_schedule" in words_of(await acts_of(app.store, "s"))


async def test_ticks_of_a_pause_are_skipped_and_noted(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await app.schedules.pause("s", by="ann", reason="maintenance")
    await asyncio.sleep(5 * 3600)
    assert (await app.schedules.show("s")).due_at is None
    assert "It is paused (maintenance): `holdfast schedules resume s`" in " ".join(await app.schedules.explain("s"))
    await app.schedules.resume("s", by="ann")
    await asyncio.sleep(3600)
    assert len(await runs_of(app, "s")) == 1
    resumed = (await acts_of(app.store, "s"))[2]
    assert resumed.act == "resume_schedule"
    assert "(5 ticks): the schedule was paused: maintenance" in resumed.details["skip_scheduled.0"]


async def test_a_single_time_waits_for_the_end_of_a_pause(holdfast_app: Holdfast) -> None:
    """It is not lost; and then the schedule is over."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, at=time_of(app) + HOUR, catch_up="none", paused=True)
    await asyncio.sleep(5 * 3600)
    assert await runs_of(app, "s") == []
    await app.schedules.resume("s")
    await asyncio.sleep(5)
    assert len(await runs_of(app, "s")) == 1
    info = await app.schedules.show("s")
    assert (info.status, info.next) == ("done", ())
    with pytest.raises(ScheduleConflict, match="is over"):
        await app.schedules.pause("s")


async def test_a_time_that_is_over_is_due_at_once(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", quick_report, at=time_of(app) - HOUR)
    await asyncio.sleep(5)
    assert [run.key.run for run in await runs_of(app, "s")] == ["s@2023-11-14T21:13:20Z"]


async def test_run_now_leaves_the_ticks_as_they_are(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *", by="ann")
    run = await app.schedules.run_now("s", by="bob", reason="a look")
    assert await app.run(run).result() == "eu"
    assert (await app.run(run).info()).actor == "bob"
    await asyncio.sleep(3600)
    assert len(await runs_of(app, "s")) == 2
    act = (await acts_of(app.store, "s"))[1]
    assert (act.act, act.who, act.run, act.reason) == ("trigger_scheduled", "bob", run, "a look")


async def test_a_backfill_starts_what_was_not_started(holdfast_app: Holdfast) -> None:
    """With the ids that the ticks always have; a dry run counts, and the limit holds."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *", by="ann")
    await asyncio.sleep(3 * 3600)
    begin, now = time_of(app) - 10 * HOUR, time_of(app)
    dry = await app.schedules.backfill("s", begin, now, dry_run=True)
    assert (dry.count, dry.started, dry.existed) == (10, 7, 3)
    assert len(await runs_of(app, "s")) == 3
    with pytest.raises(InvalidRequest, match="has 10 ticks in this time, and the limit is 9"):
        await app.schedules.backfill("s", begin, now, limit=9)
    with pytest.raises(InvalidRequest, match="in the past"):
        await app.schedules.backfill("s", now, now + HOUR)
    for started in (7, 0):
        done = await app.schedules.backfill("s", begin, now, by="bob")
        assert (done.count, done.started, done.existed) == (10, started, 10 - started)
    await asyncio.sleep(10)
    runs = await runs_of(app, "s")
    assert len(runs) == 10
    assert {run.standing for run in runs} == {"completed"}


async def test_a_deleted_schedule_keeps_its_history(holdfast_app: Holdfast) -> None:
    """Nothing starts by it any more; its id can be used again, and no tick is started twice by that."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await asyncio.sleep(3600)
    await app.schedules.delete("s", by="ann", reason="not needed")
    await asyncio.sleep(7200)
    assert len(await runs_of(app, "s")) == 1
    assert [each async for each in app.schedules.list()] == []
    assert (await app.schedules.show("s")).status == "deleted"
    with pytest.raises(ScheduleNotFound):
        await app.schedules.resume("s")
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await asyncio.sleep(3600)
    assert words_of(await acts_of(app.store, "s")) == [
        "schedule_workflow",
        "trigger_scheduled",
        "delete_schedule",
        "schedule_workflow",
        "trigger_scheduled",
    ]


async def test_explain_says_why_and_what_comes(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", long_report.bind(5_000.0), cron="0 * * * *")
    assert "No tick of it has been due yet." in await app.schedules.explain("s")
    await asyncio.sleep(2 * 3600)
    sentences = await app.schedules.explain("s")
    assert sentences[0] == "Schedule s starts long_report: 0 * * * * (UTC)."
    assert "The next tick is started at 2023-11-15 01:00:00 UTC, in 46m 40s." in sentences
    assert (
        "The last that was not started: 2023-11-15 00:00:00 UTC skipped: run s@2023-11-14T23:00:00Z is under way."
        in sentences
    )


# -- templates and owners ----------------------------------------------------------------------------------------------


async def _template(app: Holdfast, **more: Any) -> None:
    await app.templates.create("t", quick_report, **more)
    await app.templates.activate("t")


async def test_a_template_is_started_by_its_schedule(holdfast_app: Holdfast) -> None:
    """With its own input under the schedule's, as an instance that says so."""
    app = holdfast_app
    await _template(app, trigger="scheduled", input={"region": "asia"})
    await app.schedules.create("s", template="t", cron="0 * * * *")
    await app.schedules.create("u", template="t", cron="0 * * * *", input={"region": "us"})
    await asyncio.sleep(3600)
    for schedule, region in (("s", "asia"), ("u", "us")):
        (run,) = await runs_of(app, schedule)
        assert await app.run(run.key.run).result() == region
        assert run.attributes["template"] == "t"
    assert (await acts_of(app.store, "s"))[-1].details["template"] == "t"


async def test_a_template_that_events_start_cannot_be_scheduled(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await _template(app, trigger="event", route=EventRoute("order.placed"))
    with pytest.raises(TemplateConflict, match="is started by events, and cannot be scheduled"):
        await app.schedules.create("s", template="t", cron="0 * * * *")


async def test_a_paused_template_lets_a_single_time_wait(holdfast_app: Holdfast) -> None:
    """Until it is resumed; ticks that repeat are skipped meanwhile."""
    app = holdfast_app
    await _template(app)
    await app.schedules.create("once", template="t", at=time_of(app) + HOUR)
    await app.schedules.create("s", template="t", cron="30 * * * *")
    await app.templates.pause("t")
    await asyncio.sleep(3 * 3600)
    assert await runs_of(app, "once") == await runs_of(app, "s") == []
    assert words_of(await acts_of(app.store, "once"))[1:] == ["queue_scheduled"]
    assert words_of(await acts_of(app.store, "s"))[1:] == 3 * ["skip_scheduled"]
    assert "Now nothing would start: template 't' is paused." in await app.schedules.explain("once")
    await app.templates.resume("t")
    await asyncio.sleep(5)
    assert len(await runs_of(app, "once")) == 1
    with pytest.raises(TemplateConflict):
        await app.templates.pause("t")
        await app.schedules.create("late", template="t", at=time_of(app) + HOUR)


async def test_an_archived_template_ends_its_due_schedules(holdfast_app: Holdfast) -> None:
    """With a note; what waits for it, too."""
    app = holdfast_app
    await _template(app)
    await app.schedules.create("once", template="t", at=time_of(app) + HOUR)
    await app.schedules.create("s", template="t", cron="30 * * * *")
    await app.templates.pause("t")
    await asyncio.sleep(2 * 3600)
    await app.templates.archive("t")
    await asyncio.sleep(2 * 3600)
    for id in ("once", "s"):
        info = await app.schedules.show(id)
        assert (info.status, info.over) == ("done", "template 't' is archived")
        assert (await acts_of(app.store, id))[-1].act == "end_schedule"
        assert await runs_of(app, id) == []


async def test_the_owners_level_is_looked_at_at_each_firing(holdfast_app: Holdfast) -> None:
    """A demoted or disabled owner's tick is refused, audited, and the schedule says so; raised again, it goes on."""
    app = holdfast_app
    await app.tenants.create("default")
    await app.users.create("root", level=6)
    await app.users.create("ann", level=4)
    ann = app.acting_as("ann")
    await ann.schedules.create("s", quick_report, cron="0 * * * *")
    await asyncio.sleep(3600)
    await app.users.set_level("ann", 3)
    await asyncio.sleep(3600)
    assert "its owner ann has level 3, and to start runs needs 4" in " ".join(await app.schedules.explain("s"))
    await app.users.set_level("ann", 4)
    await app.users.disable("ann")
    await asyncio.sleep(3600)
    await app.users.enable("ann")
    await asyncio.sleep(3600)
    acts = await acts_of(app.store, "s")
    assert words_of(acts)[1:] == ["trigger_scheduled", "refuse_scheduled", "refuse_scheduled", "trigger_scheduled"]
    assert acts[3].reason == "its owner ann is disabled"
    assert [run.actor for run in await runs_of(app, "s")] == ["ann", "ann"]


async def test_a_bound_caller_owns_what_they_schedule(holdfast_app: Holdfast) -> None:
    """Nobody schedules in another's name; level 4 is needed; what another changes is theirs from then on."""
    app = holdfast_app
    await app.tenants.create("default")
    for name, level in (("root", 6), ("ann", 4), ("bob", 5), ("eve", 3)):
        await app.users.create(name, level=level)
    with pytest.raises(NotPermitted):
        await app.acting_as("ann").schedules.create("s", quick_report, every=60, owner="root")
    with pytest.raises(NotPermitted):
        await app.acting_as("eve").schedules.create("s", quick_report, every=60)
    await app.acting_as("ann").schedules.create("s", quick_report, every=3600)
    assert (await app.acting_as("eve").schedules.show("s")).owner == "ann"
    assert (await app.acting_as("bob").schedules.change("s", every=1800)).owner == "bob"
    run = await app.acting_as("ann").schedules.run_now("s")
    assert (await app.run(run).info()).actor == "ann"
    now = time_of(app)
    found = await app.acting_as("ann").schedules.backfill("s", now - 2 * HOUR, now)
    assert found.count == found.started + found.existed

"""Runs of schedules that are started out of turn, and changes that a schedule must not sleep through."""

from __future__ import annotations

import asyncio
import datetime

import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidRequest, NotPermitted, WorkspaceNotFound
from tests.unit.worker.scheduled import acts_of, long_report, quick_report, runs_of, time_of, words_of

HOUR = datetime.timedelta(hours=1)
TEN_HOURS = 36_000.0


async def test_a_change_to_a_time_that_is_over_is_due_at_once(holdfast_app: Holdfast) -> None:
    """As when the schedule is made so; one that is paused keeps it until it is resumed."""
    app = holdfast_app
    at = time_of(app) - HOUR
    for id in ("s", "paused"):
        await app.schedules.create(id, quick_report, at=time_of(app) + 5 * HOUR, paused=id == "paused")
        await app.schedules.change(id, at=at, by="ann")
    await asyncio.sleep(5)
    assert [run.key.run for run in await runs_of(app, "s")] == ["s@2023-11-14T21:13:20Z"]
    assert (await app.schedules.show("s")).status == "done"
    assert await runs_of(app, "paused") == []
    await app.schedules.resume("paused")
    await asyncio.sleep(5)
    assert len(await runs_of(app, "paused")) == 1


async def test_a_change_to_a_time_that_never_comes_is_refused(holdfast_app: Holdfast) -> None:
    """And the schedule stays as it was."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    with pytest.raises(InvalidRequest, match="never"):
        await app.schedules.change("s", cron="0 0 30 2 *", timezone="UTC")
    with pytest.raises(InvalidRequest, match="zone"):
        await app.schedules.change("s", cron="0 0 1 2 *", timezone="Mars/Olympus")
    assert (await app.schedules.show("s")).cron == "0 * * * *"


async def test_a_tick_overlaps_with_no_run_that_is_under_way(holdfast_app: Holdfast) -> None:
    """Neither with one that was started out of turn, nor with the one before that."""
    app = holdfast_app
    await app.schedules.create("s", long_report, input=TEN_HOURS, cron="0 * * * *", by="ann")
    await asyncio.sleep(3600)
    (first,) = await runs_of(app, "s")
    second = await app.schedules.run_now("s", by="ann")
    await app.run(second).cancel("seen enough")
    await app.run(second).settled(timeout=60)
    await asyncio.sleep(3600)
    assert len(await runs_of(app, "s")) == 2
    skipped = (await acts_of(app.store, "s"))[-1]
    assert (skipped.act, skipped.reason) == ("skip_scheduled", f"run {first.key.run} is under way")
    await app.run(first.key.run).cancel("enough")
    await asyncio.sleep(3600)
    assert len(await runs_of(app, "s")) == 3


async def test_a_tick_that_cancels_cancels_all_that_is_in_its_way(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await app.schedules.create("s", long_report, input=TEN_HOURS, cron="0 * * * *", overlap="cancel_other")
    await asyncio.sleep(3600)
    await app.schedules.run_now("s", by="ann")
    await asyncio.sleep(3600)
    assert [run.standing for run in await runs_of(app, "s")] == ["cancelled", "cancelled", "waiting"]


async def test_a_dry_run_counts_what_was_started_and_deleted(holdfast_app: Holdfast) -> None:
    """It says what the backfill would do."""
    app = holdfast_app
    await app.schedules.create("s", quick_report, cron="0 * * * *")
    await asyncio.sleep(3 * 3600)
    assert await app.store.prune(app.clock.now(), 100) == 3
    now = time_of(app)
    for dry_run in (True, False):
        found = await app.schedules.backfill("s", now - 5 * HOUR, now, dry_run=dry_run)
        assert (found.count, found.started, found.existed) == (5, 2, 3)


async def test_nothing_is_started_in_the_name_of_an_owner_who_may_not(holdfast_app: Holdfast) -> None:
    """Also out of turn: whoever does that says their own name."""
    app = holdfast_app
    await app.tenants.create("default")
    await app.users.create("root", level=6)
    await app.users.create("ann", level=4)
    await app.acting_as("ann").schedules.create("s", quick_report, cron="0 * * * *")
    await app.users.disable("ann")
    now = time_of(app)
    with pytest.raises(NotPermitted, match="its owner ann is disabled: say by= who does it"):
        await app.schedules.run_now("s")
    with pytest.raises(NotPermitted):
        await app.schedules.backfill("s", now - HOUR, now)
    assert await runs_of(app, "s") == []
    run = await app.acting_as("root").schedules.run_now("s")
    assert (await app.run(run).info()).actor == "root"


async def test_no_tick_starts_in_an_archived_workspace(holdfast_app: Holdfast) -> None:
    """It is refused, audited, and the schedule says why."""
    app = holdfast_app
    await app.tenants.create("default")
    await app.users.create("ann", level=6)
    ann = app.acting_as("ann")
    await ann.workspaces.create("sales")
    await ann.schedules.create("s", quick_report, cron="0 * * * *", workspace="sales")
    await asyncio.sleep(3600)
    await ann.workspaces.archive("sales")
    await asyncio.sleep(3600)
    assert words_of(await acts_of(app.store, "s"))[1:] == ["trigger_scheduled", "refuse_scheduled"]
    with pytest.raises(WorkspaceNotFound):
        await ann.schedules.run_now("s")
    assert "workspace 'sales' is archived" in " ".join(await app.schedules.explain("s"))

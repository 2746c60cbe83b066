"""Journals folded into what a person reads."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec

from holdfast import patched, random, receive, step, workflow
from holdfast.cli.timeline import item_rows
from holdfast.client.views.timeline import Item, fold, item_record
from holdfast.client.views.times import iso, moment
from holdfast.journal.payload import RetryPolicy
from holdfast.kernel.arrivals import Begun
from tests.runs import SECOND, Run, cancel, signal


@step(name="timeline_fetch", retry=RetryPolicy(max_attempts=3, initial=1.0, jitter=0.0))
async def fetch(url: str) -> str:
    return url


@workflow(name="timeline_patient")
async def patient() -> str:
    text = await fetch("a")
    async with asyncio.timeout(60):
        return text + str(await receive("more", str))


def _items(run: Run) -> dict[str, Item]:
    return {item.name: item for item in fold(run.journal)}


def test_a_step_is_one_item_with_all_its_attempts() -> None:
    """Scheduled, started, retried and completed are one line with the count, the failures and the whole duration."""
    run = Run(patient)
    run.advance()
    run.advance(run.failed(0, "away"), after=2)
    run.advance(after=1)
    run.advance(run.ok(0, "A"), after=3)
    item = _items(run)["timeline_fetch"]
    assert (item.kind, item.state, item.attempts, item.duration) == ("step", "done", 2, timedelta(seconds=6))
    assert item.detail == "('a') → 'A'"
    assert [number for number, _ in item.troubles] == [1]
    assert "ValueError: away" in item.troubles[0][1]


def test_what_is_under_way_is_open_and_what_fails_between_is_retrying() -> None:
    """A live run shows where it stands."""
    run = Run(patient)
    run.advance()
    assert _items(run)["timeline_fetch"].state == "open"
    run.advance(run.failed(0, "away"))
    assert _items(run)["timeline_fetch"].state == "retrying"


def test_a_signal_and_the_timer_it_made_needless() -> None:
    """A timer that the end overtook is shown as given up, not as waiting for ever."""
    run = Run(patient)
    run.advance()
    run.advance(run.ok(0, "A"))
    run.advance(signal("more", "!"), after=5)
    items = _items(run)
    assert (items["signal 'more'"].state, items["signal 'more'"].detail) == ("done", "'!'")
    assert (items["timer of 1m 0s"].state, items["timer of 1m 0s"].detail) == ("dropped", "not needed any more")
    assert (items["completed"].state, items["completed"].detail) == ("done", "→ 'A!'")


def test_a_signal_that_nobody_received_yet_says_so() -> None:
    """A buffered signal is seen before it is consumed."""
    run = Run(patient)
    run.advance()
    run.advance(signal("more", "!"))
    assert _items(run)["signal 'more'"].detail == "'!', not received yet"


def test_a_cancelled_run_ends_with_the_reason() -> None:
    """Who stopped it, and what was given up."""
    run = Run(patient)
    run.advance()
    run.advance(cancel("enough"))
    items = _items(run)
    assert items["cancel requested"].detail == items["cancelled"].detail == "enough"
    assert items["timeline_fetch"].state == "dropped"


def test_rows_begin_with_the_offset_from_the_start() -> None:
    """Offsets, not dates: what matters is how long after the start."""
    run = Run(patient)
    run.advance()
    run.advance(run.ok(0, "A"), after=90)
    rows = [
        ["".join(part) if isinstance(part, str) else part.text for part in row] for row in item_rows(fold(run.journal))
    ]
    assert [row[0] for row in rows] == ["+0 ms", "+0 ms", "+1m 30s"]
    assert rows[1] == ["+0 ms", "✓", "timeline_fetch", "", "1m 30s", "('a') → 'A'"]


def test_an_attempt_that_was_begun_again_says_so() -> None:
    """The worker that took the run over recorded that it begins the attempt, which may have been begun before."""
    run = Run(patient)
    run.advance()
    run.advance(Begun(run.promise(0), 1, run.now + 5 * SECOND), after=5)
    item = _items(run)["timeline_fetch"]
    assert (item.state, item.troubles, item.repeats) == ("open", [], [(1, moment(run.now))])
    run.advance(run.ok(0, "A"), after=1)
    items = fold(run.journal)
    (item,) = [item for item in items if item.name == "timeline_fetch"]
    assert (item.state, item.attempts, item.repeats) == ("done", 1, [(1, moment(run.now - SECOND))])
    shown = "\n".join(str(cell) for row in item_rows(items) for cell in row)
    assert "the worker that had it before was lost, and may have begun it" in shown
    assert item_record(item)["begun_again"] == [{"attempt": 1, "at": iso(moment(run.now - SECOND))}]


def test_a_queued_attempt_that_was_begun_again_says_so_when_it_ends() -> None:
    """Another worker than the run's performs it: the result that it delivers says so."""
    run = Run(patient)
    run.advance()
    run.advance(msgspec.structs.replace(run.ok(0, "A"), begun_before=True), after=1)
    item = _items(run)["timeline_fetch"]
    assert (item.state, item.attempts, [attempt for attempt, _ in item.repeats]) == ("done", 1, [1])


def test_an_attempt_that_was_begun_once_says_nothing() -> None:
    """Its start is recorded with its end, whatever else the turn records."""
    run = Run(patient)
    run.advance()
    run.advance(run.failed(0, "away"), signal("more", "!"))
    run.advance(run.ok(0, "A", attempt=2), after=5)
    assert [item.repeats for item in fold(run.journal) if item.repeats] == []


def test_a_patch_is_named() -> None:
    """A run may have passed several: the timeline says which of them it took."""

    @workflow
    async def changed() -> None:
        assert patched("gift wrap ö")
        random()
        assert patched("drone")

    run = Run(changed)
    run.advance()
    items = fold(run.journal)
    assert [item.name for item in items if item.kind == "patch"] == ["patched('gift wrap ö')", "patched('drone')"]

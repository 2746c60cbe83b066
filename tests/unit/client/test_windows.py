"""Windows of a timeline: some events of a journal, folded, with decoded values; and who may answer a task, in words."""

from __future__ import annotations

import asyncio

from holdfast import Holdfast, receive, step, workflow
from holdfast.client.views.window import TimelinePart


@step(name="windows.double")
async def double(number: int) -> int:
    return 2 * number


@workflow(name="windows.many")
async def many(count: int) -> int:
    total = 0
    for number in range(count):
        total += await double(number)
    return total + await receive("more", int)


def windows_of(count: int, limit: int, *places: int | None) -> list[TimelinePart]:
    async def main() -> list[TimelinePart]:
        async with Holdfast("memory://", workflows=[many]) as app:
            run = await app.start(many, count, id="many")
            await run.settled(timeout=30)
            await run.signal("more", 1)
            await run.result(timeout=30)
            return [await run.timeline_window(place, limit) for place in places]

    return asyncio.run(main())


def test_a_window_without_a_place_is_the_end() -> None:
    """The last events are shown: the run's end, and the calls whose events are there."""
    (last,) = windows_of(20, 12, None)
    assert last.end == last.events
    assert last.end - last.first == 12
    assert last.rows[-1].item.name == "completed"
    assert last.rows[-1].result == {"ok": 381}


def test_windows_side_by_side_show_every_event_once() -> None:
    """Walked through from the start, windows meet without a gap, whatever was begun before each."""
    parts = [part for part in windows_of(9, 7, *range(0, 70, 7)) if part.end - part.first == 7]
    seen = [entry.sequence for part in parts for row in part.rows for entry in row.entries]
    assert len(seen) == len(set(seen))
    rows = [row for part in parts for row in part.rows if row.item.kind == "step"]
    assert {row.item.position for row in rows if row.item.state == "done"} >= set(range(8))


def test_a_row_has_what_its_call_was_given_and_gave() -> None:
    """Values are decoded; a call that began before the window says so, and still shows its result."""
    first, middle = windows_of(5, 4, 0, 3)
    call = first.rows[1]
    assert (call.item.name, call.given) == ("windows.double", {"args": [0], "kwargs": {}})
    earlier = [row for row in middle.rows if row.began_before]
    assert all(row.item.name.startswith("call ") for row in earlier)


def test_reasons_of_acts_are_in_the_audit() -> None:
    """Signal, pause, resume and fork keep who and why."""

    async def main() -> list[tuple[str, str]]:
        async with Holdfast("memory://", workflows=[many]) as app:
            run = await app.start(many, 1, id="many", actor="ann")
            await run.settled(timeout=30)
            await run.pause("tea", by="ann")
            await run.resume(by="ann", reason="no tea")
            await run.signal("other", 1, by="ann", reason="to see")
            await run.fork(1, by="ann", reason="again")
            found = [entry.record async for entry in app.audit.list(kind="operator", run="many")]
            return [(record["act"], record.get("reason", "")) for record in found if record is not None]

    acts = asyncio.run(main())
    assert acts[1:] == [("pause", "tea"), ("resume", "no tea"), ("signal", "to see"), ("fork", "again")]

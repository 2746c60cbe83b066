"""A manifest that is applied while events arrive and workers die: nothing is lost, done twice, or left standing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Holdfast, RunHandle
from holdfast.audit.notes import named
from holdfast.audit.notes import note as note_of
from holdfast.audit.records import Operated
from holdfast.errors import ManifestBlocked, ProposalConflict
from holdfast.lanes.counts import LANE_COUNT
from holdfast.runs.lanes import HELD, WAITS, lane_id, lane_of
from holdfast.store import protocol as p
from tests.unit.worker.governed_machines import (
    KIND,
    THREE,
    TWO,
    Placed,
    governed,
    handled,
    lanes,
    notify,
    order,
    queued_charge,
    sending,
    sending_anew,
    shop,
    stage,
    till,
)
from tests.unit.worker.ground import Ground, Line, line_of


@pytest.fixture(autouse=True)
def fresh_till() -> None:
    till.charged.clear()
    till.open()


class DiesWhenLanesAreHeld(Line):
    """A line that dies with the commit that lets lanes stand still."""

    async def commit(self, changes: Any) -> Any:
        await self._pass()
        answer = await self._store.commit(changes)
        acts = [act for each in changes if isinstance(each, p.Operate) for act in each.changes]
        self.dead = self.dead or any(isinstance(act, p.Pause) for act in acts)
        await self._pass()
        return answer


class EventBeforeItIsApplied(Line):
    """A line before whose first commit of the new manifest something comes: an event, or what a person does."""

    comes: Callable[[], Awaitable[None]] | None = None

    async def commit(self, changes: Any) -> Any:
        acts = [act for each in changes if isinstance(each, p.Operate) for act in each.changes]
        is_applied = any(isinstance(act, p.PutItem) and act.item.status == "applied" for act in acts)
        if is_applied and (comes := self.comes) is not None:
            self.comes = None
            await comes()
        return await self._store.commit(changes)


class SplitWhenItIsLookedAt(Line):
    """A line over which lanes are split just before their number is looked at."""

    comes: Callable[[], Awaitable[None]] | None = None

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        if key.kind == LANE_COUNT and (comes := self.comes) is not None:
            self.comes = None
            await comes()
        return await self._store.item(key)


class ResumesHeldLanes(Line):
    """A line over which somebody resumes lanes as soon as they stand still."""

    async def commit(self, changes: Any) -> Any:
        answer = await self._store.commit(changes)
        acts = [act for each in changes if isinstance(each, p.Operate) for act in each.changes]
        if held := [act for act in acts if isinstance(act, p.Pause)]:
            note = named(note_of("default", None, Operated(held[0].at, "resume", "ann")))
            await self._store.commit([p.Operate(note, tuple(p.Unpause(act.key, act.at) for act in held))])
        return answer


@asynccontextmanager
async def _first_order(ground: Ground) -> AsyncIterator[tuple[Holdfast, RunHandle[Any]]]:
    """An engine with the old code that has handled order a, and the lane of that order."""
    async with shop(ground) as old:
        await old.emit(Placed("a", 500))
        await handled(old)
        yield old, old.run((await old.cell(KIND, "a").present_lane()).run)


def _lane_of(key: str) -> int:
    assert TWO.key_schema is not None
    return lane_of(TWO.key_schema.encode(key), TWO.lanes)


async def _applied(app: Holdfast, proposal: str) -> int:
    """Apply it as soon as nothing blocks; how often something did."""
    for tries in range(1000):
        try:
            await app.machines.apply(proposal)
        except ManifestBlocked:
            await asyncio.sleep(0.3)
        else:
            return tries
    raise AssertionError("it was blocked for ever")


@pytest.mark.parametrize("seed", range(4))
def test_events_that_arrive_meanwhile_are_handled_once(virtual: Ground, seed: int) -> None:
    """Those before by the old code, those after by the new, and each charges once."""

    async def main(ground: Ground) -> None:
        chance = random.Random(seed)
        async with shop(ground) as old, shop(ground, TWO) as new:
            await old.emit(Placed("first", 500))
            await handled(old)

            async def send() -> None:
                for number in range(40):
                    await old.emit(Placed(f"o{number}", 500), id=f"e{number}")
                    await asyncio.sleep(chance.random() * 0.4)

            sending = asyncio.create_task(send())
            await asyncio.sleep(chance.random() * 4)
            proposal = await governed(new)
            while True:
                try:
                    await _applied(new, proposal)
                    break
                except ProposalConflict:  # a worker has recorded what its code declares since
                    proposal = await governed(new)
            marker = await new.emit(Placed("last", 500))
            await new.cell(TWO, "last").state(after=marker.places[0])
            await sending
            await handled(new)
            while till.charged.count("notified last") < 1:
                await new.changed(0.1)
            stages = {number: await stage(new, f"o{number}") for number in range(40)}
            assert set(stages.values()) <= {"paid", "settled"}
            assert await stage(new, "last") == "settled"
            charged = [each for each in till.charged if not each.startswith("notified")]
            assert sorted(charged) == sorted(["first", "last", *(f"o{number}" for number in range(40))])
            assert all(run.pause is None for run in await lanes(new))

    virtual.play(main)


def test_a_lane_that_begins_while_a_manifest_is_applied_stands_still_with_the_others(virtual: Ground) -> None:
    """Its first event is for the new code: the old one must ask for nothing behind the look for what is in flight."""

    async def main(ground: Ground) -> None:
        by_lane = {_lane_of(key): key for key in map(str, range(20))}
        async with shop(ground) as old:
            await old.emit(Placed(by_lane[0], 500))
            await handled(old)

            async def comes() -> None:
                till.close(by_lane[1])
                await old.emit(Placed(by_lane[1], 500), id="once")
                await asyncio.sleep(5)

            async with shop(ground, TWO, line=EventBeforeItIsApplied) as new:
                line_of(new).comes = comes  # type: ignore[attr-defined]  # it is one of those
                await _applied(new, await governed(new))
                till.open()
                await handled(new)
                await asyncio.sleep(5)
                assert await stage(new, by_lane[1]) == "settled"
                assert till.charged == [by_lane[0], by_lane[1], f"notified {by_lane[1]}"]

    virtual.play(main)


@pytest.mark.parametrize("pause", [None, "a person"])
def test_a_lane_that_a_person_resumes_at_that_moment_keeps_the_manifest_out(virtual: Ground, pause: str | None) -> None:
    """Whether it stood still for the manifest or for a person: its old code has gone on. The second try is alone."""

    async def main(ground: Ground) -> None:
        async with _first_order(ground) as (_old, lane):
            if pause is not None:
                await lane.pause(pause)

            async def comes() -> None:
                await lane.resume()
                await asyncio.sleep(5)

            async with shop(ground, TWO, line=EventBeforeItIsApplied) as new:
                line_of(new).comes = comes  # type: ignore[attr-defined]  # it is one of those
                proposal = await governed(new)
                with pytest.raises(ProposalConflict, match="was resumed"):
                    await new.machines.apply(proposal)
                assert [run.pause for run in await lanes(new)] == [None, None]
                await _applied(new, proposal)
                other = next(key for key in map(str, range(20)) if _lane_of(key) == _lane_of("a"))
                await new.emit(Placed(other, 5))
                await handled(new)
                assert await stage(new, other) == "free"

    virtual.play(main)


def test_a_lane_that_a_worker_parks_for_the_manifest_meanwhile_goes_on_with_it(virtual: Ground) -> None:
    """Its worker still had it when it was held, and found that its code does not fit."""

    async def main(ground: Ground) -> None:
        async with _first_order(ground) as (old, lane):

            async def comes() -> None:
                await old.store.pause(lane.key, f"{WAITS}its code is another", old.clock.now())

            async with shop(ground, TWO, worker=False, line=EventBeforeItIsApplied) as new:
                line_of(new).comes = comes  # type: ignore[attr-defined]  # it is one of those
                await new.machines.apply(await governed(new))
                assert [run.pause for run in await lanes(new)] == [None, None]

    virtual.play(main)


def test_a_pause_that_a_person_sets_meanwhile_stays(virtual: Ground) -> None:
    """The manifest is not put in force, and the hold ends for the other lanes alone."""

    async def main(ground: Ground) -> None:
        async with _first_order(ground) as (_old, lane):

            async def comes() -> None:
                await lane.pause("a person")

            async with shop(ground, TWO, worker=False, line=EventBeforeItIsApplied) as new:
                line_of(new).comes = comes  # type: ignore[attr-defined]  # it is one of those
                with pytest.raises(ProposalConflict, match="was paused anew"):
                    await new.machines.apply(await governed(new))
                pauses = [run.pause for run in await lanes(new)]
                assert pauses.count(None) == 1
                assert any("a person" in (pause or "") for pause in pauses)

    virtual.play(main)


def test_a_proposal_is_not_applied_where_a_lane_was_resumed_meanwhile(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground) as old:
            await old.emit(Placed("a", 500))
            await handled(old)
            async with shop(ground, TWO, worker=False, line=ResumesHeldLanes) as new:
                with pytest.raises(ProposalConflict, match="was resumed"):
                    await new.machines.apply(await governed(new))
                assert [run.pause for run in await lanes(new)] == [None, None]

    virtual.play(main)


def test_a_cell_that_is_between_two_lanes_blocks_with_what_it_has_in_flight(virtual: Ground) -> None:
    """Nobody can see what it waits for until its new lane has taken it in."""
    one, two = order(sending, (queued_charge,)), order(sending_anew, (queued_charge, notify))

    async def main(ground: Ground) -> None:
        async with shop(ground, one) as old, shop(ground, two, worker=False, line=SplitWhenItIsLookedAt) as new:
            await old.emit(Placed("b", 500))
            await handled(old)

            async def comes() -> None:
                till.close("a")
                await old.emit(Placed("a", 500))
                while "a" not in till.charged:
                    await old.changed(0.1)
                await old.machines.split(KIND, 4)
                for number in range(2, 6):
                    await old.run(lane_id(KIND, number)).pause("a person")
                while await old.store.find_cells(p.CellQuery("default", KIND), 10):
                    await old.changed(0.1)

            proposal = await governed(new)
            line_of(new).comes = comes  # type: ignore[attr-defined]  # it is one of those
            with pytest.raises(ManifestBlocked, match="lanes are being split"):
                await new.machines.apply(proposal)

    virtual.play(main)


def test_a_first_manifest_is_blocked_by_what_other_code_beside_it_has_in_flight(virtual: Ground) -> None:
    """What the last worker declared is in force until then, and says nothing of an older worker that runs, too."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as old, shop(ground, THREE, worker=False) as author:
            await old.emit(Placed("c", 500))
            await handled(old)
            async with shop(ground, THREE) as new:
                line_of(old).cut = True
                await new.emit(Placed("b", 5))
                await handled(new)
                line_of(old).cut = False
            till.close("a")
            await old.emit(Placed("a", 500))
            while "a" not in till.charged:
                await old.changed(0.1)
            proposal = await governed(author)
            with pytest.raises(ManifestBlocked):
                await author.machines.apply(proposal)
            till.open()
            await handled(old)
            await author.machines.apply(proposal)
            assert await stage(author, "a") == "paid"

    virtual.play(main)


def test_a_process_that_dies_while_it_applies_leaves_lanes_that_can_go_on(virtual: Ground) -> None:
    """The lanes say why they stand still; applied again, the proposal is in force, and they go on."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            await app.emit(Placed("a", 500))
            await handled(app)
        async with shop(ground, TWO, worker=False, line=DiesWhenLanesAreHeld) as app:
            proposal = await governed(app)
            applying = asyncio.create_task(app.machines.apply(proposal))
            await asyncio.sleep(60)
            assert not applying.done()
            applying.cancel()
        async with shop(ground, TWO) as app:
            assert [run.pause for run in await lanes(app)] == [f"{HELD}proposal {proposal}"] * 2
            await app.machines.apply(proposal)
            await app.emit(Placed("b", 5))
            await handled(app)
            assert await stage(app, "b") == "free"

    virtual.play(main)

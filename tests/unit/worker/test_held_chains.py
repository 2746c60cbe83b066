"""What is held for a parked cell are rows of their own, in a chain that the cell's record proves: one more costs the
same however many there are, and a released cell handles them a part in each turn, in order."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, step
from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.client.machines.verification import LaneCheck
from holdfast.errors import CellFull
from holdfast.journal import events as journal_events
from holdfast.journal.cbor import canonical
from holdfast.lanes.roots import collect_garbage, make_root, read_cells
from holdfast.programs.machine.handle import Cell
from holdfast.programs.machine.lanes.checked_lane import CheckedLane
from holdfast.programs.machine.lanes.held_rows import check_rows
from holdfast.programs.machine.machine import machine
from holdfast.runs.lanes import is_lane, lane_id
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.worker.lanes import cell_supplier
from tests.unit.worker.ground import OPTIONS, Ground, Line, kill

LARGE = 1 << 30


@dataclass
class ChainSaid:
    name: str
    word: str


@dataclass
class ChainRang:
    name: str


@dataclass
class ChainList:
    words: list[str] = field(default_factory=list)


class Bug:
    there = True


@step(name="chain.work")
async def work(name: str) -> str:
    await asyncio.sleep(1)
    return name


@machine(key="name", effects=[work], name="chain.list", lanes=1)
def listing(state: ChainList | None, event: ChainSaid | ChainRang, cell: Cell) -> ChainList | None:
    """It writes down what it hears; ``bug`` and ``bug again`` raise while there is the bug."""
    words = (state or ChainList()).words
    if isinstance(event, ChainRang):
        return ChainList([*words, "rang"])
    if event.word.startswith("bug") and Bug.there:
        raise ValueError(event.word)
    match event.word:
        case "end":
            cell.complete()
        case "delete":
            return None
        case "later":
            cell.send(ChainRang(event.name), after=datetime.timedelta(seconds=5))
        case "work":
            cell.do(work, event.name)
        case "nothing new":
            return state
    return ChainList([*words, event.word])


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few events are many turns."""
    Bug.there = True
    monkeypatch.setattr(cell_supplier, "HELD_AT_ONCE", 3)


class CountingLine(Line):
    """It counts the bytes of cells and of what is held for them, as they are written and read."""

    def __init__(self, store: p.Store) -> None:
        super().__init__(store)
        self.bytes = 0

    async def commit(self, batch: Sequence[p.Change]) -> Any:
        for change in batch:
            if isinstance(change, p.Advance):
                self.bytes += sum(_size(each) for each in change.attached)
        return await self.__getattr__("commit")(batch)

    async def held_events(self, *args: Any) -> Any:
        found = await self.__getattr__("held_events")(*args)
        self.bytes += sum(len(event) for _, event in found)
        return found


def _size(change: object) -> int:
    """All bytes and texts in a change."""
    return _size_of(msgspec.to_builtins(change, builtin_types=(bytes,)))


def _size_of(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_size_of, value))
    return len(value) if isinstance(value, str | bytes) else 0


async def say(app: Holdfast, *words: str, name: str = "a") -> None:
    """Each in a turn of its own."""
    for word in words:
        await app.emit(ChainSaid(name, word))
        await handled(app)


async def handled(app: Holdfast) -> None:
    while True:
        runs = [run for run in await app.store.find(p.Query("default"), 100) if is_lane(run.key.run)]
        if all(run.consumed == run.arrived and run.split != p.INHERITS for run in runs):
            return
        await app.changed(0.05)


async def record(app: Holdfast, name: str = "a") -> CellRecord:
    found = await app.cell(listing, name).record()
    assert found is not None
    return found


async def words(app: Holdfast, name: str = "a") -> list[str]:
    state = await app.cell(listing, name).state()
    return [] if state is None else state.words


async def release(app: Holdfast, *, drop: bool = False, mended: bool = True) -> None:
    Bug.there = not mended
    await app.cell(listing, "a").release(drop=drop)
    await handled(app)


async def catching_up(app: Holdfast) -> None:
    """In virtual time nothing is missed."""
    while not (await record(app)).is_catching_up:
        await app.changed(0.001)


async def caught_up(app: Holdfast) -> None:
    while (await record(app)).held_count:
        await app.changed(0.05)


async def checks(app: Holdfast) -> list[LaneCheck]:
    found = [each async for each in app.machines.verify(listing.name)]
    assert [each.problems for each in found if not each.good] == []
    return found


def numbered(count: int) -> list[str]:
    return [f"word {number}" for number in range(count)]


# -- the cost ----------------------------------------------------------------------------------------------------------


async def _hold(app: Holdfast, line: CountingLine, count: int) -> int:
    await say(app, *["nothing new"] * count)
    return line.bytes


async def _release(app: Holdfast, line: CountingLine, count: int) -> int:
    await say(app, *["nothing new"] * count)
    before = line.bytes
    Bug.there = False
    await app.cell(listing, "a").release(drop=True)
    await caught_up(app)
    return line.bytes - before


async def _release_in_vain(app: Holdfast, line: CountingLine, count: int) -> int:
    await say(app, *["nothing new"] * count)
    before = line.bytes
    for _ in range(5):
        await release(app, mended=False)
    return line.bytes - before


async def _split(app: Holdfast, line: CountingLine, count: int) -> int:
    await say(app, *["nothing new"] * count)
    before = line.bytes
    await app.machines.split(listing.name, 2)
    await handled(app)
    assert (await record(app)).held_count == count + 1
    return line.bytes - before


Cost = Callable[[Holdfast, CountingLine, int], Awaitable[int]]


def cost_of(cost: Cost, count: int) -> int:
    async def main(ground: Ground) -> int:
        line = CountingLine(ground.store)
        async with ground.engine(line=line) as app:
            await say(app, "seen", "bug")
            line.bytes = 0
            return await cost(app, line, count)

    Bug.there = True
    return Ground(None).play(main)


@pytest.mark.parametrize("cost", [_hold, _release, _split])
def test_the_cost_of_held_events_is_linear(cost: Cost) -> None:
    """The bytes that are written and read to hold them, to handle them after the release, and to hand them over."""
    small, large = cost_of(cost, 60), cost_of(cost, 120)
    assert 60 * len("nothing new") < small < large <= 2.5 * small


def test_a_release_that_parks_the_cell_again_reads_no_more_than_one_turn_handles() -> None:
    """However much is held."""
    assert cost_of(_release_in_vain, 80) <= 1.2 * cost_of(_release_in_vain, 20)


# -- catching up -------------------------------------------------------------------------------------------------------


def test_a_released_cell_catches_up_in_many_turns_and_in_order(ground: Ground) -> None:
    """What comes meanwhile is held behind the rest, and nothing is left in the end."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", *numbered(10))
            parked = await record(app)
            assert (parked.held, parked.held_count) == ((), 11)
            assert (await app.cell(listing, "a").show()).held == 11
            Bug.there = False
            await app.cell(listing, "a").release()
            last = await app.machines.send(ChainSaid("a", "last"))
            state = await app.cell(listing, "a").state(after=last.places[0])
            assert state == ChainList(["seen", "bug", *numbered(10), "last"])
            assert (await record(app)).chain is None
            lane = p.Key("default", lane_id(listing.name, 0))
            assert await app.store.held_events(lane, canonical("a"), 0, 99, LARGE) == []
            await checks(app)

    ground.play(main)


def test_a_cell_that_is_parked_again_while_it_catches_up_keeps_the_rest(virtual: Ground) -> None:
    """The event that parked it is the first; that one is dropped, and once."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", *numbered(4), "bug again", "rest", "more")
            await release(app, drop=True, mended=False)
            parked = await record(app)
            assert (parked.status, parked.reason, parked.held_count) == ("parked", "ValueError: bug again", 3)
            assert await words(app) == ["seen", *numbered(4)]
            await release(app, drop=True, mended=False)
            assert await words(app) == ["seen", *numbered(4), "rest", "more"]
            await checks(app)

    virtual.play(main)


@pytest.mark.parametrize(
    ("word", "status", "left", "dead"),
    [
        ("end", "completed", ["seen", "bug", "1", "2", "3", "end"], 4),
        ("delete", "running", ["4", "5", "6", "7"], 0),
    ],
)
def test_a_cell_that_ends_while_it_catches_up(
    virtual: Ground, word: str, status: str, left: list[str], dead: int
) -> None:
    """What is left is for nobody, if it is completed; and for the next cell of the key, if it was deleted."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", "1", "2", "3", word, "4", "5", "6", "7")
            await release(app)
            found = await record(app)
            assert (found.status, found.held_count, await words(app)) == (status, 0, left)
            assert len([each async for each in app.machines.dead_letters()]) == dead
            await checks(app)

    virtual.play(main)


def test_a_cell_that_was_parked_by_its_first_event_is_none_once_that_is_dropped(virtual: Ground) -> None:
    """And begins with what is held behind it."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "bug")
            await release(app, drop=True, mended=False)
            assert await app.cell(listing, "a").record() is None
            await say(app, "bug", *numbered(5))
            await release(app, drop=True, mended=False)
            assert await words(app) == numbered(5)
            await checks(app)

    virtual.play(main)


def test_timers_and_receipts_come_when_the_cell_has_caught_up(virtual: Ground) -> None:
    """A receipt in its place among the events; a timer, whose time has come long ago, behind them."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "later", "work", "bug", *numbered(2))
            await asyncio.sleep(20)
            parked = await record(app)
            assert (parked.held_count, len(parked.timers), len(parked.intents)) == (4, 1, 1)
            assert (await app.cell(listing, "a").show()).intents == ()
            await say(app, *numbered(6))
            await release(app)
            await asyncio.sleep(1)
            assert await words(app) == ["later", "work", "bug", *numbered(2), *numbered(6), "rang"]
            assert (await record(app)).intents == ()
            await checks(app)

    virtual.play(main)


def test_a_worker_that_dies_while_a_cell_catches_up_is_followed_by_another(ground: Ground) -> None:
    """At any commit; each event is handled once."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", *numbered(10))
            Bug.there = False
            await app.cell(listing, "a").release()
            while (await record(app)).held_count > 6:
                await app.changed(0.01)
            kill(app)
        async with ground.engine() as app:
            await caught_up(app)
            assert await words(app) == ["seen", "bug", *numbered(10)]
            await checks(app)

    ground.play(main)


def test_a_cell_that_catches_up_says_so_and_takes_no_more_in_than_a_parked_one(virtual: Ground) -> None:
    """An event from outside can be sent again in a while: nobody has to release the cell."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            app.machine_kind.held_limit = 99
            await say(app, "seen", "bug", *numbered(9))
            app.machine_kind.held_limit = 3
            lane = app.run(lane_id(listing.name, 0))
            Bug.there = False
            await app.cell(listing, "a").release()
            await catching_up(app)
            await lane.pause()
            await asyncio.sleep(2)
            (first, *_) = (await app.cell(listing, "a").diagnose()).causes
            assert (first.kind, first.text[:48]) == ("catching_up", "It was released, and handles what is held for it")
            with pytest.raises(CellFull, match=r"which catches up, and the limit is 3: send this again in a while"):
                await app.emit(ChainSaid("a", "more"))
            await lane.resume()
            await handled(app)
            await asyncio.sleep(2)
            await say(app, "more")
            assert await words(app) == ["seen", "bug", *numbered(9), "more"]

    virtual.play(main)


# -- where cells go ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["parked", "catching up"])
def test_a_split_hands_over_what_is_held_part_by_part(virtual: Ground, when: str) -> None:
    """A cell follows when all of it is there; it is released, or catches up, in the lane that has it then."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            for name in ("a", "b"):
                await say(app, "seen", "bug", *numbered(10), name=name)
            if when == "catching up":
                Bug.there = False
                await app.cell(listing, "a").release()
                await catching_up(app)
            await app.machines.split(listing.name, 2)
            await handled(app)
            if when == "parked":
                assert [(await record(app, name)).held_count for name in ("a", "b")] == [11, 11]
                await release(app)
            await caught_up(app)
            assert await words(app) == ["seen", "bug", *numbered(10)]
            assert (await record(app, "b")).held_count == 11
            assert len(await checks(app)) == 3

    virtual.play(main)


@pytest.mark.parametrize("when", ["parked", "catching up"])
def test_a_fork_has_what_is_held(virtual: Ground, when: str) -> None:
    """From the root's own entries: it is released there, or goes on to catch up, and can be verified."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", *numbered(10))
            if when == "catching up":
                Bug.there = False
                await app.cell(listing, "a").release()
                await catching_up(app)
                await app.run(lane_id(listing.name, 0)).pause()
                await asyncio.sleep(2)
                assert (await record(app)).is_catching_up
            await app.machines.fork(listing, "copy")
            there = app.cell(listing, "a", tenant="copy")
            Bug.there = False
            if when == "parked":
                await there.release()
            await handled(app)
            while (found := await there.record()) is None or found.held_count:
                await app.changed(1)
            assert await there.state() == ChainList(["seen", "bug", *numbered(10)])
            assert (await record(app)).held_count > 0
            assert all([each.good async for each in app.machines.verify(tenant="copy")])

    virtual.play(main)


def test_a_root_has_what_is_held_and_forgets_what_is_held_no_more(virtual: Ground) -> None:
    """Each event is an entry of the tree, beside the cells; they are not counted as cells."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            store, lane = ground.store, p.Key("default", lane_id(listing.name, 0))
            await say(app, "seen", "bug", *numbered(5))
            await say(app, "seen", name="b")
            before = await make_root(store, ground.clock, lane)
            assert before is not None
            content = await read_cells(store, lane, before.root)
            (rows,) = content.held.values()
            chain = decode_cell(content.cells[canonical("a")]).chain
            assert chain is not None
            check_rows(canonical("a"), chain, sorted(rows.items()))
            assert (before.cells, len(content.cells), len(rows)) == (2, 2, 6)
            await checks(app)
            await release(app)
            await say(app, "bug")
            after = await make_root(store, ground.clock, lane)
            assert after is not None
            assert after.cells == 2
            assert (await read_cells(store, lane, after.root)).held == {}
            await checks(app)
            await collect_garbage(store, lane, keep=1)
            assert (await read_cells(store, lane, after.root)).held == {}
            names = await store.cell_node_names(lane, 1000)
            assert len(names) == 1 + 2  # a leaf, and the records of two cells

    virtual.play(main)


# -- what is damaged ---------------------------------------------------------------------------------------------------


def _rows(store: p.Store) -> dict[int, Any]:
    assert isinstance(store, MemoryStore)
    ((rows,),) = [list(cells.values()) for cells in store._tables.held_events.values()]
    return rows


def _lose(rows: dict[int, Any]) -> None:
    del rows[1]


def _change(rows: dict[int, Any]) -> None:
    rows[2] = rows[1]


@pytest.mark.parametrize("damage", [_lose, _change])
def test_held_events_that_were_changed_are_found(virtual: Ground, damage: Callable[[dict[int, Any]], None]) -> None:
    """By a verification; and a release parks the lane instead of handling them."""

    async def main(ground: Ground) -> None:
        async with ground.engine() as app:
            await say(app, "seen", "bug", "one", "two")
            await checks(app)
            damage(_rows(ground.store))
            (found,) = [each async for each in app.machines.verify(listing.name)]
            assert found.problems == ("what is held for it is not what its handlers leave: key 'a'",)
            Bug.there = False
            await app.cell(listing, "a").release()
            lane = p.Key("default", lane_id(listing.name, 0))
            while (run := (await ground.store.get([lane]))[0]).pause is None:
                await app.changed(1)
            assert "what is held for cell 'a' is not what its record says" in (run.pause or "")
            assert await words(app) == ["seen"]

    virtual.play(main)


# -- lanes of earlier editions -----------------------------------------------------------------------------------------


def test_a_lane_of_an_earlier_edition_changes_at_its_next_checkpoint(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then it holds events in the records of its cells. Then what a cell holds becomes a chain with the next
    event that it holds; a cell that gets none is released as it is. Its journal can be replayed from its beginning."""

    async def main(ground: Ground) -> None:
        with monkeypatch.context() as older:
            older.setattr("holdfast.runs.birth.e.EDITION", 1)
            async with ground.engine() as app:
                await say(app, "seen", "bug", "one", "two")
                await say(app, "seen", "bug", "one", name="b")
                assert (len((await record(app)).held), (await record(app)).chain) == (3, None)
        assert journal_events.EDITION > 1
        async with ground.engine() as app:
            await say(app, "three")
            assert (len((await record(app)).held), (await record(app)).chain) == (4, None)
        async with ground.engine(options=replace(OPTIONS, checkpoint_events=1)) as app:
            await say(app, "four")
            await say(app, "five")
            parked = await record(app)
            assert (parked.held, parked.held_count) == ((), 6)
            assert len((await record(app, "b")).held) == 2
            await checks(app)
        async with ground.engine() as app:
            await say(app, "six")
            Bug.there = False
            for name in ("a", "b"):
                await app.cell(listing, name).release()
            await handled(app)
            assert await words(app) == ["seen", "bug", "one", "two", "three", "four", "five", "six"]
            assert await words(app, "b") == ["seen", "bug", "one"]
            await checks(app)

    virtual.play(main)


def test_a_replay_goes_by_the_rules_that_each_turn_went_by(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that held events in records is found to differ where it is replayed by the rules of now."""
    known = CheckedLane._known

    async def main(ground: Ground) -> None:
        with monkeypatch.context() as older:
            older.setattr("holdfast.runs.birth.e.EDITION", 1)
            async with ground.engine() as app:
                await say(app, "seen", "bug", "one")
                await checks(app)
                older.setattr(CheckedLane, "_known", lambda lane: replace(known(lane), holds_in_chains=True))
                (found,) = [each async for each in app.machines.verify(listing.name)]
                assert not found.good

    virtual.play(main)

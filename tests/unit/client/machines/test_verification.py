"""Verifying machines: whatever was changed beside the journal is found and named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.cells.cell import decode_cell, encode_cell
from holdfast.client.machines.verification import LaneCheck
from holdfast.lanes.roots import make_root
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from tests.unit.client.machines.test_lane_counts import Bell, Rung, _bell, _echo, _engine

Tamper = Callable[[MemoryStore, p.Key, p.CellRow], None]


async def _found(app: Holdfast) -> list[LaneCheck]:
    return [each async for each in app.machines.verify("bell")]


def _verified(tamper: Tamper | None = None, *, code: int = 1) -> list[LaneCheck]:
    async def whole() -> list[LaneCheck]:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        app = await _engine(store, clock, _bell(1), _echo(1))
        lane = app.machines.cell("bell", "b1").lane_key
        for number in range(3):
            for name in ("b1", "b2"):
                place = (await app.machines.send(Rung(name))).places[0]
                assert await app.machines.cell("bell", name).state(after=place) == Bell(number + 1)
            assert await make_root(store, clock, lane) is not None
        if tamper is not None:
            tamper(store, lane, (await store.cells(lane, [app.machines.cell("bell", "b1")._bytes]))[0])
        found = await _found(app)
        await app.close()
        return found

    return run_virtually(whole())


def test_an_honest_lane_is_good() -> None:
    """Its events, cells and roots are counted."""
    (found,) = _verified()
    assert found.good, found.problems
    assert (found.machine, found.lane, found.cells, found.roots) == ("bell", 0, 2, 3)
    assert found.events > 6


def _change_row(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    record = decode_cell(row.record)
    store._tables.cells[lane][row.key] = row._replace(record=encode_cell(replace(record, asked=5)))


def _lose_row(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    del store._tables.cells[lane][row.key]


def _add_row(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    record = encode_cell(replace(decode_cell(row.record), key=b"bb9"))
    store._tables.cells[lane][b"bb9"] = row._replace(key=b"bb9", record=record)


def _lose_node(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    del store._tables.cell_nodes[lane][store._tables.cell_roots[lane][0].root]


def _exchange_roots(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    first, second, *rest = store._tables.cell_roots[lane]
    store._tables.cell_roots[lane] = [first._replace(root=second.root), second, *rest]


def _change_head(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    first, *rest = store._tables.cell_roots[lane]
    store._tables.cell_roots[lane] = [first._replace(head=b"0" * 32), *rest]


def _change_count(store: MemoryStore, lane: p.Key, row: p.CellRow) -> None:
    first, *rest = store._tables.cell_roots[lane]
    store._tables.cell_roots[lane] = [first._replace(cells=7), *rest]


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (_change_row, "the row is not the cell that its handlers make: key 'b1'"),
        (_lose_row, "its handlers make a cell that has no row: key 'b1'"),
        (_add_row, "a row of a cell that its handlers do not make: key 'b9'"),
        (_lose_node, "cannot be read: node"),
        (_exchange_roots, "has another record than the journal: key 'b1'"),
        (_change_head, "is not bound to the journal's hash"),
        (_change_count, "says that it has 7 cells, and has 2"),
    ],
)
def test_what_was_changed_is_named(tamper: Tamper, named: str) -> None:
    (found,) = _verified(tamper)
    assert any(named in problem for problem in found.problems), found.problems


def test_code_that_does_something_else_is_named() -> None:
    """The journal is what the handlers did; these do something else."""

    async def whole() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        app = await _engine(store, clock, _bell(1), _echo(1))
        place = (await app.machines.send(Rung("b1"))).places[0]
        await app.machines.cell("bell", "b1").state(after=place)
        await app.close()
        other = _bell(1)
        other.function = lambda state, event, cell: Bell(41)  # type: ignore[attr-defined]
        again = await _engine(store, clock, other, _echo(1))
        (found,) = await _found(again)
        assert "its journal is not what its handlers do" in found.problems[0]
        await again.close()

    run_virtually(whole())


@pytest.mark.parametrize("is_changed", [False, True])
def test_what_other_code_did_is_compared_by_hashes(is_changed: bool) -> None:
    """After a deployment the handlers of now do something else. Rows and roots must be what the journal notes."""

    async def whole() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        newer = _bell(1)
        newer.function = lambda state, event, cell: Bell(41)  # type: ignore[attr-defined]
        newer.hash = 32 * "ab"
        for code in (_bell(1), newer):
            app = await _engine(store, clock, code, _echo(1))
            for name in ("b1", "b2"):
                place = (await app.machines.send(Rung(name))).places[0]
                await app.machines.cell("bell", name).state(after=place)
            lane = app.machines.cell("bell", "b1").lane_key
            assert await make_root(store, clock, lane) is not None
            await app.close()
        again = await _engine(store, clock, newer, _echo(1))
        if is_changed:
            _change_row(store, lane, (await store.cells(lane, [again.machines.cell("bell", "b1")._bytes]))[0])
        (found,) = await _found(again)
        assert found.by_other_code
        named = [each.partition(":")[0] for each in found.problems]
        assert named == ["the row is not what the journal notes"] * is_changed
        await again.close()

    run_virtually(whole())


def test_a_lane_of_a_machine_that_is_not_here_cannot_be_verified() -> None:
    async def whole() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        store = MemoryStore(clock.now)
        app = await _engine(store, clock, _bell(1), _echo(1))
        place = (await app.machines.send(Rung("b1"))).places[0]
        await app.machines.cell("bell", "b1").state(after=place)
        await app.close()
        again = await _engine(store, clock, _echo(1))
        found = [each async for each in again.machines.verify()]
        assert any("import the module" in problem for each in found for problem in each.problems)
        await again.close()

    run_virtually(whole())

"""A line of roots on a store: cells are written, deleted and written again, and every root is that of the cells."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cells import tree
from holdfast.cells.cell import CellRecord, encode_cell
from holdfast.cells.growth import growth
from holdfast.lanes.roots import collect_garbage, make_root
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.machines.cell_roots import written
from holdfast.testing.stores.samples import NOW, key
from tests.scope import volume

KEYS = [bytes([0x41, number]) for number in range(200)]

turns = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 3) | st.none(), min_size=1, max_size=80)
acts = st.lists(turns | st.just("root") | st.just("collect"), max_size=25)


class Clock:
    def now(self) -> int:
        return NOW


def record(name: bytes, state: int) -> bytes:
    return encode_cell(CellRecord(key=name, state=bytes([state]), status="waiting", last_active=NOW))


def root_of(cells: Mapping[bytes, bytes]) -> bytes:
    return tree.apply(tree.EMPTY, growth(cells.items()).changes, {}.__getitem__).root


async def _check(store: Any, done: list[Any]) -> None:
    cells: dict[bytes, bytes] = {}
    for each in done:
        if each == "root":
            made = await make_root(store, Clock(), key())
            assert made is None or (made.root, made.cells) == (root_of(cells), len(cells))
        elif each == "collect":
            await collect_garbage(store, key(), keep=2)
        else:
            changes = {name: None if state is None else record(name, state) for name, state in each.items()}
            await written(store, changes)
            for name, data in changes.items():
                cells.pop(name, None)
                if data is not None:
                    cells[name] = data
    made = await make_root(store, Clock(), key())
    assert made is None or (made.root, made.cells) == (root_of(cells), len(cells))


@settings(max_examples=volume(60, 2000), deadline=None)
@given(acts)
def test_a_root_made_from_the_last_one_is_that_of_the_cells_alone(done: list[Any]) -> None:
    """Equal content, equal root: however often cells were deleted and made again, and whatever was collected."""

    async def check() -> None:
        store = MemoryStore()
        await store.open()
        await _check(store, done)

    asyncio.run(check())


@pytest.mark.parametrize("turn", [{KEYS[0]: 1}, dict.fromkeys(KEYS, 1)])
def test_a_lane_whose_cells_are_all_deleted_has_the_root_of_nothing(turn: dict[bytes, int], tmp_path: Any) -> None:
    """And the collected nodes are those of the cells that it had, on a real database, too."""

    async def check() -> None:
        store = SqliteStore(str(tmp_path / "store.db"))
        await store.open()
        await _check(store, [turn, "root", dict.fromkeys(turn), "root", "collect", turn, "root"])
        await written(store, dict.fromkeys(turn))
        made = await make_root(store, Clock(), key())
        assert made is not None
        assert (made.root, made.cells) == (tree.EMPTY, 0)
        await collect_garbage(store, key(), keep=1)
        assert await store.cell_node_names(key(), 10) == []
        await store.close()

    asyncio.run(check())

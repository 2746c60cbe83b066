"""Memory is bounded by what a worker was given for cells, however large their states are and however many there are."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import Cell, Holdfast, WorkerOptions, machine
from holdfast.programs.machine.kind import Machines

STATE_BYTES = 300_000
CELLS = 120
BOUND = 4_000_000


@dataclass
class Grown:
    name: str
    size: int


@dataclass
class Heap:
    data: bytes = b""
    heard: int = 0


@machine(key="name", name="large.heap", lanes=4)
def heap(state: Heap | None, event: Grown, cell: Cell) -> Heap | None:
    return Heap(bytes(event.size), 1 if state is None else state.heard + 1)


async def _send(app: Holdfast, name: str, size: int) -> None:
    sent = await app.emit(Grown(name, size))
    await app.cell(heap, name).state(after=sent.places[0])


@pytest.mark.long
def test_large_states_leave_memory_and_are_read_again(tmp_path: Path) -> None:
    """36 MB of states in a worker that may keep 4: every second event finds the state that the first one left."""

    async def main() -> Any:
        options = WorkerOptions(cached_cell_bytes=BOUND, warm_limit=1000)
        app = Holdfast(f"sqlite:///{tmp_path}/large.db", options=options)
        app.machine_kind = Machines({heap.name: heap})
        async with app:
            await _send(app, "first", 10)
            gc.collect()
            before, _ = tracemalloc.get_traced_memory()
            for number in range(CELLS):
                await _send(app, f"k{number}", STATE_BYTES)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            assert 0 < app.machine_kind.hot.size_bytes <= BOUND
            for number in (0, CELLS // 2, CELLS - 1):
                await _send(app, f"k{number}", STATE_BYTES)
                found = await app.cell(heap, f"k{number}").state()
                assert found is not None
                assert (len(found.data), found.heard) == (STATE_BYTES, 2)
            return after - before

    tracemalloc.start()
    try:
        grown = asyncio.run(main())
    finally:
        tracemalloc.stop()
    assert grown < 2 * BOUND < STATE_BYTES * CELLS / 4

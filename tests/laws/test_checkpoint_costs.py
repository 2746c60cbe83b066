"""Resuming with a checkpoint costs what is open and what came since, whatever the history. Operations are counted."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

from holdfast.journal.codec import GENESIS
from holdfast.kernel.execution import Execution
from holdfast.runs.checkpoints import load, seal_checkpoint, unseal_checkpoint
from holdfast.runs.segments import seal, unseal
from holdfast.store import protocol as p
from holdfast.store.memory.store import MemoryStore
from tests.runs import NOW, Run, signal
from tests.strands import Script, strands

KEY = p.Key("default", "run")
TICKS = 97
"""With what else a turn records, a hundred events."""


async def kept(turns: int, *, checkpoints: bool) -> tuple[MemoryStore, p.Run, Run]:
    """A run with this many hundreds of events; its last checkpoint is a hundred events before its end."""
    run = Run(strands, Script([[["ticks", TICKS], ["receive", "left"]]], rounds=turns + 1))
    store = MemoryStore()
    await store.open()
    first = seal([(at, event) for at, event in run.advance().events], 0, GENESIS, {})
    projection = p.Projection("running")
    started = p.Start(KEY, strands.name, b"print", run.id.root, first, projection, owner="ann")
    assert isinstance((await store.commit([started]))[0], p.Started)
    head, version = first.head, first.count
    for number in range(1, turns):
        segment = seal(run.advance(signal("left", number)).events, version, head, {})
        data = None
        if checkpoints and number == turns - 2:
            checkpoint = run.execution.checkpoint()
            assert checkpoint is not None
            data = seal_checkpoint(checkpoint, run.id, strands.digest, segment.head)
        change = p.Advance(KEY, 0, 1, version, segment, projection, 0, release=False, checkpoint=data)
        assert isinstance((await store.commit([change]))[0], p.Advanced)
        head, version = segment.head, version + segment.count
    return store, (await store.get([KEY]))[0], run


def resume(loaded: p.Loaded, run: Run) -> Execution:
    """What a worker does with what it loaded."""
    program, entropy = strands.program(), random.Random(0)
    row = loaded.checkpoint
    if row is None:
        return Execution.rebuild(run.id, program, unseal(loaded.segments, run.id, loaded.blobs), NOW, entropy)
    checkpoint = unseal_checkpoint(row, run.id, strands.digest)
    tail = unseal(loaded.segments, run.id, loaded.blobs, first=row.version, head=row.head)
    return Execution.restore(run.id, program, checkpoint, tail, NOW, entropy)


async def cost(turns: int, *, checkpoints: bool) -> tuple[int, int, int]:
    """Lines and calls that a resumption takes, and the events and rows that it reads."""
    store, row, run = await kept(turns, checkpoints=checkpoints)
    loaded = (await load(store, [row]))[KEY]
    resume(loaded, run)  # the first time types are looked at
    counted = 0

    def note(_frame: Any, _event: str, _argument: Any) -> Any:
        nonlocal counted
        counted += 1
        return note

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(note)
    sys.setprofile(note)
    try:
        execution = resume(loaded, run)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    assert execution.ledger.version == row.version
    assert execution.waits() == run.execution.waits()
    rows = len(loaded.segments) + (loaded.checkpoint is not None)
    return counted, sum(segment.count for segment in loaded.segments), rows


def test_resuming_a_hundred_thousand_events_costs_what_resuming_a_hundred_costs() -> None:
    """With a checkpoint, within twice as much: in operations, in events decoded and in rows read."""
    operations, events, rows = asyncio.run(cost(1, checkpoints=False))
    assert 90 < events < 110
    long = asyncio.run(cost(1000, checkpoints=True))
    assert long[0] < 2 * operations
    assert long[1] < 2 * events
    assert long[2] <= 2 * rows


def test_the_state_of_a_long_run_is_small() -> None:
    """A checkpoint costs what is open, not what is over."""

    async def size(turns: int) -> int:
        store, _, _ = await kept(turns, checkpoints=True)
        row = (await store.load([KEY]))[KEY].checkpoint
        assert row is not None
        return len(row.data)

    assert asyncio.run(size(300)) < asyncio.run(size(30)) + 100

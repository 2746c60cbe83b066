"""Checkpoints beside fork, retry and backup: whatever is in the table of checkpoints, a run ends with the same journal.

A checkpoint that belongs to what a fork or a retry cut off is never used, and a store that was restored without
checkpoints goes on as one that was restored with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast import Holdfast, RunFailed, RunHandle, WorkerOptions, step_info
from holdfast.errors import RetryRefused, RunEnded
from holdfast.journal.render import line
from holdfast.programs.function.loop import dispose_all
from holdfast.runs import journals
from holdfast.store import protocol as p
from holdfast.store.memory.store import MemoryStore
from holdfast.store.sqlite.backup import backup
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock, VirtualLoop
from holdfast.worker.presence.heart import LoopPulse
from tests.laws.programs import SIGNALS, Unlucky, World, world
from tests.laws.test_checkpoint_laws import Constant
from tests.scope import one_stays, volume
from tests.simulation.chronicle import Watched
from tests.simulation.workload import QUEUE
from tests.strands import Script, Strands, script, strands

SEEDS: Final = range(volume(4, 40))
OPTIONS: Final = WorkerOptions(checkpoint_events=3, warm_limit=0, queues={QUEUE: 2}, grace_seconds=0.0)
KEY: Final = p.Key("default", "one")


class Steady(World):
    """A step fails by its attempt alone: what a fork does says nothing to the run that it came from."""

    async def perform(self, key: str, fails: int) -> str:
        if step_info().attempt <= fails:
            raise Unlucky(key)
        return key


class Stage:
    """One engine on one memory store, in virtual time. Every checkpoint that was ever written is known."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.store = MemoryStore(lambda: EPOCH_MICROSECONDS + round(self.loop.time() * 1e6))
        self.written: list[p.CheckpointRow] = []
        self.checkpoints: dict[p.Key, p.CheckpointRow] = Watched(lambda _, row: self.written.append(row))
        self.store._tables.checkpoints = self.checkpoints

    def engine(self, *, worker: bool = True) -> Holdfast:
        return Holdfast(
            self.store.twin(),
            worker=worker,
            clock=VirtualClock(self.loop),
            entropy=Constant(),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=[strands],
        )

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        dispose_all()
        self.loop.close()


async def _live(app: Holdfast, handle: RunHandle[Any], seconds: int) -> None:
    """Let a run live for a while; it gets signals as long as it has not ended."""
    for number in range(seconds):
        await asyncio.sleep(1)
        with contextlib.suppress(RunEnded):
            await handle.signal(SIGNALS[number % len(SIGNALS)], f"signal {number}")


async def _journal(store: p.Store, key: p.Key) -> list[str]:
    row = await journals.row_of(store, key)
    return [f"{entry.timestamp} {line(entry.event)}" async for entry in journals.read(store, row)]


def _failing(seed: int) -> Script:
    """A script of which a step fails for good, as often as not."""
    source = random.Random(seed)
    made = script(source, source.randint(4, 12))
    source.choice(made.strands).append(["step", "last", source.choice((0, 99))])
    return made


def _repaired(seed: int, how: str, spoil: Callable[[Stage], None], reached: Counter[str]) -> list[str]:
    """Play a script, cut it off by a fork or a retry, spoil the checkpoints, and play on; gives the last journal."""
    world.set(Steady())
    Strands.restored.clear()
    stage = Stage()
    source = random.Random(f"{how} {seed}")

    async def first() -> None:
        async with stage.engine() as app:
            handle = await app.start(strands, _failing(seed), id=KEY.run)
            await _live(app, handle, source.choice((2, 4, 40)))
            if how == "retry":
                with contextlib.suppress(RunEnded):
                    await handle.cancel()
                await _live(app, handle, 20)

    async def cut() -> p.Key | None:
        async with stage.engine(worker=False) as app:
            run = await journals.row_of(stage.store, KEY)
            if how == "fork":
                return (await app.run(KEY.run).fork(source.randint(1, run.version), id="fork")).key
            if run.standing not in ("failed", "cancelled"):
                return None
            try:
                await app.run(KEY.run).retry()
            except RetryRefused:
                return None
            return KEY

    async def second(key: p.Key) -> list[str]:
        for seconds in (2, 60):  # the second time it is taken over from what the first has written
            async with stage.engine() as app:
                await _live(app, app.run(key.run), seconds)
        return await _journal(stage.store, key)

    try:
        stage.run(stage.store.open())
        stage.run(first())
        key = stage.run(cut())
        if key is None:
            return []
        reached[how] += 1
        Strands.restored.clear()
        if stage.written:
            reached[f"{how} of a run with checkpoints"] += 1
            spoil(stage)
        found: list[str] = stage.run(second(key))
        reached[f"restored after {how}"] += bool(Strands.restored)
        return found
    finally:
        stage.close()


def _leave(stage: Stage) -> None:
    """As the store has it."""


def _forget(stage: Stage) -> None:
    stage.checkpoints.clear()


def _mix_up(stage: Stage) -> None:
    """Put a checkpoint of what was cut off into the place of the run's own, however that came about."""
    for key in (KEY, p.Key("default", "fork")):
        stage.checkpoints[key] = stage.written[len(stage.written) // 2]


@pytest.mark.parametrize("how", one_stays(["retry", "fork"]))
def test_a_checkpoint_of_what_was_cut_off_is_never_used(how: str) -> None:
    """The run goes on from its own journal: with its checkpoints, without any, and with those of what was cut off."""
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        plain, *others = (_repaired(seed, how, spoil, reached) for spoil in (_leave, _forget, _mix_up))
        assert others == [plain, plain], f"seed {seed}"
    assert reached[f"{how} of a run with checkpoints"] > len(SEEDS)
    assert reached[f"restored after {how}"] > 0


def _resumed(path: Path) -> list[str]:
    """Go on with a store that was restored from a backup; gives the journal of its run."""
    world.set(Steady())

    async def main() -> list[str]:
        store = SqliteStore(str(path))
        app = Holdfast(store, options=OPTIONS, workflows=[strands], entropy=Constant())
        async with app:
            handle = app.run(KEY.run)
            for name in SIGNALS:
                await handle.signal(name, "go")
            with contextlib.suppress(RunFailed):
                await handle.result(30)
            row = await journals.row_of(store, KEY)
            return [line(entry.event) async for entry in journals.read(store, row)]

    return asyncio.run(main())


async def _at_rest(app: Holdfast) -> None:
    while True:
        row = await journals.row_of(app.store, KEY)
        if row.standing == "waiting" and row.owner is None:
            return
        await asyncio.sleep(0.005)


def test_a_backup_goes_on_equally_with_and_without_its_checkpoints(tmp_path: Path) -> None:
    """The backup has the checkpoints, and needs none of them."""
    world.set(Steady())
    steps = [["undoable", f"s{number}", 0] for number in range(8)]
    made = Script([[*steps, *(["receive", name] for name in SIGNALS), ["step", "last", 0]]])

    async def live() -> None:
        async with Holdfast(SqliteStore(str(tmp_path / "live.db")), options=OPTIONS, workflows=[strands]) as app:
            await app.start(strands, made, id=KEY.run)
            await _at_rest(app)
            for name in ("with.db", "without.db"):
                await asyncio.to_thread(backup, str(tmp_path / "live.db"), tmp_path / name)

    asyncio.run(live())
    with contextlib.closing(sqlite3.connect(tmp_path / "without.db")) as connection:
        assert connection.execute("DELETE FROM checkpoints").rowcount == 1
        connection.commit()
    Strands.restored.clear()
    ends = _resumed(tmp_path / "with.db"), len(Strands.restored), _resumed(tmp_path / "without.db")
    assert ends[0] == ends[2]
    assert ends[1] > 0
    assert "last" in "".join(ends[0])

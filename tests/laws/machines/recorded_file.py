"""The SQLite store in virtual time, for histories that the store in memory has, too."""

from __future__ import annotations

import contextlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from holdfast.store import protocol as p
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite import usual_deliveries, usual_turns
from holdfast.store.sqlite.store import SqliteStore
from tests.simulation.faults import Recorder


class RecordedFile(SqliteStore):
    """It notes every intent and completion at the moment at which it becomes durable."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        super().__init__(str(path))
        self._notes = Recorder(clock)
        self.intended = self._notes.intended
        self.completed = self._notes.completed

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        answers = await super().commit(batch)
        for change, answer in zip(batch, answers, strict=True):
            self._notes.note(change, answer)
        return answers


@contextlib.contextmanager
def recorded_files(seed: int) -> Iterator[Callable[[Callable[[], int]], RecordedFile]]:
    """What makes such a store by a clock, which leases go by, too. By the seed, few changes or many are usual."""
    few = random.Random(seed).choice((1, 2, 8))
    clocks: list[Callable[[], int]] = []
    by_clock = SimpleNamespace(time_ns=lambda: clocks[-1]() * 1000, monotonic=time.monotonic)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(sqlite_store, "time", by_clock),
        mock.patch.object(sqlite_store, "WATCH_SECONDS", 2.0),
        mock.patch.object(usual_turns, "FEWEST", few),
        mock.patch.object(usual_deliveries, "FEWEST", few),
    ):

        def make(clock: Callable[[], int]) -> RecordedFile:
            clocks.append(clock)
            return RecordedFile(Path(folder) / "mixed.db", clock)

        yield make

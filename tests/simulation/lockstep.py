"""The SQLite store beside the one in memory, in virtual time: both do every operation, and must answer it alike.

So whatever a simulation or a random law plays, it compares the two. Faults of processes and of the line to the store
come before both. ``STORE=sqlite`` with ``make sim``, ``sagas``, ``mixtures`` and ``definitions`` plays seeds this way.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, TypeVar, overload
from unittest import mock

from holdfast.store import protocol as p
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite import usual_deliveries, usual_turns
from holdfast.store.sqlite.store import SqliteStore
from tests.simulation.faults import Recorder, SimulatedStore

APART: Final = {"close", "facts", "identity", "open", "twin", "watch", "workload"}
"""What is not compared: it is about the place of a store, not about what is in it."""

Clock = Callable[[], int]


class StoresDiffer(Exception):
    """An operation was not answered alike."""


class Lockstep(SimulatedStore):
    """What is put before the class of a store in memory, to have SQLite beside it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__(clock)
        self.differences: list[str] = []  # roles of a worker go on after an error: it is not forgotten here
        self._beside = SqliteStore(str(path))
        self._both = asyncio.Lock()
        self._is_inside = False

    async def open(self, *, migrate: bool = True) -> None:
        await super().open(migrate=migrate)
        await self._beside.open(migrate=migrate)

    async def close(self) -> None:
        kept = [
            (each.runs, each.inbox, each.work, each.blobs) for each in (await self.facts(), await self._beside.facts())
        ]
        if kept[0] != kept[1]:
            self.differences.append(f"in the end there are {kept[0]}, and on SQLite {kept[1]}")
        await super().close()
        await self._beside.close()

    def end(self) -> None:
        """Let go of the file, also where nobody has closed the store."""
        for connection in (self._beside._writer, self._beside._reader):
            if connection is not None:
                connection.close()

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        """Usual deliveries are made behind the others by SQLite, which is as good an order as any: so do both."""
        order = sorted(range(len(batch)), key=lambda at: type(batch[at]) is p.Deliver)
        answers = await self._by_both("commit", super().commit, ([batch[at] for at in order],), {})
        return [answers[order.index(at)] for at in range(len(batch))]

    def lose_checkpoint(self, key: p.Key) -> None:
        super().lose_checkpoint(key)
        self._change("DELETE FROM checkpoints WHERE tenant = ? AND run = ?", key)

    def damage_checkpoint(self, key: p.Key) -> None:
        super().damage_checkpoint(key)
        self._change("UPDATE checkpoints SET data = ?3 WHERE tenant = ?1 AND run = ?2", key)

    def _change(self, statement: str, key: p.Key) -> None:
        present = self._tables.checkpoints.get(key)
        values = (*key,) if present is None else (*key, present.data)
        with contextlib.closing(sqlite3.connect(self._beside.path)) as connection, connection:
            assert connection.execute(statement, values).rowcount == 1

    async def _by_both(
        self, name: str, in_memory: Callable[..., Awaitable[Any]], args: Sequence[Any], named: dict[str, Any]
    ) -> Any:
        if self._is_inside:  # the store in memory asks itself
            return await in_memory(*args, **named)
        async with self._both:
            self._is_inside = True
            try:
                expected = await _outcome(in_memory(*args, **named))
            finally:
                self._is_inside = False
            found = await _outcome(getattr(self._beside, name)(*args, **named))
        if _unordered(expected) != _unordered(found):
            self.differences.append(
                f"{name}{(*args, named)!r:.400} is {expected!r:.2000}\nand on SQLite {found!r:.2000}"
            )
            raise StoresDiffer(self.differences[-1])
        if isinstance(expected, BaseException):
            raise expected
        return expected


def _together(name: str) -> Callable[..., Awaitable[Any]]:
    async def operation(self: Lockstep, *args: Any, **named: Any) -> Any:
        return await self._by_both(name, getattr(super(Lockstep, self), name), args, named)

    return operation


for _name in dir(p.Store):
    if not _name.startswith("_") and _name not in APART | {"commit"}:
        assert inspect.iscoroutinefunction(getattr(SimulatedStore, _name)), _name
        setattr(Lockstep, _name, _together(_name))


async def _outcome(answer: Awaitable[Any]) -> Any:
    try:
        return await answer
    except Exception as error:
        return error


def _unordered(answer: Any) -> Any:
    """The answer, in an order where it has none; of an error its type."""
    match answer:
        case BaseException():
            return type(answer)
        case p.Leased(runs=runs, work=work):
            return _by_key(runs), _by_key(work)
        case p.Unrooted(version=version, head=head, cells=cells, deleted=deleted):
            return version, head, sorted(cells), sorted(deleted)
        case p.ClaimedRuns(runs=runs):
            return _by_key(runs), answer.next_wake_at, answer.limited
        case p.ClaimedWork(work=work):
            return _by_key(work), answer.next_available_at
        case [p.Run(), *_]:
            return _by_key(answer)
    return answer


def _by_key(rows: Sequence[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.key, getattr(row, "position", 0)))


# -- who uses it -------------------------------------------------------------------------------------------------------

S = TypeVar("S", bound=SimulatedStore)

_make: list[Callable[[type[SimulatedStore], Clock], Lockstep]] = []


@overload
def true_store(clock: Clock) -> Recorder: ...


@overload
def true_store(clock: Clock, kind: type[S]) -> S: ...


def true_store(clock: Clock, kind: type[SimulatedStore] = Recorder) -> SimulatedStore:
    """The store of a simulation: in memory, and inside ``beside_sqlite`` with SQLite beside it."""
    return _make[-1](kind, clock) if _make else kind(clock)


@contextlib.contextmanager
def beside_sqlite(seed: int) -> Iterator[None]:
    """Compare what is played meanwhile. By the seed, few turns and deliveries of a batch are usual, or many.

    Leases on SQLite go by the virtual clock, too. Raises StoresDiffer.
    """
    few = random.Random(seed).choice((1, 2, 8))
    clocks: list[Clock] = []
    stores: list[Lockstep] = []
    virtual = SimpleNamespace(time_ns=lambda: clocks[-1]() * 1000, monotonic=time.monotonic)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(sqlite_store, "time", virtual),
        mock.patch.object(usual_turns, "FEWEST", few),
        mock.patch.object(usual_deliveries, "FEWEST", few),
    ):

        def make(kind: type[SimulatedStore], clock: Clock) -> Lockstep:
            clocks.append(clock)
            beside = type(kind.__name__, (Lockstep, kind), {})
            stores.append(beside(Path(folder) / f"{len(stores)}.db", clock))
            return stores[-1]

        _make.append(make)
        try:
            yield
        finally:
            _make.pop()
            for store in stores:
                store.end()
            if differences := [each for store in stores for each in store.differences]:
                raise StoresDiffer(differences[0])


def chosen_store(seed: int) -> contextlib.AbstractContextManager[None]:
    """As the environment says: ``STORE=sqlite``."""
    return beside_sqlite(seed) if os.environ.get("STORE") == "sqlite" else contextlib.nullcontext()

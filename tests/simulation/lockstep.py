"""Another store beside the one in memory, in virtual time: both do every operation, and must answer it alike.

So whatever a simulation or a random law plays, it compares the two. Faults of processes and of the line to the store
come before both. The stores that can be beside it are in ``beside``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar, overload

from holdfast.store import protocol as p
from tests.simulation.faults import Recorder, SimulatedStore

APART: Final = {"close", "facts", "identity", "open", "twin", "watch", "workload"}
"""What is not compared: it is about the place of a store, not about what is in it."""

Clock = Callable[[], int]


class Beside(Protocol):
    """A store beside the one in memory."""

    async def ask(self, operation: str, *args: Any, **named: Any) -> Any: ...

    def order(self, batch: Sequence[p.Change]) -> list[list[int]]:
        """The places of a batch in parts, each in the order in which this store makes its changes."""

    def set_checkpoint(self, key: p.Key, data: bytes | None) -> None: ...

    def end(self) -> None: ...


class StoresDiffer(Exception):
    """An operation was not answered alike."""


class Lockstep(SimulatedStore):
    """What is put before the class of a store in memory, to have another store beside it."""

    def __init__(self, beside: Beside, clock: Clock) -> None:
        super().__init__(clock)
        self.differences: list[str] = []  # roles of a worker go on after an error: it is not forgotten here
        self._beside = beside
        self._both = asyncio.Lock()
        self._is_inside = False

    async def open(self, *, migrate: bool = True) -> None:
        await super().open(migrate=migrate)
        await self._beside.ask("open", migrate=migrate)

    async def close(self) -> None:
        facts = await self.facts(), await self._beside.ask("facts")
        kept = [(each.runs, each.inbox, each.work, each.blobs) for each in facts]
        if kept[0] != kept[1]:
            self.differences.append(f"in the end there are {kept[0]}, and beside them {kept[1]}")
        await super().close()
        await self._beside.ask("close")

    def end(self) -> None:
        """Let go of the store beside, also where nobody has closed this one."""
        self._beside.end()

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        """In an order that is as good as any: stores need not make the changes of a batch in the order given."""
        answers: dict[int, p.Answer] = {}
        for places in self._beside.order(batch):
            part = [batch[at] for at in places]
            answers.update(zip(places, await self._by_both("commit", super().commit, (part,), {}), strict=True))
        return [answers[at] for at in range(len(batch))]

    def lose_checkpoint(self, key: p.Key) -> None:
        super().lose_checkpoint(key)
        self._beside.set_checkpoint(key, None)

    def damage_checkpoint(self, key: p.Key) -> None:
        super().damage_checkpoint(key)
        self._beside.set_checkpoint(key, self._tables.checkpoints[key].data)

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
            found = await _outcome(self._beside.ask(name, *args, **named))
        if _unordered(name, expected) != _unordered(name, found):
            self.differences.append(
                f"{name}{(*args, named)!r:.400} is {expected!r:.2000}\nand beside it {found!r:.2000}"
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


def _unordered(name: str, answer: Any) -> Any:
    """The answer, in an order where it has none; of an error its type."""
    match answer:
        case BaseException():
            return type(answer)
        case p.Leased(runs=runs, work=work):
            return _by_key(runs), _by_key(work)
        case p.Unrooted(version=version, head=head, cells=cells, deleted=deleted):
            return version, head, sorted(cells), sorted(deleted), sorted(answer.held, key=lambda row: row[:2])
        case p.ClaimedRuns(runs=runs):
            return _by_key(runs), answer.next_wake_at, answer.limited
        case p.ClaimedWork(work=work):
            return _by_key(work), answer.next_available_at
        case [*rows] if name == "arrivals":
            return _by_key(rows)
        case [*rows] if name in ("cells", "rescue"):
            return sorted(rows)
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
    """The store of a simulation: in memory, and inside ``compared`` with another one beside it."""
    return _make[-1](kind, clock) if _make else kind(clock)


@contextlib.contextmanager
def compared(make_beside: Callable[[Clock], Beside]) -> Iterator[None]:
    """Compare what is played meanwhile with what such a store answers. Raises StoresDiffer."""
    stores: list[Lockstep] = []

    def make(kind: type[SimulatedStore], clock: Clock) -> Lockstep:
        stores.append(type(kind.__name__, (Lockstep, kind), {})(make_beside(clock), clock))
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

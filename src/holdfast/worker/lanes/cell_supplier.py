"""The cell supplier: it brings a lane the cells that its next turn needs. A program does no I/O, so they come first."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeGuard

from holdfast.cells.cell import CellRecord, decode_cell
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, CallSettled, SignalArrived
from holdfast.kernel.program import Program
from holdfast.lanes.counts import LaneCounts
from holdfast.programs.machine.lanes.succession import AT_ONCE
from holdfast.runs.clock import Clock
from holdfast.runs.lanes import LANE_EVENT, LANE_HEIR
from holdfast.store import protocol as p
from holdfast.store.patience import patiently
from holdfast.worker.held import Held

DUE_AT_ONCE: Final = 500
"""So many cells whose timers have come are handled in one turn; one, where the lane's last worker died over it. The
others follow in the next."""

_HEARD: Final = (LANE_EVENT, LANE_HEIR)


class Wanted(Protocol):
    """The cells that a turn needs."""

    @property
    def keys(self) -> tuple[bytes, ...]: ...
    @property
    def due_by(self) -> int | None: ...
    @property
    def moving(self) -> bool: ...


class Supplied(Program, Protocol):
    """A program whose turns need cells."""

    @property
    def lane_counts(self) -> Mapping[str, int]:
        """How many lanes its machine has here, and each that hears what it emits."""
        ...

    def wanted(self, heard: list[tuple[str, Payload]], settled: list[PromiseId], now: int) -> Wanted | None:
        """The cells that a turn with these arrivals needs and that are not here; None where all are."""
        ...

    def bring(
        self,
        cells: dict[bytes, CellRecord | None],
        due: list[CellRecord] | None,
        next_wake: int | None,
        moving: tuple[list[CellRecord], bool] | None,
    ) -> None:
        """The cells that were wanted, those whose timers have come, and when the next timer of the others comes; cells
        to hand over, and whether there are more of them."""
        ...

    def release(self) -> None:
        """The turn is taken: its cells need not stay in memory once it is committed."""
        ...


def _is_supplied(program: Program) -> TypeGuard[Supplied]:
    return hasattr(program, "bring")


class CellSupplier:
    """``schedule`` gives a run its turn, ``fail`` parks it where cells cannot be read, ``background`` lets work run."""

    def __init__(
        self,
        store: p.Store,
        clock: Clock,
        schedule: Callable[[Held], None],
        fail: Callable[[Held, str, Exception], None],
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._schedule = schedule
        self._fail = fail
        self._background = background
        self._counts = LaneCounts(store, clock)
        self._under_way: set[p.Key] = set()

    def must_read(self, held: Held) -> bool:
        """Whether cells are to be read before the run's turn. It gets the turn once they are here."""
        program = held.live.program
        if not _is_supplied(program) or held.only_records:
            return False
        if held.key in self._under_way:
            return True
        wanted = program.wanted(*_arrived(held), self._clock.now())
        if wanted is None:
            return False
        self._under_way.add(held.key)
        self._background(self._read(held, program, wanted))
        return True

    def release(self, held: Held) -> None:
        """A lane's turn was taken: its cells may leave memory. They are read again only when it is committed."""
        if _is_supplied(program := held.live.program):
            program.release()

    async def _read(self, held: Held, program: Supplied, wanted: Wanted) -> None:
        try:
            await patiently(partial(self._counts.confirm, held.key.tenant, program.lane_counts))
            rows = await patiently(partial(self._store.cells, held.key, wanted.keys)) if wanted.keys else []
            found: dict[bytes, CellRecord | None] = dict.fromkeys(wanted.keys)
            found.update((row.key, decode_cell(row.record)) for row in rows)
            due, next_wake = await self._due(held, wanted.due_by)
            moving = await self._moving(held) if wanted.moving else None
        except Exception as error:
            if not held.dropped:
                self._fail(held, "cannot read its cells", error)
            return
        finally:
            self._under_way.discard(held.key)
        if not held.dropped:
            program.bring(found, due, next_wake, moving)
            self._schedule(held)

    async def _moving(self, held: Held) -> tuple[list[CellRecord], bool]:
        """Some cells of a lane that hands all of them over, and whether there are more."""
        lane = held.key
        query, first = p.CellQuery(lane.tenant, held.workflow), p.CellCursor(lane.run, b"")
        rows = await patiently(partial(self._store.find_cells, query, AT_ONCE, first))
        own = [decode_cell(row.record) for row in rows if row.lane == lane.run]
        return own, len(own) == AT_ONCE

    async def _due(self, held: Held, by: int | None) -> tuple[list[CellRecord] | None, int | None]:
        if by is None:
            return None, None
        at_once = DUE_AT_ONCE if held.caution is None else 1
        rows = await patiently(partial(self._store.due_cells, held.key, by, at_once))
        due = [decode_cell(row.record) for row in rows]
        if len(due) == at_once:
            return due, by
        return due, await patiently(partial(self._store.next_wake, held.key, by))


def _arrived(held: Held) -> tuple[list[tuple[str, Payload]], list[PromiseId]]:
    """What the next turn delivers to the program: the events, and the settled promises."""
    execution = held.live
    heard = [each for each in execution.ledger.signals.unconsumed() if each[0] in _HEARD]
    settled = execution.undelivered()
    for each in held.arrivals:
        if type(each) is SignalArrived:
            heard.append((each.name, each.payload))
        elif type(each) is CallSettled or type(each) is AttemptFailed:
            settled.append(each.promise_id)
    return heard, settled

"""Dead letters: events that no cell could handle. Each is delivered again at most once, and leaves the list by that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from holdfast.client.pages import check_limit
from holdfast.client.views.cells import DeadLetterInfo, dead_letter_info, read_key
from holdfast.client.views.cursors import Page, read_cursor, write_cursor
from holdfast.errors import DeadLetterNotFound, HoldfastError, InvalidRequest
from holdfast.programs.machine.lanes.cell_turn import CIRCLE, UNHEARD
from holdfast.programs.machine.lanes.envelopes import Envelope
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.lanes import LaneMessage, lane_id, lane_of, place_of
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

LETTERS: Final = "dead letters"
_PAGE: Final = 200
_LANE: Final = lane_id("", 0).removesuffix(":0")


def letter_id(row: p.DeadRow) -> str:
    """The name of a dead letter: the machine and the lane that buried it, and its place in there."""
    return f"{row.lane.removeprefix(_LANE)}:{row.version}:{row.number}"


def _place(id: str) -> tuple[str, int, int]:
    lane, _, rest = id.rpartition(":")[0].rpartition(":")
    number = id.rpartition(":")[2]
    if not lane or not all(each.isascii() and each.isdecimal() and len(each) < 19 for each in (rest, number)):
        raise InvalidRequest(f"a dead letter is named MACHINE:LANE:VERSION:NUMBER, not {id!r:.100}")
    return f"{_LANE}{lane}", int(rest), int(number)


class DeadLetters:
    """The dead letters of an engine's machines."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kind = app.machine_kind

    def _info(self, row: p.DeadRow) -> DeadLetterInfo:
        machine = self._kind.machines.get(row.machine)
        key: Any = row.key
        if machine is not None:
            try:
                key = read_key(machine, row.key)
            except HoldfastError:  # the machine has other keys by now
                key = row.key
        return dead_letter_info(row, letter_id(row), key)

    async def all(self, tenant: str) -> AsyncIterator[DeadLetterInfo]:
        """All of a tenant, by lane and age."""
        after: tuple[str, int, int] | None = None
        while page := await self._app.store.dead_letters(tenant, _PAGE, after):
            for row in page:
                yield self._info(row)
            after = page[-1].place

    async def page(self, tenant: str, limit: int, after: str | None) -> Page[DeadLetterInfo]:
        """One page."""
        cursor = read_cursor(LETTERS, after)
        place = None if cursor is None else _place(cursor.id)
        rows = await self._app.store.dead_letters(tenant, check_limit(limit), place)
        more = len(rows) == limit
        next = write_cursor(LETTERS, p.Cursor(0, tenant, letter_id(rows[-1]))) if more else None
        return Page([self._info(row) for row in rows], next)

    async def find(self, tenant: str, id: str) -> p.DeadRow:
        """One. Raises DeadLetterNotFound."""
        lane, version, number = _place(id)
        rows = await self._app.store.dead_letters(tenant, 1, (lane, version, number - 1))
        if not rows or rows[0].place != (lane, version, number):
            raise missing(id)
        return rows[0]

    def messages(self, row: p.DeadRow, board: Switchboard, actor: str | None) -> list[LaneMessage]:
        """What is to be delivered: to the cell that it was meant for, or to all that hear it by now.

        Raises InvalidRequest where nobody does, and where the machine is not here.
        """
        if row.reason in (UNHEARD, CIRCLE):
            targets = board.targets(row.schema, row.value)
            if not targets:
                raise InvalidRequest(f"nobody hears {row.schema} still: a machine must hear it, then redeliver it")
        else:
            machine = self._kind.machines.get(row.machine)
            if machine is None:
                raise InvalidRequest(f"there is no machine {row.machine!r} here: import the module that has it")
            targets = [(row.machine, lane_of(row.key, machine.lanes), row.key)]
        id = letter_id(row)
        return [
            LaneMessage(
                machine,
                lane,
                Envelope(key, row.schema, row.value, 0, row.id, f"dead letter {id}", actor).write(),
                f"letter:{id}:{machine}",
                place_of(key),
            )
            for machine, lane, key in targets
        ]


def missing(id: str) -> DeadLetterNotFound:
    """There is no such dead letter."""
    return DeadLetterNotFound(f"there is no dead letter {id!r:.100}: somebody has redelivered it, or it never was.")

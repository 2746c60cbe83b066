"""Lists of cells: which are wanted, and where a page ended."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, TypedDict

import cbor2

from holdfast.cells.cell import STATUSES, CellRecord, CellStatus, decode_cell
from holdfast.client.views.cursors import read_cursor, write_cursor
from holdfast.client.views.times import microseconds
from holdfast.client.views.values import plain
from holdfast.errors import InvalidRequest
from holdfast.store import protocol as p

CELLS: Final = "cells"
_PAGE: Final = 500
MOST_READ: Final = 10_000
"""So many cells are looked at for one page. Where few of them are wanted, a page may be short, or even empty."""


class CellFilters(TypedDict, total=False):
    """What the wanted cells have in common. ``state`` gives fields of the state: ``{"stage": "paid"}``; a field of a
    field is written with a point."""

    status: CellStatus | None
    state: Mapping[str, Any] | None
    active_since: datetime.datetime | None


class CellFinder:
    """Reads the cells of a tenant's machine that are wanted. Raises InvalidRequest for an unknown status."""

    def __init__(self, store: p.Store, tenant: str, machine: str, filters: CellFilters) -> None:
        status, since = filters.get("status"), filters.get("active_since")
        if status is not None and status not in STATUSES:
            raise InvalidRequest(f"a cell's status is one of {', '.join(STATUSES)}, not {status!r:.60}")
        self._store = store
        self._fields = dict(filters.get("state") or {})
        active = None if since is None else microseconds(since.astimezone())
        self._query = p.CellQuery(tenant, machine, status, active)

    async def rows(self, after: p.CellCursor | None) -> AsyncIterator[p.CellRow]:
        """The wanted rows behind a place."""
        while True:
            found, after = await self.page(_PAGE, after)
            for row in found:
                yield row
            if after is None:
                return

    async def page(self, limit: int, after: p.CellCursor | None) -> tuple[list[p.CellRow], p.CellCursor | None]:
        """A page, and the place where the next begins; None at the end of the list."""
        found: list[p.CellRow] = []
        seen = 0
        place = after
        while seen < MOST_READ:
            rows = await self._store.find_cells(self._query, _PAGE, place)
            for row in rows:
                place = p.CellCursor(row.lane, row.key)
                if self._is_wanted(decode_cell(row.record)):
                    found.append(row)
                    if len(found) == limit:
                        return found, place
            if len(rows) < _PAGE:
                return found, None
            seen += len(rows)
        return found, place

    def _is_wanted(self, record: CellRecord) -> bool:
        if not self._fields:
            return True
        state = None if record.state is None else cbor2.loads(record.state)
        return all(_field(state, name) == value for name, value in self._fields.items())


def write_place(tenant: str, place: p.CellCursor | None) -> str | None:
    """The cursor of a place in a list of cells."""
    return None if place is None else write_cursor(CELLS, p.Cursor(0, tenant, f"{place.lane} {place.key.hex()}"))


def read_place(text: str | None) -> p.CellCursor | None:
    """The place that a cursor means. Raises InvalidRequest."""
    cursor = read_cursor(CELLS, text)
    if cursor is None:
        return None
    lane, _, key = cursor.id.rpartition(" ")
    try:
        return p.CellCursor(lane, bytes.fromhex(key))
    except ValueError as error:
        raise InvalidRequest("after= takes the `next` of an earlier page, as it was given.") from error


def _field(state: Any, path: str) -> Any:
    """A field of a state's plain data, as JSON has it; a value that nothing equals where there is none."""
    value = state
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return plain(value)


_MISSING: Final = object()

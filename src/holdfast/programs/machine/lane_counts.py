"""How many lanes a machine has in a tenant: settled by the first of its events, and kept from then on.

The lane of a key follows from their number. With another number most keys would lead to lanes that do not have their
cells, so a process that declares another one is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec

from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.errors import InvalidFunction
from holdfast.runs.clock import Clock
from holdfast.runs.lanes import lane_id
from holdfast.store import protocol as p

LANE_COUNT: Final = "lane_count"
"""The kind of the items that say how many lanes a machine has."""

ENGINE: Final = "engine"
"""Who acts in the audit, where the engine itself keeps something."""

_PAGE: Final = 200

Counted = tuple[str, str, int]


class _Body(msgspec.Struct, frozen=True):
    lanes: int


class LaneCounts:
    """``confirmed`` are those that are known to be in force: tenant, machine and number."""

    def __init__(self, store: p.Store, clock: Clock, confirmed: set[Counted] | None = None) -> None:
        self._store = store
        self._clock = clock
        self._confirmed = set[Counted]() if confirmed is None else confirmed

    async def confirm(self, tenant: str, declared: Mapping[str, int]) -> None:
        """See that these numbers are in force in the tenant; where none is, the declared one is from now on.

        Raises InvalidFunction where another one is.
        """
        for machine, lanes in declared.items():
            if (tenant, machine, lanes) not in self._confirmed:
                self._compare(tenant, machine, lanes, await self._settled(tenant, machine, lanes))

    async def check(self, tenant: str, machine: str, lanes: int) -> None:
        """For those who only look. Raises InvalidFunction where another number is in force."""
        if (tenant, machine, lanes) not in self._confirmed:
            present = await self.in_force(tenant, machine)
            if present is not None:
                self._compare(tenant, machine, lanes, present)

    async def in_force(self, tenant: str, machine: str) -> int | None:
        """The number that is in force; None where no event came yet."""
        item = await self._store.item(p.ItemKey(tenant, LANE_COUNT, machine))
        return None if item is None else msgspec.json.decode(item.body, type=_Body).lanes

    def _compare(self, tenant: str, machine: str, lanes: int, present: int) -> None:
        if present != lanes:
            raise InvalidFunction(_changed(tenant, machine, lanes, present))
        self._confirmed.add((tenant, machine, lanes))

    async def _settled(self, tenant: str, machine: str, lanes: int) -> int:
        while (present := await self.in_force(tenant, machine)) is None:
            now = self._clock.now()
            row = p.ItemRow(tenant, LANE_COUNT, machine, 1, msgspec.json.encode(_Body(lanes)), changed_at=now)
            record = Operated(now, LANE_COUNT, ENGINE, details={"machine": machine, "lanes": str(lanes)})
            noted = msgspec.structs.replace(note(tenant, None, record), id=f"{LANE_COUNT}:{machine}")
            await self._store.commit([p.Operate(noted, (p.PutItem(row),))])
        return present


async def lanes_of(store: p.Store, tenant: str | None = None, machine: str | None = None) -> AsyncIterator[list[p.Key]]:
    """The lanes that there may be, machine by machine: of one tenant or all, of one machine or all."""
    after: p.ItemKey | None = None
    while page := await store.items(LANE_COUNT, _PAGE, tenant=tenant, id=machine, after=after):
        for item in page:
            count = msgspec.json.decode(item.body, type=_Body).lanes
            yield [p.Key(item.tenant, lane_id(item.id, index)) for index in range(count)]
        after = page[-1].key


def _changed(tenant: str, machine: str, declared: int, present: int) -> str:
    return (
        f"machine {machine} is declared with lanes={declared}, and its cells in tenant {tenant} are spread over "
        f"{present} lanes: their keys would no longer be found. Declare lanes={present} again; for another number, "
        "give the machine another name, or fork its cells into another tenant."
    )

"""How many lanes a machine has in a tenant: settled by the first of its events, and kept from then on.

Events are addressed by the number of lanes with which the machine began there, for good: with another number most keys
would lead to lanes that do not have their cells, so a process that declares another one is refused. Lanes can be split:
what is addressed to a lane that was split reaches the heir that has the key (see ``store.splits``).
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


class LaneSplit(msgspec.Struct, frozen=True):
    """The lanes of a machine were split: into so many, when."""

    lanes: int
    at: int


class LaneTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lanes of a machine in a tenant: how many it began with, and how they were split since.

    The lanes of each split are numbered behind those that were there before, and divide all keys evenly.
    """

    lanes: int
    splits: tuple[LaneSplit, ...] = ()

    @property
    def in_force(self) -> int:
        """Among how many lanes the keys are divided."""
        return self.splits[-1].lanes if self.splits else self.lanes

    @property
    def total(self) -> int:
        """How many lanes there are with those that were split."""
        return self.lanes + sum(each.lanes for each in self.splits)

    @property
    def first(self) -> int:
        """The number of the first lane that has keys."""
        return self.total - self.in_force

    def lanes_at(self, moment: int) -> range:
        """The lanes among which the keys were divided at a time."""
        first, lanes = 0, self.lanes
        for each in self.splits:
            if each.at <= moment:
                first, lanes = first + lanes, each.lanes
        return range(first, first + lanes)

    def stretch(self, index: int) -> tuple[int, int]:
        """The number of the first lane that was made with this one, and how many there were."""
        first = 0
        for count in (self.lanes, *(each.lanes for each in self.splits)):
            if index < first + count:
                break
            first += count
        return first, count


def read_table(item: p.ItemRow) -> LaneTable:
    """The lanes that an item tells of."""
    return msgspec.json.decode(item.body, type=LaneTable)


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
        """The number with which it began, by which events are addressed; None where no event came yet."""
        found = await self.table(tenant, machine)
        return None if found is None else found.lanes

    async def table(self, tenant: str, machine: str) -> LaneTable | None:
        """The lanes of a machine; None where no event came yet."""
        item = await self._store.item(p.ItemKey(tenant, LANE_COUNT, machine))
        return None if item is None else read_table(item)

    def _compare(self, tenant: str, machine: str, lanes: int, present: int) -> None:
        if present != lanes:
            raise InvalidFunction(_changed(tenant, machine, lanes, present))
        self._confirmed.add((tenant, machine, lanes))

    async def _settled(self, tenant: str, machine: str, lanes: int) -> int:
        while (present := await self.in_force(tenant, machine)) is None:
            now = self._clock.now()
            row = p.ItemRow(tenant, LANE_COUNT, machine, 1, msgspec.json.encode(LaneTable(lanes)), changed_at=now)
            record = Operated(now, LANE_COUNT, ENGINE, details={"machine": machine, "lanes": str(lanes)})
            noted = msgspec.structs.replace(note(tenant, None, record), id=f"{LANE_COUNT}:{machine}")
            await self._store.commit([p.Operate(noted, (p.PutItem(row),))])
        return present


async def lanes_of(store: p.Store, tenant: str | None = None, machine: str | None = None) -> AsyncIterator[list[p.Key]]:
    """The lanes that there may be, machine by machine: of one tenant or all, of one machine or all."""
    after: p.ItemKey | None = None
    while page := await store.items(LANE_COUNT, _PAGE, tenant=tenant, id=machine, after=after):
        for item in page:
            yield [p.Key(item.tenant, lane_id(item.id, index)) for index in range(read_table(item).total)]
        after = page[-1].key


async def lane_line(store: p.Store, lane: p.Key, place: int) -> list[p.Run]:
    """The lanes that have had the key of a place, from the one by which it is addressed to the one that has it now."""
    line = await store.get([lane])
    while line and (heir := p.heir_of(line[-1].key, line[-1].split, place)) is not None:
        found = await store.get([heir])
        if not found:
            break
        line = [*line, *found]
    return line


def _changed(tenant: str, machine: str, declared: int, present: int) -> str:
    return (
        f"machine {machine} is declared with lanes={declared}, and its cells in tenant {tenant} are spread over "
        f"{present} lanes: their keys would no longer be found. Declare lanes={present} again. For more lanes, split "
        f"them with `holdfast machines split {machine}`; for fewer, give the machine another name, or fork its cells "
        "into another tenant."
    )

"""What a scheduler must know of the things that schedules start: whether they may start now, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from holdfast.schedules.planner import OPEN, Clearance
from holdfast.schedules.schedule import Schedule
from holdfast.store import protocol as p


class Judgement(msgspec.Struct, frozen=True, gc=False):
    """Whether the ticks of a schedule may start now, and what must still hold when they do."""

    gate: Clearance = OPEN
    conditions: tuple[p.ExpectItem, ...] = ()
    template: p.ItemRow | None = None


class NotHere(Exception):
    """This worker does not have what a schedule starts: another one may have it."""


class Launcher(Protocol):
    """Knows what a schedule starts."""

    async def declare(self) -> None:
        """Make the schedules that are declared in the code of this worker."""
        ...

    async def judge(self, schedules: Mapping[p.ItemKey, Schedule]) -> Mapping[p.ItemKey, Judgement]:
        """Whether each may start something now, by its owner and its template."""
        ...

    async def start(self, key: p.ItemKey, schedule: Schedule, judgement: Judgement, tick: int, now: int) -> p.Start:
        """The change that starts a tick's run. Raises a HoldfastError where it cannot be started, and NotHere."""
        ...

"""The cast of a trace: what its names stand for in the product, and when its times are.

Tenants of different traces share a store, so their names are prefixed. Instances are runs, numbered by the trace; the
numbers and the ids of templates are of all tenants in the model, and of one tenant in the product.
"""

from __future__ import annotations

import datetime
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.client.engine import Holdfast
from holdfast.errors import ScheduleNotFound
from holdfast.people.tenants import TenantQuota
from holdfast.store import protocol as p
from holdfast.testing.model_traces.engine import TraceEngine
from holdfast.testing.model_traces.stage import Place, Stage
from holdfast.testing.model_traces.trace import ModelTrace

DAY: Final = 86_400_000_000
"""The model's unit of time, in microseconds of the engine's clock."""
MOMENT: Final = 10_000_000
"""Between two steps of a trace so much time passes at least, which is nothing in the model."""


class TraceSchedule(msgspec.Struct):
    """A schedule of the product that stands for a scheduled run of the model. ``refused_by`` is what ended it."""

    key: p.ItemKey
    template: str
    tenant: str
    time: int
    user: str


class Cast:
    """Who is who."""

    def __init__(self, engine: TraceEngine, trace: ModelTrace, prefix: str) -> None:
        self.engine = engine
        self.trace = trace
        self.stage = Stage()
        self.runs: dict[int, p.Key] = {}
        self.schedules: list[TraceSchedule] = []
        self.triggered: set[int] = set()
        self._prefix = prefix
        self._begin = engine.clock.now()
        self._made = 0

    @property
    def app(self) -> Holdfast:
        return self.engine.app

    async def enter(self) -> None:
        """Make the tenants and the users, with the cap of the model."""
        limits = TenantQuota(max_concurrency=self.trace.constants.max_concurrent_runs)
        for tenant in self.trace.constants.tenants:
            await self.app.tenants.create(self.tenant(tenant), limits=limits)
        for name, user in self.trace.init.users.items():
            await self.app.users.create(name, level=user.level, tenant=self.tenant(user.tenant))

    async def leave(self) -> None:
        """End what the trace leaves behind, so that the next one has the engine for itself."""
        for schedule in self.schedules:
            with suppress(ScheduleNotFound):  # of two for one time, one was deleted when the other had started its run
                await self.app.schedules.delete(schedule.key.id, tenant=schedule.key.tenant)
        rows = await self.app.store.get(list(self.runs.values())) if self.runs else []
        for row in rows:
            if row.ended_at is None:
                await self.app.run(row.key.run, tenant=row.key.tenant).cancel("the trace is over")

    def bound(self, user: str) -> Holdfast:
        """A client that acts for a user of the trace."""
        known = self.trace.init.users.get(user)
        tenant = self.tenant(known.tenant if known is not None else self.trace.constants.tenants[0])
        return self.app.acting_as(user, tenant=tenant)

    # -- names ---------------------------------------------------------------------------------------------------------

    def tenant(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def tenant_named(self, tenant: str) -> str:
        return tenant.removeprefix(self._prefix)

    def new_id(self, what: object) -> str:
        """An id that nothing has yet."""
        self._made += 1
        return f"{what}-{self._made}"

    def number_of(self, run: str, tenant: str) -> int | None:
        """The number of an instance; None where the trace knows nothing of the run."""
        return next((number for number, key in self.runs.items() if key == p.Key(tenant, run)), None)

    def place(self, number: int, step: str) -> Place:
        key = self.runs[number]
        return key.tenant, key.run, step

    # -- times ---------------------------------------------------------------------------------------------------------

    def moment_of(self, time: int, index: int = 0) -> int:
        """The engine's time at a step of the trace, at this time of the model."""
        return self._begin + time * DAY + index * MOMENT

    def date_of(self, time: int) -> datetime.datetime:
        """A time of the model as a date."""
        return datetime.datetime.fromtimestamp(self.moment_of(time) / 1e6, datetime.UTC)

    def time_of(self, date: datetime.datetime) -> int:
        """The time of the model at a date."""
        return (round(date.timestamp() * 1e6) - self._begin) // DAY

"""What is, in the product: read through its own views, in the words of a trace's states.

A step at the door of the stage was begun by the engine, which it may do at any time when the step is ready. For the
trace it is pending until the trace executes it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client.views.schedules import ScheduleInfo
from holdfast.client.views.templates import InstanceStep, TemplateInfo, TemplateInstance
from holdfast.errors import ScheduleNotFound, TemplateNotFound
from holdfast.programs.definition import model as m
from holdfast.programs.definition.walks import all_nodes
from holdfast.store import protocol as p
from holdfast.testing.model_traces.cast import Cast, TraceSchedule
from holdfast.testing.model_traces.stage import PREFIX

Found = dict[str, Any]


class ObservedEngine:
    """Reads the product for one trace."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._seen: dict[int, tuple[tuple[p.Run, int], TemplateInstance]] = {}
        self._plans: dict[str, tuple[list[str], dict[str, list[str]]]] = {}

    async def state(self) -> Found:
        """The whole state, but for the audit."""
        cast = self._cast
        instances = {number: await self.instance(number) for number in cast.runs}
        rows = await cast.app.store.get(list(cast.runs.values())) if cast.runs else []
        over = {row.key for row in rows if row.ended_at is not None}
        return {
            "templates": await self._templates(),
            "instances": {str(number): self._record(number, each) for number, each in instances.items()},
            "scheduledRuns": sorted({(s.template, s.tenant, s.time) for s in await self.scheduled()}),
            "runningWorkflows": sorted(number for number, each in instances.items() if each.status == "running"),
            "completedWorkflows": sorted(number for number, key in cast.runs.items() if key in over),
        }

    # -- instances -----------------------------------------------------------------------------------------------------

    async def instance(self, number: int) -> TemplateInstance:
        """An instance of the trace, as the product shows it."""
        key = self._cast.runs[number]
        basis = await self.row(key), self._cast.stage.attempts(key.tenant, key.run)
        if number not in self._seen or self._seen[number][0] != basis:
            found = await self._cast.app.templates.instance(key.run, tenant=key.tenant)
            known = self._cast.trace.constants.steps  # beside them are the nodes that end a run when the trace says so
            steps = tuple(each for each in found.steps if each.name in known)
            self._seen[number] = basis, msgspec.structs.replace(found, steps=steps)
        return self._seen[number][1]

    def step(self, number: int, found: TemplateInstance, step: str) -> InstanceStep:
        """A step of an instance. One that the template does not have is skipped."""
        each = next((each for each in found.steps if each.name == step), InstanceStep(step, "skipped"))
        stage, place = self._cast.stage, self._cast.place(number, step)
        waiting = stage.at_door(place)
        # The first attempt may come at any time. A later one is expected when the trace has retried the step.
        if each.state == "running" and waiting is not None and waiting.number == stage.retries(place) + 1:
            return InstanceStep(step, "pending", each.retries)
        return each

    def _record(self, number: int, found: TemplateInstance) -> Found:
        cast = self._cast
        steps = {each: self.step(number, found, each) for each in cast.trace.constants.steps}
        return {
            "template": found.template,
            "tenant": cast.tenant_named(found.tenant),
            "status": found.status,
            "startedBy": found.started_by,
            "startTime": cast.time_of(found.started_at),
            "result": found.result,
            "steps": {name: [each.state, each.retries] for name, each in steps.items()},
        }

    # -- templates -----------------------------------------------------------------------------------------------------

    async def template(self, id: str) -> TemplateInfo | None:
        """A template of any tenant."""
        for tenant in self._cast.trace.constants.tenants:
            try:
                return await self._cast.app.templates.show(id, tenant=self._cast.tenant(tenant))
            except TemplateNotFound:
                continue
        return None

    async def _templates(self) -> dict[str, Found]:
        cast, found = self._cast, dict[str, Found]()
        for tenant in cast.trace.constants.tenants:
            async for info in cast.app.templates.list(tenant=cast.tenant(tenant)):
                steps, needs = await self._plan(info)
                found[info.id] = {
                    "tenant": tenant,
                    "status": info.status,
                    "steps": steps,
                    "trigger": info.trigger,
                    "dependencies": needs,
                }
        return found

    async def _plan(self, info: TemplateInfo) -> tuple[list[str], dict[str, list[str]]]:
        """The steps of a template and what each needs, read from its definition."""
        if info.program.digest not in self._plans:
            published = await self._cast.app.definitions.load(str(info.program), tenant=info.tenant)
            assert published is not None
            verbs = [node.verb for node in all_nodes(published.definition.steps) if isinstance(node.verb, m.GraphVerb)]
            nodes = [node for verb in verbs for node in verb.nodes]
            needs = {node.name: sorted(each.removeprefix(PREFIX) for each in node.needs) for node in nodes}
            self._plans[info.program.digest] = [node.name for node in nodes], needs
        return self._plans[info.program.digest]

    # -- schedules -----------------------------------------------------------------------------------------------------

    async def scheduled(self) -> list[TraceSchedule]:
        """The schedules that have not started anything yet."""
        return [each for each in self._cast.schedules if await self.is_scheduled(each)]

    async def is_scheduled(self, schedule: TraceSchedule) -> bool:
        info = await self.schedule(schedule)
        return info is not None and info.status in ("active", "waiting")

    async def schedule(self, schedule: TraceSchedule) -> ScheduleInfo | None:
        """A schedule of the trace; None where it was deleted."""
        try:
            return await self._cast.app.schedules.show(schedule.key.id, tenant=schedule.key.tenant)
        except ScheduleNotFound:
            return None

    async def under_way(self, tenant: str) -> int:
        """How many instances of a tenant have a place."""
        rows = await self._cast.app.store.get(list(self._cast.runs.values())) if self._cast.runs else []
        return sum(row.key.tenant == tenant and row.begun_at is not None and row.ended_at is None for row in rows)

    async def row(self, key: p.Key) -> p.Run:
        (row,) = await self._cast.app.store.get([key])
        return row

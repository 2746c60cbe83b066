"""Templates and their instances as people and programs see them, and as ``--json`` writes them. The keys are stable."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from holdfast.client.views.states import InstanceState
from holdfast.client.views.times import iso, moment
from holdfast.store.protocol import ItemRow
from holdfast.templates.story import PlannedState
from holdfast.templates.template import (
    EventRoute,
    StartTrigger,
    TemplateCaps,
    TemplateProgram,
    TemplateStatus,
    read_template,
    status_of,
)

InstanceResult = Literal["in_progress", "success", "failure", "cancelled"]


class TemplateInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A template at one moment. ``version`` counts what its authors changed."""

    id: str
    tenant: str
    name: str
    status: TemplateStatus
    version: int
    trigger: StartTrigger
    program: TemplateProgram
    owner: str | None
    caps: TemplateCaps
    input: Any
    route: EventRoute | None
    changed_at: datetime


class InstanceStep(msgspec.Struct, frozen=True):
    """A step of an instance. ``retries`` counts its failed attempts; ``since`` is when its state began."""

    name: str
    state: PlannedState
    retries: int = 0
    since: datetime | None = None
    needs: tuple[str, ...] = ()


class TemplateInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a template started, in the words of templates."""

    id: str
    template: str
    template_version: int
    tenant: str
    status: InstanceState
    started_by: str | None
    started_at: datetime
    steps: tuple[InstanceStep, ...]
    result: InstanceResult

    @property
    def step_states(self) -> dict[str, PlannedState]:
        """The state of each step, by name."""
        return {step.name: step.state for step in self.steps}

    @property
    def retry_counts(self) -> dict[str, int]:
        """How many attempts of each step failed, by name."""
        return {step.name: step.retries for step in self.steps}


def template_info(row: ItemRow) -> TemplateInfo:
    """A template as a view. Raises StoreCorrupt."""
    template = read_template(row)
    return TemplateInfo(
        id=row.id,
        tenant=row.tenant,
        name=template.name,
        status=status_of(row),
        version=template.version,
        trigger=template.trigger,
        program=template.program,
        owner=template.owner,
        caps=template.caps,
        input=template.input,
        route=template.route,
        changed_at=moment(row.changed_at),
    )


def template_record(info: TemplateInfo) -> dict[str, Any]:
    """A template as ``--json`` writes it."""
    program, route = info.program, info.route
    pinned = {"version": program.version, "digest": program.digest} if program.is_definition else {}
    return {
        "id": info.id,
        "tenant": info.tenant,
        "name": info.name,
        "status": info.status,
        "version": info.version,
        "trigger": info.trigger,
        "program": {"kind": program.kind, "name": program.name, **pinned},
        "owner": info.owner,
        "caps": {name: getattr(info.caps, name) for name in info.caps.__struct_fields__},
        "input": info.input,
        "route": None if route is None else {"event": route.event, "filter": route.filter, "input": route.input},
        "changed_at": iso(info.changed_at),
    }


def template_instance_record(instance: TemplateInstance) -> dict[str, Any]:
    """An instance as ``--json`` writes it."""
    return {
        "id": instance.id,
        "template": instance.template,
        "template_version": instance.template_version,
        "tenant": instance.tenant,
        "status": instance.status,
        "started_by": instance.started_by,
        "started_at": iso(instance.started_at),
        "steps": [
            {
                "name": step.name,
                "state": step.state,
                "retries": step.retries,
                "since": iso(step.since),
                "needs": list(step.needs),
            }
            for step in instance.steps
        ],
        "result": instance.result,
    }

"""What a schedule starts: found, and checked where that is possible here, before it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.client.schedules.launcher import template_key
from holdfast.client.schedules.requests import Target, read_target
from holdfast.errors import InvalidRequest, TemplateConflict, TemplateNotFound
from holdfast.programs.function.values import encode
from holdfast.runs.program_names import DEFINITION
from holdfast.schedules.schedule import Input, Schedule
from holdfast.store import protocol as p
from holdfast.templates.template import check_active, read_template

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


async def aimed(
    app: Holdfast, tenant: str, schedule: Schedule, workflow: Target | None, template: str | None, input: object
) -> Schedule:
    """The schedule with what it starts and its arguments. Raises InvalidRequest, InvalidArguments, TemplateNotFound
    and TemplateConflict."""
    if (workflow is None) == (template is None):
        raise InvalidRequest("a schedule starts a workflow or a template: name one of them")
    if template is not None:
        found = replace(schedule, workflow="", template=template)
        row = await template_of(app, tenant, found)
        if row is not None:
            check_active(row)
        payload = encode([[] if input is None else [input], {}], "the input")
        return replace(found, input=Input(payload.data, payload.codec))
    name, args, kwargs = read_target(workflow, input)
    _, pin, _, _ = await app.starter.call_by_name(name, tenant, args, kwargs)
    payload = encode([args, kwargs], f"the arguments of {name}")
    program = pin.kind if pin.kind == DEFINITION else ""
    return replace(schedule, workflow=name, template="", input=Input(payload.data, payload.codec), program=program)


async def offered(app: Holdfast, tenant: str, schedule: Schedule) -> tuple[p.ExpectItem, ...]:
    """The condition that what it starts is still offered when this is committed. Raises as ``aimed`` does."""
    row = await template_of(app, tenant, schedule)
    if row is None:
        return ()
    check_active(row)
    return (p.ExpectItem(row.key, row.version),)


async def template_of(app: Holdfast, tenant: str, schedule: Schedule) -> p.ItemRow | None:
    """Its template; None where it starts a workflow. Raises TemplateNotFound, and TemplateConflict for one that events
    start."""
    if not schedule.template:
        return None
    row = await app.store.item(template_key(tenant, schedule))
    if row is None:
        raise TemplateNotFound(f"there is no template {schedule.template!r} in tenant {tenant!r}.")
    if read_template(row).trigger == "event":
        raise TemplateConflict(
            f"template {schedule.template!r} is started by events, and cannot be scheduled: "
            "give it the trigger manual or scheduled."
        )
    return row

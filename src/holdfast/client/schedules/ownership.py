"""The owner of a schedule, in whose name its runs are started: the user who made, changed or resumed it last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.client.people.permission import require_later
from holdfast.client.people.tenants import check_workspace
from holdfast.client.schedules.launcher import owner_gate
from holdfast.errors import NotPermitted
from holdfast.people.users import user_key
from holdfast.schedules.schedule import Schedule
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


async def taken(app: Holdfast, id: str, schedule: Schedule) -> Schedule:
    """The schedule, owned by the bound caller from now on. Raises NotPermitted if another owner is named, or the caller
    may not start what it starts. A schedule of the process itself stays as it is."""
    if app.binding is None:
        return schedule
    await require_start(app, id, schedule)
    return replace(schedule, owner=app.person_of(schedule.owner))


async def require_start(app: Holdfast, id: str, schedule: Schedule) -> None:
    """The bound caller may start what the schedule starts. Raises NotPermitted."""
    await require_later(app, f"schedule {id}", [schedule.operation])


async def start_conditions(
    app: Holdfast, key: p.ItemKey, schedule: Schedule, template: p.ItemRow | None, who: str | None
) -> tuple[p.ExpectItem, ...]:
    """The conditions of a start out of turn. Raises NotPermitted if it is in the name of the owner, who may no longer
    start runs, and WorkspaceNotFound as ``app.start``."""
    await check_workspace(app, key.tenant, schedule.workspace)
    expected = () if template is None else (p.ExpectItem(template.key, template.version),)
    if who is not None or schedule.owner is None:
        return (*app.conditions(), *expected)
    owner = user_key(key.tenant, schedule.owner)
    user = await app.store.item(owner)
    if (clearance := owner_gate(user)).verdict != "open":
        raise NotPermitted(f"{clearance.reason}: say by= who does it.", operation="runs.start")
    return (*app.conditions(), *expected, p.ExpectItem(owner, 0 if user is None else user.version))

"""The launcher: what the tick of a schedule starts, and whether it may, as its owner and its template are now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cbor2

from holdfast.people.permissions import LEAST
from holdfast.people.tenants import read_workspace, workspace_key
from holdfast.people.users import read_user, user_key
from holdfast.runs.birth import Birth, Trigger, origin_of
from holdfast.runs.program_names import DEFINITION
from holdfast.schedules.launch import Judgement, NotHere
from holdfast.schedules.planner import OPEN, Clearance
from holdfast.schedules.schedule import TRIGGER, Schedule, run_id
from holdfast.schedules.timing import written
from holdfast.store import protocol as p
from holdfast.templates.start import instance_start
from holdfast.templates.template import TEMPLATE, read_template, status_of

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

Items = dict[p.ItemKey, p.ItemRow | None]


class ScheduleLauncher:
    """Judges and starts the ticks of one engine's schedules."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    async def declare(self) -> None:
        """See ``Launcher.declare``."""
        from holdfast.client.schedules.declarer import declare_all

        await declare_all(self._app)

    async def judge(self, schedules: Mapping[p.ItemKey, Schedule]) -> Mapping[p.ItemKey, Judgement]:
        """Each template, each workspace and each owner is read once."""
        items: Items = {}
        return {key: await self._judged(key.tenant, schedule, items) for key, schedule in schedules.items()}

    async def _judged(self, tenant: str, schedule: Schedule, items: Items) -> Judgement:
        conditions: list[p.ExpectItem] = []
        gate, template = OPEN, None
        if schedule.owner is not None:
            key = user_key(tenant, schedule.owner)
            user = await self._item(key, items)
            conditions.append(p.ExpectItem(key, 0 if user is None else user.version))
            gate = owner_gate(user)
        if schedule.workspace:
            key = workspace_key(tenant, schedule.workspace)
            workspace = await self._item(key, items)
            conditions.append(p.ExpectItem(key, 0 if workspace is None else workspace.version))
            gate = workspace_gate(workspace) if gate.verdict == "open" else gate
        if schedule.template:
            key = template_key(tenant, schedule)
            template = await self._item(key, items)
            conditions.append(p.ExpectItem(key, 0 if template is None else template.version))
            of_template = template_gate(template, schedule.template)
            gate = of_template if of_template.verdict in ("end", "hold") or gate.verdict == "open" else gate
        return Judgement(gate, tuple(conditions), template)

    async def _item(self, key: p.ItemKey, items: Items) -> p.ItemRow | None:
        if key not in items:
            items[key] = await self._app.store.item(key)
        return items[key]

    async def start(self, key: p.ItemKey, schedule: Schedule, judgement: Judgement, tick: int, now: int) -> p.Start:
        """See ``Launcher.start``."""
        return (await self.birth(key, schedule, judgement.template, tick, now)).start(now)

    async def birth(
        self,
        key: p.ItemKey,
        schedule: Schedule,
        template: p.ItemRow | None,
        tick: int,
        now: int,
        actor: str | None = None,
    ) -> Birth:
        """The run of a tick, for whoever asks for it, else for the owner. Raises a HoldfastError where it cannot be
        started."""
        actor = actor or schedule.owner
        run, trigger = run_id(key.id, tick), Trigger(TRIGGER, f"{key.id}@{written(tick)}")
        if template is not None:
            return await self._instance(schedule, template, run, trigger, actor, now)
        name, pin, input, keep = await self._app.starter.call_by_name(
            schedule.workflow, key.tenant, *arguments_of(schedule)
        )
        if schedule.program == DEFINITION and pin.kind != DEFINITION:
            raise NotHere(f"it starts the definition {schedule.workflow}, which is neither published nor given here")
        return Birth(
            key=p.Key(key.tenant, run),
            workflow=name,
            pin=pin,
            input=input,
            priority=schedule.priority,
            attributes=schedule.attributes,
            origin=origin_of(schedule.workspace, actor, trigger),
            keep=keep,
        )

    async def _instance(
        self, schedule: Schedule, template: p.ItemRow, run: str, trigger: Trigger, actor: str | None, now: int
    ) -> Birth:
        found = read_template(template)
        definition = None
        if found.program.is_definition:
            accepted = await self._app.definitions.load(str(found.program), tenant=template.tenant)
            definition = None if accepted is None else accepted.definition
        return instance_start(
            template,
            value_of(schedule),
            run,
            trigger,
            schedule.workspace,
            actor,
            now,
            functions=self._app.workflows,
            definition=definition,
            priority=schedule.priority,
        ).birth


def template_key(tenant: str, schedule: Schedule) -> p.ItemKey:
    return p.ItemKey(tenant, TEMPLATE, schedule.template)


def owner_gate(user: p.ItemRow | None) -> Clearance:
    """Whether the owner may still start runs. An owner who is no user is the process's own, and may."""
    if user is None:
        return OPEN
    found = read_user(user)
    if found.disabled:
        return Clearance("refuse", f"its owner {found.name} is disabled")
    if found.level < (needed := LEAST["runs.start"]):
        return Clearance("refuse", f"its owner {found.name} has level {found.level}, and to start runs needs {needed}")
    return OPEN


def workspace_gate(workspace: p.ItemRow | None) -> Clearance:
    """Whether runs may still start in a workspace. One that nobody made is a name only."""
    if workspace is None or not read_workspace(workspace).archived:
        return OPEN
    return Clearance("refuse", f"workspace {workspace.id!r} is archived")


def template_gate(template: p.ItemRow | None, id: str) -> Clearance:
    """Whether a template's ticks may start, by its status and trigger."""
    if template is None:
        return Clearance("end", f"there is no template {id!r} any more")
    status, trigger = status_of(template), read_template(template).trigger
    if status == "archived":
        return Clearance("end", f"template {id!r} is archived")
    if trigger == "event":
        return Clearance("refuse", f"template {id!r} is started by events")
    if status != "active":
        return Clearance("hold", f"template {id!r} is {status}")
    return OPEN


def arguments_of(schedule: Schedule) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of each run, as plain data."""
    if not schedule.input.data:
        return (), {}
    args, kwargs = cbor2.loads(schedule.input.data)
    return tuple(args), kwargs


def value_of(schedule: Schedule) -> Any:
    """The arguments as one value, as templates and definitions take it: a map where they have names."""
    args, kwargs = arguments_of(schedule)
    return args[0] if args else kwargs or None

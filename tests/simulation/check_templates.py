"""The laws of tenants, users, templates and schedules, read off the audit, the journals and what steps saw.

- T-28: whatever is shown of templates, instances and steps is of its kind.
- T-29, T-30: who did it had the level for it at that moment. The order of a tenant's audit is that of its commits, and
  it has every change of a user.
- T-31: whoever acts, what is acted upon and all that comes of it are of one tenant.
- T-32: never more runs of a tenant are under way than its cap allows.
- T-33: no step is tried more often than it may be.
- T-34: an instance ends once, and does nothing after that.
- T-35: no step begins before what it depends on has succeeded: in the journal, and in the world.
- T-36: the audit has every action, and its export is a legal behaviour of the model.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any, Final, get_args

from holdfast import Holdfast
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.client.governance.export import ExportedAction
from holdfast.client.views.states import InstanceState
from holdfast.client.views.templates import InstanceResult, TemplateInstance
from holdfast.store import protocol as p
from holdfast.templates.story import PlannedState
from holdfast.templates.template import STATUSES, TEMPLATE, TRIGGERS
from holdfast.testing.model_traces.exported import ACTIONS
from holdfast.testing.model_traces.model import Model
from holdfast.testing.model_traces.rules import refusals
from holdfast.testing.model_traces.trace import Constants, TraceUser
from tests.simulation.violation import Violation

AUTHORING: Final = frozenset(
    {"create_template", "activate_template", "pause_template", "resume_template", "archive_template"}
)
EXECUTING: Final = frozenset({"start_workflow", "cancel", "schedule_workflow", "trigger_scheduled"})
OPERATOR: Final = "the operator"
"""Who is bound to no user, and may do everything."""
ENDS: Final = frozenset({"complete_workflow", "fail_workflow", "cancel_workflow"})
BEGINS: Final = frozenset({"start_workflow", "trigger_scheduled"})


class Ground:
    """What steps do in the world, and what they find there."""

    def __init__(self, source: random.Random, caps: dict[str, int], attempts: int) -> None:
        self._source = source
        self.caps = caps
        self.attempts = attempts
        self.reached: Counter[str] = Counter()
        self.begun: list[tuple[str, str, str, frozenset[str]]] = []
        self._returned: dict[tuple[str, str], set[str]] = {}

    async def perform(self, tenant: str, run: str, name: str) -> None:
        """One attempt of a step."""
        done = self._returned.setdefault((tenant, run), set())
        self.begun.append((tenant, run, name, frozenset(done)))
        await asyncio.sleep(self._source.choice((0.0, 0.5, 4.0, 15.0)))
        if self._source.random() < 0.25:
            self.reached["a step failed"] += 1
            raise ValueError("it fails")
        done.add(name)


async def check_laws(app: Holdfast, store: p.Store, ground: Ground, most: Counter[str]) -> None:
    """Raises Violation."""
    for tenant, cap in ground.caps.items():
        if most[tenant] > cap:
            raise Violation(f"{most[tenant]} runs of {tenant} were under way, and {cap} may be (T-32)")
        if most[tenant] == cap:
            ground.reached["at the cap"] += 1
        acts = [(entry, r.decode(entry.body)) async for entry in entries_of(store, p.AuditQuery(tenant))]
        operated = [record for _, record in acts if isinstance(record, r.Operated)]
        check_levels(tenant, operated, ground.reached)
        rows = [row for row in await store.find(p.Query(tenant=tenant), 100_000) if TEMPLATE in row.attributes]
        await _check_audit(app, store, tenant, operated, rows)
        instances = {row.key.run: await app.templates.instance(row.key.run, tenant=tenant) for row in rows}
        for instance in instances.values():
            _check_instance(instance, tenant, ground)
        exported = [action async for action in app.audit.export(tenant=tenant)]
        check_story(tenant, exported, ground)
        _check_world(tenant, ground, exported)


def check_levels(tenant: str, operated: list[r.Operated], reached: Counter[str]) -> None:
    """T-29, T-30 and T-31: a fold over the audit."""
    levels: dict[str, int] = {}
    for act in operated:
        if act.act in ("create_user", "change_user"):
            is_enabled = act.details["status"] != "disabled"
            levels[act.details["user"]] = int(act.details["level"]) if is_enabled else 0
            continue
        needed, law = (5, "T-29") if act.act in AUTHORING else (4, "T-30")
        if act.act not in AUTHORING | EXECUTING or act.who == OPERATOR:
            continue
        if act.who not in levels:
            raise Violation(f"{act.who} did {act.act} in {tenant}, and is no user there (T-31)")
        if levels[act.who] < needed:
            raise Violation(f"{act.who} of level {levels[act.who]} did {act.act} in {tenant} ({law})")
        reached[f"judged {law}"] += 1


async def _check_audit(
    app: Holdfast, store: p.Store, tenant: str, operated: list[r.Operated], rows: list[p.Run]
) -> None:
    """T-31 and T-36: each thing has the entries of all that was done to it, in its own tenant."""
    began = Counter(act.run for act in operated if act.act in BEGINS)
    runs = Counter(row.key.run for row in rows)
    if began != runs:
        raise Violation(
            f"instances of {tenant} without an entry: {runs - began}, entries without: {began - runs} (T-36)"
        )
    templates = {row.id: row for row in await store.items(TEMPLATE, 1000, tenant=tenant)}
    changed = Counter(act.details["template"] for act in operated if act.act in AUTHORING)
    if changed != Counter({id: row.version for id, row in templates.items()}):
        raise Violation(f"templates of {tenant} have other versions than the audit says: {changed} (T-36)")
    for row in rows:
        if row.attributes[TEMPLATE] not in templates:
            raise Violation(f"run {row.key} is of a template of another tenant (T-31)")
    for info in [info async for info in app.templates.list(tenant=tenant)]:
        if info.status not in STATUSES or info.trigger not in TRIGGERS or info.tenant != tenant:
            raise Violation(f"{info} (T-28)")


def _check_instance(instance: TemplateInstance, tenant: str, ground: Ground) -> None:
    """T-28 and T-33."""
    is_typed = (
        instance.status in get_args(InstanceState)
        and instance.result in get_args(InstanceResult)
        and instance.tenant == tenant
        and instance.started_by is not None
        and all(each.state in get_args(PlannedState) and each.retries >= 0 for each in instance.steps)
    )
    if not is_typed:
        raise Violation(f"{instance} (T-28)")
    if any(count > ground.attempts for count in instance.retry_counts.values()):
        raise Violation(f"{instance.id}: {instance.retry_counts} of {ground.attempts} attempts (T-33)")
    ground.reached[f"an instance {instance.status}"] += 1


def check_story(tenant: str, exported: list[ExportedAction], ground: Ground) -> None:
    """T-33 to T-36: the export is a behaviour of the model. Levels and caps, which change meanwhile, are other laws."""
    steps = sorted({step for action in exported for step in action.details.get("steps", ())})
    users = {action.user: TraceUser(6, tenant) for action in exported}
    ids = sorted({action.template for action in exported if action.template})
    judge = Model(Constants([tenant], steps, ids, ground.attempts, 10**9), {**users, "somebody": TraceUser(6, tenant)})
    numbers: dict[str, int] = {}
    ended: set[str] = set()
    for action in exported:
        if action.action in ("pause_template", "resume_template"):
            judge.templates[action.template or ""].status = "paused" if action.action[0] == "p" else "active"
        if action.action not in ACTIONS:
            continue
        if action.instance is not None and action.instance in ended:
            raise Violation(f"{action.instance} of {tenant} does {action.action} after its end (T-34)")
        if action.action in ENDS and action.instance is not None:
            ended.add(action.instance)
        params = _params(action, numbers, judge)
        if broken := refusals(judge, ACTIONS[action.action], params):
            law = {"dependency_not_met": "T-35", "retry_over_limit": "T-33"}.get(broken[0], "T-36")
            raise Violation(f"{tenant}: the export's {action.action} {params} breaks {broken[0]} ({law})")
        judge.apply(ACTIONS[action.action], params)
        ground.reached[f"exported {action.action}"] += 1
    if judge.running:
        raise Violation(f"instances of {tenant} have no end in the export: {sorted(judge.running)} (T-36)")


def _params(action: ExportedAction, numbers: dict[str, int], judge: Model) -> dict[str, Any]:
    number = 0 if action.instance is None else numbers.setdefault(action.instance, len(numbers) + 1)
    place = {"template": action.template, "tenant": action.tenant}
    match action.action:
        case "create_template":
            plan = {name: action.details[name] for name in ("steps", "dependencies", "trigger")}
            return {"user": action.user, **place, **plan}
        case "activate_template" | "archive_template":
            return {"user": action.user, "template": action.template}
        case "start_workflow":
            return {"user": action.user, "template": action.template, "instance": number}
        case "cancel_workflow":
            return {"user": action.user, "instance": number}
        case "schedule_workflow":
            return {"user": action.user, **place, "time": _name(action)}
        case "trigger_scheduled":
            return {**place, "time": _name(action), "instance": number, "startedBy": "somebody"}
        case "complete_workflow" | "fail_workflow":
            return {"instance": number}
        case _:
            return {"instance": number, "step": action.step}


def _name(action: ExportedAction) -> int:
    """A schedule for one time, as a time of the model: each has one of its own, and it has come."""
    return -int(str(action.details["schedule"]).rpartition("-")[2])


def _check_world(tenant: str, ground: Ground, exported: list[ExportedAction]) -> None:
    """T-35 in the world: when the function of a step was called, those that it needs had returned."""
    plans: dict[str, dict[str, list[str]]] = {}
    template_of: dict[str, str] = {}
    for action in exported:
        if action.action == "create_template":
            plans[action.template or ""] = action.details["dependencies"]
        if action.action in BEGINS:
            template_of[action.instance or ""] = action.template or ""
    for place, run, name, done in ground.begun:
        if place != tenant or run not in template_of:
            continue
        if missing := set(plans[template_of[run]][name]) - done:
            raise Violation(f"step {name} of {run} in {tenant} was begun before {sorted(missing)} (T-35)")
        ground.reached["judged T-35"] += 1

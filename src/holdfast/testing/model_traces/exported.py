"""The exported audit of a trace: it is judged by the model, and has every action of it.

The engine may begin steps that the trace never executes; beside these, the export has exactly what was accepted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from holdfast.client.governance.export import ExportedAction
from holdfast.testing.model_traces.cast import Cast
from holdfast.testing.model_traces.model import AUDIT_WORDS, Model
from holdfast.testing.model_traces.rules import refusals
from holdfast.testing.model_traces.trace import Params

ACTIONS: Final = {word: action for action, word in AUDIT_WORDS.items()}


async def judged_export(cast: Cast, followed: Model, extra_schedules: int = 0) -> list[str]:
    """What is wrong with the export: actions that the model does not allow, and such as are missing or too many."""
    actions = await model_actions(cast)
    judge = Model(cast.trace.constants, cast.trace.init.users)
    problems = []
    for index, (action, params) in enumerate(actions):
        if broken := refusals(judge, action, params):
            problems.append(f"the export's action {index} ({action} {params}) breaks {broken[0]}")
            continue
        judge.apply(action, params)
    if problems:
        return problems
    wanted = Counter((each.action, each.instance_id) for each in followed.audit)
    found = Counter((each.action, each.instance_id) for each in judge.audit)
    found[("schedule_workflow", 0)] -= extra_schedules
    for key in [key for key in found if key[0] == "execute_step"]:
        del found[key]  # which of them the trace has executed was compared step by step
    wanted = Counter({key: count for key, count in wanted.items() if key[0] != "execute_step"})
    if +found != wanted:
        problems.append(f"the export lacks {dict(wanted - found)} and has {dict(found - wanted)} too many")
    return problems


async def model_actions(cast: Cast) -> list[tuple[str, Params]]:
    """The actions of the model that the audit exports, of all tenants by time."""
    exported: list[ExportedAction] = []
    for tenant in cast.trace.constants.tenants:
        exported += [action async for action in cast.app.audit.export(tenant=cast.tenant(tenant))]
    exported.sort(key=lambda action: action.at)
    found = []
    for action in exported:
        params = None if action.action not in ACTIONS else _params(cast, action)
        if params is not None:
            found.append((ACTIONS[action.action], params))
    return found


def _params(cast: Cast, action: ExportedAction) -> Params | None:
    """The parameters of an exported action; None where it is about a run or a step that the trace knows nothing of."""
    template, number, steps = action.template, None, cast.trace.constants.steps
    if action.step and action.step not in steps:  # a node that ends the run when the trace says so
        return None
    if action.instance is not None and (number := cast.number_of(action.instance, action.tenant)) is None:
        return None
    tenant = cast.tenant_named(action.tenant)
    match action.action:
        case "create_template":
            details = action.details
            plan = {
                "steps": [each for each in details["steps"] if each in steps],
                "dependencies": {name: each for name, each in details["dependencies"].items() if name in steps},
                "trigger": details["trigger"],
            }
            return {"user": action.user, "template": template, "tenant": tenant, **plan}
        case "activate_template" | "archive_template":
            return {"user": action.user, "template": template}
        case "start_workflow":
            return {"user": action.user, "template": template, "instance": number}
        case "cancel_workflow":
            return {"user": action.user, "instance": number}
        case "schedule_workflow":
            return {"user": action.user, "template": template, "tenant": tenant, "time": _time(cast, action)}
        case "trigger_scheduled":
            return {"template": template, "tenant": tenant, "time": _time(cast, action), "instance": number}
        case "complete_workflow" | "fail_workflow":
            return {"instance": number}
        case _:
            return {"instance": number, "step": action.step}


def _time(cast: Cast, action: ExportedAction) -> int:
    """The time that an action of a schedule is about."""
    id: Any = action.details.get("schedule")
    return next(each.time for each in cast.schedules if each.key.id == id and each.key.tenant == action.tenant)

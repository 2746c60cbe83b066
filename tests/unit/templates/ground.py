"""Templates for tests: definitions with graphs whose steps do as they are told, and a story as the oracle reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import Holdfast, TerminalError, step
from holdfast.client.governance.export import ExportedAction

MODEL = (
    "create_template",
    "activate_template",
    "archive_template",
    "start_workflow",
    "execute_step",
    "complete_step",
    "fail_step",
    "retry_step",
    "complete_workflow",
    "fail_workflow",
    "cancel_workflow",
    "schedule_workflow",
    "trigger_scheduled",
)
"""The actions that the model has; the export has some more."""

failures: dict[str, int] = {}
"""How often each step still fails, by name."""
held: dict[str, asyncio.Event] = {}
"""Steps that do not end before their event is set, by name."""


begun: dict[str, asyncio.Event] = {}
"""Whether held steps have begun, by name."""


def hold(name: str) -> None:
    """Let the step of that name not end before it is released."""
    held[name], begun[name] = asyncio.Event(), asyncio.Event()


def release(name: str) -> None:
    held.pop(name).set()


@step(name="ground.work")
async def work(name: str = "") -> str:
    if name in held:
        begun[name].set()
        await held[name].wait()
    if failures.get(name, 0) > 0:
        failures[name] -= 1
        raise ValueError(f"{name} fails")
    return name


@step(name="ground.refuse")
async def refuse() -> None:
    raise TerminalError("no")


def graph(needs: Mapping[str, Sequence[str]], *, name: str = "graph", version: int = 1, attempts: int = 3) -> Any:
    """A definition with these steps, each with the steps that it needs."""
    nodes = {
        each: {
            "step": "ground.work",
            "with": {"name": each},
            "retry": {"max": attempts, "first": "1s", "jitter": 0},
            **({"needs": list(before)} if before else {}),
        }
        for each, before in needs.items()
    }
    return {"holdfast": "definition/1", "name": name, "version": version, "steps": [{"all": {"graph": nodes}}]}


async def offered(app: Holdfast, id: str, needs: Mapping[str, Sequence[str]], **options: Any) -> None:
    """Make a template of a graph, and activate it."""
    attempts = options.pop("attempts", 3)
    await app.templates.create(id, source=graph(needs, name=f"{id}_graph", attempts=attempts), by="god", **options)
    await app.templates.activate(id, by="god")


async def story(app: Holdfast, tenant: str = "default") -> list[ExportedAction]:
    return [action async for action in app.audit.export(tenant=tenant)]


def trace_of(actions: Sequence[ExportedAction], *, cap: int = 1000, attempts: int = 3) -> dict[str, Any]:
    """An export as the oracle of the model reads it: the actions of the model, each with its parameters."""
    numbers: dict[str, int] = {}
    steps = [step for action in actions for step in action.details.get("steps", ())]
    found = [action for action in actions if action.action in MODEL]
    templates = sorted({action.template or "" for action in found})
    users = {action.user for action in found if action.user != "system"}
    levels = {"god": 5}
    return {
        "constants": {
            "tenants": ["default"],
            "steps": sorted(set(steps)),
            "templates": templates,
            "max_retries": attempts,
            "max_concurrent_runs": cap,
        },
        "init": {"users": {user: {"level": levels.get(user, 4), "tenant": "default"} for user in users}},
        "steps": [{"action": _name(action), "params": _params(action, numbers)} for action in found],
    }


def _name(action: ExportedAction) -> str:
    return "".join(word.capitalize() for word in action.action.split("_"))


def _params(action: ExportedAction, numbers: dict[str, int]) -> dict[str, Any]:
    instance = {"instance": numbers.setdefault(action.instance, len(numbers) + 1)} if action.instance else {}
    match action.action:
        case "create_template":
            plan = {name: action.details[name] for name in ("steps", "dependencies", "trigger")}
            return {"user": action.user, "template": action.template, "tenant": action.tenant, **plan}
        case "activate_template" | "archive_template":
            return {"user": action.user, "template": action.template}
        case "start_workflow":
            return {"user": action.user, "template": action.template, **instance}
        case "cancel_workflow":
            return {"user": action.user, **instance}
        case "execute_step" | "complete_step" | "fail_step" | "retry_step":
            return {**instance, "step": action.step}
        case _:
            return instance

"""The model of templates and their instances: its state, and what each of its thirteen actions does to it.

Whether an action is allowed is decided in ``rules``. Here it is done. The model's time is the length of its audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.testing.model_traces.trace import Constants, Params, TraceUser

AUTHOR_LEVEL: Final = 5
EXECUTE_LEVEL: Final = 4
SYSTEM: Final = "system"
MET: Final = ("success", "skipped")
"""The states of a step that satisfy what depends on it."""

AUDIT_WORDS: Final[Mapping[str, str]] = {
    "CreateTemplate": "create_template",
    "ActivateTemplate": "activate_template",
    "ArchiveTemplate": "archive_template",
    "StartWorkflow": "start_workflow",
    "ExecuteStep": "execute_step",
    "CompleteStep": "complete_step",
    "FailStep": "fail_step",
    "RetryStep": "retry_step",
    "CompleteWorkflow": "complete_workflow",
    "FailWorkflow": "fail_workflow",
    "CancelWorkflow": "cancel_workflow",
    "ScheduleWorkflow": "schedule_workflow",
    "TriggerScheduled": "trigger_scheduled",
}
"""The audit's word for each action of the model."""


class ModelTemplate(msgspec.Struct):
    """A template. Dependencies may name steps that it does not have: those are met at once."""

    tenant: str
    status: str
    steps: list[str]
    trigger: str
    dependencies: dict[str, list[str]]


class ModelStep(msgspec.Struct):
    """A step of an instance. ``failures`` counts its failed attempts."""

    state: str
    failures: int = 0


class ModelInstance(msgspec.Struct):
    """An instance of a template."""

    template: str
    tenant: str
    status: str
    started_by: str
    start_time: int
    result: str
    steps: dict[str, ModelStep]


class ModelEntry(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of the model's audit."""

    user: str
    action: str
    template_id: str
    instance_id: int
    tenant: str
    timestamp: int


class Model:
    """The state of the model."""

    def __init__(self, constants: Constants, users: Mapping[str, TraceUser]) -> None:
        self.constants = constants
        self.users = users
        self.templates: dict[str, ModelTemplate] = {}
        self.instances: dict[int, ModelInstance] = {}
        self.scheduled: set[tuple[str, str, int]] = set()
        self.running: set[int] = set()
        self.completed: set[int] = set()
        self.audit: list[ModelEntry] = []

    # -- looking -------------------------------------------------------------------------------------------------------

    def under_way(self, tenant: str) -> int:
        """How many instances of a tenant run."""
        return sum(self.instances[each].tenant == tenant for each in self.running)

    def authors(self, tenant: str) -> list[str]:
        """Who may write templates there."""
        return sorted(name for name, user in self.users.items() if user.tenant == tenant and user.level >= AUTHOR_LEVEL)

    def is_met(self, instance: ModelInstance, step: str) -> bool:
        """Whether all that a step depends on is satisfied."""
        needed = self.templates[instance.template].dependencies.get(step, [])
        return all(instance.steps[each].state in MET for each in needed)

    def is_ready(self, number: int, step: str) -> bool:
        """Whether an engine may execute the step now."""
        instance = self.instances[number]
        return number in self.running and instance.steps[step].state == "pending" and self.is_met(instance, step)

    def state(self) -> dict[str, Any]:
        """The state as traces have it; ``audit`` is its last entry."""
        return {
            "templates": {id: msgspec.to_builtins(each) for id, each in self.templates.items()},
            "instances": {str(number): _instance_record(each) for number, each in self.instances.items()},
            "scheduledRuns": [list(each) for each in sorted(self.scheduled)],
            "runningWorkflows": sorted(self.running),
            "completedWorkflows": sorted(self.completed),
            "audit": [msgspec.to_builtins(entry) for entry in self.audit[-1:]],
        }

    # -- acting --------------------------------------------------------------------------------------------------------

    def apply(self, action: str, params: Params) -> None:
        """Do an action that ``rules.refusals`` allows."""
        user, template, number, tenant = _ACTS[action](self, **params)
        word = AUDIT_WORDS[action]
        self.audit.append(ModelEntry(user, word, template, number, tenant, len(self.audit)))

    def _create(
        self, user: str, template: str, tenant: str, steps: list[str], dependencies: dict[str, list[str]], trigger: str
    ) -> _Acted:
        needs = {step: sorted(dependencies.get(step, ())) for step in self.constants.steps}
        self.templates[template] = ModelTemplate(tenant, "draft", list(steps), trigger, needs)
        return user, template, 0, tenant

    def _activate(self, user: str, template: str) -> _Acted:
        self.templates[template].status = "active"
        return user, template, 0, self.templates[template].tenant

    def _archive(self, user: str, template: str) -> _Acted:
        self.templates[template].status = "archived"
        return user, template, 0, self.templates[template].tenant

    def _start(self, user: str, template: str, instance: int) -> _Acted:
        return user, template, instance, self._begin(user, template, instance)

    def _begin(self, user: str, template: str, number: int) -> str:
        found = self.templates[template]
        steps = {each: ModelStep("pending" if each in found.steps else "skipped") for each in self.constants.steps}
        self.instances[number] = ModelInstance(
            template, found.tenant, "running", user, len(self.audit), "in_progress", steps
        )
        self.running.add(number)
        return found.tenant

    def _execute_step(self, instance: int, step: str) -> _Acted:
        return self._step(instance, step, "running")

    def _complete_step(self, instance: int, step: str) -> _Acted:
        return self._step(instance, step, "success")

    def _fail_step(self, instance: int, step: str) -> _Acted:
        found = self.instances[instance].steps[step]
        found.failures += 1
        return self._step(instance, step, "retrying" if found.failures < self.constants.max_retries else "failed")

    def _retry_step(self, instance: int, step: str) -> _Acted:
        return self._step(instance, step, "pending")

    def _step(self, number: int, step: str, state: str) -> _Acted:
        instance = self.instances[number]
        instance.steps[step].state = state
        return SYSTEM, instance.template, number, instance.tenant

    def _complete(self, instance: int) -> _Acted:
        return self._end(SYSTEM, instance, "completed", "success")

    def _fail(self, instance: int) -> _Acted:
        return self._end(SYSTEM, instance, "failed", "failure")

    def _cancel(self, user: str, instance: int) -> _Acted:
        return self._end(user, instance, "cancelled", "cancelled")

    def _end(self, user: str, number: int, status: str, result: str) -> _Acted:
        instance = self.instances[number]
        instance.status, instance.result = status, result
        self.running.discard(number)
        self.completed.add(number)
        return user, instance.template, number, instance.tenant

    def _schedule(self, user: str, template: str, tenant: str, time: int) -> _Acted:
        self.scheduled.add((template, tenant, time))
        return user, template, 0, tenant

    def _trigger(self, template: str, tenant: str, time: int, instance: int, startedBy: str | None = None) -> _Acted:  # noqa: N803  # the word of traces
        self._begin(startedBy or self.authors(tenant)[0], template, instance)
        self.scheduled.discard((template, tenant, time))
        return SYSTEM, template, instance, tenant


_Acted = tuple[str, str, int, str]
"""User, template, instance and tenant, as the audit has them."""

_ACTS: Final[Mapping[str, Callable[..., _Acted]]] = {
    "CreateTemplate": Model._create,
    "ActivateTemplate": Model._activate,
    "ArchiveTemplate": Model._archive,
    "StartWorkflow": Model._start,
    "ExecuteStep": Model._execute_step,
    "CompleteStep": Model._complete_step,
    "FailStep": Model._fail_step,
    "RetryStep": Model._retry_step,
    "CompleteWorkflow": Model._complete,
    "FailWorkflow": Model._fail,
    "CancelWorkflow": Model._cancel,
    "ScheduleWorkflow": Model._schedule,
    "TriggerScheduled": Model._trigger,
}


def _instance_record(instance: ModelInstance) -> dict[str, Any]:
    return {
        "template": instance.template,
        "tenant": instance.tenant,
        "status": instance.status,
        "startedBy": instance.started_by,
        "startTime": instance.start_time,
        "result": instance.result,
        "steps": {name: [step.state, step.failures] for name, step in instance.steps.items()},
    }

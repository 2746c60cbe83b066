"""The model's rules: by which of them an action is illegal in a state. Nothing is changed here.

Each rule has a name, the one that labels of traces have. An action may break several; they are given in the model's
order, and the first is the one that a label names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from holdfast.testing.model_traces.model import AUTHOR_LEVEL, EXECUTE_LEVEL, MET, Model, ModelInstance
from holdfast.testing.model_traces.trace import Params

TRIGGERS: Final = ("manual", "scheduled", "event")


def refusals(model: Model, action: str, params: Params) -> list[str]:
    """The rules that the action breaks; none where it is legal. Rules that cannot be asked are left out."""
    if action not in _RULES:
        return ["no_such_action"]
    try:
        return list(_RULES[action](model, **params))
    except TypeError as error:  # its parameters are not those of the action
        raise ValueError(f"{action} has no such parameters: {error}") from None


def _level(model: Model, user: str, tenant: str | None, least: int, what: str) -> Iterator[str]:
    """Whether the user has the level, and is of the tenant; None is the tenant of something that there is not."""
    found = model.users.get(user)
    if found is None:
        yield "unknown_user"
        return
    if found.level < least:
        yield f"level_{what}"
    if tenant is not None and found.tenant != tenant:
        yield f"tenant_{what}"


def _create(
    model: Model,
    user: str,
    template: str,
    tenant: str,
    steps: list[str],
    dependencies: dict[str, list[str]],
    trigger: str,
) -> Iterator[str]:
    known = set(model.constants.steps)
    yield from _level(model, user, tenant, AUTHOR_LEVEL, "author")
    if template not in model.constants.templates:
        yield "no_such_template_id"
    if template in model.templates:
        yield "template_id_taken"
    if not steps:
        yield "no_steps"
    if not set(steps) <= known:
        yield "no_such_step"
    if trigger not in TRIGGERS:
        yield "no_such_trigger"
    if not all({step, *needed} <= known for step, needed in dependencies.items()):
        yield "no_such_step"


def _steer(model: Model, user: str, template: str, act: str, allowed: tuple[str, ...]) -> Iterator[str]:
    found = model.templates.get(template)
    if found is None:
        yield "no_such_template"
        yield from _level(model, user, None, AUTHOR_LEVEL, "author")
        return
    yield from _level(model, user, found.tenant, AUTHOR_LEVEL, "author")
    if found.status not in allowed:
        yield f"{act}_{found.status}"


def _activate(model: Model, user: str, template: str) -> Iterator[str]:
    return _steer(model, user, template, "activate", ("draft",))


def _archive(model: Model, user: str, template: str) -> Iterator[str]:
    return _steer(model, user, template, "archive", ("active", "paused"))


def _start(model: Model, user: str, template: str, instance: int) -> Iterator[str]:
    found = model.templates.get(template)
    if found is None:
        yield "no_such_template"
        yield from _level(model, user, None, EXECUTE_LEVEL, "execute")
        yield from _place(model, None, instance)
        return
    yield from _level(model, user, found.tenant, EXECUTE_LEVEL, "execute")
    if found.status != "active":
        yield f"start_{found.status}"
    yield from _place(model, found.tenant, instance)


def _place(model: Model, tenant: str | None, instance: int) -> Iterator[str]:
    if tenant is not None and model.under_way(tenant) >= model.constants.max_concurrent_runs:
        yield "over_cap"
    if instance in model.instances:
        yield "instance_id_taken"


def _running(model: Model, number: int) -> Iterator[str]:
    if number not in model.instances:
        yield "no_such_instance"
    elif number not in model.running:
        yield "instance_not_running"


def _in_step(
    model: Model, number: int, step: str, wanted: str, word: Callable[[str], str]
) -> Iterator[str | ModelInstance]:
    """The rules for a step that must be in a state; and the instance, where it has the step."""
    yield from _running(model, number)
    if (found := model.instances.get(number)) is None:
        return
    if step not in found.steps:
        yield "no_such_step"
        return
    if (state := found.steps[step].state) != wanted:
        yield word(state)
    yield found


def _execute_step(model: Model, instance: int, step: str) -> Iterator[str]:
    for each in _in_step(model, instance, step, "pending", lambda state: f"execute_{state}"):
        if isinstance(each, str):
            yield each
        elif not model.is_met(each, step):
            yield "dependency_not_met"


def _complete_step(model: Model, instance: int, step: str) -> Iterator[str]:
    return _named(_in_step(model, instance, step, "running", lambda state: f"complete_step_{state}"))


def _fail_step(model: Model, instance: int, step: str) -> Iterator[str]:
    return _named(_in_step(model, instance, step, "running", lambda state: f"fail_step_{state}"))


def _retry_step(model: Model, instance: int, step: str) -> Iterator[str]:
    return _named(_in_step(model, instance, step, "retrying", retry_rule))


def retry_rule(state: str) -> str:
    """Why a step in this state cannot be retried: one that has failed for good has no attempt left."""
    return "retry_over_limit" if state == "failed" else f"retry_{state}"


def _named(found: Iterator[str | ModelInstance]) -> Iterator[str]:
    return (each for each in found if isinstance(each, str))


def _complete(model: Model, instance: int) -> Iterator[str]:
    yield from _running(model, instance)
    if any(state not in MET for state in _own_states(model, instance)):
        yield "complete_unfinished"


def _fail(model: Model, instance: int) -> Iterator[str]:
    yield from _running(model, instance)
    if instance in model.instances and "failed" not in _own_states(model, instance):
        yield "fail_without_failed_step"


def _own_states(model: Model, number: int) -> list[str]:
    """The states of the steps that the instance's template has."""
    found = model.instances.get(number)
    return [] if found is None else [found.steps[each].state for each in model.templates[found.template].steps]


def _cancel(model: Model, user: str, instance: int) -> Iterator[str]:
    found = model.instances.get(instance)
    if found is None:
        yield "no_such_instance"
        yield from _level(model, user, None, EXECUTE_LEVEL, "execute")
        return
    yield from _level(model, user, found.tenant, EXECUTE_LEVEL, "execute")
    yield from _running(model, instance)


def _schedule(model: Model, user: str, template: str, tenant: str, time: int) -> Iterator[str]:
    found = model.templates.get(template)
    if found is None:
        yield "no_such_template"
        yield from _level(model, user, tenant, EXECUTE_LEVEL, "execute")
        return
    if found.tenant != tenant:
        yield "template_of_other_tenant"
    yield from _level(model, user, tenant, EXECUTE_LEVEL, "execute")
    if found.status != "active":
        yield f"schedule_{found.status}"
    if found.trigger == "event":
        yield "schedule_event_template"


def _trigger(
    model: Model,
    template: str,
    tenant: str,
    time: int,
    instance: int,
    startedBy: str | None = None,  # noqa: N803  # the word of traces
) -> Iterator[str]:
    if (template, tenant, time) not in model.scheduled:
        yield "not_scheduled"
    if len(model.audit) < time:
        yield "before_its_time"
    found = model.templates.get(template)
    if found is None:
        yield "no_such_template"
        return
    if found.tenant != tenant:
        yield "template_of_other_tenant"
    if found.status != "active":
        yield f"trigger_{found.status}"
    if startedBy is not None and startedBy not in model.authors(tenant):
        yield "started_by_no_author"
    yield from _place(model, tenant, instance)


_RULES: Final[Mapping[str, Callable[..., Iterator[str]]]] = {
    "CreateTemplate": _create,
    "ActivateTemplate": _activate,
    "ArchiveTemplate": _archive,
    "StartWorkflow": _start,
    "ExecuteStep": _execute_step,
    "CompleteStep": _complete_step,
    "FailStep": _fail_step,
    "RetryStep": _retry_step,
    "CompleteWorkflow": _complete,
    "FailWorkflow": _fail,
    "CancelWorkflow": _cancel,
    "ScheduleWorkflow": _schedule,
    "TriggerScheduled": _trigger,
}

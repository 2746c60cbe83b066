"""The module's own model is the published one: it says what the labels say, and what the oracle says."""

from __future__ import annotations

import collections

import pytest

from holdfast.testing.model_traces.model import AUDIT_WORDS, Model
from holdfast.testing.model_traces.rules import refusals
from holdfast.testing.model_traces.trace import Constants, ModelTrace, TraceUser, read_trace
from holdfast.testing.model_traces.walks import random_trace
from tests.scope import volume
from tests.unit.testing.model_traces.corpus import FILES, needs_traces, oracle, plain

CONSTANTS = Constants(["t"], ["a", "b"], ["wf"], max_retries=2, max_concurrent_runs=1)
USERS = {"god": TraceUser(5, "t"), "admin": TraceUser(4, "t"), "guest": TraceUser(1, "t"), "other": TraceUser(6, "u")}

CREATE = {"user": "god", "template": "wf", "tenant": "t", "steps": ["a", "b"], "trigger": "manual"}
BEGIN = [
    ("CreateTemplate", {**CREATE, "dependencies": {"a": [], "b": ["a"]}}),
    ("ActivateTemplate", {"user": "god", "template": "wf"}),
    ("StartWorkflow", {"user": "admin", "template": "wf", "instance": 1}),
]


def begun() -> Model:
    model = Model(CONSTANTS, USERS)
    for action, params in BEGIN:
        assert refusals(model, action, params) == []
        model.apply(action, params)
    return model


@pytest.mark.parametrize(
    ("action", "params", "rules"),
    [
        ("StartWorkflow", {"user": "guest", "template": "wf", "instance": 1},
         "level_execute over_cap instance_id_taken"),
        ("StartWorkflow", {"user": "other", "template": "wf", "instance": 2}, "tenant_execute over_cap"),
        ("StartWorkflow", {"user": "nobody", "template": "none", "instance": 2}, "no_such_template unknown_user"),
        ("ActivateTemplate", {"user": "admin", "template": "wf"}, "level_author activate_active"),
        ("ExecuteStep", {"instance": 1, "step": "b"}, "dependency_not_met"),
        ("ExecuteStep", {"instance": 7, "step": "b"}, "no_such_instance"),
        ("CompleteStep", {"instance": 1, "step": "a"}, "complete_step_pending"),
        ("RetryStep", {"instance": 1, "step": "a"}, "retry_pending"),
        ("CompleteWorkflow", {"instance": 1}, "complete_unfinished"),
        ("FailWorkflow", {"instance": 1}, "fail_without_failed_step"),
        ("TriggerScheduled", {"template": "wf", "tenant": "t", "time": 9, "instance": 2},
         "not_scheduled before_its_time over_cap"),
        ("Dance", {}, "no_such_action"),
    ],
)  # fmt: skip
def test_an_illegal_action_breaks_these_rules(action: str, params: dict[str, object], rules: str) -> None:
    assert refusals(begun(), action, params) == rules.split()


def test_an_action_with_other_parameters_is_no_action_of_the_model() -> None:
    with pytest.raises(ValueError, match="no such parameters"):
        refusals(begun(), "ExecuteStep", {"colour": "red"})


def test_random_walks_try_every_action_legally_and_illegally() -> None:
    """What they never do, they do not test."""
    legal: collections.Counter[str] = collections.Counter()
    broken: set[str] = set()
    for seed in range(160):
        trace = random_trace(seed)
        assert trace.expect is not None
        illegal = dict(trace.expect.illegal)
        broken |= set(illegal.values())
        legal.update(step.action for index, step in enumerate(trace.steps) if index not in illegal)
    assert set(legal) == set(AUDIT_WORDS)
    assert broken >= {
        "over_cap", "instance_id_taken", "template_id_taken", "level_author", "level_execute", "tenant_author",
        "tenant_execute", "template_of_other_tenant", "not_scheduled", "before_its_time", "trigger_archived",
        "dependency_not_met", "complete_unfinished", "fail_without_failed_step", "no_steps",
        "schedule_event_template", "instance_not_running", "execute_skipped", "start_draft", "schedule_archived",
    }  # fmt: skip


@needs_traces
def test_labels_and_states_of_published_traces_are_those_of_the_model() -> None:
    for file in FILES:
        trace = read_trace(file)
        assert trace.expect is not None
        assert judged(trace) == (trace.expect.illegal, trace.expect.differs), file


@needs_traces
def test_the_oracle_judges_random_walks_as_the_model_does() -> None:
    other = oracle()
    for seed in range(volume(20, 60)):
        trace = random_trace(seed)
        assert trace.expect is not None
        said = other.judge(plain(trace))
        assert (said["illegal"], said["differs"], said["broken"]) == ([list(e) for e in trace.expect.illegal], [], [])


def judged(trace: ModelTrace) -> tuple[list[tuple[int, str]], list[int]]:
    """What is illegal in a trace, and where its states are not the model's."""
    model = Model(trace.constants, trace.init.users)
    illegal, differs = [], []
    for index, step in enumerate(trace.steps):
        if broken := refusals(model, step.action, step.params):
            illegal.append((index, broken[0]))
        else:
            model.apply(step.action, step.params)
        if step.state is not None and step.state != _state(model, is_legal=not broken):
            differs.append(index)
    return illegal, differs


def _state(model: Model, *, is_legal: bool) -> dict[str, object]:
    state = model.state()
    return state if is_legal else {**state, "audit": []}

"""Random walks through the model: traces with legal and illegal steps, labelled by the model's own rules.

Most steps are legal, so that instances get somewhere. The illegal ones are of every kind that the parameters of a trace
can express: wrong users, wrong states, ids that are taken or unknown, times that have not come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.testing.model_traces.model import Model
from holdfast.testing.model_traces.rules import TRIGGERS, refusals
from holdfast.testing.model_traces.trace import Constants, Init, Labels, ModelTrace, Params, TraceStep, TraceUser

WEIGHTS: Final[Mapping[str, int]] = {
    "CreateTemplate": 4,
    "ActivateTemplate": 4,
    "ArchiveTemplate": 1,
    "StartWorkflow": 5,
    "ExecuteStep": 14,
    "CompleteStep": 9,
    "FailStep": 6,
    "RetryStep": 6,
    "CompleteWorkflow": 4,
    "FailWorkflow": 2,
    "CancelWorkflow": 1,
    "ScheduleWorkflow": 3,
    "TriggerScheduled": 4,
}
"""How often each kind of action is tried."""
ILLEGAL: Final = 0.04
"""How often an action that happens to be illegal is taken all the same. Most tries are."""
TRIES: Final = 400


def random_trace(seed: int, length: int | None = None) -> ModelTrace:
    """A trace of this seed; the same one every time."""
    walk = _RandomWalk(random.Random(seed))
    return walk.trace(length or walk.random.randint(15, 60), f"a random walk of seed {seed}")


class _RandomWalk:
    def __init__(self, source: random.Random) -> None:
        self.random = source
        pick = source.randint
        self._constants = Constants(
            tenants=[f"t{n}" for n in range(1, pick(1, 3) + 1)],
            steps=[f"s{n}" for n in range(1, pick(1, 5) + 1)],
            templates=[f"wf{n}" for n in range(1, pick(1, 4) + 1)],
            max_retries=pick(1, 3),
            max_concurrent_runs=pick(1, 3),
        )
        self._users = {
            f"u{n}": TraceUser(source.choice((1, 3, 4, 4, 5, 5, 6)), source.choice(self._constants.tenants))
            for n in range(1, pick(2, 6) + 1)
        }
        self._users["u0"] = TraceUser(6, self._constants.tenants[0])  # somebody gets somewhere
        self._model = Model(self._constants, self._users)
        self._makers: Mapping[str, Callable[[], Params]] = {
            "CreateTemplate": self._template,
            "ActivateTemplate": lambda: {"user": self._user(), "template": self._id()},
            "ArchiveTemplate": lambda: {"user": self._user(), "template": self._id()},
            "StartWorkflow": lambda: {"user": self._user(), "template": self._id(), "instance": self._number()},
            "CompleteWorkflow": lambda: {"instance": self._number()},
            "FailWorkflow": lambda: {"instance": self._number()},
            "CancelWorkflow": lambda: {"user": self._user(), "instance": self._number()},
            "ScheduleWorkflow": self._schedule,
            "TriggerScheduled": self._trigger,
        }

    def trace(self, length: int, source: str) -> ModelTrace:
        steps: list[TraceStep] = []
        illegal: list[tuple[int, str]] = []
        while len(steps) < length:
            action, params, broken = self._next()
            if broken:
                illegal.append((len(steps), broken[0]))
            else:
                self._model.apply(action, params)
            state = self._model.state()
            steps.append(TraceStep(action, params, state if not broken else {**state, "audit": []}))
        return ModelTrace(self._constants, Init(self._users), steps, Labels(illegal), source)

    def _next(self) -> tuple[str, Params, list[str]]:
        """The next action, and the rules that it breaks."""
        actions, weights = list(WEIGHTS), list(WEIGHTS.values())
        for _ in range(TRIES):
            (action,) = self.random.choices(actions, weights)
            params = self._makers.get(action, self._of_step)()
            broken = refusals(self._model, action, params)
            if not broken or self.random.random() < ILLEGAL:
                break
        return action, params, broken

    # -- parameters ----------------------------------------------------------------------------------------------------

    def _user(self) -> str:
        return self.random.choice(list(self._users))

    def _id(self) -> str:
        return self.random.choice(self._constants.templates)

    def _number(self) -> int:
        """The number of an instance: mostly of one that there is, or of the next."""
        return self.random.randint(1, len(self._model.instances) + 1)

    def _of_step(self) -> Params:
        return {"instance": self._number(), "step": self.random.choice(self._constants.steps)}

    def _template(self) -> Params:
        known = self._constants.steps
        steps = self.random.sample(known, self.random.randint(0 if self.random.random() < 0.1 else 1, len(known)))
        order = self.random.sample(known, len(known))  # a step depends on earlier ones: there is no cycle
        share = self.random.random() * 0.7
        needs = {
            step: sorted(each for each in order[:place] if self.random.random() < share)
            for place, step in enumerate(order)
        }
        user = self._user()
        own = self._users[user].tenant
        tenant = own if self.random.random() < 0.9 else self.random.choice(self._constants.tenants)
        trigger = self.random.choice(TRIGGERS)
        return self._made(user, tenant, steps, needs, trigger)

    def _made(self, user: str, tenant: str, steps: list[str], needs: Mapping[str, list[str]], trigger: str) -> Params:
        made: dict[str, Any] = {"user": user, "template": self._id(), "tenant": tenant, "steps": steps}
        return {**made, "dependencies": dict(sorted(needs.items())), "trigger": trigger}

    def _schedule(self) -> Params:
        template = self._id()
        found = self._model.templates.get(template)
        tenant = self.random.choice(self._constants.tenants) if found is None else found.tenant
        if self.random.random() < 0.05:
            tenant = self.random.choice(self._constants.tenants)
        time = max(0, len(self._model.audit) + self.random.randint(-4, 6))
        return {"user": self._user(), "template": template, "tenant": tenant, "time": time}

    def _trigger(self) -> Params:
        time = max(0, len(self._model.audit) + self.random.randint(-4, 4))
        template, tenant = self._id(), self.random.choice(self._constants.tenants)
        if self._model.scheduled and self.random.random() < 0.9:
            template, tenant, time = self.random.choice(sorted(self._model.scheduled))
        return {"template": template, "tenant": tenant, "time": time, "instance": self._number()}

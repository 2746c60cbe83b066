"""The driver: a trace is walked through an engine, step by step, beside the model.

Each step is attempted, then the engine is left alone until it stands where the model does. What is compared: whether
the attempt was accepted, the rule by which it was not, and the state that the trace claims. At the end the exported
audit must be a legal behaviour of the model, and must have every action.

Where the product differs from the model on purpose:

- a start over the cap is queued; the driver takes it back, because the model refuses it;
- who has started a triggered run is the owner of its schedule; the model says some author of the tenant;
- a schedule of an archived template ends when it is due; the model keeps it for ever;
- dependencies of steps that a template does not have are not kept;
- ids of templates and instances are of one tenant, and of all tenants in the model;
- a template whose steps depend on each other in a circle is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from holdfast.testing.model_traces.attempts import Attempt, TraceAttempts
from holdfast.testing.model_traces.cast import Cast
from holdfast.testing.model_traces.engine import TraceEngine
from holdfast.testing.model_traces.exported import judged_export
from holdfast.testing.model_traces.model import Model
from holdfast.testing.model_traces.observation import Found, ObservedEngine
from holdfast.testing.model_traces.rules import refusals
from holdfast.testing.model_traces.stage import use_stage
from holdfast.testing.model_traces.trace import Labels, ModelTrace


class Report(msgspec.Struct):
    """What came of a trace. ``illegal`` and ``differs`` are as in labels; ``problems`` says what must not be."""

    trace: str
    agrees: bool = False
    steps: int = 0
    accepted: int = 0
    refused: list[tuple[int, str, str]] = []  # index, rule, error of the product
    differs: list[int] = []
    problems: list[str] = []

    @property
    def illegal(self) -> list[tuple[int, str]]:
        return [(index, rule) for index, rule, _ in self.refused]


async def follow(
    engine: TraceEngine,
    trace: ModelTrace,
    name: str,
    prefix: str = "",
    at_end: Callable[[Cast], Awaitable[None]] | None = None,
) -> Report:
    """Walk a trace through an engine. ``at_end`` sees what it leaves."""
    cast = Cast(engine, trace, prefix)
    use_stage(cast.stage)
    report = Report(name)
    try:
        await cast.enter()
        await _Walk(cast, report).walk()
        if at_end is not None:
            await at_end(cast)
    finally:
        await cast.leave()
    labels = trace.expect or Labels()
    if report.steps < len(trace.steps):
        return report  # what stopped it is a problem already
    if report.illegal != labels.illegal:
        report.problems.append(f"labels say that {labels.illegal} are illegal, and {report.illegal} were refused")
    if report.differs != labels.differs:
        report.problems.append(f"labels say that states differ at {labels.differs}, and they do at {report.differs}")
    report.agrees = not report.problems
    return report


class _Walk:
    def __init__(self, cast: Cast, report: Report) -> None:
        self._cast = cast
        self._trace = cast.trace
        self._report = report
        self._model = Model(cast.trace.constants, cast.trace.init.users)
        self._observation = ObservedEngine(cast)
        self._attempts = TraceAttempts(cast, self._observation, self._retry_seconds)
        self._index = 0
        self._retries = _retries(cast.trace)

    async def walk(self) -> None:
        for index, step in enumerate(self._trace.steps):
            self._index = index
            self._cast.engine.clock.go_to(self._moment(self._index, len(self._model.audit)))
            self._cast.engine.wake()
            broken = refusals(self._model, step.action, step.params)
            attempt = await self._attempts.attempt(step.action, step.params)
            if not self._take(attempt, broken):
                return
            if not broken:
                self._model.apply(step.action, step.params)
            found = await self._settled()
            if (wrong := self._differences(found, self._model.state())) is not None:
                self._report.problems.append(f"step {self._index} ({step.action}): {wrong}")
                return
            if step.state is not None and self._contradicts(found, step.state, is_legal=not broken):
                self._report.differs.append(self._index)
        self._report.problems += await judged_export(self._cast, self._model, self._attempts.extra_schedules)

    def _take(self, attempt: Attempt, broken: list[str]) -> bool:
        """Note what came of an attempt. Where the model disagrees the walk is over."""
        self._report.steps += 1
        action = self._trace.steps[self._index].action
        if attempt.is_accepted:
            self._report.accepted += 1
            if broken:
                self._report.problems.append(f"step {self._index} ({action}) was accepted against {broken[0]}")
            return not broken
        self._report.refused.append((self._index, broken[0] if broken else "", attempt.error))
        if not any(attempt.stands_for(rule) for rule in broken):
            said = attempt.error or " or ".join(attempt.rules or ())
            self._report.problems.append(f"step {self._index} ({action}) was refused ({said}), and breaks {broken}")
            return False
        return True

    # -- time ----------------------------------------------------------------------------------------------------------

    def _moment(self, index: int, time: int) -> int:
        return self._cast.moment_of(time, index)

    def _retry_seconds(self, instance: int, step: str) -> float | None:
        """The seconds until the trace retries this step: 0 where it does so now, None where it never does."""
        place = self._retries.get((instance, step), [])
        following = [(index, time) for index, time in place if index >= self._index]
        if not following:
            return None
        index, time = following[0]
        if index == self._index:
            return 0.0
        return (self._moment(index, time) - self._cast.engine.clock.now()) / 1e6

    # -- states --------------------------------------------------------------------------------------------------------

    async def _settled(self) -> Found:
        """The product's state, once it is the model's; or as it is when the patience is over."""
        found: Found = {}

        async def is_there() -> bool:
            nonlocal found
            found = await self._observation.state()
            return self._differences(found, self._model.state()) is None

        await self._cast.engine.until(is_there)
        return found

    def _differences(self, found: Found, wanted: Found) -> str | None:
        """Where the product is not as the model is; None where it is."""
        for member in ("templates", "instances", "scheduledRuns", "runningWorkflows", "completedWorkflows"):
            ours, theirs = self._comparable(member, found[member], wanted), self._wanted(member, wanted)
            if ours != theirs:
                return f"{member} are {ours} and should be {theirs}"
        if late := self._late():
            return f"{late} are ready, and were not begun"
        return None

    def _late(self) -> list[tuple[int, str]]:
        """Steps that are ready and that the engine has not begun."""
        stage, model = self._cast.stage, self._model
        return [
            (number, step)
            for number in sorted(model.running)
            for step in model.constants.steps
            if model.is_ready(number, step) and stage.at_door(self._cast.place(number, step)) is None
        ]

    def _comparable(self, member: str, found: Any, wanted: Found) -> Any:
        """A member of the product's state, with what differs on purpose made equal."""
        if member == "instances":
            return {
                number: {**each, "startedBy": self._starter(number, each, wanted["instances"].get(number, {}))}
                for number, each in found.items()
            }
        if member == "scheduledRuns":
            return [list(each) for each in found if self._is_kept(each[0], wanted)]
        if member == "templates":
            return {id: {**each, "steps": sorted(each["steps"])} for id, each in found.items()}
        return found

    def _wanted(self, member: str, wanted: Found) -> Any:
        if member == "scheduledRuns":
            return [each for each in wanted[member] if self._is_kept(each[0], wanted)]
        if member == "templates":
            return {id: _plain(each) for id, each in wanted[member].items()}
        return wanted[member]

    def _is_kept(self, template: str, wanted: Found) -> bool:
        found = wanted["templates"].get(template)
        return found is None or found["status"] != "archived"

    def _starter(self, number: str, found: Found, wanted: Found) -> str | None:
        """Who has started an instance. Of a triggered one it is its schedule's owner, where the model has an author."""
        started_by: str | None = found["startedBy"]
        if int(number) not in self._cast.triggered:
            return started_by
        owners = {each.user for each in self._cast.schedules if each.template == found["template"]}
        said: str | None = wanted.get("startedBy")
        return said if started_by in owners and said in self._model.authors(found["tenant"]) else started_by

    def _contradicts(self, found: Found, claimed: Found, *, is_legal: bool) -> bool:
        """Whether the state that the trace claims is not the one that was reached."""
        if self._differences(found, {**self._model.state(), **claimed}) is not None:
            return True
        entries = self._model.state()["audit"] if is_legal else []
        return bool(claimed.get("audit", entries) != entries)


def _plain(template: Found) -> Found:
    """A template of the model, without what the product does not keep."""
    steps = sorted(set(template["steps"]))
    return {
        **template,
        "steps": steps,
        "dependencies": {each: template["dependencies"].get(each, []) for each in steps},
    }


def _retries(trace: ModelTrace) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """When the trace retries each step: index and time of each legal ``RetryStep``."""
    model = Model(trace.constants, trace.init.users)
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for index, step in enumerate(trace.steps):
        if refusals(model, step.action, step.params):
            continue
        if step.action == "RetryStep":
            place = step.params["instance"], step.params["step"]
            found.setdefault(place, []).append((index, len(model.audit)))
        model.apply(step.action, step.params)
    return found

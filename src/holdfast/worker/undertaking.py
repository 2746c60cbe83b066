"""Undertakings: the steps and acts of held runs, begun when what asked for them is durable, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.journal.payload import Err, Failure
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, Settled
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.definitions import Step
from holdfast.store import protocol as p
from holdfast.worker.acts import Acts
from holdfast.worker.clock import Clock
from holdfast.worker.committer import Committer
from holdfast.worker.gatehouse import Clearance
from holdfast.worker.held import Held
from holdfast.worker.performer import Outcome, Performance, Performer


class Undertakings:
    """Has steps and acts performed. ``arrive`` brings what came of a step to its run."""

    def __init__(
        self,
        performer: Performer,
        committer: Committer,
        clock: Clock,
        steps: Mapping[str, Step[..., Any]],
        acts: Acts,
        arrive: Callable[[Held, Arrival], None],
    ) -> None:
        self._performer = performer
        self._committer = committer
        self._clock = clock
        self._steps = steps
        self._acts = acts
        self._arrive = arrive

    def begin(self, held: Held, request: Invoke) -> None:
        """Begin an attempt of a step."""
        promise = request.promise_id
        step = self._steps.get(request.function_name)
        if step is None:
            message = f"no step is called {request.function_name!r} here: deploy the code that defines it, then retry"
            failure = Failure("holdfast.errors:InvalidDefinition", message)
            self._arrive(held, Settled(promise, Err(failure), request.attempt, self._clock.now()))
            return
        held.steps[promise] = self._performer.perform(
            step,
            held.key,
            promise,
            request.attempt,
            request.input,
            self._reported,
            self._beaten,
            held,
            again=request.again,
        )

    def _reported(self, performance: Performance, outcome: Outcome) -> None:
        held: Held = performance.owner
        held.steps.pop(performance.promise, None)
        self._arrive(held, outcome)

    def _beaten(self, performance: Performance, details: bytes) -> None:
        held: Held = performance.owner
        if not held.dropped:
            change = p.Beat(held.key, performance.promise.path[-1], details, self._clock.now())
            self._committer.submit(change, lambda _: None)

    def call_off(self, held: Held, promise: PromiseId) -> None:
        """Nobody waits for this step any more."""
        performance = held.steps.pop(promise, None)
        if performance is not None:
            performance.cancel()

    def act(self, held: Held, clearance: Clearance) -> None:
        """Begin an act whose receipt is open, or its probe."""
        case = clearance.case
        probe = case.action.probe if clearance.probing else None
        clearance.performance = self._performer.perform(
            case.action if probe is None else probe,
            held.key,
            case.promise,
            case.request.attempt,
            case.request.input,
            self._acted,
            lambda *_: None,
            (held, clearance),
            call=case.call if probe is None else None,
            act=case.proposal.key,
            uncut=probe is None,
        )

    def _acted(self, performance: Performance, outcome: Outcome) -> None:
        held, clearance = performance.owner
        self._acts.finish(held, clearance, outcome)
        clearance.performance = None  # the two hold each other: only the garbage collector could part them

"""Dispatcher: the steps and acts of held runs, begun when what asked for them is durable, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.journal.payload import Err, Failure
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, Begun, Settled
from holdfast.kernel.requests import Invoke
from holdfast.programs.function.decorators import Step
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.kind import Place
from holdfast.runs.kinds.table import kind_of
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.worker.gate.acts import Acts
from holdfast.worker.gate.calls import Clearance
from holdfast.worker.gate.entries import is_unaccounted
from holdfast.worker.held import Held
from holdfast.worker.performer import Outcome, Performance, Performer


class Dispatcher:
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

    def inherit(self, held: Held) -> None:
        """A run was taken over: its steps that are not settled were asked for by a turn that is durable, so whoever
        held it may have begun them. The journal says so from the next turn on, and so does ``step_info()``.

        A run that is queued was held by nobody since it began, or began anew: its steps are another run's, or none.
        """
        if held.row.standing == "queued":
            return
        for request in held.live.outstanding():
            if type(request) is Invoke and kind_of(request.kind).place(request.queue) is Place.HERE:
                held.inherited = held.inherited or set()
                held.inherited.add(request.promise_id)
                held.arrivals.append(Begun(request.promise_id, request.attempt, self._clock.now()))

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
            mark=request.mark,
            begun_before=_is_inherited(held, promise),
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
            mark=case.request.mark,
            uncut=probe is None,
            begun_before=held.gate is not None and is_unaccounted(held.gate.receipts.get(case.promise), case.promise),
        )

    def _acted(self, performance: Performance, outcome: Outcome) -> None:
        held, clearance = performance.owner
        self._acts.finish(held, clearance, outcome)
        clearance.performance = None  # the two hold each other: only the garbage collector could part them


def _is_inherited(held: Held, promise: PromiseId) -> bool:
    """Whether an earlier holder may have begun it. Only its first attempt here is that one."""
    if held.inherited is None or promise not in held.inherited:
        return False
    held.inherited.discard(promise)
    return True

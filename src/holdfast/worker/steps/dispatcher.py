"""Dispatcher: the steps and acts of held runs, begun when what asked for them is durable, and what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from holdfast.errors import EngineError
from holdfast.gate.call import Call, is_unaccounted
from holdfast.gate.effects import Performable
from holdfast.journal.payload import Err, Failure
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import Arrival, Begun, CallSettled, SignalArrived
from holdfast.kernel.requests import Invoke
from holdfast.runs.clock import Clock
from holdfast.runs.kinds.kind import Place
from holdfast.runs.kinds.step import STOPPED
from holdfast.runs.kinds.table import kind_of
from holdfast.runs.lanes import LANE_EVENT, ProgressFrame
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.worker.gate.acts import Acts
from holdfast.worker.held import Held
from holdfast.worker.steps.performance import Outcome, Performance
from holdfast.worker.steps.performer import Performer
from holdfast.worker.steps.progress import ProgressReports, Taken
from holdfast.worker.steps.receipt_signer import ReceiptSigner


class Dispatcher:
    """Has steps and acts performed. ``arrive`` brings what came of a step to its run."""

    def __init__(
        self,
        performer: Performer,
        committer: Committer,
        clock: Clock,
        steps: Mapping[str, Performable],
        acts: Acts,
        arrive: Callable[[Held, Arrival], None],
        signer: ReceiptSigner,
    ) -> None:
        self._performer = performer
        self._committer = committer
        self._clock = clock
        self._steps = steps
        self._acts = acts
        self._arrive = arrive
        self._signer = signer

    def inherit(self, held: Held) -> None:
        """A run was taken over: its steps that are not settled were asked for by a turn that is durable, so its
        holder before may have begun them. The journal records that from the next turn on, and ``step_info()`` shows it.

        A queued run was held by nobody since it was started or retried, so none of its steps was begun.
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
        begun_before = held.inherited is not None and _is_inherited(held.inherited, promise)
        if request.stopped and not begun_before:
            self._end_unbegun(held, promise, request.attempt)
            return
        step = held.inline.get(promise) or self._steps.get(request.function_name)
        if step is None:
            message = f"no step is called {request.function_name!r} here: deploy the code that defines it, then retry"
            failure = Failure("holdfast.errors:InvalidDefinition", message)
            self._arrive(held, CallSettled(promise, Err(failure), request.attempt, self._clock.now()))
            return
        if held.is_lane and (locked := self._signer.locked(step)) is not None:
            self._arrive(held, CallSettled(promise, Err(locked), request.attempt, self._clock.now()))
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
            begun_before=begun_before,
            retry=request.retry,
            run=held.row,
            reports=self._reports(held, promise, request.attempt) if held.is_lane else None,
        )

    def _reports(self, held: Held, promise: PromiseId, attempt: int) -> ProgressReports | None:
        """What takes reports to the cell that asked: by the lane's next turn, since its worker is this one."""
        if not held.hears_progress:
            return None

        def send(frame: ProgressFrame) -> Taken:
            waiting = held.arrivals
            self._arrive(held, SignalArrived(LANE_EVENT, frame.write()))
            return lambda: held.arrivals is not waiting  # a turn takes the list away

        loop = asyncio.get_running_loop()
        return ProgressReports(loop, promise.path[-1], attempt, held.epoch, send)

    def _reported(self, performance: Performance, outcome: Outcome) -> None:
        held: Held = performance.owner
        held.steps.pop(performance.promise, None)
        if held.is_lane:
            promise = performance.promise
            outcome = self._signer.sign(held.origin_of(promise), promise, performance.step, outcome)
        held.note_result(performance)
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

    def end(self, held: Held, abandoned: Sequence[PromiseId], stopped: Sequence[PromiseId]) -> None:
        """Call the abandoned steps off. Let the stopped ones come to their ends, which are awaited."""
        for promise in abandoned:
            self.call_off(held, promise)
        for promise in stopped:
            self._stop(held, promise)

    def _stop(self, held: Held, promise: PromiseId) -> None:
        """The run wants this step to end, and awaits that. One that has not begun does not begin."""
        performance = held.steps.get(promise)
        if performance is not None and performance.begun:
            performance.stopped = True
        elif performance is not None:
            self.call_off(held, promise)
            self._end_unbegun(held, promise, performance.attempt)

    def _end_unbegun(self, held: Held, promise: PromiseId, attempt: int) -> None:
        self._arrive(held, CallSettled(promise, STOPPED, attempt, self._clock.now()))

    def act(self, held: Held, call: Call) -> None:
        """Begin an act whose receipt is open."""
        call.attempt = self._performer.perform(
            call.effect,
            held.key,
            call.promise,
            call.request.attempt,
            call.request.input,
            self._acted,
            lambda *_: None,
            (held, call),
            given=call.attempt_arguments
            if call.round == 1
            else call.effect.keyed(call.attempt_arguments, call.receipt.key),
            act=call.receipt.key,
            mark=call.request.mark,
            uncut=True,
            begun_before=call.repeats,
            retry=call.request.retry,
            run=held.row,
            receipt=call.receipt,
            reports=self._reports(held, call.promise, call.request.attempt),
        )

    def _acted(self, performance: Performance, outcome: Outcome) -> None:
        held, call = performance.owner
        held.note_result(performance)
        self._acts.finish(held, call, outcome)
        call.attempt = None  # breaks a reference cycle: the attempt holds the call

    def probe(self, held: Held, call: Call) -> None:
        """Begin the probe of an attempt whose outcome is unknown."""
        probe = call.effect.probe
        if probe is None:
            raise EngineError(f"{call.effect.name} has no probe")
        call.attempt = self._performer.perform(
            probe,
            held.key,
            call.promise,
            call.request.attempt,
            call.request.input,
            self._probed,
            lambda *_: None,
            (held, call),
            act=call.receipt.key,
            mark=call.request.mark,
            begun_before=is_unaccounted(call.earlier, call.promise),
            run=held.row,
            receipt=call.receipt,
        )

    def _probed(self, performance: Performance, outcome: Outcome) -> None:
        held, call = performance.owner
        call.attempt = None  # breaks a reference cycle: the attempt holds the call
        self._acts.finish_probe(held, call, outcome)


def _is_inherited(inherited: set[PromiseId], promise: PromiseId) -> bool:
    """Whether an earlier holder may have begun it. Only its first attempt here is that one."""
    if promise not in inherited:
        return False
    inherited.discard(promise)
    return True

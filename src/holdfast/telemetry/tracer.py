"""The tracer: spans for OpenTelemetry, with ids that follow from runs and promises.

1. A span is made when something happens: an attempt, a call that the gate settles, the end of a run. A program that is
   rebuilt does nothing of that.
2. Attributes are names and numbers. Arguments, results and messages of errors are in none: an error is its type, its
   code and its class.
3. The library is known here only. Its SDK is the application's: this uses whichever provider it is given.
4. Whatever fails here is logged, and the work goes on as if nothing were traced.

A tracer of the SDK asks an object for new ids, and that is how ids are chosen here. Where a tracer of another make has
no such object, it chooses ids itself: its spans are in the right trace then, below spans that are not there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from opentelemetry import context as contexts
from opentelemetry import trace as otel

from holdfast import errors
from holdfast.journal.error_classes import error_class, error_members
from holdfast.journal.payload import Failure
from holdfast.journal.promise import PromiseId
from holdfast.runs.tracing import (
    TRACEPARENT,
    RunTrace,
    TraceContext,
    attempt_span_id,
    outgoing,
    run_span_id,
    trace_of,
)
from holdfast.store.protocol import Key, Run

if TYPE_CHECKING:
    from holdfast.kernel.requests import Invoke
    from holdfast.worker.steps.performance import Performance

log = logging.getLogger("holdfast.tracing")

P = ParamSpec("P")
R = TypeVar("R")

NAME: Final = "holdfast"
_ERRORS: Final = "holdfast.errors:"
_GENERATION: Final = 1_000_000_000
"""The first epoch of queued work has the run's generation above this number."""

Facts = dict[str, str | int | bool]

_complaints: set[str] = set()


def _harmless(work: Callable[P, R]) -> Callable[P, R | None]:
    """Log what fails, once for each kind of failure: a processor of the application's own may raise."""

    @functools.wraps(work)
    def done(*args: P.args, **kwargs: P.kwargs) -> R | None:
        try:
            return work(*args, **kwargs)
        except Exception as error:
            what = f"{work.__name__}: {type(error).__name__}"
            level = logging.DEBUG if what in _complaints else logging.WARNING
            _complaints.add(what)
            log.log(level, "nothing is traced here, because that failed: %r", error, exc_info=error)
            return None

    return done


class ChosenIds:
    """Gives the ids that were chosen for the next span, else those of the usual generator."""

    def __init__(self, usual: Any) -> None:
        self._usual = usual
        self.trace_id: int | None = None
        self.span_id: int | None = None

    def generate_trace_id(self) -> int:
        chosen, self.trace_id = self.trace_id, None
        return int(self._usual.generate_trace_id()) if chosen is None else chosen

    def generate_span_id(self) -> int:
        chosen, self.span_id = self.span_id, None
        return int(self._usual.generate_span_id()) if chosen is None else chosen

    def __getattr__(self, name: str) -> Any:
        if name == "_usual":  # an object that is not made yet
            raise AttributeError(name)
        return getattr(self._usual, name)


class SpanTracer:
    """Makes the spans of one engine. ``provider`` is the application's, by default the one of the process."""

    def __init__(self, provider: otel.TracerProvider | None = None) -> None:
        self._given = provider
        self._made: otel.Tracer | None = None
        self._ids: ChosenIds | None = None

    @property
    def _tracer(self) -> otel.Tracer:
        """Made when it is first used: by then the application has set its provider."""
        if self._made is None:
            provider = self._given or otel.get_tracer_provider()
            self._made = tracer = provider.get_tracer(NAME)
            if hasattr(tracer, "id_generator"):
                self._ids = ChosenIds(tracer.id_generator)
                tracer.id_generator = self._ids  # this tracer is the engine's alone
        return self._made

    # -- starts ------------------------------------------------------------------------------------------------------

    @_harmless
    def current(self) -> str | None:
        """The span that the present code belongs to, as a ``traceparent``; None where it belongs to none."""
        found = otel.get_current_span().get_span_context()
        return _text(found) if found.is_valid else None

    # -- what happens --------------------------------------------------------------------------------------------------

    @_harmless
    def attempt(self, performance: Performance, at: int) -> AttemptInTrace:
        """The span of an attempt begins; what is done from here on belongs to it."""
        run, receipt, key = performance.run, performance.receipt, performance.key
        place = trace_of(key, performance.traceparent, None if run is None else run.parent)
        what = _kind(performance)
        facts = _facts(key, None if run is None else run.workflow, performance.step.name, performance.promise)
        facts["holdfast.attempt"] = performance.attempt
        if performance.begun_before:
            facts["holdfast.begun_before"] = True
        if receipt is not None:
            facts["holdfast.connector"], facts["holdfast.operation"] = receipt.connector, receipt.operation
            facts["holdfast.receipt"] = receipt.id
            facts["holdfast.gate.decision"] = "allowed" if receipt.task is None else "approved"
        generation = performance.owner.epoch // _GENERATION if run is None else run.generation
        id = attempt_span_id(what, performance.promise, performance.mark, generation, performance.attempt)
        kind = otel.SpanKind.INTERNAL if receipt is None else otel.SpanKind.CLIENT
        return AttemptInTrace(self._start(f"{what} {performance.step.name}", place, id, kind, facts, at))

    @_harmless
    def settled(self, run: Run, request: Invoke, failure: Failure | None, at: int) -> None:
        """The gate settled a call by itself: a span without a length says so."""
        place = trace_of(run.key, run.attributes.get(TRACEPARENT), run.parent)
        facts = _facts(run.key, run.workflow, request.function_name, request.promise_id)
        facts["holdfast.gate.decision"] = "known" if failure is None else "refused"
        id = attempt_span_id("settled", request.promise_id, request.mark, run.generation, request.attempt)
        name = f"action {request.function_name}"
        span = self._start(name, place, id, otel.SpanKind.INTERNAL, facts, at)
        _end(span, failure, at)

    @_harmless
    def run_ended(self, run: Run, outcome: str, failure: Failure | None, again: int, at: int) -> None:
        """A run has ended: its span has the length of its life. One that was retried ends again, below the first."""
        place = trace_of(run.key, run.attributes.get(TRACEPARENT), run.parent)
        facts = _facts(run.key, run.workflow, None, PromiseId(run.root))
        facts["holdfast.outcome"] = outcome
        if again:
            facts["holdfast.generation"] = again
        name, kind = f"run {run.workflow}", otel.SpanKind.INTERNAL
        if again:
            span = self._start(name, place, run_span_id(run.key, again), kind, facts, run.updated_at)
        else:
            parent = None if place.parent_id is None else self._context(place, place.parent_id)
            span = self._span(name, parent, place.trace_id, place.span_id, kind, facts, run.created_at)
        _end(span, failure, at)

    # -- spans ---------------------------------------------------------------------------------------------------------

    def _start(self, name: str, place: RunTrace, id: int, kind: otel.SpanKind, facts: Facts, at: int) -> otel.Span:
        """A span below its run's."""
        return self._span(name, self._context(place, place.span_id), place.trace_id, id, kind, facts, at)

    def _span(
        self,
        name: str,
        parent: contexts.Context | None,
        trace_id: int,
        id: int,
        kind: otel.SpanKind,
        facts: Facts,
        at: int,
    ) -> otel.Span:
        tracer = self._tracer
        if self._ids is not None:
            self._ids.trace_id, self._ids.span_id = trace_id, id
        above = contexts.Context() if parent is None else parent
        return tracer.start_span(name, above, kind, facts, start_time=at * 1000)

    def _context(self, place: RunTrace, span_id: int) -> contexts.Context:
        """The context of a span that another process may have made, or will make."""
        kept = self._is_kept(place.trace_id) if place.is_sampled is None else place.is_sampled
        flags = otel.TraceFlags(otel.TraceFlags.SAMPLED if kept else otel.TraceFlags.DEFAULT)
        found = otel.SpanContext(place.trace_id, span_id, is_remote=True, trace_flags=flags)
        return otel.set_span_in_context(otel.NonRecordingSpan(found), contexts.Context())

    def _is_kept(self, trace_id: int) -> bool:
        """Whether a trace that begins with a run is kept: by the sampler, which says the same in each process."""
        sampler = getattr(self._tracer, "sampler", None)
        if sampler is None:
            return True
        return bool(sampler.should_sample(contexts.Context(), trace_id, NAME).decision.is_sampled())


class AttemptInTrace:
    """The span of an attempt that is under way."""

    __slots__ = ("_current", "_outgoing", "_span")

    def __init__(self, span: otel.Span) -> None:
        self._span = span
        self._current = contexts.attach(otel.set_span_in_context(span))
        self._outgoing = outgoing.set(_text(span.get_span_context()))

    @_harmless
    def leave(self) -> None:
        contexts.detach(self._current)
        outgoing.reset(self._outgoing)

    @_harmless
    def end(self, failure: Failure | None, at: int, *, called_off: bool) -> None:
        if called_off:
            self._span.set_attribute("holdfast.called_off", True)
        _end(self._span, failure, at)


def _end(span: otel.Span, failure: Failure | None, at: int) -> None:
    if failure is not None:
        span.set_status(otel.StatusCode.ERROR)
        span.set_attributes(_error_facts(failure))
    span.end(at * 1000)


def _error_facts(failure: Failure) -> Facts:
    """An error without its words: they may quote a value."""
    facts: Facts = {"error.type": failure.type.replace(":", "."), "holdfast.error.class": error_class(failure)}
    if failure.type.startswith(_ERRORS):
        kind = getattr(errors, failure.type.removeprefix(_ERRORS), None)
        if isinstance(kind, type) and issubclass(kind, errors.HoldfastError):
            facts["holdfast.error.code"] = kind.code
    if isinstance(status := error_members(failure).get("status"), int):
        facts["http.response.status_code"] = status
    return facts


def _facts(key: Key, workflow: str | None, step: str | None, promise: PromiseId) -> Facts:
    facts: Facts = {"holdfast.tenant": key.tenant, "holdfast.run": key.run, "holdfast.promise": str(promise)}
    if workflow is not None:
        facts["holdfast.workflow"] = workflow
    if step is not None:
        facts["holdfast.step"] = step
    return facts


def _kind(performance: Performance) -> str:
    """``step``, ``action``, or ``probe``: what looks for an act is no act."""
    if performance.receipt is None:
        return "step"
    return "action" if performance.uncut else "probe"


def _text(context: otel.SpanContext) -> str:
    return str(TraceContext(context.trace_id, context.span_id, context.trace_flags.sampled))

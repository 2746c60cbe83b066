"""What becomes of an engine's work, told to whoever observes it, if somebody does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from holdfast.errors import ExtraMissing
from holdfast.journal import events as e
from holdfast.runs.clock import Clock
from holdfast.runs.observer import Observer
from holdfast.runs.tracing import TRACEPARENT, received_trace
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from holdfast.telemetry.tracer import SpanTracer

Tracing: TypeAlias = "bool | TracerProvider"
"""Whether there are spans: made by the provider of the process, or by this one."""


class EngineObservation:
    """Passes on what happens. ``observer`` is set before the engine opens; nothing is paid where there is none.

    With ``tracing`` there are spans for OpenTelemetry, too. Raises ExtraMissing where its library is not installed.
    """

    def __init__(self, clock: Clock, then: Callable[[Sequence[p.Change]], None], tracing: Tracing = False) -> None:
        self._clock = clock
        self._then = then
        self.observer: Observer | None = None
        self.tracer: SpanTracer | None = None
        self.trace(tracing)

    def trace(self, tracing: Tracing) -> None:
        """Trace from the engine's opening on: with this provider, or with that of the process."""
        if not tracing:
            self.tracer = None
            return
        try:
            from holdfast.telemetry.tracer import SpanTracer
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("opentelemetry"):
                raise
            raise ExtraMissing("traces need OpenTelemetry: pip install 'holdfast[otel]'.") from None
        self.tracer = SpanTracer(None if tracing is True else tracing)

    def traced(self, attributes: Mapping[str, str]) -> Mapping[str, str]:
        """The attributes of a run that is started now: with the trace that the start belongs to, if to any."""
        if TRACEPARENT in attributes:
            return attributes
        own = None if self.tracer is None else self.tracer.current()
        found = received_trace() if own is None else own
        return attributes if found is None else {**attributes, TRACEPARENT: found}

    def committed(self, changes: Sequence[p.Change]) -> None:
        """These changes are durable."""
        self._then(changes)
        if self.observer is not None:
            self.observer.committed(len(changes))

    def ended(self, run: p.Run, event: e.Event, again: int) -> None:
        """A run has ended in this process. ``again`` is its generation, where it was retried."""
        if self.observer is None and self.tracer is None:
            return
        outcome, now = type(event).__name__.removeprefix("Execution").lower(), self._clock.now()
        if self.observer is not None:
            self.observer.run_ended(run.workflow, outcome, max(0, now - run.created_at) / 1e6)
        if self.tracer is not None:
            failure = event.error if isinstance(event, e.ExecutionFailed) else None
            self.tracer.run_ended(run, outcome, failure, again, now)

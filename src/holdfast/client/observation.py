"""What becomes of an engine's work, told to whoever observes it, if somebody does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.journal import events as e
from holdfast.runs.clock import Clock
from holdfast.runs.observer import Observer
from holdfast.store import protocol as p


class EngineObservation:
    """Passes on what happens. ``observer`` is set before the engine opens; nothing is paid where there is none."""

    def __init__(self, clock: Clock, then: Callable[[Sequence[p.Change]], None]) -> None:
        self._clock = clock
        self._then = then
        self.observer: Observer | None = None

    def committed(self, changes: Sequence[p.Change]) -> None:
        """These changes are durable."""
        self._then(changes)
        if self.observer is not None:
            self.observer.committed(len(changes))

    def ended(self, workflow: str, event: e.Event, created_at: int) -> None:
        """A run has ended in this process."""
        if self.observer is not None:
            outcome = type(event).__name__.removeprefix("Execution").lower()
            self.observer.run_ended(workflow, outcome, max(0, self._clock.now() - created_at) / 1e6)

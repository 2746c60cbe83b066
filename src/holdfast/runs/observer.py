"""What an engine tells somebody who counts: runs that ended here, attempts of steps, commits, tries of deliveries."""

from __future__ import annotations

from typing import Protocol


class Observer(Protocol):
    """It is called from the middle of the work: it must be quick, and must not raise. Nothing in it names a run."""

    def run_ended(self, workflow: str, outcome: str, seconds: float) -> None:
        """A run of this worker has completed, failed or was cancelled, so long after it was made."""
        ...

    def step_ended(self, step: str, outcome: str, seconds: float) -> None:
        """An attempt of a step or an action has completed or failed."""
        ...

    def delivery_tried(self, outcome: str) -> None:
        """A delivery of a subscription was tried here; it is delivered, pending or failed now."""
        ...

    def committed(self, changes: int) -> None:
        """So many changes became durable in one transaction."""
        ...

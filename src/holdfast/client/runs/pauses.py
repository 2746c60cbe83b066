"""The reason of a pause: a person asked for it, or the engine parked the run. The row has one text for both."""

from __future__ import annotations

from holdfast.store.protocol import ENDED, PAUSED, Run

__all__ = ["PAUSED", "by_request", "is_parked"]


def by_request(reason: str) -> str:
    """The reason of a pause that a person asks for, as it is stored."""
    return reason if reason.startswith(PAUSED) else f"{PAUSED}: {reason}"


def is_parked(run: Run) -> bool:
    """Whether the engine parked the run, because it cannot continue or because that would do harm."""
    return run.pause is not None and run.standing not in ENDED and not run.pause.startswith(PAUSED)

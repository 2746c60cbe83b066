"""What became of each node the last time, for whoever looks at the run, and for the root ``nodes`` of expressions."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.programs.definition.interpreter.outcomes import (
    Dropped,
    Erred,
    Finished,
    NodeError,
    NodeOutcome,
    Succeeded,
)


class NodeMark(msgspec.Struct, array_like=True):
    """What became of a node the last time, for whoever looks at the run."""

    state: str  # running, success, failed, skipped, retrying, cancelled
    visits: int = 0
    message: str = ""

    def begin(self) -> None:
        """A visit begins."""
        self.state, self.message = "running", ""
        self.visits += 1


def mark_end(mark: NodeMark, outcome: NodeOutcome, handled: NodeError | None) -> None:
    """A visit is over; ``handled`` is the error that a handler took care of."""
    error = outcome.error if isinstance(outcome, Erred) else handled
    mark.message = "" if error is None else error.message
    match outcome:
        case Succeeded(skipped=skipped):
            mark.state = "skipped" if skipped else "success"
        case Erred():
            mark.state = "failed"
        case Finished():
            mark.state = "success"
        case Dropped():
            mark.state = "cancelled"


def kept_end(mark: NodeMark, outcome: NodeOutcome, handled: NodeError | None, by: Any) -> dict[str, Any]:
    """What expressions read of a node that is over."""
    error = outcome.error if isinstance(outcome, Erred) else handled
    value = outcome.value if isinstance(outcome, Succeeded) else None
    return {"state": mark.state, "result": value, "error": None if error is None else error.shown(), "by": by}

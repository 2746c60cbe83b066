"""What a worker tells somebody who traces it: attempts as they begin and end, and calls that the gate settled itself.

Only what happens is told. A program that is rebuilt from its journal performs nothing, so nothing is told of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.journal.payload import Failure

if TYPE_CHECKING:
    from holdfast.kernel.requests import Invoke
    from holdfast.store.protocol import Run
    from holdfast.worker.steps.performance import Performance


class AttemptSpan(Protocol):
    """An attempt that is under way. What it does belongs to its span, until ``leave``."""

    def leave(self) -> None:
        """What the engine does from here on is not the attempt's."""
        ...

    def end(self, failure: Failure | None, at: int, *, called_off: bool) -> None:
        """It has ended, with this error if it failed."""
        ...


class Spans(Protocol):
    """It is called from the middle of the work: it must be quick, and must not raise. Times are in microseconds."""

    def attempt(self, performance: Performance, at: int) -> AttemptSpan | None:
        """An attempt begins in the present task; None where it cannot be traced."""
        ...

    def settled(self, run: Run, request: Invoke, failure: Failure | None, at: int) -> None:
        """The gate settled a call without an attempt: it was refused, or what came of it was known already."""
        ...

"""Edition 0: the compensation of runs that began before the laws of ``compensation`` existed. They replay unchanged.

A success counted when a task of the program had got its value. Undoing was part of the body's own task, so a
cancellation ended it. It was begun only after an ``Exception`` or a cancellation.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.errors import StepFailed
from holdfast.kernel.program import Continued, Ending, Returned
from holdfast.programs.function.failures import ContinueAsNew, is_at_fault

if TYPE_CHECKING:
    from holdfast.journal.payload import Payload
    from holdfast.programs.function.decorators import Step, Workflow


class FirstEdition:
    """The body of one run and its compensation, in one task."""

    def __init__(self, workflow: Workflow[..., Any]) -> None:
        self._workflow = workflow
        self._done: list[tuple[Step[..., Any], tuple[Any, ...]]] = []

    def done(self, undo: Step[..., Any], args: tuple[Any, ...]) -> None:
        """A task of the program has got the value of a call."""
        self._done.append((undo, args))

    def keep(self) -> None:
        """Declare all successes so far as final."""
        self._done.clear()

    async def drive(self, input: Payload) -> Ending:
        """Call the function. On failure or cancellation undo its successes, newest first."""
        signature = self._workflow.signature
        args, kwargs = signature.read(input)
        try:
            value = await self._workflow.function(*args, **kwargs)
            return Returned(signature.write_result(value))
        except ContinueAsNew as again:
            return Continued(signature.write(*again.arguments))
        except asyncio.CancelledError as cancelled:
            await self._undo(cancelled)
            raise
        except Exception as error:
            if not is_at_fault(error):  # else the run is parked, and nothing is undone
                await self._undo(error)
            raise

    async def _undo(self, cause: BaseException) -> None:
        failed: list[str] = []
        while self._done:
            undo, args = self._done.pop()
            try:
                await undo(*args)
            except StepFailed as error:
                failed.append(str(error))
        if failed:
            what = str(cause) or type(cause).__name__
            raise StepFailed(f"{what}; and what was done could not all be taken back: {'; '.join(failed)}") from cause

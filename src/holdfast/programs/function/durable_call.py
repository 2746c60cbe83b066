"""A call that a workflow makes: a coroutine that knows whether it was awaited or handed on."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from holdfast.errors import InvalidFunction, NotAwaited
from holdfast.programs.function.call_site import DISCARDED, complaint, is_discarded
from holdfast.programs.function.loop import durable_loop

if TYPE_CHECKING:
    from holdfast.programs.function.decorators import Durable

R_co = TypeVar("R_co", covariant=True)


class DurableCall(Coroutine[Any, Any, R_co]):
    """A call that has not begun: await it, give it to asyncio, or submit it to a join set.

    A run that makes a call and never begins it fails: at once where the code discards the call, else at its end. A call
    begins once: if it was submitted, it can be neither submitted again nor awaited.
    """

    __slots__ = ("_loop", "_number", "_running", "_submitted", "args", "definition", "kwargs")

    def __init__(self, definition: Durable[R_co], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.definition = definition
        self.args = args
        self.kwargs = kwargs
        self._running: Coroutine[Any, Any, R_co] | None = None
        self._submitted = False
        loop = self._loop = durable_loop()
        if loop is None:
            self._number = id(self)
            return
        self._number = loop.number()
        if loop.program.first_edition is None:
            caller = sys._getframe(2)  # the code that called the step
            code, instruction = caller.f_code, caller.f_lasti
            loop.unawaited[self._number] = (definition.what, code, instruction)
            known = DISCARDED.get((id(code), instruction))
            if is_discarded(caller, definition.callee()) if known is None else known[1]:
                raise NotAwaited(complaint(definition.what, code, instruction))

    def __hash__(self) -> int:
        # asyncio.as_completed() begins its calls in the order of a set: that order must be the same in every replay.
        return self._number

    def _begun(self) -> Coroutine[Any, Any, R_co]:
        if self._running is None:
            self._check_once()
            if self._loop is not None:
                self._loop.unawaited.pop(self._number, None)
            self._running = self.definition.begin(self.args, self.kwargs)
        return self._running

    def claim(self) -> None:
        """This call is handed on: it is no longer counted as never awaited."""
        if self._loop is not None:
            self._loop.unawaited.pop(self._number, None)

    def submit(self) -> None:
        """This call becomes a member of a join set. Raises InvalidFunction if it has begun."""
        self._check_once()
        self.claim()
        self._submitted = True

    def _check_once(self) -> None:
        begun = self._submitted or self._running is not None
        if begun and self._loop is not None and self._loop.program.edition >= 2:
            what = self.definition.what
            raise InvalidFunction(f"this call of {what} has begun, and a call begins once: make another call of it")

    def __await__(self) -> Generator[Any, Any, R_co]:
        return self._begun().__await__()

    def send(self, value: Any) -> Any:
        return self._begun().send(value)

    def throw(self, *error: Any) -> Any:
        return self._begun().throw(*error)

    def close(self) -> None:
        self.claim()
        if self._running is not None:
            self._running.close()


class _OfStep:
    """Marks the type of a step's call."""


class _OfChild:
    """Marks the type of a workflow's call, so that type checkers distinguish workflows from steps."""


StepCall: TypeAlias = Coroutine[Any, _OfStep, R_co]
ChildCall: TypeAlias = Coroutine[Any, _OfChild, R_co]
"""Plain coroutines for type checkers, so that they report a call that is never awaited."""

"""Compensation: the successes of a run, and how they are undone when the run fails or is cancelled.

The laws:

- A call with a recorded success and an ``undo=`` is undone, whether or not a task of the program ever got the value.
- Successes are undone newest first, one at a time, and to the end. No cancellation reaches the undoing. A success that
  cannot be undone is reported, and the others are still undone.
- When the body has ended, the tasks that it left behind begin nothing more. Calls that they had begun may still end,
  and are undone then.
- Each success is undone once. The journal records which: ``InvokeScheduled.undoes``.
- The next generation takes over the successes, unless they were declared done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.journal.payload import CBOR, ONCE, Err, Ok, Outcome, Payload, PolicyField, policy_fields, policy_of
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.failures import revive
from holdfast.programs.function.values import decode, encode

if TYPE_CHECKING:
    from holdfast.programs.function.decorators import Step
    from holdfast.programs.function.loop import DurableLoop
    from holdfast.programs.function.program import FunctionProgram


IMPOSSIBLE: Final = ""
"""The kind of an undo that cannot be made: its input is the reason."""


class Undo(msgspec.Struct, frozen=True, array_like=True):
    """The call that undoes one success, as data: it outlives the generation, and is read without any code."""

    root: bytes
    path: tuple[int, ...]
    kind: str
    name: str
    input: bytes
    codec: str
    retry: list[PolicyField]
    queue: str | None


class _Call(msgspec.Struct, frozen=True):
    """A call of a step that has an ``undo=``: its recorded arguments, and its result."""

    promise: PromiseId
    step: Step[..., Any]
    input: Payload
    result: Payload

    def undo(self, program: FunctionProgram) -> Undo:
        """The call that undoes it. Raises where its result cannot be read, or the undo's arguments not written."""
        undo, call = self.step.undo_call(self.result, self.input, program)
        policy = policy_fields(undo.retry)
        place = self.promise.root, self.promise.path
        return Undo(*place, undo.kind, undo.name, call.data, call.codec, policy, undo.queue)


def _carried(entry: _Call | Undo, program: FunctionProgram) -> Undo:
    """One success as the next generation takes it over; where it cannot be undone, with the reason."""
    if isinstance(entry, Undo):
        return entry
    try:
        return entry.undo(program)
    except Exception as error:  # the author's types may raise anything for an old value
        place = entry.promise.root, entry.promise.path
        return Undo(*place, IMPOSSIBLE, entry.step.name, str(error).encode(), CBOR, policy_fields(ONCE), None)


class Compensations:
    """The successes of one run that are not undone."""

    def __init__(self, carried: Payload | None = None) -> None:
        self.asked: dict[PromiseId, tuple[Step[..., Any], Payload]] = {}
        """The calls of steps with an ``undo=`` that have not ended."""
        self._done: list[_Call | Undo] = []
        if carried is not None:
            self._done.extend(decode(carried, list[Undo], "what earlier generations did"))
        self.failures: list[str] = []

    def __bool__(self) -> bool:
        """Whether there is something to undo."""
        return bool(self._done)

    def settled(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A call has ended. Its success must be undone from here on."""
        call = self.asked.pop(promise, None)
        if call is not None and type(outcome) is Ok:
            self._done.append(_Call(promise, *call, outcome.value))

    def keep(self) -> None:
        """Declare all successes so far as final: they are never undone."""
        self._done.clear()

    def carried(self, program: FunctionProgram) -> Payload | None:
        """The successes for the next generation; None where there are none."""
        if not self._done:
            return None
        return encode([_carried(entry, program) for entry in self._done], "what was done")

    async def undo(self, loop: DurableLoop) -> None:
        """Undo all successes, newest first. One that cannot be undone is noted in ``failures``."""
        while self._done:
            entry = self._done.pop()
            try:
                call = entry if isinstance(entry, Undo) else entry.undo(loop.program)
            except Exception as error:  # the author's types may raise anything for an old value
                self.failures.append(str(error))
                continue
            if call.kind == IMPOSSIBLE:
                self.failures.append(call.input.decode())
                continue
            promise = loop.scribe.invoke(
                call.kind,
                call.name,
                Payload(call.input, call.codec),
                policy_of(call.retry),
                call.queue,
                PromiseId(call.root, call.path),
            )
            outcome = await loop.promise(promise)
            if type(outcome) is Err:
                self.failures.append(str(revive(outcome.failure, f"{call.kind} {call.name}")))

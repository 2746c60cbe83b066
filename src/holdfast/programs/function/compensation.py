"""Compensation: what was done, and how it is undone when the run fails or is cancelled.

The laws:

- Whatever has a recorded success and an ``undo=`` is undone, whether or not a task of the program ever got the value.
- Undoing goes newest first, one at a time, and to its end: no cancellation reaches it, and what cannot be undone is
  reported and does not keep the rest.
- When the body has ended, the tasks that it left behind begin nothing more. What they had begun may come to its end,
  and is undone then.
- Each success is undone once. The journal says which: ``InvokeScheduled.undoes``.
- What a generation did goes along into the next one, unless it was declared done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.journal.payload import CBOR, ONCE, Err, Ok, Outcome, Payload, RetryPolicy
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
    """The call that undoes one success, as data: it outlives the generation, and needs no code to be read."""

    root: bytes
    path: tuple[int, ...]
    kind: str
    name: str
    input: bytes
    codec: str
    retry: tuple[int, float, float, float, float, float | None]
    queue: str | None


class _Call(msgspec.Struct, frozen=True):
    """A call of a step that has an ``undo=``: its recorded arguments, and its result."""

    promise: PromiseId
    step: Step[..., Any]
    input: Payload
    result: Payload

    def undo(self, program: FunctionProgram) -> Undo:
        """How to undo it. Raises where its result cannot be read, or what the undo takes cannot be written."""
        undo, call = self.step.undo_call(self.result, self.input, program)
        policy = msgspec.structs.astuple(undo.retry)
        place = self.promise.root, self.promise.path
        return Undo(*place, undo.kind, undo.name, call.data, call.codec, policy, undo.queue)


def _carried(entry: _Call | Undo, program: FunctionProgram) -> Undo:
    """What the next generation takes along of one success; where that cannot be undone, why."""
    if isinstance(entry, Undo):
        return entry
    try:
        return entry.undo(program)
    except Exception as error:  # whatever the author's types make of an old value
        place = entry.promise.root, entry.promise.path
        return Undo(*place, IMPOSSIBLE, entry.step.name, str(error).encode(), CBOR, msgspec.structs.astuple(ONCE), None)


class Compensations:
    """What one run has done and not undone."""

    def __init__(self, carried: Payload | None = None) -> None:
        self.asked: dict[PromiseId, tuple[Step[..., Any], Payload]] = {}
        """The calls of steps with an ``undo=`` that have not come to their end."""
        self._done: list[_Call | Undo] = []
        if carried is not None:
            self._done.extend(decode(carried, list[Undo], "what earlier generations did"))
        self.failures: list[str] = []

    def __bool__(self) -> bool:
        """Whether something is there to be undone."""
        return bool(self._done)

    def settled(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A call has ended. Its success is from here on something that was done."""
        call = self.asked.pop(promise, None)
        if call is not None and type(outcome) is Ok:
            self._done.append(_Call(promise, *call, outcome.value))

    def keep(self) -> None:
        """What was done so far stands, whatever happens."""
        self._done.clear()

    def carried(self, program: FunctionProgram) -> Payload | None:
        """What the next generation takes along; None where that is nothing."""
        if not self._done:
            return None
        return encode([_carried(entry, program) for entry in self._done], "what was done")

    async def undo(self, loop: DurableLoop) -> None:
        """Undo all that was done, newest first; what cannot be undone is noted in ``failures``."""
        while self._done:
            entry = self._done.pop()
            try:
                call = entry if isinstance(entry, Undo) else entry.undo(loop.program)
            except Exception as error:  # whatever the author's types make of an old value
                self.failures.append(str(error))
                continue
            if call.kind == IMPOSSIBLE:
                self.failures.append(call.input.decode())
                continue
            promise = loop.scribe.invoke(
                call.kind,
                call.name,
                Payload(call.input, call.codec),
                RetryPolicy(*call.retry),
                call.queue,
                PromiseId(call.root, call.path),
            )
            outcome = await loop.promise(promise)
            if type(outcome) is Err:
                self.failures.append(str(revive(outcome.failure, f"{call.kind} {call.name}")))

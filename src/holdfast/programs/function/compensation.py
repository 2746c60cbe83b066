"""Compensation: the successes of a run, and how they are undone when the run fails or is cancelled.

The laws:

- A call with a recorded success and an ``undo=`` is undone, whether or not a task of the program ever got the value.
- A call with an ``undo=`` that the body gave up is stopped, and its end is awaited. The body does not rely on it, so
  its success is undone at the end of the run, even if the run returns. If that cannot be done, the run fails.
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
from holdfast.journal.secrecy import ACTION
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
    number: int  # the later it succeeded, the higher

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
        self.given_up: set[PromiseId] = set()
        """Those of them that the body no longer waits for."""
        self._done: list[_Call | Undo] = []
        if carried is not None:
            self._done.extend(decode(carried, list[Undo], "what earlier generations did"))
        self._surplus: list[_Call] = []  # successes of calls that the body had given up
        self._succeeded = 0
        self.failures: list[str] = []

    def settled(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A call has ended. Its success must be undone from here on."""
        call = self.asked.pop(promise, None)
        if call is not None and type(outcome) is Ok:
            self._succeeded += 1
            done = _Call(promise, *call, outcome.value, self._succeeded)
            (self._surplus if promise in self.given_up else self._done).append(done)
        self.given_up.discard(promise)

    def keep(self) -> list[PromiseId]:
        """Declare all successes so far as final: they are never undone. What the body gave up is none of them.

        Gives the calls that may have acted at the gate.
        """
        acted = [each for each in self._done if isinstance(each, Undo) or each.step.kind == ACTION]
        self._done.clear()
        return [PromiseId(each.root, each.path) if isinstance(each, Undo) else each.promise for each in acted]

    def has_more(self, *, fails: bool) -> bool:
        """Whether there is something to undo: in a run that ``fails`` all, in one that returns what its body gave up.
        A run that cannot undo that fails."""
        return bool(self._surplus or (self._done and (fails or self.failures)))

    def carried(self, program: FunctionProgram) -> Payload | None:
        """The successes for the next generation; None where there are none."""
        if not self._done:
            return None
        return encode([_carried(entry, program) for entry in self._done], "what was done")

    async def undo(self, loop: DurableLoop, *, fails: bool) -> None:
        """Undo what ``has_more`` speaks of, newest first. What cannot be undone is noted in ``failures``."""
        while self.has_more(fails=fails):
            entry = self._take_newest(fails=fails)
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

    def _take_newest(self, *, fails: bool) -> _Call | Undo:
        done, surplus = self._done, self._surplus
        if not (fails or self.failures) or not done or (surplus and surplus[-1].number > _number_of(done[-1])):
            return surplus.pop()
        return done.pop()


def _number_of(entry: _Call | Undo) -> int:
    return entry.number if isinstance(entry, _Call) else 0

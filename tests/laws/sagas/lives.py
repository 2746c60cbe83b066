"""A run's generations, as the judge is shown them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED, Ok, Outcome
from tests.laws.sagas.play import Note, book, do, unbook, undo

DOING: Final = frozenset({do.name, book.name})
UNDOING: Final = frozenset({undo.name, unbook.name})


class Life(msgspec.Struct):
    """One generation of a run: how it came about (``start``, ``continue``, ``retry``), its journal, what was seen."""

    origin: str
    entries: list[e.Entry]
    notes: list[Note]


def origin_of(generation: int, retried: bool) -> str:
    """How a generation came about."""
    return "start" if generation == 0 else "retry" if retried else "continue"


class Call(msgspec.Struct, frozen=True):
    """A step that has come to its end, and the sequences of both."""

    name: str
    args: list[Any]
    result: Outcome
    scheduled: int
    completed: int

    @property
    def execution(self) -> str:
        """The execution that it was, or that it was to take back."""
        if self.name in UNDOING:
            return text_of(self.args[0])
        assert isinstance(self.result, Ok)
        return text_of(cbor2.loads(self.result.value.data))


def text_of(data: Any) -> str:
    """The execution that a result, or an undo's first argument, names."""
    return str(data["value"] if isinstance(data, dict) else data)


def calls(life: Life) -> Iterator[Call]:
    """The steps of a generation, in the order in which they ended."""
    asked: dict[object, e.Entry] = {}
    for entry in life.entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise):
                asked[promise] = entry
            case e.InvokeCompleted(promise_id=promise, result=result):
                event = asked[promise].event
                assert isinstance(event, e.InvokeScheduled)
                args = cbor2.loads(event.input.data)[0]
                yield Call(event.function_name, args, result, asked[promise].sequence, entry.sequence)


def how_ended(life: Life) -> str:
    """What the journal ends with, in one word."""
    match life.entries[-1].event:
        case e.ExecutionCompleted(result=result):
            return "continued" if result.codec == CONTINUED else "completed"
        case e.ExecutionFailed():
            return "failed"
        case e.ExecutionCancelled():
            return "cancelled"
        case other:
            return f"not at all ({type(other).__name__})"


def reached(lives: list[Life]) -> set[str]:
    """What a run came to: a law that is never put to the test proves nothing."""
    found = {how_ended(life) for life in lives}
    found |= {f"{life.origin}, then {how_ended(life)}" for life in lives[1:]}
    for life in lives:
        ended = list(calls(life))
        undos = [call for call in ended if call.name in UNDOING]
        found |= {"undone" if isinstance(call.result, Ok) else "not undone" for call in undos}
        if not undos:
            continue
        since = min(call.scheduled for call in undos)
        if any(isinstance(entry.event, e.CancelRequested) and entry.sequence > since for entry in life.entries):
            found.add("cancelled while compensating")
        if any(call.name in DOING and isinstance(call.result, Ok) and call.completed > since for call in ended):
            found.add("success while compensating")
    return found

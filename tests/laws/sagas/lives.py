"""A run's generations, as the judge is shown them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.forms import FORM
from holdfast.journal.payload import CONTINUED, Ok, Outcome
from tests.laws.sagas.play import Note, book, do, key_of, unbook, undo

DOING: Final = frozenset({do.name, book.name})
UNDOING: Final = frozenset({undo.name, unbook.name})


class Life(msgspec.Struct):
    """One generation of a run: how it came about (``start``, ``continue``, ``retry``), its journal, what was seen."""

    origin: str
    entries: list[e.Entry]
    notes: list[Note]
    blobs: dict[bytes, bytes] = {}  # of the signals that it carries


def origin_of(generation: int, retried: bool) -> str:
    """How a generation came about."""
    return "start" if generation == 0 else "retry" if retried else "continue"


class Call(msgspec.Struct, frozen=True):
    """A step or a form that has come to its end, and the sequences of both."""

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
    """The steps and forms of a generation, in the order in which they ended."""
    asked: dict[object, e.Entry] = {}
    for entry in life.entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise):
                asked[promise] = entry
            case e.InvokeCompleted(promise_id=promise, result=result):
                event = asked[promise].event
                assert isinstance(event, e.InvokeScheduled)
                args = [] if event.kind == FORM else cbor2.loads(event.input.data)[0]
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
    """The situations that a run has reached: a law that is never tried proves nothing."""
    found = {how_ended(life) for life in lives}
    found |= {f"{life.origin}, then {how_ended(life)}" for life in lives[1:]}
    found |= {what for life in lives for what in _reached_by_forms(life)}
    for life in lives:
        ended = list(calls(life))
        given_up = {note.name for note in life.notes if note.what == "gave up"}
        done = {key_of(call.execution) for call in ended if call.name in DOING and isinstance(call.result, Ok)}
        if given_up & done:
            found.add(f"done after it was given up, then {how_ended(life)}")
        undos = [call for call in ended if call.name in UNDOING]
        found |= {"undone" if isinstance(call.result, Ok) else "not undone" for call in undos}
        if not undos:
            continue
        since = min(call.scheduled for call in undos)
        if any(isinstance(entry.event, e.CancelRequested) and entry.sequence > since for entry in life.entries):
            found.add("cancelled while compensating")
    return found


def _reached_by_forms(life: Life) -> set[str]:
    """The situations that the forms of one generation have reached."""
    found: set[str] = set()
    open_: set[object] = set()
    settled: set[str] = set()  # since the program was last resumed
    for entry in life.entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise, kind=kind) if kind == FORM:
                open_.add(promise)
            case e.InvokeCompleted(promise_id=promise, result=result) if promise in open_:
                open_.discard(promise)
                settled.add("form answered" if isinstance(result, Ok) else "form expired")
            case e.CancelRequested() if open_:
                found.add("cancelled while a form is open")
            case e.TimerFired():
                settled.add("timer fired")
            case e.ExecutionResumed():
                found |= settled - {"timer fired"}
                if settled >= {"form answered", "timer fired"}:
                    found.add("form answered as a timer fires")
                settled.clear()
    if open_ and how_ended(life) == "completed":
        found.add("form given up")
    if life.origin == "retry" and any(note.what == "answered" for note in life.notes):
        found.add("form answered in a retried run")
    return found

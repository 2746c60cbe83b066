"""Verbs that wait for time or for a signal.

A signal that a wait does not match is put aside. Whoever waits for the same name is offered it, in the order in which
they began to wait; a later wait looks there before it receives. So no signal is lost, and each is given once.
"""

from __future__ import annotations

from typing import Any

from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.attribution import giver_of
from holdfast.journal.payload import NOTHING, Ok, Outcome, Payload
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Visit, visits
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.model import SleepVerb, WaitVerb
from holdfast.runs.signals import keyed


class Sleeps(Behaviour):
    """A timer."""

    def begin(self, engine: Interpreter, visit: Visit, verb: SleepVerb) -> None:
        span = engine.context.until(visit, verb.at) if verb.span is None else engine.context.span(visit, verb.span)
        engine.call(visit, engine.scribe.timer(span))

    def settled(self, engine: Interpreter, visit: Visit, verb: SleepVerb, outcome: Outcome | None) -> None:
        engine.succeed(visit)


class Waits(Behaviour):
    """The oldest signal of its name and key that it matches."""

    def begin(self, engine: Interpreter, visit: Visit, verb: WaitVerb) -> None:
        key = None if verb.key is None else engine.context.fill(visit, verb.key)
        visit.memo["signal"] = keyed(verb.signal, key)
        aside = engine.aside.get(visit.memo["signal"], [])
        for at, sent in enumerate(aside):
            if _fits(engine, visit, sent[0]):
                del aside[at]
                _give(engine, visit, sent)
                return
        self._receive(engine, visit)

    def settled(self, engine: Interpreter, visit: Visit, verb: WaitVerb, outcome: Outcome | None) -> None:
        if self._offer(engine, visit, outcome.value if isinstance(outcome, Ok) else NOTHING):
            self._receive(engine, visit)

    def _receive(self, engine: Interpreter, visit: Visit) -> None:
        """Take signals that are there already, until one fits; wait where none does."""
        while True:
            promise, payload = engine.scribe.receive(visit.memo["signal"])
            visit.memo.setdefault("since", promise.path[-1])  # a wait that receives once more keeps its turn
            if payload is None:
                engine.call(visit, promise)
                return
            engine.context.bind(visit, token=engine.context.token(promise))
            if not self._offer(engine, visit, payload):
                return

    def _offer(self, engine: Interpreter, visit: Visit, payload: Payload) -> bool:
        """Give a signal that this visit received to the first that it fits; whether the visit still waits."""
        signal, value = visit.memo["signal"], engine.routine.read(payload)
        sent = [value, giver_of(payload)]
        for each in _waiting_for(engine, signal):
            if each is visit:
                if _fits(engine, visit, value):
                    _give(engine, visit, sent)
                    return False
            elif _would_fit(engine, each, value):
                engine.forget(each)
                _give(engine, each, sent)
                return _waits(visit)  # not where the other has won a race against it
        engine.aside.setdefault(signal, []).append(sent)
        return True


def _waiting_for(engine: Interpreter, signal: str) -> list[Visit]:
    """The visits that wait for a signal, in the order in which they began to."""
    found = [visit for visit in visits(engine.root) if _waits(visit) and visit.memo.get("signal") == signal]
    return sorted(found, key=lambda visit: int(visit.memo["since"]))


def _waits(visit: Visit) -> bool:
    return isinstance(visit.node.verb, WaitVerb) and visit.phase == "body" and visit.closing is None


def _fits(engine: Interpreter, visit: Visit, value: Any) -> bool:
    match = visit.node.verb.match if isinstance(visit.node.verb, WaitVerb) else None
    return match is None or engine.context.holds(visit, match, payload=value)


def _would_fit(engine: Interpreter, visit: Visit, value: Any) -> bool:
    """For another visit: an error in its condition is its own, and shows when it is offered something itself."""
    try:
        return _fits(engine, visit, value)
    except CannotEvaluate:
        return False


def _give(engine: Interpreter, visit: Visit, sent: list[Any]) -> None:
    value, sender = sent
    engine.context.bind(visit, payload=value, signal=visit.memo["signal"])
    visit.memo = {}
    engine.note_decider(visit, sender)
    engine.succeed(visit, value)

"""A signal to another run: the commit delivers it, and the outcome is whether it was delivered."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Final

import cbor2

from holdfast.journal.cbor import canonical
from holdfast.journal.events import InvokeScheduled
from holdfast.journal.payload import NOTHING, Ok, Outcome, Payload
from holdfast.journal.render import arguments
from holdfast.kernel.requests import Invoke
from holdfast.runs import messages
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins, Shown, failed
from holdfast.store.protocol import Answer, Deliver, Delivered, Gone, Key, Repeated, Unknown

SIGNAL: Final = "signal"


def written(target: str, name: str, value: object) -> list[object]:
    """The call as it is recorded: the target run, the signal's name, and its value."""
    return [[target, name, value], {}]


class SignalKind(Kind):
    """A named message from one run to another."""

    name: ClassVar[str] = SIGNAL

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        (target, name, value), _ = cbor2.loads(request.input.data)
        # A retried run may send another signal from the same position: it must not be taken for the first.
        id = f"{request.name}:{hashlib.sha256(request.input.data).hexdigest()[:12]}"
        message = messages.signal(name, Payload(canonical(value)), now, id)
        return Errand(Deliver(Key(run.key.tenant, target), message), request.promise_id, _outcome)

    def show(self, event: InvokeScheduled) -> Shown:
        return Shown(event.function_name, f"({arguments(event.input)})")


def _outcome(answer: Answer) -> Outcome:
    match answer:
        case Delivered() | Repeated():
            return Ok(NOTHING)
        case Unknown():
            return failed("RunNotFound", "there is no such run")
        case Gone():
            return failed("RunEnded", "the run has ended")
        case other:
            return failed("EngineError", f"unexpected answer {other!r}")

"""The event that closes a turn: the program's wait, or its end."""

from __future__ import annotations

from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED, Payload
from holdfast.kernel.outstanding import Outstanding
from holdfast.kernel.pen import Pen
from holdfast.kernel.program import Continued, Program, Raised, Returned, Stopped, Waiting, Yielded


def closing(yielded: Yielded, program: Program, pen: Pen, outstanding: Outstanding) -> e.Event:
    """The event that closes a turn in which the program yielded this."""
    match yielded:
        case Returned(value=value):
            return e.ExecutionCompleted(value)
        case Raised(failure=failure):
            return e.ExecutionFailed(failure)
        case Continued(input=payload):
            return e.ExecutionCompleted(Payload(payload.data, CONTINUED, payload.blob))
        case Stopped(note=note):
            return e.ExecutionCancelled(f"{pen.cancel_reason}; {note}" if note else pen.cancel_reason)
        case Waiting():
            return awaiting(yielded, program, pen, outstanding)


def awaiting(waiting: Waiting, program: Program, pen: Pen, outstanding: Outstanding) -> e.ExecutionAwaiting:
    """The event that closes a turn after which the program waits, as nearly every turn does."""
    kind = waiting.kind
    if type(kind) is e.Single or type(kind) is e.Signal:  # no receive is open, or the kind itself names it
        return e.ExecutionAwaiting(waiting.waiting_on, kind)
    receives = outstanding.unnamed()
    if type(kind) is e.Open and _lists(pen.upcoming()):
        return e.ExecutionAwaiting(program.waiting_on(), e.Any(), receives)
    return e.ExecutionAwaiting(waiting.waiting_on, kind, receives)


def _lists(recorded: e.Entry | None) -> bool:
    """Whether an older journal lists all open promises at this place."""
    event = None if recorded is None else recorded.event
    return type(event) is e.ExecutionAwaiting and type(event.kind) is e.Any

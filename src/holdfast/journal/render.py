"""Events as a person reads them: one short line each, used by diffs, timelines and messages."""

from __future__ import annotations

from typing import assert_never

import cbor2

from holdfast.journal import events as e
from holdfast.journal import forms
from holdfast.journal.attribution import is_given
from holdfast.journal.payload import CBOR, CONTINUED, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import is_call, visible, visible_call

WIDTH = 80
QUESTION_WIDTH = 160


def position(promise: PromiseId) -> str:
    """A promise's place in its own journal: ``#3``."""
    return "#" + ".".join(map(str, promise.path))


def payload(value: Payload) -> str:
    """A payload's value, cut to a line."""
    if value.blob is not None:
        return f"<blob {value.blob.hex()[:12]}…>"
    if is_call(value.codec):
        return arguments(value)
    if value.codec not in (CBOR, CONTINUED) and not is_given(value.codec):
        return f"<{value.codec}, {len(value.data)} bytes>"
    try:
        return cut(repr(cbor2.loads(value.data)))
    except (cbor2.CBORError, ValueError):
        return f"<{len(value.data)} bytes>"


def arguments(value: Payload) -> str:
    """A call's arguments, cut to a line: ``'o-1', 1999, gift=True``."""
    return cut(whole_arguments(value))


def whole_arguments(value: Payload) -> str:
    """A call's arguments as they were written; those marked as secret are masked."""
    try:
        call = visible_call(value) if is_call(value.codec) else value
        if call.blob is not None:
            return payload(call)
        positional, named = cbor2.loads(call.data)
        parts = [*map(repr, positional), *(f"{name}={item!r}" for name, item in named.items())]
    except (cbor2.CBORError, ValueError, TypeError, AttributeError):
        return f"<{len(value.data)} bytes>" if is_call(value.codec) else payload(value)
    return ", ".join(parts)


def question(value: Payload) -> str:
    """A form's question, cut to a line."""
    text = forms.described(value)
    return arguments(value) if text is None else cut(text, QUESTION_WIDTH)


def outcome(value: Outcome) -> str:
    """``→ value`` or ``✗ error``."""
    return f"→ {payload(value.value)}" if isinstance(value, Ok) else f"✗ {cut(str(value.failure))}"


def cut(text: str, width: int = WIDTH) -> str:
    text = text.replace("\n", " ")
    return text if len(text) <= width else text[: width - 1] + "…"


def carried(signals: Payload | None) -> str:
    """How many signals a start carries, as an event that people may see has them."""
    return "" if signals is None else f", with {payload(signals)} signals that were not received before"


def revision(value: Payload) -> str:
    """A revision of a run's code: to which version."""
    try:
        return f"revision to version {cbor2.loads(value.data)['version']}"
    except (cbor2.CBORError, KeyError, TypeError):  # a view masks it, or it is not read
        return "revision"


def seconds(microseconds: int) -> str:
    return f"{microseconds / 1e6:g} s"


def waiting(kind: e.AwaitKind, waiting_on: tuple[PromiseId, ...]) -> str:
    """The promises or the signal of an await, as text."""
    names = ", ".join(position(promise) for promise in waiting_on[:6]) + (", …" if len(waiting_on) > 6 else "")
    match kind:
        case e.Signal(name=name):
            return f"signal {name!r} ({names})"
        case e.Single():
            return names
        case e.Any():
            return f"any of {names}" if waiting_on else "nothing"
        case e.All():
            return f"all of {names}"
        case e.Open():
            return "whatever is open"
        case _ as never:
            assert_never(never)


def line(event: e.Event) -> str:
    """The event in one line, without its sequence and time."""
    match visible(event):
        case e.ExecutionStarted(input=input, signals=signals):
            return f"started({arguments(input)}){carried(signals)}"
        case e.ExecutionCompleted(result=Payload(codec=codec) as result):
            return f"continued as new({arguments(result)})" if codec == CONTINUED else f"completed → {payload(result)}"
        case e.ExecutionFailed(error=error):
            return f"failed ✗ {cut(str(error))}"
        case e.CancelRequested(reason=reason):
            return f"cancel requested: {reason}"
        case e.ExecutionCancelled(reason=reason):
            return f"cancelled: {reason}"
        case e.InvokeScheduled(promise_id=promise, kind=forms.FORM, function_name=name, input=input):
            return f"form {name} ({question(input)}) scheduled at {position(promise)}"
        case e.InvokeScheduled(promise_id=promise, kind=kind, function_name=name, input=input, undoes=undone):
            purpose = "" if undone is None else f" to undo {position(undone)}"
            return f"{kind} {name}({arguments(input)}) scheduled at {position(promise)}{purpose}"
        case e.InvokeStarted(promise_id=promise, attempt=attempt, begun_before=before):
            return f"{position(promise)} attempt {attempt} started{' again' if before else ''}"
        case e.InvokeCompleted(promise_id=promise, result=result):
            return f"{position(promise)} {outcome(result)}"
        case e.InvokeRetrying(promise_id=promise, failed_attempt=attempt, error=error):
            return f"{position(promise)} attempt {attempt} failed, retrying: {cut(str(error))}"
        case e.RandomGenerated(promise_id=promise, value=value):
            return f"random {value.hex()} at {position(promise)}"
        case e.TimeRecorded(promise_id=promise, time=time):
            return f"time {time} at {position(promise)}"
        case e.TimerScheduled(promise_id=promise, duration=duration):
            return f"timer of {seconds(duration)} at {position(promise)}"
        case e.TimerFired(promise_id=promise):
            return f"timer {position(promise)} fired"
        case e.SignalDelivered(signal_name=e.REVISION, payload=value):
            return f"{revision(value)} delivered"
        case e.SignalReceived(promise_id=promise, signal_name=e.REVISION, payload=value):
            return f"{revision(value)} received at {position(promise)}"
        case e.SignalDelivered(signal_name=name, payload=value, delivery_id=delivery):
            return f"signal {name!r} #{delivery} delivered: {payload(value)}"
        case e.SignalReceived(promise_id=promise, signal_name=name, delivery_id=delivery):
            return f"signal {name!r} #{delivery} received at {position(promise)}"
        case e.ExecutionAwaiting(waiting_on=waiting_on, kind=kind, receives=receives):
            names = "".join(f", {signal.name!r} at {position(signal.promise_id)}" for signal in receives[:6])
            return f"waiting for {waiting(kind, waiting_on)}" + (f" (signals {names[2:]})" if names else "")
        case e.ExecutionResumed():
            return "resumed"
        case e.JoinSetCreated(join_set_id=join_set):
            return f"join set created at {position(join_set.position)}"
        case e.JoinSetSubmitted(join_set_id=join_set, promise_id=promise):
            return f"{position(promise)} submitted to join set {position(join_set.position)}"
        case e.JoinSetAwaited(join_set_id=join_set, promise_id=promise):
            return f"{position(promise)} taken from join set {position(join_set.position)}"
        case _:
            raise TypeError(f"not an event: {event!r}")

"""The comparison of a replayed command with the journal: kind, name and input; never times or policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.journal import events as e
from holdfast.journal.forms import FORM, is_same_form
from holdfast.journal.secrecy import is_same_call


def same(recorded: e.Event, issued: e.Event) -> bool:
    """Whether the issued command is the recorded one. Durations, policies and values seen may differ."""
    kind = type(recorded)
    if kind is not type(issued):
        return False
    return _SAME[kind](recorded, issued) if kind in _SAME else recorded == issued


def _same_invocation(recorded: e.InvokeScheduled, issued: e.InvokeScheduled) -> bool:
    return (
        recorded.promise_id == issued.promise_id
        and recorded.kind == issued.kind
        and recorded.function_name == issued.function_name
        and (is_same_form if recorded.kind == FORM else is_same_call)(recorded.input, issued.input)
        and recorded.undoes == issued.undoes
    )


def _same_random(recorded: e.RandomGenerated, issued: e.RandomGenerated) -> bool:
    return (
        recorded.promise_id == issued.promise_id
        and len(recorded.value) == len(issued.value)
        and recorded.value.startswith(e.PATCH) == issued.value.startswith(e.PATCH)
    )


def _same_position(recorded: e.TimeRecorded | e.TimerScheduled, issued: e.TimeRecorded | e.TimerScheduled) -> bool:
    return recorded.promise_id == issued.promise_id


def _same_await(recorded: e.ExecutionAwaiting, issued: e.ExecutionAwaiting) -> bool:
    if recorded.kind != issued.kind or set(recorded.waiting_on) != set(issued.waiting_on):
        return False
    # Older journals do not name the receives. They list them among the promises that are waited for.
    return recorded.receives == issued.receives or (not recorded.receives and bool(recorded.waiting_on))


def _same_failure(recorded: e.ExecutionFailed, issued: e.ExecutionFailed) -> bool:
    return recorded.error.type == issued.error.type


_SAME: Final[dict[type[e.Event], Callable[..., bool]]] = {
    e.InvokeScheduled: _same_invocation,
    e.RandomGenerated: _same_random,
    e.TimeRecorded: _same_position,
    e.TimerScheduled: _same_position,
    e.ExecutionAwaiting: _same_await,
    e.ExecutionFailed: _same_failure,
}

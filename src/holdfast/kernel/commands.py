"""The comparison of a replayed command with the journal: kind, name and input; never times or policies."""

from __future__ import annotations

from holdfast.journal import events as e

PATCH = b"patch:"
"""What the recorded value of a ``patched()`` marker begins with."""


def same(recorded: e.Event, issued: e.Event) -> bool:
    """Whether the issued command is the recorded one. Durations, policies and values seen may differ."""
    if type(recorded) is not type(issued):
        return False
    match recorded, issued:
        case e.InvokeScheduled(), e.InvokeScheduled():
            return (
                recorded.promise_id == issued.promise_id
                and recorded.kind == issued.kind
                and recorded.function_name == issued.function_name
                and recorded.input == issued.input
            )
        case e.RandomGenerated(), e.RandomGenerated():
            return (
                recorded.promise_id == issued.promise_id
                and len(recorded.value) == len(issued.value)
                and recorded.value.startswith(PATCH) == issued.value.startswith(PATCH)
            )
        case e.TimeRecorded(), e.TimeRecorded():
            return recorded.promise_id == issued.promise_id
        case e.TimerScheduled(), e.TimerScheduled():
            return recorded.promise_id == issued.promise_id
        case e.ExecutionAwaiting(), e.ExecutionAwaiting():
            return recorded.kind == issued.kind and set(recorded.waiting_on) == set(issued.waiting_on)
        case e.ExecutionFailed(), e.ExecutionFailed():
            return recorded.error.type == issued.error.type
        case _:
            return recorded == issued

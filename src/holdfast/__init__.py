"""Holdfast: a durable, governed workflow engine for Python.

A run survives any crash, because all that it did is an append-only journal.

The names are imported when they are first used, so that a program or a command pays only for what it needs. Type
checkers and editors read the imports below; a test holds them, the table and ``__all__`` together.
"""

import importlib
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    ActionDenied,
    ApprovalExpired,
    ApprovalRejected,
    HoldfastError,
    InvalidArguments,
    Nondeterminism,
    OutcomeUnknown,
    RetryableError,
    RunCancelled,
    RunFailed,
    RunParked,
    StepFailed,
    TaskExpired,
    TerminalError,
)

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.evidence import verify_evidence
    from holdfast.client.handle import RunHandle
    from holdfast.client.sync import SyncHoldfast
    from holdfast.gate.effects import Cost, DidNotHappen, Happened
    from holdfast.gate.policy.policy import Policy
    from holdfast.gate.receipts import Receipt
    from holdfast.journal.payload import RetryPolicy
    from holdfast.programs.function.actions import action
    from holdfast.programs.function.calls import (
        continue_as_new,
        join_set,
        keep_done,
        now,
        patched,
        random,
        receive,
        send,
        spawn,
        uuid,
    )
    from holdfast.programs.function.decorators import step, workflow
    from holdfast.programs.function.forms import ask
    from holdfast.programs.function.inline_steps import perform
    from holdfast.runs.birth import Trigger
    from holdfast.worker.steps.performer import heartbeat, step_info
    from holdfast.worker.worker import WorkerOptions

_HOMES = {
    "Cost": "holdfast.gate.effects",
    "DidNotHappen": "holdfast.gate.effects",
    "Happened": "holdfast.gate.effects",
    "Holdfast": "holdfast.client.engine",
    "Policy": "holdfast.gate.policy.policy",
    "Receipt": "holdfast.gate.receipts",
    "RetryPolicy": "holdfast.journal.payload",
    "RunHandle": "holdfast.client.handle",
    "SyncHoldfast": "holdfast.client.sync",
    "Trigger": "holdfast.runs.birth",
    "WorkerOptions": "holdfast.worker.worker",
    "action": "holdfast.programs.function.actions",
    "ask": "holdfast.programs.function.forms",
    "continue_as_new": "holdfast.programs.function.calls",
    "heartbeat": "holdfast.worker.steps.performer",
    "join_set": "holdfast.programs.function.calls",
    "keep_done": "holdfast.programs.function.calls",
    "now": "holdfast.programs.function.calls",
    "patched": "holdfast.programs.function.calls",
    "perform": "holdfast.programs.function.inline_steps",
    "random": "holdfast.programs.function.calls",
    "receive": "holdfast.programs.function.calls",
    "send": "holdfast.programs.function.calls",
    "spawn": "holdfast.programs.function.calls",
    "step": "holdfast.programs.function.decorators",
    "step_info": "holdfast.worker.steps.performer",
    "uuid": "holdfast.programs.function.calls",
    "verify_evidence": "holdfast.client.evidence",
    "workflow": "holdfast.programs.function.decorators",
}
"""Where each name that is imported on first use lives."""

__all__ = [
    "ActionDenied",
    "ApprovalExpired",
    "ApprovalRejected",
    "Cost",
    "DidNotHappen",
    "Happened",
    "Holdfast",
    "HoldfastError",
    "InvalidArguments",
    "Nondeterminism",
    "OutcomeUnknown",
    "Policy",
    "Receipt",
    "RetryPolicy",
    "RetryableError",
    "RunCancelled",
    "RunFailed",
    "RunHandle",
    "RunParked",
    "StepFailed",
    "SyncHoldfast",
    "TaskExpired",
    "TerminalError",
    "Trigger",
    "WorkerOptions",
    "action",
    "ask",
    "continue_as_new",
    "heartbeat",
    "join_set",
    "keep_done",
    "now",
    "patched",
    "perform",
    "random",
    "receive",
    "send",
    "spawn",
    "step",
    "step_info",
    "uuid",
    "verify_evidence",
    "workflow",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value  # the next use is an ordinary one
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

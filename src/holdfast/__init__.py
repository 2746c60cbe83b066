"""Holdfast: a durable, governed workflow engine for Python.

A run survives any crash, because all that it did is an append-only journal.
"""

from holdfast.client.engine import Holdfast
from holdfast.client.evidence import verify_evidence
from holdfast.client.handle import RunHandle
from holdfast.client.sync import SyncHoldfast
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
from holdfast.gate.policy.policy import Policy
from holdfast.gate.receipts import Receipt
from holdfast.journal.payload import RetryPolicy
from holdfast.programs.function.actions import Cost, DidNotHappen, Happened, action
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
from holdfast.runs.birth import Trigger
from holdfast.worker.performer import heartbeat, step_info
from holdfast.worker.worker import WorkerOptions

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

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
    NotPermitted,
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
    from holdfast.client.governance.attachments import Attachment
    from holdfast.client.governance.evidence import verify_evidence
    from holdfast.client.runs.handle import RunHandle
    from holdfast.client.sync.engine import SyncHoldfast, SyncRunHandle
    from holdfast.gate.effects import Cost, DidNotHappen, Happened
    from holdfast.gate.policy.policy import Policy
    from holdfast.gate.receipts import Receipt
    from holdfast.journal.payload import Err, Ok, RetryPolicy
    from holdfast.people.caller import Caller
    from holdfast.people.tenants import TenantQuota
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
    from holdfast.programs.function.named_workflows import child
    from holdfast.programs.machine.chart_machine import machine_of_scxml
    from holdfast.programs.machine.handle import Cell
    from holdfast.programs.machine.machine import machine
    from holdfast.programs.machine.occurrences import Progress, Rejected, Settled
    from holdfast.programs.machine.schemas import schema
    from holdfast.runs.birth import Trigger
    from holdfast.templates.template import EventRoute, TemplateCaps
    from holdfast.transports.secret_keeper import SecretSettings
    from holdfast.transports.secrets import SecretSource, SecretUse
    from holdfast.wakeups.driver import Wakeups
    from holdfast.worker.options import WorkerOptions
    from holdfast.worker.process import tune_process
    from holdfast.worker.steps.performance import heartbeat, report, step_info

_HOMES = {
    # Engines and their options
    "Attachment": "holdfast.client.governance.attachments",
    "Caller": "holdfast.people.caller",
    "EventRoute": "holdfast.templates.template",
    "Holdfast": "holdfast.client.engine",
    "Policy": "holdfast.gate.policy.policy",
    "RetryPolicy": "holdfast.journal.payload",
    "RunHandle": "holdfast.client.runs.handle",
    "SecretSettings": "holdfast.transports.secret_keeper",
    "SecretSource": "holdfast.transports.secrets",
    "SecretUse": "holdfast.transports.secrets",
    "SyncHoldfast": "holdfast.client.sync.engine",
    "SyncRunHandle": "holdfast.client.sync.engine",
    "TemplateCaps": "holdfast.templates.template",
    "TenantQuota": "holdfast.people.tenants",
    "Trigger": "holdfast.runs.birth",
    "Wakeups": "holdfast.wakeups.driver",
    "WorkerOptions": "holdfast.worker.options",
    "tune_process": "holdfast.worker.process",
    "verify_evidence": "holdfast.client.governance.evidence",
    # Programs: what an author writes with
    "action": "holdfast.programs.function.actions",
    "ask": "holdfast.programs.function.forms",
    "child": "holdfast.programs.function.named_workflows",
    "continue_as_new": "holdfast.programs.function.calls",
    "heartbeat": "holdfast.worker.steps.performance",
    "join_set": "holdfast.programs.function.calls",
    "keep_done": "holdfast.programs.function.calls",
    "now": "holdfast.programs.function.calls",
    "patched": "holdfast.programs.function.calls",
    "perform": "holdfast.programs.function.inline_steps",
    "random": "holdfast.programs.function.calls",
    "receive": "holdfast.programs.function.calls",
    "report": "holdfast.worker.steps.performance",
    "send": "holdfast.programs.function.calls",
    "spawn": "holdfast.programs.function.calls",
    "step": "holdfast.programs.function.decorators",
    "step_info": "holdfast.worker.steps.performance",
    "uuid": "holdfast.programs.function.calls",
    "workflow": "holdfast.programs.function.decorators",
    # What machines hear and ask
    "Cell": "holdfast.programs.machine.handle",
    "Err": "holdfast.journal.payload",
    "Ok": "holdfast.journal.payload",
    "Progress": "holdfast.programs.machine.occurrences",
    "Rejected": "holdfast.programs.machine.occurrences",
    "Settled": "holdfast.programs.machine.occurrences",
    "machine": "holdfast.programs.machine.machine",
    "machine_of_scxml": "holdfast.programs.machine.chart_machine",
    "schema": "holdfast.programs.machine.schemas",
    # What actions declare and get
    "Cost": "holdfast.gate.effects",
    "DidNotHappen": "holdfast.gate.effects",
    "Happened": "holdfast.gate.effects",
    "Receipt": "holdfast.gate.receipts",
}
"""Where each name that is imported on first use lives."""

__all__ = [  # noqa: RUF022  # sorted within each group
    # Engines and their options
    "Attachment",
    "Caller",
    "EventRoute",
    "Holdfast",
    "Policy",
    "RetryPolicy",
    "RunHandle",
    "SecretSettings",
    "SecretSource",
    "SecretUse",
    "SyncHoldfast",
    "SyncRunHandle",
    "TemplateCaps",
    "TenantQuota",
    "Trigger",
    "Wakeups",
    "WorkerOptions",
    "tune_process",
    "verify_evidence",
    # Programs: what an author writes with
    "action",
    "ask",
    "child",
    "continue_as_new",
    "heartbeat",
    "join_set",
    "keep_done",
    "now",
    "patched",
    "perform",
    "random",
    "receive",
    "report",
    "send",
    "spawn",
    "step",
    "step_info",
    "uuid",
    "workflow",
    # What machines hear and ask
    "Cell",
    "Err",
    "Ok",
    "Progress",
    "Rejected",
    "Settled",
    "machine",
    "machine_of_scxml",
    "schema",
    # What actions declare and get
    "Cost",
    "DidNotHappen",
    "Happened",
    "Receipt",
    # Errors that a program may meet
    "ActionDenied",
    "ApprovalExpired",
    "ApprovalRejected",
    "HoldfastError",
    "InvalidArguments",
    "Nondeterminism",
    "NotPermitted",
    "OutcomeUnknown",
    "RetryableError",
    "RunCancelled",
    "RunFailed",
    "RunParked",
    "StepFailed",
    "TaskExpired",
    "TerminalError",
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

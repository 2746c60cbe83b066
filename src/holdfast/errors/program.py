"""Errors that a program meets: raised inside workflows, or by steps and actions to say what came of an attempt."""

from __future__ import annotations

from holdfast.errors.root import HoldfastError


class StepFailed(HoldfastError):
    """A step or child workflow ended in an error; ``failure`` holds what is recorded of it.

    Where the recorded exception class can be found, the raised error is an instance of it as well, so
    ``except ValueError`` in a workflow catches what a step raised.
    """

    code = "step_failed"

    def __init__(self, message: str, *, failure: object = None) -> None:
        super().__init__(message)
        self.failure = failure


class TerminalError(HoldfastError):
    """Raise it in a step to say that trying again is of no use: the step fails at once, whatever its retry policy."""

    code = "terminal"


class RetryableError(HoldfastError):
    """Raise it in a step to ask for another attempt, not before ``after`` seconds where given."""

    code = "retryable"

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = after


class GateError(HoldfastError):
    """The gate refused an action: nothing was done."""

    code = "gate"
    http_status = 403


class ActionDenied(GateError):
    """Policy, a cap or the allowlist denied the action: change the policy, then retry the run."""

    code = "action_denied"


class ApprovalRejected(GateError):
    """A person rejected the action, or gave it up."""

    code = "approval_rejected"


class ApprovalExpired(GateError):
    """Nobody approved the action in time: retry the run to ask again."""

    code = "approval_expired"


class TaskExpired(HoldfastError, TimeoutError):
    """Nobody answered a form in time. Raised inside workflows; ``except TimeoutError`` catches it as well."""

    code = "task_expired"
    http_status = 504


class OutcomeUnknown(HoldfastError):
    """Raised by an action that cannot tell whether its act was done: it is not repeated unless that is safe."""

    code = "outcome_unknown"


class BusinessError(HoldfastError):
    """A definition raised an error of its author's own. Its message begins with the author's text."""

    code = "business"


class NodeTimeout(HoldfastError, TimeoutError):
    """A node of a definition took longer than its time-out."""

    code = "node_timeout"

"""Every error that Holdfast raises.

The tree is split by who must act::

    HoldfastError
    ├── AuthorError              the code of a workflow or step must change
    │   ├── InvalidFunction          a decorator was given something it cannot use
    │   ├── DuplicateName            two workflows or two steps share one name
    │   ├── Unencodable              a value cannot be written as data
    │   ├── Undecodable              data does not fit the annotated type
    │   ├── PayloadTooLarge          a value is over the limit
    │   ├── BlockedLoop              real I/O or a blocking call in a workflow body
    │   ├── NotInWorkflow            a workflow call outside a workflow
    │   ├── NotAwaited               a call in a workflow that was made and never awaited
    │   └── Nondeterminism           replay and journal disagree
    ├── StepFailed               a step or child workflow ended in an error; raised inside workflows
    ├── TerminalError            raised by a step: trying again is of no use
    ├── RetryableError           raised by a step: try again, perhaps not before a given time
    ├── GateError                the gate refused an action; raised inside workflows
    │   ├── ActionDenied             policy, a cap or the allowlist said no
    │   ├── ApprovalRejected         a person said no
    │   └── ApprovalExpired          nobody said anything in time
    ├── TaskExpired              nobody answered a form in time; raised inside workflows
    ├── OutcomeUnknown           raised by an action: it cannot tell whether the act was done
    ├── CallerError              the call, or its arguments, must change
    │   ├── InvalidRequest           an argument is out of range or malformed
    │   │   ├── InvalidArguments         a workflow cannot be called with these arguments
    │   │   └── InvalidAnswer            an answer does not fit its form
    │   ├── RunNotFound              no run of that id in that tenant
    │   ├── RunConflict              the id is taken by a run with other arguments
    │   │   └── RunRetired               the id belongs to a run whose evidence is kept
    │   ├── RunEnded                 the run has ended, nothing can reach it
    │   ├── RetryRefused             the run cannot be retried without doing something twice
    │   ├── WorkflowUnknown          no workflow of that name is known here
    │   ├── RunFailed                the awaited run failed
    │   ├── RunCancelled             the awaited run was cancelled
    │   ├── RunParked                the awaited run cannot go on until someone mends what stopped it
    │   ├── TaskNotFound             no task of that id in that tenant
    │   ├── TaskClosed               the task was answered, has expired or was cancelled
    │   ├── TaskForbidden            this person may not answer this task
    │   ├── ReceiptNotFound          no receipt of that id in that tenant
    │   └── NotReversible            the receipt's act cannot be taken back
    ├── OperatorError            the installation must change
    │   ├── UnsupportedStore         the store's URL or its version cannot be used
    │   ├── SchemaTooNew             the database was written by a newer Holdfast
    │   ├── StoreReadOnly            the database cannot be written to
    │   ├── StoreCorrupt             the database is damaged or is not one of ours
    │   ├── StoreFull                no space is left
    │   ├── StoreLost                the database file was deleted or replaced while it was in use
    │   ├── KeyLocked                the audit's signing key cannot be opened
    │   └── InvalidPolicy            the policy's file cannot be used
    ├── StoreUnavailable         nothing must change: try again, the engine does
    └── EngineError              a defect of Holdfast itself
        └── LawBroken                an event would break a law of the journal

Each carries a stable ``code`` for programs, an ``http_status`` for the server, and says in its message what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class HoldfastError(Exception):
    """The base of every error that Holdfast raises on purpose."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500


class AuthorError(HoldfastError):
    """The code of a workflow or step must change."""

    code = "author"
    http_status = 422


class InvalidFunction(AuthorError):
    """A decorator was given something that it cannot make durable."""

    code = "invalid_function"


class DuplicateName(AuthorError):
    """Two workflows, or two steps, share one name: rename one with ``name=``."""

    code = "duplicate_name"


class Unencodable(AuthorError):
    """A value cannot be written as data: return or pass plain data, a dataclass, a msgspec or pydantic model."""

    code = "unencodable"


class Undecodable(AuthorError):
    """Stored data does not fit the annotated type: make the annotation accept it."""

    code = "undecodable"


class PayloadTooLarge(AuthorError):
    """A value is over the payload limit: keep it outside and pass a reference."""

    code = "payload_too_large"
    http_status = 413


class BlockedLoop(AuthorError):
    """A workflow body did real I/O or a blocking call: move it into a step."""

    code = "blocked_loop"


class NotInWorkflow(AuthorError):
    """A call that only a workflow can make was made elsewhere."""

    code = "not_in_workflow"


class NotAwaited(AuthorError):
    """A step, an action or a child was called and the call was never awaited, so nothing was done: await it.

    A call that is not wanted any more is closed: ``call.close()``.
    """

    code = "not_awaited"


class Nondeterminism(AuthorError):
    """The code issued another command than the journal recorded at this point.

    Deploy the old code, guard the change with ``patched()``, or fork the run from an earlier sequence.
    """

    code = "nondeterminism"

    def __init__(self, sequence: int, recorded: str, issued: str) -> None:
        self.sequence = sequence
        self.recorded = recorded
        self.issued = issued
        super().__init__(
            f"the workflow's code no longer matches its journal at sequence {sequence}:\n"
            f"  - recorded: {recorded}\n"
            f"  + issued:   {issued}\n"
            "Deploy the code that wrote the journal, guard the change with patched(), or fork the run from before."
        )


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


class CallerError(HoldfastError):
    """The call, or its arguments, must change."""

    code = "caller"
    http_status = 400


class InvalidRequest(CallerError):
    """An argument is malformed or out of range."""

    code = "invalid_request"


class InvalidArguments(InvalidRequest, TypeError):
    """A workflow cannot be called with these arguments: the message says which one does not fit, and what does."""

    code = "invalid_arguments"


class InvalidAnswer(InvalidRequest):
    """An answer does not fit the form of its task, which stays open: mend what ``problems`` names and answer again.

    Each problem is the place, a JSON pointer (empty for the whole answer), and what is wrong there.
    """

    code = "invalid_answer"
    http_status = 422

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class RunNotFound(CallerError):
    """There is no run of that id in that tenant: check both with ``holdfast list``."""

    code = "run_not_found"
    http_status = 404


class RunConflict(CallerError):
    """The id belongs to a run of another workflow or with other arguments: choose another id."""

    code = "run_conflict"
    http_status = 409


class RunRetired(RunConflict):
    """The id was used by a run that is gone and whose evidence is kept: choose another id."""

    code = "run_retired"


class RunEnded(CallerError):
    """The run has ended: start a new one, or fork it."""

    code = "run_ended"
    http_status = 409


class RetryRefused(CallerError):
    """A retry would do something twice, or leave out what was undone: fork the run from where it should go on."""

    code = "retry_refused"
    http_status = 409


class WorkflowUnknown(CallerError):
    """No workflow of that name is known here: import the module that defines it."""

    code = "workflow_unknown"
    http_status = 404


class RunFailed(CallerError):
    """The awaited run failed; ``failure`` holds the recorded error."""

    code = "run_failed"
    http_status = 409

    def __init__(self, message: str, *, failure: object = None) -> None:
        super().__init__(message)
        self.failure = failure


class RunCancelled(CallerError):
    """The awaited run was cancelled."""

    code = "run_cancelled"
    http_status = 409


class RunParked(CallerError):
    """The awaited run is parked, for ``reason``: mend what stopped it, then resume it.

    It is raised where no time-out was given: nothing would end the wait. The run itself is as it was.
    """

    code = "run_parked"
    http_status = 409

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class TaskNotFound(CallerError):
    """There is no task of that id in that tenant: look with ``holdfast tasks``."""

    code = "task_not_found"
    http_status = 404


class TaskClosed(CallerError):
    """The task was answered, has expired or was cancelled: nothing more can be said to it."""

    code = "task_closed"
    http_status = 409


class TaskForbidden(CallerError):
    """This person may not answer this task: one of its candidates must."""

    code = "task_forbidden"
    http_status = 403


class ReceiptNotFound(CallerError):
    """There is no receipt of that id in that tenant: look with ``holdfast receipts``."""

    code = "receipt_not_found"
    http_status = 404


class NotReversible(CallerError):
    """The act cannot be taken back: it did not succeed, declares no reverse, or was taken back before."""

    code = "not_reversible"
    http_status = 409


class OperatorError(HoldfastError):
    """The installation must change."""

    code = "operator"
    http_status = 503


class UnsupportedStore(OperatorError):
    """The store's URL, driver or version cannot be used."""

    code = "unsupported_store"


class SchemaTooNew(OperatorError):
    """The database was written by a newer Holdfast: upgrade this one."""

    code = "schema_too_new"


class StoreReadOnly(OperatorError):
    """The database cannot be written to: mend its permissions, or open it as a client only."""

    code = "store_read_only"


class StoreCorrupt(OperatorError):
    """The database is damaged or is not one of ours: restore it from a backup, or name another file."""

    code = "store_corrupt"


class StoreFull(OperatorError):
    """No space is left for the database: free some; the engine goes on by itself."""

    code = "store_full"
    http_status = 507


class StoreLost(OperatorError):
    """The database file was deleted or replaced while it was in use: put it back, or restore it, and restart every
    process that uses it. Nothing was acknowledged since that was noticed."""

    code = "store_lost"


class KeyLocked(OperatorError):
    """The audit's signing key cannot be opened: set HOLDFAST_KEY_PASSPHRASE. Until then entries wait, unsealed."""

    code = "key_locked"


class InvalidPolicy(OperatorError):
    """The policy's file cannot be used: mend each place that the message names; ``holdfast policy check`` reads it.

    ``problems`` are the places, each as line, column (both from 1, or 0 for the file as a whole) and what is wrong.
    """

    code = "invalid_policy"
    http_status = 422

    def __init__(self, source: str, problems: Sequence[tuple[int, int, str]]) -> None:
        self.source = source
        self.problems = tuple(problems)
        told = (f"{source}:{line}:{column}: {what}" if line else f"{source}: {what}" for line, column, what in problems)
        super().__init__("\n".join(told))


class StoreUnavailable(HoldfastError):
    """The store did not answer. Nothing is lost; the engine tries again by itself."""

    code = "store_unavailable"
    http_status = 503


class EngineError(HoldfastError):
    """A defect of Holdfast itself: please report it with the run's journal."""

    code = "engine"


class LawBroken(EngineError):
    """An event would break a law of the journal, so it was refused."""

    code = "law_broken"

    def __init__(self, law: str, detail: str) -> None:
        self.law = law
        super().__init__(f"law {law}: {detail}")

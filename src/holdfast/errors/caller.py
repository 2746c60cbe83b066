"""Errors that the caller must act on: the call, or its arguments, must change."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors.root import HoldfastError


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


class SchemaMismatch(InvalidRequest):
    """A value of a machine (an event, a key, a state, what an effect takes or gives) does not fit its schema: mend the
    ``field`` that the message names."""

    code = "schema_mismatch"
    http_status = 422

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


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


class CellNotFound(CallerError):
    """The machine has no cell of that key in that tenant: check both with ``holdfast cells list``."""

    code = "cell_not_found"
    http_status = 404


class CellNotParked(CallerError):
    """The cell is not parked, so nothing is to be released: look at it with ``holdfast cells diagnose``."""

    code = "cell_not_parked"
    http_status = 409


class DeadLetterNotFound(CallerError):
    """There is no such dead letter: somebody has redelivered it, or it never was."""

    code = "dead_letter_not_found"
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


class CellMoving(CallerError):
    """The lanes of its machine are being split, and the cell is between two of them: look again in a while."""

    code = "cell_moving"
    http_status = 503


class LaneFull(CallerError):
    """Too many events wait for a machine's cells: send it again in a while, with the same id."""

    code = "lane_full"
    http_status = 429


class CellFull(LaneFull):
    """Too many events are held for a parked cell: release it, then send this again, with the same id."""

    code = "cell_full"


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


class TemplateNotFound(CallerError):
    """There is no template of that id in that tenant: look with ``holdfast templates list``."""

    code = "template_not_found"
    http_status = 404


class TemplateConflict(CallerError):
    """The template's status does not allow this, or its id is taken: the message says what it is and what to do."""

    code = "template_conflict"
    http_status = 409


class ProposalNotFound(CallerError):
    """There is no proposal of that id in that tenant: look with ``holdfast machines proposals``."""

    code = "proposal_not_found"
    http_status = 404


class ProposalConflict(CallerError):
    """The proposal's status, its author or what was applied since does not allow this: the message says what to do."""

    code = "proposal_conflict"
    http_status = 409


class ManifestBlocked(CallerError):
    """A manifest cannot be applied while this work is under way, and nothing was changed: ``blockers`` name all of it.

    Let it end, or settle it, and apply the manifest again.
    """

    code = "manifest_blocked"
    http_status = 409

    def __init__(self, message: str, blockers: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.blockers = tuple(blockers)


class EventConflict(CallerError):
    """An event of that id was emitted with another name or other data: give another event another id."""

    code = "event_conflict"
    http_status = 409


class NotPermitted(CallerError):
    """The caller's level, or the scope of the token, is not enough: the message says which level is needed."""

    code = "not_permitted"
    http_status = 403

    def __init__(self, message: str, *, operation: str = "", needed: int = 0) -> None:
        super().__init__(message)
        self.operation = operation
        self.needed = needed


class InvalidToken(CallerError):
    """The token is unknown, incomplete, expired or revoked: have another one made by a user of level 6."""

    code = "invalid_token"
    http_status = 401


class TenantNotFound(CallerError):
    """There is no tenant of that name for this caller: look with ``holdfast tenants list``."""

    code = "tenant_not_found"
    http_status = 404


class UserNotFound(CallerError):
    """There is no user of that name in that tenant: look with ``holdfast users list``."""

    code = "user_not_found"
    http_status = 404


class TokenNotFound(CallerError):
    """There is no token of that id in that tenant: look with ``holdfast tokens list``."""

    code = "token_not_found"
    http_status = 404


class WorkspaceNotFound(CallerError):
    """There is no workspace of that name in that tenant: look with ``holdfast workspaces list``."""

    code = "workspace_not_found"
    http_status = 404


class NameTaken(CallerError):
    """There is one of that name already: choose another name, or change the one that is there."""

    code = "name_taken"
    http_status = 409


class LastRuler(CallerError):
    """A tenant keeps one enabled user of level 6: raise or enable another one first."""

    code = "last_ruler"
    http_status = 409


class ScheduleNotFound(CallerError):
    """There is no schedule of that id in that tenant: look with ``holdfast schedules list``."""

    code = "schedule_not_found"
    http_status = 404


class WebhookNotFound(CallerError):
    """There is no webhook of that id in that tenant: look with ``holdfast webhooks list``."""

    code = "webhook_not_found"
    http_status = 404


class SubscriptionNotFound(CallerError):
    """There is no subscription of that id in that tenant: look with ``holdfast subscriptions list``."""

    code = "subscription_not_found"
    http_status = 404


class DeliveryNotFound(CallerError):
    """The subscription has no delivery of that id: look with ``holdfast subscriptions deliveries``."""

    code = "delivery_not_found"
    http_status = 404


class WebhookRefused(CallerError):
    """The delivery does not prove who sends it: sign it, as of now, with the webhook's secret."""

    code = "webhook_refused"
    http_status = 401


class ScheduleConflict(CallerError):
    """The id is taken by another schedule, or this one is deleted or over: the message says what to do."""

    code = "schedule_conflict"
    http_status = 409

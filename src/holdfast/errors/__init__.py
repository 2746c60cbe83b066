"""Every error that Holdfast raises.

The tree is split by who must act::

    HoldfastError
    ├── AuthorError              the code of a workflow or step must change
    │   ├── InvalidFunction          a decorator was given something it cannot use
    │   ├── InvalidDefinition        a definition cannot be accepted, or a run of it cannot go on
    │   ├── InvalidManifest          a manifest of machines cannot be accepted
    │   ├── TooCostly                reading what was sent takes too much time or memory
    │   ├── DuplicateName            two workflows, steps or schemas share one name
    │   ├── Unencodable              a value cannot be written as data
    │   ├── Undecodable              data does not fit the annotated type
    │   ├── PayloadTooLarge          a value is over the limit
    │   ├── BlockedLoop              real I/O or a blocking call in a workflow body
    │   ├── NotInWorkflow            a workflow call outside a workflow
    │   ├── NotAwaited               a call in a workflow that was made and never awaited
    │   ├── Nondeterminism           replay and journal disagree
    │   ├── StepMissing              a call that must not fail asks for a step that is not here
    │   └── RetryDiverged            a retried run calls what it did with another input
    ├── StepFailed               a step or child workflow ended in an error; raised inside workflows
    ├── TerminalError            raised by a step: trying again is of no use
    ├── RetryableError           raised by a step: try again, perhaps not before a given time
    ├── GateError                the gate refused an action; raised inside workflows
    │   ├── ActionDenied             policy, a cap or the allowlist said no
    │   ├── ApprovalRejected         a person said no
    │   └── ApprovalExpired          nobody said anything in time
    ├── BusinessError            a definition raised an error of its author's own
    ├── NodeTimeout              a node of a definition took longer than its time-out
    ├── TransportFailed          a transport's call failed, such as an HTTP request; raised inside workflows
    │   ├── ConnectionFailed         no connection, or one that broke
    │   ├── TransportTimeout         no answer in time
    │   ├── ServiceFailed            the other side says that it cannot now, or that it failed
    │   ├── RequestRefused           the other side refuses the request
    │   │   └── NotAuthorised            it wants other credentials
    │   ├── AnswerUnusable           an answer that is too large, malformed, or tells of errors
    │   └── AddressRefused           an address, or a redirect, that must not be called
    ├── TaskExpired              nobody answered a form in time; raised inside workflows
    ├── OutcomeUnknown           raised by an action: it cannot tell whether the act was done
    ├── CallerError              the call, or its arguments, must change
    │   ├── InvalidRequest           an argument is out of range or malformed
    │   │   ├── InvalidArguments         a workflow cannot be called with these arguments
    │   │   ├── SchemaMismatch           a value of a machine does not fit its schema
    │   │   ├── InvalidAnswer            an answer does not fit its form
    │   │   └── MalformedRequest         an HTTP request is not what its route takes
    │   ├── RunNotFound              no run of that id in that tenant
    │   ├── CellNotFound             no cell of that key in that tenant
    │   ├── CellNotParked            the cell is not parked, nothing is to be released
    │   ├── DeadLetterNotFound       no such dead letter, or it was redelivered
    │   ├── RunConflict              the id is taken by a run with other arguments
    │   │   └── RunRetired               the id belongs to a run whose evidence is kept
    │   ├── RunEnded                 the run has ended, nothing can reach it
    │   ├── LaneFull                 too many events wait for a machine's cells
    │   │   └── CellFull             too many are held for a parked cell
    │   ├── CellMoving               a cell is between two lanes of its machine
    │   ├── RetryRefused             the run cannot be retried without doing something twice
    │   ├── WorkflowUnknown          no workflow of that name is known here
    │   ├── RunFailed                the awaited run failed
    │   ├── RunCancelled             the awaited run was cancelled
    │   ├── RunParked                the awaited run cannot go on until someone mends what stopped it
    │   ├── TaskNotFound             no task of that id in that tenant
    │   ├── TaskClosed               the task was answered, has expired or was cancelled
    │   ├── TaskForbidden            this person may not answer this task
    │   ├── ReceiptNotFound          no receipt of that id in that tenant
    │   ├── NotReversible            the receipt's act cannot be taken back
    │   ├── TemplateNotFound         no template of that id in that tenant
    │   ├── TemplateConflict         the template's status does not allow it, or its id is taken
    │   ├── ProposalNotFound         no proposal of that id in that tenant
    │   ├── ProposalConflict         the proposal's status, or what was applied since, does not allow it
    │   ├── ManifestBlocked          work in flight keeps a manifest from being applied
    │   ├── EventConflict            the event's id was used for another event
    │   ├── NotPermitted             the caller's level or token is not enough
    │   ├── InvalidToken             a token that is unknown, expired or revoked
    │   ├── TenantNotFound           no tenant of that name for this caller
    │   ├── UserNotFound             no user of that name in that tenant
    │   ├── TokenNotFound            no token of that id in that tenant
    │   ├── WorkspaceNotFound        no workspace of that name in that tenant
    │   ├── NameTaken                there is one of that name already
    │   ├── LastRuler                a tenant keeps one enabled user of level 6
    │   ├── ScheduleNotFound         no schedule of that id in that tenant
    │   ├── ScheduleConflict         the schedule's id is taken, or it is deleted or over
    │   ├── WebhookNotFound          no webhook of that id in that tenant
    │   ├── SubscriptionNotFound     no subscription of that id in that tenant
    │   ├── DeliveryNotFound         the subscription has no such delivery
    │   ├── WebhookRefused           a delivery that does not prove who sends it
    │   ├── NotAuthenticated         a request that does not say who sends it
    │   │   └── NotTheOperator       a request without the operator's key, to a server for the operator alone
    │   ├── LoginRefused             somebody whom the provider knows, and nobody here
    │   ├── LoginTooOld              a login that must be proved again for what is asked
    │   ├── CrossSiteRequest         a change that a page of another site sent
    │   ├── ServerReadOnly           the server changes nothing
    │   ├── RouteNotFound            nothing is at this path
    │   ├── MethodNotAllowed         something is there, and not for this method
    │   ├── BodyTooLarge             a body over the limit of its route
    │   ├── UnsupportedMedia         a body that is not JSON
    │   └── TooManyRequests          over the rate of this caller
    ├── OperatorError            the installation must change
    │   ├── UnsupportedStore         the store's URL or its version cannot be used
    │   ├── UnsupportedWakeups       the URL of the wake-ups cannot be used
    │   ├── ExtraMissing             an optional dependency is not installed
    │   ├── SchemaTooNew             the database was written by a newer Holdfast
    │   ├── StoreReadOnly            the database cannot be written to
    │   ├── StoreCorrupt             the database is damaged or is not one of ours
    │   ├── StoreFull                no space is left
    │   ├── StoreLost                the database was deleted or replaced while it was in use
    │   ├── AddressTaken             the server's address cannot be listened on
    │   ├── KeyLocked                the audit's signing key cannot be opened
    │   ├── SecretMissing            no secret of that name is given to this worker
    │   │   └── SecretRefused        the tenant may not use it for this
    │   ├── InvalidSettings          settings cannot be used
    │   ├── InvalidOperatorKey       the file of the operator's key cannot be used
    │   └── InvalidPolicy            the policy's file cannot be used
    ├── ProviderFailed           the provider of identities did not answer as it must
    ├── StoreUnavailable         nothing must change: try again, the engine does
    └── EngineError              a defect of Holdfast itself
        └── LawBroken                an event would break a law of the journal

Each carries a stable ``code`` for programs, an ``http_status`` for the server, and says in its message what to do.
"""

from holdfast.errors.author import (
    AuthorError,
    BlockedLoop,
    DuplicateName,
    InvalidDefinition,
    InvalidFunction,
    InvalidManifest,
    Nondeterminism,
    NotAwaited,
    NotInWorkflow,
    PayloadTooLarge,
    RetryDiverged,
    StepMissing,
    TooCostly,
    Undecodable,
    Unencodable,
)
from holdfast.errors.caller import (
    CallerError,
    CellFull,
    CellMoving,
    CellNotFound,
    CellNotParked,
    DeadLetterNotFound,
    DeliveryNotFound,
    EventConflict,
    InvalidAnswer,
    InvalidArguments,
    InvalidRequest,
    InvalidToken,
    LaneFull,
    LastRuler,
    ManifestBlocked,
    NameTaken,
    NotPermitted,
    NotReversible,
    ProposalConflict,
    ProposalNotFound,
    ReceiptNotFound,
    RetryRefused,
    RunCancelled,
    RunConflict,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunParked,
    RunRetired,
    ScheduleConflict,
    ScheduleNotFound,
    SchemaMismatch,
    SubscriptionNotFound,
    TaskClosed,
    TaskForbidden,
    TaskNotFound,
    TemplateConflict,
    TemplateNotFound,
    TenantNotFound,
    TokenNotFound,
    UserNotFound,
    WebhookNotFound,
    WebhookRefused,
    WorkflowUnknown,
    WorkspaceNotFound,
)
from holdfast.errors.http import (
    BodyTooLarge,
    CrossSiteRequest,
    LoginRefused,
    LoginTooOld,
    MalformedRequest,
    MethodNotAllowed,
    NotAuthenticated,
    NotTheOperator,
    ProviderFailed,
    RouteNotFound,
    ServerReadOnly,
    TooManyRequests,
    UnsupportedMedia,
)
from holdfast.errors.installation import (
    AddressTaken,
    EngineError,
    ExtraMissing,
    InvalidOperatorKey,
    InvalidPolicy,
    InvalidSettings,
    KeyLocked,
    LawBroken,
    OperatorError,
    SchemaTooNew,
    SecretMissing,
    SecretRefused,
    StoreCorrupt,
    StoreFull,
    StoreLost,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedStore,
    UnsupportedWakeups,
)
from holdfast.errors.program import (
    ActionDenied,
    ApprovalExpired,
    ApprovalRejected,
    BusinessError,
    GateError,
    NodeTimeout,
    OutcomeUnknown,
    RetryableError,
    StepFailed,
    TaskExpired,
    TerminalError,
)
from holdfast.errors.root import HoldfastError
from holdfast.errors.transport import (
    AddressRefused,
    AnswerUnusable,
    ConnectionFailed,
    NotAuthorised,
    RequestRefused,
    ServiceFailed,
    TransportFailed,
    TransportTimeout,
)

__all__ = [
    "ActionDenied",
    "AddressRefused",
    "AddressTaken",
    "AnswerUnusable",
    "ApprovalExpired",
    "ApprovalRejected",
    "AuthorError",
    "BlockedLoop",
    "BodyTooLarge",
    "BusinessError",
    "CallerError",
    "CellFull",
    "CellMoving",
    "CellNotFound",
    "CellNotParked",
    "ConnectionFailed",
    "CrossSiteRequest",
    "DeadLetterNotFound",
    "DeliveryNotFound",
    "DuplicateName",
    "EngineError",
    "EventConflict",
    "ExtraMissing",
    "GateError",
    "HoldfastError",
    "InvalidAnswer",
    "InvalidArguments",
    "InvalidDefinition",
    "InvalidFunction",
    "InvalidManifest",
    "InvalidOperatorKey",
    "InvalidPolicy",
    "InvalidRequest",
    "InvalidSettings",
    "InvalidToken",
    "KeyLocked",
    "LaneFull",
    "LastRuler",
    "LawBroken",
    "LoginRefused",
    "LoginTooOld",
    "MalformedRequest",
    "ManifestBlocked",
    "MethodNotAllowed",
    "NameTaken",
    "NodeTimeout",
    "Nondeterminism",
    "NotAuthenticated",
    "NotAuthorised",
    "NotAwaited",
    "NotInWorkflow",
    "NotPermitted",
    "NotReversible",
    "NotTheOperator",
    "OperatorError",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "ProposalConflict",
    "ProposalNotFound",
    "ProviderFailed",
    "ReceiptNotFound",
    "RequestRefused",
    "RetryDiverged",
    "RetryRefused",
    "RetryableError",
    "RouteNotFound",
    "RunCancelled",
    "RunConflict",
    "RunEnded",
    "RunFailed",
    "RunNotFound",
    "RunParked",
    "RunRetired",
    "ScheduleConflict",
    "ScheduleNotFound",
    "SchemaMismatch",
    "SchemaTooNew",
    "SecretMissing",
    "SecretRefused",
    "ServerReadOnly",
    "ServiceFailed",
    "StepFailed",
    "StepMissing",
    "StoreCorrupt",
    "StoreFull",
    "StoreLost",
    "StoreReadOnly",
    "StoreUnavailable",
    "SubscriptionNotFound",
    "TaskClosed",
    "TaskExpired",
    "TaskForbidden",
    "TaskNotFound",
    "TemplateConflict",
    "TemplateNotFound",
    "TenantNotFound",
    "TerminalError",
    "TokenNotFound",
    "TooCostly",
    "TooManyRequests",
    "TransportFailed",
    "TransportTimeout",
    "Undecodable",
    "Unencodable",
    "UnsupportedMedia",
    "UnsupportedStore",
    "UnsupportedWakeups",
    "UserNotFound",
    "WebhookNotFound",
    "WebhookRefused",
    "WorkflowUnknown",
    "WorkspaceNotFound",
]

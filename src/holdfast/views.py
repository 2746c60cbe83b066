"""The views: what is read from an engine, as types for annotations.

Times are datetimes and values are decoded. Programs get views from an engine and never make one.
"""

from holdfast.audit.check.claims import Verdict
from holdfast.audit.check.journal import RunCheck
from holdfast.client.governance.evidence import Evidence
from holdfast.client.governance.export import ExportedAction
from holdfast.client.machines.blockers import ManifestBlocker
from holdfast.client.machines.cell_handle import EventPlace
from holdfast.client.machines.migrations import MigratedState, MigrationReport
from holdfast.client.machines.sender import SentEvent
from holdfast.client.runs.progress import RunDetails, RunProgress
from holdfast.client.schedules.backfill import BackfillInfo
from holdfast.client.templates.emitter import EmittedInfo
from holdfast.client.views.audit import AuditInfo, AuditKey
from holdfast.client.views.cells import (
    CellDiagnosis,
    CellInfo,
    CellTrace,
    DeadLetterInfo,
    IntentInfo,
    MachineInfo,
    TimerInfo,
    TraceItem,
)
from holdfast.client.views.cursors import Page
from holdfast.client.views.definitions import DefinitionInfo
from holdfast.client.views.instances import EngineState, InstanceInfo, PlaceInfo, ReceivedSignal, RevisionInfo
from holdfast.client.views.journal import JournalEntry
from holdfast.client.views.manifests import ManifestInfo, ProposalInfo
from holdfast.client.views.moves import MoveInfo
from holdfast.client.views.overview import RunOverview
from holdfast.client.views.people import IdentityInfo, MintedToken, TenantInfo, TokenInfo, UserInfo, WorkspaceInfo
from holdfast.client.views.receipts import ReceiptInfo
from holdfast.client.views.runs import RunInfo, WaitInfo
from holdfast.client.views.schedules import OutcomeInfo, ScheduleInfo, TickInfo
from holdfast.client.views.signals import WaitingSignal
from holdfast.client.views.slack import SlackAccountInfo, SlackInfo
from holdfast.client.views.tasks import AnswerInfo, TaskInfo
from holdfast.client.views.templates import InstanceStep, TemplateInfo, TemplateInstance
from holdfast.client.views.values import UnreadableValue
from holdfast.client.views.window import TimelinePart, TimelineRow
from holdfast.client.views.workers import WorkerInfo
from holdfast.programs.machine.lanes.shadow_reports import EffectTally, MachineShadow, ShadowReport, StateDelta
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.runs.advice import Advice, AdviceCode
from holdfast.store.rows import RunCount

__all__ = [
    "Advice",
    "AdviceCode",
    "AnswerInfo",
    "AuditInfo",
    "AuditKey",
    "BackfillInfo",
    "CellDiagnosis",
    "CellInfo",
    "CellTrace",
    "DeadLetterInfo",
    "DefinitionInfo",
    "EffectTally",
    "EmittedInfo",
    "EngineState",
    "EventPlace",
    "Evidence",
    "ExportedAction",
    "IdentityInfo",
    "InstanceInfo",
    "InstanceStep",
    "IntentInfo",
    "JournalEntry",
    "MachineChange",
    "MachineInfo",
    "MachineShadow",
    "ManifestBlocker",
    "ManifestInfo",
    "MigratedState",
    "MigrationReport",
    "MintedToken",
    "MoveInfo",
    "OutcomeInfo",
    "Page",
    "PlaceInfo",
    "ProposalInfo",
    "ReceiptInfo",
    "ReceivedSignal",
    "RevisionInfo",
    "RunCheck",
    "RunCount",
    "RunDetails",
    "RunInfo",
    "RunOverview",
    "RunProgress",
    "ScheduleInfo",
    "SentEvent",
    "ShadowReport",
    "SlackAccountInfo",
    "SlackInfo",
    "StateDelta",
    "TaskInfo",
    "TemplateInfo",
    "TemplateInstance",
    "TenantInfo",
    "TickInfo",
    "TimelinePart",
    "TimelineRow",
    "TimerInfo",
    "TokenInfo",
    "TraceItem",
    "UnreadableValue",
    "UserInfo",
    "Verdict",
    "WaitInfo",
    "WaitingSignal",
    "WorkerInfo",
    "WorkspaceInfo",
]

"""A run as people and programs see it, and as ``--json`` writes it. The keys are stable: scripts read them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.runs.waits import waits_of
from holdfast.client.views.states import RunState, state_of, states_of
from holdfast.client.views.times import iso, moment
from holdfast.journal.promise import PromiseId
from holdfast.kernel.waits import Wait
from holdfast.runs.birth import Trigger
from holdfast.store.protocol import Run, Status


class WaitInfo(msgspec.Struct, frozen=True):
    """One thing that a run waits for. ``position`` is the place of the call in the run's journal."""

    kind: str  # receive, timer, approval, outcome, form, or the kind of a call
    name: str
    position: int
    due: datetime | None = None
    task: str | None = None  # the task that a person must answer


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment. ``status`` is the engine's word for how it stands, ``state`` that of an execution."""

    id: str
    tenant: str
    workspace: str
    workflow: str  # the name of its program
    reference: str | None  # what the business calls it
    program_kind: str
    status: Status
    state: RunState
    states: dict[str, str]  # the same as an execution, an instance of a template, and a machine's run
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    priority: int
    attributes: dict[str, str]
    parent: str | None  # the run that started it and waits for it
    error: str | None
    pause_reason: str | None
    cancelling: bool
    generation: int
    events: int  # how many its journal has: its version
    worker: str | None  # who advances it
    crashes: int
    wake_at: datetime | None
    waits: tuple[WaitInfo, ...]
    promise_id: str
    actor: str | None
    trigger: Trigger | None
    governed: bool
    writes: int
    evidence_sha256: str | None


def run_info(run: Run) -> RunInfo:
    """A run's row as a view. Raises StoreCorrupt where it cannot be read what the run waits for."""
    return RunInfo(
        id=run.key.run,
        tenant=run.key.tenant,
        workspace=run.workspace,
        workflow=run.workflow,
        reference=run.reference,
        program_kind=run.program_kind,
        status=run.status,
        state=state_of(run),
        states=states_of(run),
        created_at=moment(run.created_at),
        updated_at=moment(run.updated_at),
        ended_at=moment(run.ended_at),
        priority=run.priority,
        attributes=dict(run.attributes),
        parent=run.parent,
        error=run.error,
        pause_reason=run.pause,
        cancelling=run.cancelling,
        generation=run.generation,
        events=run.version,
        worker=run.owner,
        crashes=run.crashes,
        wake_at=moment(run.wake_at),
        waits=tuple(_wait_info(wait) for wait in waits_of(run)),
        promise_id=str(PromiseId(run.root)),
        actor=run.actor,
        trigger=None if run.trigger_type is None else Trigger(run.trigger_type, run.trigger_ref or ""),
        governed=run.governed,
        writes=run.writes,
        evidence_sha256=None if run.evidence is None else run.evidence.hex(),
    )


def _wait_info(wait: Wait) -> WaitInfo:
    return WaitInfo(wait.kind, wait.name, wait.position, moment(wait.due), wait.task)


def run_record(run: RunInfo) -> dict[str, Any]:
    """A run as ``--json`` writes it."""
    return {
        "id": run.id,
        "tenant": run.tenant,
        "workflow": run.workflow,
        "reference": run.reference,
        "status": run.status,
        "created_at": iso(run.created_at),
        "updated_at": iso(run.updated_at),
        "ended_at": iso(run.ended_at),
        "priority": run.priority,
        "attributes": dict(run.attributes),
        "parent": run.parent,
        "error": run.error,
        "pause_reason": run.pause_reason,
        "cancelling": run.cancelling,
        "generation": run.generation,
        "events": run.events,
        "worker": run.worker,
        "crashes": run.crashes,
        "wake_at": iso(run.wake_at),
        "waits": [_wait_record(wait) for wait in run.waits],
        "promise_id": run.promise_id,
        "workspace": run.workspace,
        "actor": run.actor,
        "trigger": None if run.trigger is None else {"type": run.trigger.type, "ref": run.trigger.ref},
        "governed": run.governed,
        "writes": run.writes,
        "evidence_sha256": run.evidence_sha256,
    }


def _wait_record(wait: WaitInfo) -> dict[str, Any]:
    due = iso(wait.due)
    return {"kind": wait.kind, "name": wait.name, "position": wait.position, "due": due, "task": wait.task}

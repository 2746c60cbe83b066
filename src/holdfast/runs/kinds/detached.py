"""A run that nobody waits for: the commit starts it, and the outcome is whether it was started."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

import cbor2

from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Ok, Outcome, Payload
from holdfast.kernel.requests import Invoke
from holdfast.runs.birth import Birth, child_id
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins, failed, kept_code
from holdfast.runs.program_names import resolve
from holdfast.runs.tracing import child_attributes
from holdfast.store.protocol import Answer, Exists, Key, Origin, Retired, Start, Started

DETACHED: Final = "detached"


def written(workflow: str, id: str | None, arguments: bytes) -> list[object]:
    """The call as it is recorded: the workflow, the id, and the recorded arguments."""
    return [[workflow, id, arguments], {}]


class DetachedKind(Kind):
    """A run that is started and never reports back."""

    name: ClassVar[str] = DETACHED

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        (workflow, chosen, arguments), _ = cbor2.loads(request.input.data)
        name, pin = resolve(workflow, pins)
        start = Birth(
            key=Key(run.key.tenant, chosen or child_id(run.key.run, request.promise_id.path[-1], run.lineage)),
            workflow=name,
            pin=pin,
            keep=kept_code(run, pin),
            input=Payload(arguments),
            priority=run.row.priority,
            attributes=child_attributes(run.row),
            origin=Origin(run.row.workspace, run.row.actor),
        ).start(now)
        return Errand(start, request.promise_id, partial(_outcome, start))


def _outcome(start: Start, answer: Answer) -> Outcome:
    id = start.key.run
    match answer:
        case Started():
            return Ok(Payload(canonical(id)))
        case Exists(fingerprint=fingerprint) if fingerprint == start.fingerprint:
            return Ok(Payload(canonical(id)))
        case Exists():
            return failed("RunConflict", f"the id {id!r} belongs to another run: choose another id")
        case Retired():
            return failed("RunRetired", f"run id {id!r} was used before, and its evidence is kept: choose another id.")
        case other:
            return failed("EngineError", f"unexpected answer {other!r}")

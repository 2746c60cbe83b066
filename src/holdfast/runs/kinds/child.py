"""A child workflow: the commit starts it, and its end comes back as a message."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from holdfast.kernel.outstanding import Wait
from holdfast.kernel.requests import Abandon, Invoke
from holdfast.runs import messages
from holdfast.runs.birth import Birth, child_id
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins
from holdfast.store.protocol import Deliver, Key, Origin, Run, Store

WORKFLOW: Final = "workflow"


class ChildKind(Kind):
    """A run that this one waits for."""

    name: ClassVar[str] = WORKFLOW

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        pin = pins(request.function_name)
        birth = Birth(
            key=_key(run, request.promise_id.path[-1]),
            workflow=request.function_name,
            pin=pin,
            input=request.input,
            parent=run.key.run,
            parent_id=request.promise_id,
            priority=run.row.priority,
            origin=Origin(run.row.workspace, run.row.actor),
        )
        return Errand(birth.start(now), meets=True)

    def give_up(self, run: CallingRun, request: Abandon, now: int) -> Errand | None:
        child = _key(run, request.promise_id.path[-1])
        return Errand(Deliver(child, messages.cancel("its parent no longer waits for it", now)))

    def waits(self, run: CallingRun, wait: Wait) -> Wait:
        return msgspec.structs.replace(wait, run=child_id(run.key.run, wait.position, run.lineage))

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> str:
        return f"child workflow {wait.name} (run {wait.run})"


def _key(run: CallingRun, position: int) -> Key:
    return Key(run.key.tenant, child_id(run.key.run, position, run.lineage))

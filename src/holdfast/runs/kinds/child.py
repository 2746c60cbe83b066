"""A child workflow: the commit starts it, and its end arrives as a message."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from holdfast.journal.events import InvokeScheduled
from holdfast.journal.render import arguments
from holdfast.kernel.requests import Abandon, Invoke, Stop
from holdfast.kernel.waits import Wait
from holdfast.runs import messages
from holdfast.runs.advice import AdviceCode, Awaited
from holdfast.runs.birth import Birth, child_id
from holdfast.runs.hints import command
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins, Shown, kept_code
from holdfast.runs.program_names import readable, resolve
from holdfast.runs.tracing import child_attributes
from holdfast.store.protocol import Deliver, Key, Origin, Run, Store

WORKFLOW: Final = "workflow"


class ChildKind(Kind):
    """A run that this one waits for."""

    name: ClassVar[str] = WORKFLOW

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        name, pin = resolve(request.function_name, pins)
        birth = Birth(
            key=_key(run, request),
            workflow=name,
            pin=pin,
            keep=kept_code(run, pin),
            input=request.input,
            parent=run.key.run,
            parent_id=run.id.child(_place(request)),
            priority=run.row.priority,
            attributes=child_attributes(run.row),
            origin=Origin(run.row.workspace, run.row.actor),
        )
        return Errand(birth.start(now), meets=True)

    def give_up(self, run: CallingRun, request: Abandon, now: int) -> Errand | None:
        child = _key(run, request)
        return Errand(Deliver(child, messages.cancel("its parent no longer waits for it", now), unpauses=True))

    def stop(self, run: CallingRun, request: Stop, now: int) -> Errand | None:
        child = _key(run, request)
        return Errand(Deliver(child, messages.cancel("its parent waits for its end", now), unpauses=True))

    def waits(self, run: CallingRun, wait: Wait) -> Wait:
        place = wait.position if wait.place is None else wait.place
        return msgspec.structs.replace(wait, run=child_id(run.key.run, place, run.lineage))

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> Awaited:
        looking = command("explain", wait.run or "", tenant=run.key.tenant)
        words = f"child workflow {readable(wait.name)} (run {wait.run})"
        return Awaited(AdviceCode.FOLLOW_CHILD, words, wait.run or "", command=looking)

    def show(self, event: InvokeScheduled) -> Shown:
        return Shown(f"{readable(event.function_name)} ({event.kind})", f"({arguments(event.input)})")


def _place(request: Invoke | Abandon | Stop) -> int:
    """The position that the child is named after: a retried run may have come to it at another one."""
    return request.promise_id.path[-1] if request.place is None else request.place


def _key(run: CallingRun, request: Invoke | Abandon | Stop) -> Key:
    return Key(run.key.tenant, child_id(run.key.run, _place(request), run.lineage))

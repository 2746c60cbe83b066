"""Why a cell does not move, in words: what it waits for, what holds it up, and what would move it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.cells.cell import TERMINAL, CellIntent, CellRecord
from holdfast.client.views.cells import CellCause, TraceItem, shown_key
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import SignalArrived
from holdfast.programs.machine.kind import HELD_LIMIT
from holdfast.programs.machine.lanes.envelopes import Addressed, Continuation, HeldPart, read_envelope
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.machine import Machine
from holdfast.runs import messages
from holdfast.runs.birth import child_id
from holdfast.runs.hints import command
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.lanes import LANE_EVENT
from holdfast.runs.times import length, moment, when
from holdfast.store import protocol as p

_TASKS: Final = 500
_OPEN_TASKS_READ: Final = 5000
"""So many open tasks of a lane are looked through for those of one cell."""


class Diagnosed(msgspec.Struct, frozen=True):
    """What a diagnosis looks at: the cell, the row of its lane's run, and the last of its timeline."""

    machine: Machine[Any]
    key: Any
    key_bytes: bytes
    lane: p.Key
    run: p.Run | None
    record: CellRecord | None
    last: Sequence[TraceItem]
    now: int
    line: Sequence[p.Run] = ()
    held_limit: int = HELD_LIMIT

    @property
    def open(self) -> Sequence[CellIntent]:
        """The effects that it waits for. What has come for it while it was parked is held, and not waited for."""
        return [] if self.record is None or self.run is None else in_flight(self.record, self.run.root)

    def asker(self, intent: CellIntent) -> p.Run | None:
        """The lane that asked for an effect: its own, or one that had the cell before."""
        return self.run if intent.origin is None else next((r for r in self.line if r.root == intent.origin), None)

    def command(self, *words: str) -> str:
        named = () if self.key is None else (shown_key(self.key),)
        return command(words[0], words[1], self.machine.name, *named, *words[2:], tenant=self.lane.tenant)


async def causes_of(store: p.Store, it: Diagnosed) -> AsyncIterator[CellCause]:
    """The causes, the one to look at first in front."""
    record, waiting = it.record, await _unhandled(store, it)
    for cause in _stopped(it):
        yield cause
    if waiting or record is None or it.open:
        async for cause in _unserved(store, it):
            yield cause
    if any(run.split == p.INHERITS for run in it.line):
        text = "The lanes of its machine are being split: what comes for it is handled when its lane has its cells."
        yield CellCause(kind="moving", text=text, subject=it.line[-1].key.run)
    if waiting:
        text = f"{_number(waiting, 'event')} for it {'is' if waiting == 1 else 'are'} in its lane and not handled yet."
        yield CellCause(kind="unhandled", text=text, subject=it.lane.run)
    if record is None:
        if not waiting:
            yield CellCause(kind="missing", text="There is no such cell: no event has reached it, or it was deleted.")
        return
    async for cause in _effects(store, it):
        yield cause
    if record.status in TERMINAL:
        return
    if (failed := _failed_effect(it, record)) is not None:
        yield failed
    if record.status != "parked" and record.timers:
        first = record.timers[0]
        text = f"It waits for its timer, which sends it {first.schema} at {when(first.wake_at, it.now)}."
        yield CellCause(kind="timer", text=text, subject=first.schema)
    if not it.open and not record.timers and not waiting and record.status != "parked":
        yield CellCause(kind="event", text=f"It waits for its next event since {moment(record.last_active)}.")


def _stopped(it: Diagnosed) -> list[CellCause]:
    """What keeps it from moving until somebody acts; and that it is over."""
    found, record, run = [], it.record, it.run
    if record is not None and record.status == "parked":
        held = f"{_number(record.held_count, 'event')} {'is' if record.held_count == 1 else 'are'} held for it"
        text = f"It is parked since {moment(record.last_active)}: {record.reason.rstrip('.')}. {held}."
        if record.held_count >= it.held_limit:
            text += " No more are taken in for it from outside."
        found.append(CellCause(kind="parked", text=text, remedy=it.command("cells", "release")))
    elif record is not None and record.is_catching_up:
        text = f"It was released, and handles what is held for it: {_number(record.held_count, 'event')} to go."
        found.append(CellCause(kind="catching_up", text=text))
    elif record is not None and record.status == "failed":
        found.append(CellCause(kind="failed", text=f"It has failed: {record.reason}."))
    elif record is not None and record.status == "completed":
        found.append(CellCause(kind="completed", text="It is completed: its machine has ended it."))
    if run is not None and run.pause is not None:
        text = f"Its lane, run {run.key.run}, is paused: {run.pause.rstrip('.')}."
        remedy = command("resume", run.key.run, tenant=run.key.tenant)
        found.append(CellCause(kind="lane_paused", text=text, subject=run.key.run, remedy=remedy))
    return found


async def _unhandled(store: p.Store, it: Diagnosed) -> int:
    """How many events for the cell are in the inbox of its lane."""
    run = it.run
    if run is None or run.arrived <= run.consumed:
        return 0
    inbox = (await store.messages([it.lane])).get(it.lane, [])
    root, count = PromiseId(run.root), 0
    for received in inbox:
        if received.position > run.consumed:
            arrival = messages.read(received.message, root)
            if isinstance(arrival, SignalArrived) and arrival.name == LANE_EVENT:
                heard = read_envelope(arrival.payload.data)
                if not isinstance(heard, Continuation | HeldPart):
                    count += isinstance(heard, Addressed) and heard.key == it.key_bytes
    return count


async def _unserved(store: p.Store, it: Diagnosed) -> AsyncIterator[CellCause]:
    """Whether nobody runs its machine."""
    alive = [worker for worker in await store.workers() if worker.expires_at >= it.now]
    start = "holdfast worker APP"
    if not alive:
        yield CellCause(kind="no_worker", text="No worker is running.", remedy=start)
    elif not any(worker.serves.takes(p.MACHINE, it.machine.name) for worker in alive):
        text = f"None of the {len(alive)} running workers serves machines."
        yield CellCause(kind="no_worker", text=text, remedy=start)
    elif it.run is not None and it.run.owner is None and (declined := await store.declined(it.lane)):
        last = declined[-1]
        reason = last.reason.splitlines()[0].rstrip(":.")
        text = (
            f"No worker serves machine {it.machine.name}: the last that handed its lane back, {last.worker}, did so "
            f"{length(it.now - last.at)} ago, because of {reason}."
        )
        yield CellCause(kind="no_worker", text=text, subject=last.worker, remedy=start)


async def _effects(store: p.Store, it: Diagnosed) -> AsyncIterator[CellCause]:
    """What it waits for of the world."""
    retries = {each.intent: each for each in it.last if each.kind == "retry"}
    tasks: dict[p.Key, dict[int, p.TaskRow]] = {}
    for intent in it.open:
        if (run := it.asker(intent)) is not None:
            if run.key not in tasks:
                positions = {each.position for each in it.open if it.asker(each) == run}
                tasks[run.key] = await _tasks(store, run, positions)
            yield _effect(it, run, intent, tasks[run.key].get(intent.position), retries)


def _effect(
    it: Diagnosed, run: p.Run, intent: CellIntent, task: p.TaskRow | None, retries: dict[str | None, TraceItem]
) -> CellCause:
    name, promise = intent.effect, str(PromiseId(run.root).child(intent.position))
    tenant = it.lane.tenant
    if task is not None and task.kind == "approval":
        remedy = command("approve", task.id, "--as", "NAME", tenant=tenant)
        text = f"It waits for a person to approve {name}: task {task.id}."
        return CellCause(kind="approval", text=text, subject=task.id, remedy=remedy)
    if task is not None:
        remedy = command("tasks", "show", task.id, tenant=tenant)
        text = f"It waits for a person to say what became of {name}: task {task.id}."
        return CellCause(kind="outcome", text=text, subject=task.id, remedy=remedy)
    if (retry := retries.get(promise)) is not None:
        kind = "timed_out" if _is_timeout(retry.reason) else "retry"
        text = f"It waits for {name}, which is tried again: the last attempt ended with {retry.reason.rstrip('.')}."
        return CellCause(kind=kind, text=text, subject=promise)
    effect = it.machine.effects.get(name)
    if effect is not None and effect.kind == WORKFLOW:
        child = child_id(run.key.run, intent.position, 0)  # a lane has one lineage
        text = f"It waits for the run that {name} is: {child}."
        return CellCause(kind="run", text=text, subject=child, remedy=command("explain", child, tenant=tenant))
    return CellCause(kind="receipt", text=f"It waits for the receipt of {name} (intent {promise}).", subject=promise)


async def _tasks(store: p.Store, run: p.Run, positions: set[int]) -> dict[int, p.TaskRow]:
    """The open tasks about effects at these positions."""
    found: dict[int, p.TaskRow] = {}
    if not run.governed:
        return found
    query, after = p.TaskQuery(run.key.tenant, "requested", run.key.run), None
    for _ in range(_OPEN_TASKS_READ // _TASKS):
        page = await store.tasks(query, _TASKS, after)
        found.update((each.position, each) for each in page if each.position in positions and each.root == run.root)
        if len(page) < _TASKS or len(found) == len(positions):
            break
        after = page[-1].cursor
    return found


def _failed_effect(it: Diagnosed, record: CellRecord) -> CellCause | None:
    """The last thing that it heard of the world was an error, and it has asked for nothing since."""
    told = [each for each in it.last if each.kind in ("event", "timer", "effect", "receipt")]
    if record.intents or not told or (last := told[-1]).kind != "receipt" or last.status != "error":
        return None
    kind, did = ("timed_out", "timed out") if _is_timeout(last.reason) else ("effect_failed", "failed")
    text = f"Its effect {last.name} {did} at {last.time:%Y-%m-%d %H:%M:%S} UTC: {last.reason.rstrip('.')}."
    return CellCause(kind=kind, text=text, subject=last.intent or "")


def _is_timeout(reason: str) -> bool:
    return "Timeout" in reason.partition(":")[0]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

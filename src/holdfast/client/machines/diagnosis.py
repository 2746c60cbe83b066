"""Why a cell does not move, in words: what it waits for, what holds it up, and what would move it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.cells.cell import TERMINAL, CellIntent, CellRecord
from holdfast.client.runs.explanation import paused, question_of
from holdfast.client.views.cells import TraceItem, shown_key
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import SignalArrived
from holdfast.kernel.waits import Wait
from holdfast.programs.machine.kind import HELD_LIMIT
from holdfast.programs.machine.lanes.envelopes import Addressed, Continuation, HeldPart, read_envelope
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.machine import Machine
from holdfast.runs import messages
from holdfast.runs.advice import Advice, AdviceCode
from holdfast.runs.birth import child_id
from holdfast.runs.hints import command
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.kinds.step import STEP, queued_step
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

    @property
    def is_moving(self) -> bool:
        """Whether its lanes are being split, so that the last of them does not have its cells yet."""
        return any(run.split == p.INHERITS for run in self.line)

    @property
    def has_late_timer(self) -> bool:
        timers = () if self.record is None else self.record.timers
        return bool(timers) and timers[0].wake_at <= self.now

    @property
    def shown(self) -> str:
        """Its key, as commands take it."""
        return "" if self.key is None else shown_key(self.key)

    def command(self, *words: str) -> str:
        named = () if self.key is None else (self.shown,)
        return command(words[0], words[1], self.machine.name, *named, *words[2:], tenant=self.lane.tenant)


async def causes_of(store: p.Store, it: Diagnosed) -> AsyncIterator[Advice]:
    """The causes, the one to look at first in front."""
    record, waiting = it.record, await _unhandled(store, it)
    for cause in _stopped(it):
        yield cause
    if waiting or record is None or it.open or it.has_late_timer or it.is_moving:
        async for cause in _unserved(store, it):
            yield cause
    if it.is_moving:
        text = "The lanes of its machine are being split: what comes for it is handled when its lane has its cells."
        yield Advice(code=AdviceCode.WAIT_SPLIT, sentence=text, thing=it.line[-1].key.run)
    if waiting:
        text = f"{_number(waiting, 'event')} for it {'is' if waiting == 1 else 'are'} in its lane and not handled yet."
        yield Advice(code=AdviceCode.WAIT_EVENTS, sentence=text, thing=it.lane.run)
    if record is None:
        if not waiting and not it.is_moving:
            text = "There is no such cell: no event has reached it, or it was deleted."
            yield Advice(code=AdviceCode.MISSING, sentence=text)
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
        yield Advice(code=AdviceCode.WAIT_TIME, sentence=text, thing=first.schema)
    if not it.open and not record.timers and not waiting and record.status != "parked":
        text = f"It waits for its next event since {moment(record.last_active)}."
        yield Advice(code=AdviceCode.AWAITS_EVENT, sentence=text)


def _stopped(it: Diagnosed) -> list[Advice]:
    """What keeps it from moving until somebody acts; and that it is over."""
    found, record = [], it.record
    if record is not None and record.status == "parked":
        held = f"{_number(record.held_count, 'event')} {'is' if record.held_count == 1 else 'are'} held for it"
        text = f"It is parked since {moment(record.last_active)}: {record.reason.rstrip('.')}. {held}."
        if record.held_count >= it.held_limit:
            text += " No more are taken in for it from outside."
        releasing = it.command("cells", "release")
        found.append(Advice(code=AdviceCode.RELEASE_CELL, sentence=text, thing=it.shown, command=releasing))
    elif record is not None and record.is_catching_up:
        text = f"It was released, and handles what is held for it: {_number(record.held_count, 'event')} to go."
        found.append(Advice(code=AdviceCode.WAIT_EVENTS, sentence=text))
    elif record is not None and record.status == "failed":
        found.append(Advice(code=AdviceCode.ENDED, sentence=f"It has failed: {record.reason}.", thing=it.shown))
    elif record is not None and record.status == "completed":
        text = "It is completed: its machine has ended it."
        found.append(Advice(code=AdviceCode.ENDED, sentence=text, thing=it.shown))
    lanes = it.line if it.is_moving else [] if it.run is None else [it.run]
    for run in lanes:
        if run.pause is not None:
            text = f"Its lane, run {run.key.run}, is paused: {run.pause.rstrip('.')}."
            found.append(replace(paused(run, it.now), sentence=text, run=run.key.run))
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


async def _unserved(store: p.Store, it: Diagnosed) -> AsyncIterator[Advice]:
    """Whether nobody runs its machine."""
    alive = [worker for worker in await store.workers() if worker.expires_at >= it.now]
    missing = Advice(
        code=AdviceCode.SERVE_CODE, sentence="", thing=it.machine.name, more=p.MACHINE, command="holdfast worker APP"
    )
    if not alive:
        yield replace(missing, code=AdviceCode.START_WORKER, sentence="No worker is running.", thing="", more="")
    elif not any(worker.serves.takes(p.MACHINE, it.machine.name) for worker in alive):
        yield replace(missing, sentence=f"None of the {len(alive)} running workers serves machines.")
    elif it.run is not None and it.run.ready_at is not None and (declined := await store.declined(it.lane)):
        last = declined[-1]
        reason = last.reason.splitlines()[0].rstrip(":.")
        text = (
            f"No worker serves machine {it.machine.name}: the last that handed its lane back, {last.worker}, did so "
            f"{length(it.now - last.at)} ago, because of {reason}."
        )
        yield replace(missing, code=AdviceCode.WAIT_FIT, sentence=text, thing=last.worker, more="")


async def _effects(store: p.Store, it: Diagnosed) -> AsyncIterator[Advice]:
    """What it waits for of the world."""
    retries = {each.intent: each for each in it.last if each.kind == "retry"}
    tasks: dict[p.Key, dict[int, p.TaskRow]] = {}
    for intent in it.open:
        if (run := it.asker(intent)) is not None:
            if run.key not in tasks:
                positions = {each.position for each in it.open if it.asker(each) == run}
                tasks[run.key] = await _tasks(store, run, positions)
            yield await _effect(store, it, run, intent, tasks[run.key].get(intent.position), retries)


async def _effect(
    store: p.Store,
    it: Diagnosed,
    run: p.Run,
    intent: CellIntent,
    task: p.TaskRow | None,
    retries: dict[str | None, TraceItem],
) -> Advice:
    name, promise = intent.effect, str(PromiseId(run.root).child(intent.position))
    if task is not None:
        asked = question_of(task, name, it.now)
        for_what = f"to approve {name}" if task.kind == "approval" else f"to say what became of {name}"
        text = f"It waits for a person {for_what}: task {task.id}."
        return Advice(code=asked.code, sentence=text, thing=asked.thing, more=asked.more, command=asked.command)
    queued = await queued_step(store, run, Wait(STEP, name, intent.position), it.now)
    if queued.thing:  # it is on a queue
        return Advice(
            code=queued.code,
            sentence=f"It waits for {queued.words}.",
            thing=queued.thing,
            more=queued.more,
            command=queued.command,
        )
    if (retry := retries.get(promise)) is not None:
        text = f"It waits for {name}, which is tried again: the last attempt ended with {retry.reason.rstrip('.')}."
        return Advice(code=AdviceCode.WAIT_ATTEMPT, sentence=text, thing=promise)
    effect = it.machine.effects.get(name)
    if effect is not None and effect.kind == WORKFLOW:
        child = child_id(run.key.run, intent.position, 0)  # a lane has one lineage
        text = f"It waits for the run that {name} is: {child}."
        looking = command("explain", child, tenant=it.lane.tenant)
        return Advice(code=AdviceCode.FOLLOW_CHILD, sentence=text, thing=child, command=looking)
    text = f"It waits for the receipt of {name} (intent {promise})."
    return Advice(code=AdviceCode.WAIT_CALL, sentence=text, thing=promise)


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


def _failed_effect(it: Diagnosed, record: CellRecord) -> Advice | None:
    """The last thing that it heard of the world was an error, and it has asked for nothing since."""
    told = [each for each in it.last if each.kind in ("event", "timer", "effect", "receipt")]
    if record.intents or not told or (last := told[-1]).kind != "receipt" or last.status != "error":
        return None
    did = "timed out" if _is_timeout(last.reason) else "failed"
    text = f"Its effect {last.name} {did} at {last.time:%Y-%m-%d %H:%M:%S} UTC: {last.reason.rstrip('.')}."
    return Advice(code=AdviceCode.EFFECT_FAILED, sentence=text, thing=last.intent or "")


def _is_timeout(reason: str) -> bool:
    return "Timeout" in reason.partition(":")[0]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"

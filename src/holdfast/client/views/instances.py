"""Where a run of a definition stands: its business state, and apart from that the state of the engine.

A run is read from its code and its journal, whether a worker has it or not. The keys of ``--json`` are stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.views.times import iso, moment
from holdfast.client.views.values import plain
from holdfast.gate.run_calls import RunCalls
from holdfast.journal import events as e
from holdfast.programs.definition.interpreter.places import WaitingPlace, waiting_places
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.runs.birth import child_id, lineage_of
from holdfast.store.protocol import Run, Status, TaskRow


class PlaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A place at which a run waits. ``path`` is the way there from the root: names of nodes, branches, iterations.

    ``due`` is when time moves it: nothing for a time-out that stands still while people are asked. ``token`` is the
    wait's own: what arrives for another token changes nothing any more.
    """

    path: str
    node: str
    kind: str  # task, signal, timer, step, action, transport, workflow, commit, timeout, retry, undo or turn
    name: str  # of the task, signal, step or workflow
    token: str
    attempt: int
    since: datetime | None
    due: datetime | None
    task: str | None  # the id of the task that a person must answer
    run: str | None  # the child that is waited for


class ReceivedSignal(msgspec.Struct, frozen=True):
    """The signal that a run received last."""

    name: str
    at: datetime


class EngineState(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine knows of a run, apart from its business state."""

    status: Status
    events: int  # the version of its journal
    turn: int
    wait: str | None  # the kind of its wait; ``several`` where it waits at several places for different things
    token: str | None  # of its wait, where it has one only
    task: str | None  # the id of the oldest task that is open
    places: tuple[PlaceInfo, ...]  # the resume pointers
    last_signal: ReceivedSignal | None

    @property
    def timers(self) -> tuple[PlaceInfo, ...]:
        """The places that time moves: timers, time-outs, delays of retries."""
        return tuple(place for place in self.places if place.kind in ("timer", "timeout", "retry", "turn"))

    @property
    def frames(self) -> tuple[PlaceInfo, ...]:
        """The places that wait for a child run."""
        return tuple(place for place in self.places if place.run is not None)


class RevisionInfo(msgspec.Struct, frozen=True):
    """A revision that the run was given: it has moved to that version, or it stays, for these reasons."""

    before: int  # versions
    after: int
    digest: str
    reasons: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """Whether the run has moved."""
        return not self.reasons


class InstanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a definition: which one, its business reference and state, and the engine's state."""

    id: str
    tenant: str
    definition: str
    version: int
    digest: str
    reference: str | None
    state: dict[str, Any]
    engine: EngineState
    revisions: tuple[RevisionInfo, ...] = ()  # oldest first


def instance_info(
    run: Run, program: DefinitionProgram, entries: list[e.Entry], tasks: Sequence[TaskRow]
) -> InstanceInfo:
    """A run's instance. ``tasks`` are those of its calls, oldest first."""
    definition = program.routine.definition
    waiting = list(waiting_places(program.interpreter)) if program.has_begun and run.ended_at is None else []
    times = _times(entries)
    times |= _stopped_clocks(program, tasks, times)
    asked = {task.position: task.id for task in tasks if task.status == "requested"}
    places = tuple(_place(run, each, times, entries, asked) for each in waiting)
    awaited = [place for place in places if place.kind != "timeout"]
    kinds = {place.kind for place in awaited}
    return InstanceInfo(
        id=run.key.run,
        tenant=run.key.tenant,
        definition=definition.name,
        version=definition.version,
        digest=program.routine.digest,
        reference=program.reference,
        state=program.state,
        engine=EngineState(
            status=run.status,
            events=run.version,
            turn=program.interpreter.context.turns if program.has_begun else 0,
            wait="several" if len(kinds) > 1 else next(iter(kinds), None),
            token=awaited[0].token if len(awaited) == 1 else None,
            task=next((place.task for place in places if place.task is not None), None),
            places=places,
            last_signal=_last_signal(entries),
        ),
        revisions=tuple(RevisionInfo(each.before, each.after, each.digest, each.reasons) for each in program.revisions),
    )


Times = dict[int, tuple[int, int | None]]


def _times(entries: list[e.Entry]) -> Times:
    """When the run began to wait for each promise, and when a timer of it is due, as far as its journal says."""
    found: Times = {}
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled(promise_id=promise):
                found[promise.path[-1]] = entry.timestamp, None
            case e.InvokeRetrying(promise_id=promise, retry_at=retry_at):
                found[promise.path[-1]] = found.get(promise.path[-1], (entry.timestamp, None))[0], retry_at
            case e.TimerScheduled(promise_id=promise, fire_at=fire_at):
                found[promise.path[-1]] = entry.timestamp, fire_at
            case e.ExecutionAwaiting(waiting_on=promises):
                for promise in promises:
                    found.setdefault(promise.path[-1], (entry.timestamp, None))
            case _:
                pass
    return found


def _stopped_clocks(program: DefinitionProgram, tasks: Sequence[TaskRow], times: Times) -> Times:
    """The time-outs that have stood still while people were asked, or still do: as a worker counts them."""
    found: Times = {}
    calls = RunCalls(0)
    calls.learn([], tasks)
    for call in calls.asked():
        timer = program.clock_of(call.promise)
        if timer is not None and (times_of := times.get(timer.path[-1])) is not None:
            (since, due), (waited, still) = times_of, call.waited()
            found[timer.path[-1]] = since, None if still or due is None else due + waited
    return found


def _place(
    run: Run,
    place: WaitingPlace,
    times: Times,
    entries: list[e.Entry],
    tasks: dict[int, str],
) -> PlaceInfo:
    position = place.promise.path[-1]
    since, due = times.get(position, (None, None))
    started = entries[0].event if entries else None
    lineage = lineage_of(started.idempotency_key) if isinstance(started, e.ExecutionStarted) else 0
    return PlaceInfo(
        path=".".join(map(str, place.path)),
        node=place.node,
        kind=place.kind,
        name=place.name,
        token=str(place.promise),
        attempt=place.attempt,
        since=moment(since),
        due=moment(due),
        task=tasks.get(position),
        run=child_id(run.key.run, position, lineage) if place.kind == "workflow" else None,
    )


def _last_signal(entries: list[e.Entry]) -> ReceivedSignal | None:
    for entry in reversed(entries):
        if isinstance(entry.event, e.SignalReceived) and entry.event.signal_name != e.REVISION:
            return ReceivedSignal(entry.event.signal_name, moment(entry.timestamp))
    return None


def instance_record(info: InstanceInfo) -> dict[str, Any]:
    """An instance as ``--json`` writes it."""
    engine = info.engine
    last = engine.last_signal
    return {
        "definition": info.definition,
        "version": info.version,
        "digest": info.digest,
        "reference": info.reference,
        "state": plain(info.state),
        "engine": {
            "status": engine.status,
            "events": engine.events,
            "turn": engine.turn,
            "wait": engine.wait,
            "token": engine.token,
            "task": engine.task,
            "places": [_place_record(place) for place in engine.places],
            "timers": [place.path for place in engine.timers],
            "frames": [{"path": place.path, "run": place.run} for place in engine.frames],
            "last_signal": None if last is None else {"name": last.name, "at": iso(last.at)},
        },
        "revisions": [
            {"before": each.before, "after": each.after, "digest": each.digest, "reasons": list(each.reasons)}
            for each in info.revisions
        ],
    }


def _place_record(place: PlaceInfo) -> dict[str, Any]:
    times = {"since": iso(place.since), "due": iso(place.due)}
    named = {"path": place.path, "node": place.node, "kind": place.kind, "name": place.name, "token": place.token}
    return {**named, "attempt": place.attempt, **times, "task": place.task, "run": place.run}

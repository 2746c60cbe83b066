"""The instance of a definition's run, read from its code, its journal and its tasks, whether a worker has it or not."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client.views.instances import EngineState, InstanceInfo, PlaceInfo, ReceivedSignal, RevisionInfo
from holdfast.client.views.times import moment
from holdfast.gate.run_calls import RunCalls
from holdfast.journal import events as e
from holdfast.programs.definition.interpreter.places import WaitingPlace, waiting_places
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.runs.birth import child_id, lineage_of
from holdfast.store.protocol import Run, TaskRow


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
    received: tuple[str, int] | None = None
    at = 0
    for entry in reversed(entries):
        match entry.event:
            case e.SignalReceived(signal_name=name, delivery_id=delivery) if received is None and name != e.REVISION:
                received, at = (name, delivery), entry.timestamp
            case e.SignalDelivered(signal_name=name, delivery_id=delivery, id=id) if (name, delivery) == received:
                return ReceivedSignal(name, moment(at), id)
            case _:
                pass
    return None

"""Where a run of a definition stands: its business state, and apart from that the state of the engine.

``client.runs.instance`` reads it from a run's code and journal. The keys of ``--json`` are stable.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.views.times import iso
from holdfast.client.views.values import plain
from holdfast.store.protocol import Status


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
    """The signal that a run received last. ``id`` is what its sender called it; None where it was sent without,
    and in runs of earlier versions."""

    name: str
    at: datetime
    id: str | None = None


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
            "last_signal": None if last is None else {"name": last.name, "id": last.id, "at": iso(last.at)},
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

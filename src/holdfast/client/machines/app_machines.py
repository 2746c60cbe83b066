"""``app.machines``: events for machines, and their cells."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.client.machines.cell_handle import CellHandle, EventPlace
from holdfast.client.machines.manifests import AppManifests
from holdfast.client.operators import operator_note
from holdfast.client.people.permission import operation
from holdfast.errors import EngineError, InvalidRequest, LaneFull
from holdfast.programs.machine.envelopes import Envelope
from holdfast.programs.machine.lane_counts import LaneCounts
from holdfast.programs.machine.machine import Machine
from holdfast.runs.birth import ID_LIMIT
from holdfast.runs.lanes import LaneMessage, lane_start
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.machines.forks import ForkedMachine
    from holdfast.client.machines.verification import LaneCheck

S = TypeVar("S")

_TRIES: Final = 3
DEPTH_LIMIT: Final = 10_000
"""So many events may wait for a lane before it takes no more from outside."""


class SentEvent(msgspec.Struct, frozen=True):
    """An event that was taken in. ``places`` are where it stands in the lanes of the machines that hear it."""

    schema: str
    id: str
    tenant: str
    places: tuple[EventPlace, ...]
    repeated: bool = False

    @property
    def heard(self) -> bool:
        """Whether any machine hears it."""
        return bool(self.places)


class AppMachines(AppManifests):
    """The machines of an engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kind = app.machine_kind

    async def send(
        self, event: Any, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent:
        """Bring an event to the machines that hear it. Durable when this returns; with its ``id`` it is taken in once.

        Raises InvalidRequest where no machine here knows its type, and SchemaMismatch where its data does not fit; and
        InvalidFunction where a machine's number of lanes has changed.
        """
        app = self._app
        app.check_open()
        chosen = _checked(id) if id is not None else uuid.uuid4().hex
        owner, actor = app.tenant_of(tenant), app.person_of(by)
        board = await self._routes(owner)
        known = board.schema_of(event)
        schema, value = known.name, known.encode(event)
        letters = []
        for name, lane, key in board.targets(schema, value):
            envelope = Envelope(key, schema, value, 0, chosen, "", actor)
            letters.append(LaneMessage(name, lane, envelope.write(), f"event:{chosen}:{name}"))
        if len(letters) > 1:
            return await self._send_all(owner, schema, chosen, letters, by)
        places, repeated = [], False
        for letter in letters:
            answer = await self._deliver(owner, letter)
            repeated = isinstance(answer, p.Repeated)
            position = answer.position if isinstance(answer, p.Delivered) else None
            places.append(EventPlace(letter.machine, letter.lane, position))
        return SentEvent(schema, chosen, owner, tuple(places), repeated)

    async def _send_all(
        self, tenant: str, schema: str, id: str, letters: list[LaneMessage], by: str | None
    ) -> SentEvent:
        """Deliver an event to several lanes in one commit, with a note of it: all hear it, or none."""
        app = self._app
        for letter in letters:
            await self._begin(tenant, letter)
        changes = tuple(letter.deliver(tenant, app.clock.now()) for letter in letters)
        for change in changes:
            await self._check_depth(change.key)
        note = operator_note(app, tenant, "send_event", by, None, "", {"event": schema, "event_id": id})
        answer = await app.committer.commit(p.Operate(note, changes))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            raise EngineError(f"event {id} was answered {answer!r}")
        for change in changes:
            app.delivered(change.key)
        app.wake_sealer()
        arrived = {run.key: run.arrived for run in await app.store.get([change.key for change in changes])}
        for lane, reached in arrived.items():
            self._kind.depths[lane] = reached, self._kind.depths.get(lane, (0, 0))[1]
        places = [
            EventPlace(letter.machine, letter.lane, arrived.get(change.key))
            for letter, change in zip(letters, changes, strict=True)
        ]
        return SentEvent(schema, id, tenant, tuple(places), isinstance(answer, p.Repeated))

    async def _begin(self, tenant: str, letter: LaneMessage) -> None:
        """Begin the lane of a message, unless somebody here has seen that it has begun. Raises InvalidFunction where
        its machine has another number of lanes."""
        app, kind = self._app, self._kind
        counts = LaneCounts(app.whole_store, app.clock, kind.counted)
        await counts.confirm(tenant, {letter.machine: kind.machines[letter.machine].lanes})
        lane = (tenant, letter.machine, letter.lane)
        if lane not in self._kind.begun:
            await app.committer.commit(lane_start(tenant, letter.machine, letter.lane, app.clock.now()))
            self._kind.begun.add(lane)

    def cell(self, machine: Machine[S] | str, key: Any = None, *, tenant: str | None = None) -> CellHandle[S]:
        """The cell of a key. It need not exist."""
        found = self._machine(machine)
        return CellHandle(self._app, found, key, self._app.tenant_of(tenant))

    @operation("runs.see")
    async def verify(
        self, machine: Machine[Any] | str | None = None, *, tenant: str | None = None
    ) -> AsyncIterator[LaneCheck]:
        """Replay the journal of every lane with its handlers, and compare rows and roots with what comes of it.

        All machines, or one; of one tenant, or of all. Nothing is written. Each lane is given with its differences.
        """
        from holdfast.client.machines.verification import verify_lanes

        name = None if machine is None else self._machine(machine).name
        async for each in verify_lanes(self._app, name, tenant):
            yield each

    @operation("installation.operate")
    async def fork(
        self,
        machine: Machine[Any] | str,
        into: str | Holdfast,
        *,
        at: datetime | None = None,
        tenant: str | None = None,
        by: str | None = None,
    ) -> ForkedMachine:
        """Copy all cells of a machine, as they are now or were at a root of that time, into another tenant, or into the
        same tenant of another engine, such as one in memory: for tests, and to see what would be.

        Timers go on there. A cell that waits for an effect is parked there, since no receipt will come. Returns when
        all cells are durable there, and, where ``into`` runs a worker, when they are taken in. Raises InvalidRequest
        where the machine has cells there already, or where no root of that time is kept.
        """
        from holdfast.client.machines.forks import fork_machine

        return await fork_machine(self._app, self._machine(machine), into, at, self._app.tenant_of(tenant), by)

    def __iter__(self) -> Iterator[Machine[Any]]:
        return iter(self._kind.machines.values())

    def _machine(self, machine: Machine[Any] | str) -> Machine[Any]:
        name = machine if isinstance(machine, str) else machine.name
        found = self._kind.machines.get(name)
        if found is None:
            raise InvalidRequest(f"there is no machine {name!r} here: import the module that has it")
        return found

    async def _deliver(self, tenant: str, letter: LaneMessage) -> p.Delivered | p.Repeated:
        """Put a message into its lane's inbox; the lane is begun where it is not there yet."""
        app, lane = self._app, (tenant, letter.machine, letter.lane)
        for _ in range(_TRIES):
            await self._begin(tenant, letter)
            change = letter.deliver(tenant, app.clock.now())
            await self._check_depth(change.key)
            answer = await app.committer.commit(change)
            if isinstance(answer, p.Delivered | p.Repeated):
                if isinstance(answer, p.Delivered):
                    self._kind.depths[change.key] = answer.position, self._kind.depths.get(change.key, (0, 0))[1]
                app.delivered(change.key)
                return answer
            self._kind.begun.discard(lane)
        raise EngineError(f"lane {letter.lane} of machine {letter.machine} cannot be begun: {answer!r}")

    async def _check_depth(self, lane: p.Key) -> None:
        """Raises LaneFull where so much waits for a lane that more must wait outside."""
        reached, consumed = self._kind.depths.get(lane, (0, 0))
        if reached - consumed < DEPTH_LIMIT:
            return
        for run in await self._app.store.get([lane]):
            self._kind.depths[lane] = run.arrived, run.consumed
            if run.arrived - run.consumed >= DEPTH_LIMIT:
                waits = f"{run.arrived - run.consumed:,} events wait for {lane.run}, and the limit is {DEPTH_LIMIT:,}"
                raise LaneFull(f"{waits}: send it again in a while, or start more workers.")


def _checked(id: object) -> str:
    if not isinstance(id, str) or not id or len(id) > ID_LIMIT or not id.isprintable():
        raise InvalidRequest(f"the event's id is 1 to {ID_LIMIT} printable characters, not {id!r:.60}")
    return id

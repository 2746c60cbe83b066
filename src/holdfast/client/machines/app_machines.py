"""``app.machines``: events for machines, and their cells."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from holdfast.client.machines.cell_handle import CellHandle, EventPlace
from holdfast.client.machines.manifests import AppManifests
from holdfast.errors import EngineError, InvalidRequest
from holdfast.programs.machine.envelopes import Envelope
from holdfast.programs.machine.machine import Machine
from holdfast.runs.birth import ID_LIMIT
from holdfast.runs.lanes import LaneMessage, lane_start
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

S = TypeVar("S")

_TRIES: Final = 3


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

        Raises InvalidRequest where no machine here knows its type, and SchemaMismatch where its data does not fit.
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
        places, repeated = [], False
        for letter in letters:
            answer = await self._deliver(owner, letter)
            repeated = repeated or isinstance(answer, p.Repeated)
            position = answer.position if isinstance(answer, p.Delivered) else None
            places.append(EventPlace(letter.machine, letter.lane, position))
        return SentEvent(schema, chosen, owner, tuple(places), repeated)

    def cell(self, machine: Machine[S] | str, key: Any = None, *, tenant: str | None = None) -> CellHandle[S]:
        """The cell of a key. It need not exist."""
        found = self._machine(machine)
        return CellHandle(self._app, found, key, self._app.tenant_of(tenant))

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
            if lane not in self._kind.begun:
                await app.committer.commit(lane_start(tenant, letter.machine, letter.lane, app.clock.now()))
                self._kind.begun.add(lane)
            change = letter.deliver(tenant, app.clock.now())
            answer = await app.committer.commit(change)
            if isinstance(answer, p.Delivered | p.Repeated):
                app.delivered(change.key)
                return answer
            self._kind.begun.discard(lane)
        raise EngineError(f"lane {letter.lane} of machine {letter.machine} cannot be begun: {answer!r}")


def _checked(id: object) -> str:
    if not isinstance(id, str) or not id or len(id) > ID_LIMIT or not id.isprintable():
        raise InvalidRequest(f"the event's id is 1 to {ID_LIMIT} printable characters, not {id!r:.60}")
    return id

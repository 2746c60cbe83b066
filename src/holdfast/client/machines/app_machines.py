"""``app.machines``: events for machines, their cells, and the events that no cell could handle."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

import msgspec

from holdfast.cells.cell import decode_cell
from holdfast.client.machines.cell_handle import CellHandle, EventPlace
from holdfast.client.machines.cell_list import CellFilters, CellFinder, read_place, write_place
from holdfast.client.machines.dead_letters import DeadLetters, letter_id, missing
from holdfast.client.operators import operator_note
from holdfast.client.pages import PAGE, check_limit
from holdfast.client.people.permission import judged_now, operation
from holdfast.client.views.cells import CellInfo, DeadLetterInfo, MachineInfo, cell_info
from holdfast.client.views.cursors import Page
from holdfast.client.views.values import read_plain
from holdfast.errors import EngineError, InvalidRequest, SchemaMismatch, TenantNotFound
from holdfast.programs.machine.envelopes import Envelope
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.runs.birth import ID_LIMIT
from holdfast.runs.lanes import LaneMessage, lane_id, lane_start
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


class AppMachines:
    """The machines of an engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kind = app.machine_kind
        self._letters = DeadLetters(app)

    # -- events --------------------------------------------------------------------------------------------------------

    @operation("events.emit")
    async def send(
        self, event: Any, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent:
        """Bring an event to the machines that hear it. Durable when this returns; with its ``id`` it is taken in once.

        Raises InvalidRequest where no machine here knows its type, and SchemaMismatch where its data does not fit.
        """
        self._app.check_open()
        return await self._send(self._kind.board.schema_of(event), event, id, tenant, by)

    @operation("events.emit")
    async def send_data(
        self, schema: str, data: Any, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent:
        """As ``send``, with the event as plain data, such as JSON, and the name of its schema: ``app/Placed@1``.

        Raises InvalidRequest where there is no such schema here, and SchemaMismatch where the data does not fit it.
        """
        self._app.check_open()
        known = self._kind.board.named(schema)
        return await self._send(known, known.accept(read_plain(data)), id, tenant, by)

    async def _send(
        self, known: ValueSchema, event: Any, id: str | None, tenant: str | None, by: str | None
    ) -> SentEvent:
        chosen = _checked(id) if id is not None else uuid.uuid4().hex
        owner, actor = self._app.tenant_of(tenant), self._app.person_of(by)
        schema, value = known.name, known.encode(event)
        letters = []
        for name, lane, key in self._kind.board.targets(schema, value):
            envelope = Envelope(key, schema, value, 0, chosen, "", actor)
            letters.append(LaneMessage(name, lane, envelope.write(), f"event:{chosen}:{name}"))
        places, repeated = [], False
        for letter in letters:
            answer = await self._deliver(owner, letter, schema)
            repeated = repeated or isinstance(answer, p.Repeated)
            position = answer.position if isinstance(answer, p.Delivered) else None
            places.append(EventPlace(letter.machine, letter.lane, position))
        return SentEvent(schema, chosen, owner, tuple(places), repeated)

    async def _deliver(self, tenant: str, letter: LaneMessage, schema: str) -> p.Delivered | p.Repeated:
        """Put a message into its lane's inbox; the lane is begun where it is not there yet."""
        app = self._app
        for _ in range(_TRIES):
            await self._begin(tenant, letter)
            change = letter.deliver(tenant, app.clock.now())
            if app.binding is None:
                answer = await app.committer.commit(change)
            else:
                answer = await self._noted(tenant, change, letter, schema)
            if isinstance(answer, p.Delivered | p.Repeated):
                app.delivered(change.key)
                return answer
            self._kind.begun.discard((tenant, letter.machine, letter.lane))
        raise EngineError(f"lane {letter.lane} of machine {letter.machine} cannot be begun: {answer!r}")

    async def _noted(self, tenant: str, change: p.Deliver, letter: LaneMessage, schema: str) -> p.Answer:
        """A user sends it: it is noted in the same commit."""
        app = self._app
        details = {"schema": schema, "machine": letter.machine}
        note = operator_note(app, tenant, "send_event", None, change.key.run, "", details)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), change)))
        if not isinstance(answer, p.OperatedOn):
            return answer
        app.wake_sealer()
        (run,) = await app.store.get([change.key])
        return p.Delivered(run.arrived)  # it stands there or before: whoever waits for this has waited for it

    async def _begin(self, tenant: str, letter: LaneMessage) -> None:
        """Begin a lane, where nobody here knows that it has begun. Raises TenantNotFound for another's tenant."""
        app, lane = self._app, (tenant, letter.machine, letter.lane)
        binding = app.binding
        if binding is not None and judged_now(binding).caller.tenant != tenant:
            raise TenantNotFound(f"there is no tenant {tenant!r} for you: leave the tenant out.")
        if lane in self._kind.begun:
            return
        committer = app.committer if binding is None else binding.engine.committer
        await committer.commit(lane_start(tenant, letter.machine, letter.lane, app.clock.now()))
        self._kind.begun.add(lane)

    # -- machines and cells --------------------------------------------------------------------------------------------

    def cell(self, machine: Machine[S] | str, key: Any = None, *, tenant: str | None = None) -> CellHandle[S]:
        """The cell of a key. It need not exist."""
        return CellHandle(self._app, self.named(machine), key, tenant)

    def __iter__(self) -> Iterator[Machine[Any]]:
        return iter(self._kind.machines.values())

    def named(self, machine: Machine[Any] | str) -> Machine[Any]:
        """A machine of this process. Raises InvalidRequest where there is none of that name."""
        name = machine if isinstance(machine, str) else machine.name
        found = self._kind.machines.get(name)
        if found is None:
            raise InvalidRequest(f"there is no machine {name!r:.100} here: import the module that has it")
        return found

    def read_key(self, machine: Machine[Any] | str, text: str | None) -> Any:
        """The key that a text means: a text itself, any other type as JSON. Raises InvalidRequest."""
        schema = self.named(machine).key_schema
        if text is None or schema is None or schema.kind is str:
            return text
        try:
            return schema.accept(msgspec.json.decode(text))
        except msgspec.DecodeError:
            return schema.accept(text)

    @operation("machines.see")
    async def list(self, *, tenant: str | None = None) -> AsyncIterator[MachineInfo]:
        """The machines of this process, with a tenant's cells by status, and its lanes."""
        for machine in sorted(self._kind.machines.values(), key=lambda each: each.name):
            yield await self._info(machine, self._app.tenant_of(tenant))

    @operation("machines.see")
    async def show(self, machine: Machine[Any] | str, *, tenant: str | None = None) -> MachineInfo:
        """One machine. Raises InvalidRequest where there is none of that name here."""
        return await self._info(self.named(machine), self._app.tenant_of(tenant))

    async def _info(self, machine: Machine[Any], tenant: str) -> MachineInfo:
        store = self._app.store
        lanes = await store.get([p.Key(tenant, lane_id(machine.name, index)) for index in range(machine.lanes)])
        return MachineInfo(
            name=machine.name,
            tenant=tenant,
            version=machine.version,
            hash=machine.hash,
            is_keyed=machine.is_keyed,
            events=tuple(machine.events),
            effects=tuple(machine.effects),
            emits=tuple(machine.emits),
            lanes=machine.lanes,
            begun=len(lanes),
            paused={run.key.run: run.pause for run in lanes if run.pause is not None},
            cells=await store.count_cells(tenant, machine.name),
        )

    @operation("machines.see")
    async def lane_counts(self, *, tenant: str | None = None) -> dict[str, int]:
        """How many lanes a tenant has of these machines, by status: ``counts`` of runs has them, too."""
        owner = self._app.tenant_of(tenant)
        keys = [
            p.Key(owner, lane_id(machine.name, index))
            for machine in self._kind.machines.values()
            for index in range(machine.lanes)
        ]
        return dict(Counter(run.status for run in await self._app.store.get(keys))) if keys else {}

    @operation("machines.see")
    async def cells(
        self, machine: Machine[S] | str, *, tenant: str | None = None, **filters: Unpack[CellFilters]
    ) -> AsyncIterator[CellInfo[S]]:
        """The cells that match, by lane and key. Raises InvalidRequest for an unknown status."""
        found, owner = self.named(machine), self._app.tenant_of(tenant)
        async for row in CellFinder(self._app.store, owner, found.name, filters).rows(None):
            yield await self._cell(found, row)

    @operation("machines.see")
    async def cells_page(
        self,
        machine: Machine[S] | str,
        *,
        limit: int = PAGE,
        after: str | None = None,
        tenant: str | None = None,
        **filters: Unpack[CellFilters],
    ) -> Page[CellInfo[S]]:
        """One page of the cells that match. Where few of many match, it may be short, even empty: ``next`` says whether
        there are more."""
        found, owner = self.named(machine), self._app.tenant_of(tenant)
        finder = CellFinder(self._app.store, owner, found.name, filters)
        rows, place = await finder.page(check_limit(limit), read_place(after))
        return Page([await self._cell(found, row) for row in rows], write_place(owner, place))

    async def _cell(self, machine: Machine[S], row: p.CellRow) -> CellInfo[S]:
        """A listed cell. The names of its intents need its lane's run, which is read where it has some."""
        record, root = decode_cell(row.record), None
        if record.intents:
            runs = await self._app.store.get([p.Key(row.tenant, row.lane)])
            root = runs[0].root if runs else None
        return cell_info(machine, row.tenant, row.lane, root, record)

    # -- dead letters --------------------------------------------------------------------------------------------------

    @operation("machines.see")
    async def dead_letters(self, *, tenant: str | None = None) -> AsyncIterator[DeadLetterInfo]:
        """The events that no cell could handle, each with the reason."""
        async for each in self._letters.all(self._app.tenant_of(tenant)):
            yield each

    @operation("machines.see")
    async def dead_letters_page(
        self, *, limit: int = PAGE, after: str | None = None, tenant: str | None = None
    ) -> Page[DeadLetterInfo]:
        """One page of the dead letters, with a cursor for the rest."""
        return await self._letters.page(self._app.tenant_of(tenant), limit, after)

    @operation("machines.redeliver")
    async def redeliver(
        self,
        letter: DeadLetterInfo | str,
        *,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Deliver a dead letter again: to the cell that it was meant for, or to all that hear it by now.

        It leaves the list in the same commit, which notes it in the audit: of two who redeliver it one succeeds. An
        event that is refused again is a dead letter again. Raises DeadLetterNotFound, and InvalidRequest where nobody
        hears it still.
        """
        app, owner = self._app, self._app.tenant_of(tenant)
        row = await self._letters.find(owner, letter if isinstance(letter, str) else letter.id)
        try:
            messages = self._letters.messages(row, app.person_of(by))
        except SchemaMismatch as error:
            raise InvalidRequest(f"this dead letter no longer fits its schema: {error}") from error
        for each in messages:
            await self._begin(owner, each)
        now, id = app.clock.now(), letter_id(row)
        delivered = [each.deliver(owner, now) for each in messages]
        details = {"letter": id, "schema": row.schema}
        note = operator_note(app, owner, "redeliver_event", by, row.lane, reason, details)
        dropped = p.DropDead(p.Key(owner, row.lane), row.version, row.number)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), dropped, *delivered)))
        if not isinstance(answer, p.OperatedOn):
            raise missing(id)
        app.wake_sealer()
        app.hint()
        for change in delivered:
            app.delivered(change.key)


def _checked(id: object) -> str:
    if not isinstance(id, str) or not id or len(id) > ID_LIMIT or not id.isprintable():
        raise InvalidRequest(f"the event's id is 1 to {ID_LIMIT} printable characters, not {id!r:.60}")
    return id

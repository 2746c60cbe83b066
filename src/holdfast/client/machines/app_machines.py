"""``app.machines``: events for machines, their cells, and the events that no cell could handle."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec

from holdfast.cells.cell import decode_cell
from holdfast.client.machines.cell_handle import CellHandle
from holdfast.client.machines.cell_list import CellFilters, CellFinder, read_place, write_place
from holdfast.client.machines.dead_letters import DeadLetters, letter_id, missing
from holdfast.client.machines.lane_standing import lane_standing
from holdfast.client.machines.manifests import AppManifests
from holdfast.client.machines.sender import EventSender, SentEvent
from holdfast.client.operators import operator_note
from holdfast.client.pages import PAGE, check_limit
from holdfast.client.people.permission import operation
from holdfast.client.views.cells import CellInfo, DeadLetterInfo, MachineInfo, cell_info
from holdfast.client.views.cursors import Page
from holdfast.client.views.values import read_plain
from holdfast.errors import InvalidRequest, NotPermitted, SchemaMismatch
from holdfast.lanes.counts import lanes_of
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.machines.forks import ForkedMachine
    from holdfast.client.machines.verification import LaneCheck

S = TypeVar("S")


class AppMachines(AppManifests):
    """The machines of an engine."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._kind = app.machine_kind
        self._letters = DeadLetters(app)
        self._sender = EventSender(app, self._routes)

    # -- events --------------------------------------------------------------------------------------------------------

    @operation("events.emit")
    async def send(
        self, event: Any, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent:
        """Bring an event to the machines that hear it. Durable when this returns; with its ``id`` it is taken in once.

        Raises InvalidRequest where no machine here knows its type, and SchemaMismatch where its data does not fit;
        InvalidFunction where a machine's number of lanes has changed; LaneFull and CellFull.
        """

        def read(board: Switchboard) -> tuple[ValueSchema, Any]:
            return board.schema_of(event), event

        return await self._sender.send(read, id, tenant, by)

    @operation("events.emit")
    async def send_data(
        self, schema: str, data: Any, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent:
        """As ``send``, with the event as plain data, such as JSON, and the name of its schema: ``app/Placed@1``.

        Raises InvalidRequest where there is no such schema here, and SchemaMismatch where the data does not fit it.
        """

        def read(board: Switchboard) -> tuple[ValueSchema, Any]:
            known = board.named(schema)
            return known, known.accept(read_plain(data))

        return await self._sender.send(read, id, tenant, by)

    # -- machines and cells --------------------------------------------------------------------------------------------

    def cell(self, machine: Machine[S] | str, key: Any = None, *, tenant: str | None = None) -> CellHandle[S]:
        """The cell of a key. It need not exist."""
        return CellHandle(self._app, self.named(machine), key, tenant)

    @operation("machines.see")
    async def verify(
        self, machine: Machine[Any] | str | None = None, *, tenant: str | None = None
    ) -> AsyncIterator[LaneCheck]:
        """Replay the journal of every lane with its handlers, and compare rows and roots with what comes of it.

        All machines, or one; of one tenant, or of all. Nothing is written. Each lane is given with its differences.
        """
        from holdfast.client.machines.verification import verify_lanes

        name = None if machine is None else self.named(machine).name
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

        if self._app.binding is not None:  # asked for another tenant, it is not refused by the caller's level
            name = "installation.operate"
            raise NotPermitted("a machine is forked by the operator of the installation, not by users.", operation=name)
        return await fork_machine(self._app, self.named(machine), into, at, self._app.tenant_of(tenant), by)

    @operation("machines.split")
    async def split(
        self,
        machine: Machine[Any] | str,
        lanes: int,
        *,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> MachineInfo:
        """Divide a tenant's cells of a machine among so many lanes: a multiple of the present number.

        Events are taken in meanwhile, and none is lost, doubled or overtaken by a later one of its key. The cells of a
        lane are handed over in turns of it, so a worker must run; what comes for them waits until all of them are. The
        machine's code keeps the ``lanes=`` that it has. Raises InvalidRequest for another number, for a machine
        without keys, and while an earlier split is under way.
        """
        from holdfast.client.machines.splits import split_lanes

        known, owner = self.named(machine), self._app.tenant_of(tenant)
        if self._app.binding is not None and owner != self._app.binding.tenant:
            raise NotPermitted(
                "the lanes of another tenant are not yours to split: leave the tenant out.", operation="machines.split"
            )
        await split_lanes(self._app, known, lanes, owner, by, reason)
        return await self._machine_info(known, owner)

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
            yield await self._machine_info(machine, self._app.tenant_of(tenant))

    @operation("machines.see")
    async def show(self, machine: Machine[Any] | str, *, tenant: str | None = None) -> MachineInfo:
        """One machine. Raises InvalidRequest where there is none of that name here."""
        return await self._machine_info(self.named(machine), self._app.tenant_of(tenant))

    async def _machine_info(self, machine: Machine[Any], tenant: str) -> MachineInfo:
        store = self._app.store
        standing = await lane_standing(store, self._app.clock, machine, tenant)
        return MachineInfo(
            name=machine.name,
            tenant=tenant,
            version=machine.version,
            hash=machine.hash,
            is_keyed=machine.is_keyed,
            events=tuple(machine.events),
            effects=tuple(machine.effects),
            emits=tuple(machine.emits),
            lanes=standing.lanes,
            begun=standing.begun,
            paused=standing.paused,
            cells=await store.count_cells(tenant, machine.name),
            moving=standing.moving,
            unmoved=standing.unmoved,
            forwarding=standing.forwarding,
        )

    @operation("machines.see")
    async def lane_counts(self, *, tenant: str | None = None) -> dict[str, int]:
        """How many lanes a tenant has of these machines, by status: ``counts`` of runs has them, too."""
        found: Counter[str] = Counter()
        async for keys in lanes_of(self._app.store, self._app.tenant_of(tenant)):
            found.update(run.status for run in await self._app.store.get(keys))
        return dict(found)

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
        hears it still; LaneFull and CellFull.
        """
        app, owner = self._app, self._app.tenant_of(tenant)
        row = await self._letters.find(owner, letter if isinstance(letter, str) else letter.id)
        try:
            messages = self._letters.messages(row, await self._sender.board(owner), app.person_of(by))
        except SchemaMismatch as error:
            raise InvalidRequest(f"this dead letter no longer fits its schema: {error}") from error
        delivered, id = await self._sender.begin(owner, messages), letter_id(row)
        details = {"letter": id, "schema": row.schema}
        note = operator_note(app, owner, "redeliver_event", by, row.lane, reason, details)
        dropped = p.DropDead(p.Key(owner, row.lane), row.version, row.number)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), dropped, *delivered)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):  # repeated: the answer to this very commit was lost
            raise missing(id)
        app.wake_sealer()
        app.hint()
        for change in delivered:
            app.delivered((await self._sender.getter(change)).key)

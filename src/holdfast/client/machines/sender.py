"""Events from outside: each is brought to the lanes of the machines that hear it, by the routes of its tenant."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.cells.cell import decode_cell, shown_key
from holdfast.client.machines.cell_handle import EventPlace
from holdfast.client.operators import operator_note
from holdfast.client.people.permission import judged_now
from holdfast.errors import CellFull, EngineError, InvalidRequest, LaneFull, TenantNotFound
from holdfast.lanes.counts import LaneCounts, lane_line
from holdfast.programs.machine.lanes.envelopes import Envelope, read_envelope
from holdfast.programs.machine.schemas import ValueSchema
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.birth import ID_LIMIT
from holdfast.runs.lanes import LaneMessage, lane_start, parse_lane, place_of
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_TRIES: Final = 3
DEPTH_LIMIT: Final = 10_000
"""So many events may wait for a lane before it takes no more from outside."""

LOOK_MICROSECONDS: Final = 1_000_000
"""So long a cell that was not full is taken not to be."""
TAKERS: Final = 10_000

Routes = Callable[[str], Awaitable[Switchboard]]
"""The routes of a tenant."""


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


class EventSender:
    """Delivers what comes from outside into the inboxes of lanes. Lanes that are not there yet are begun."""

    def __init__(self, app: Holdfast, routes: Routes) -> None:
        self._app = app
        self._kind = app.machine_kind
        self._routes = routes

    async def board(self, tenant: str) -> Switchboard:
        """The routes of a tenant. Raises TenantNotFound for another's: its routes are not to be seen."""
        binding = self._app.binding
        if binding is not None and judged_now(binding).caller.tenant != tenant:
            raise TenantNotFound(f"there is no tenant {tenant!r} for you: leave the tenant out.")
        return await self._routes(tenant)

    async def send(
        self,
        read: Callable[[Switchboard], tuple[ValueSchema, Any]],
        id: str | None,
        tenant: str | None,
        by: str | None,
    ) -> SentEvent:
        """Bring an event to whoever hears it. ``read`` gives it, with its schema."""
        app = self._app
        app.check_open()
        chosen = _checked(id) if id is not None else secrets.token_hex(16)
        owner, actor = app.tenant_of(tenant), app.person_of(by)
        board = await self.board(owner)
        known, event = read(board)
        schema, value = known.name, known.encode(event)
        letters = []
        for name, lane, key in board.targets(schema, value):
            envelope = Envelope(key, schema, value, 0, chosen, "", actor)
            letters.append(LaneMessage(name, lane, envelope.write(), f"event:{chosen}:{name}", place_of(key)))
        if len(letters) > 1:
            return await self._send_all(owner, schema, chosen, letters, by)
        places, repeated = [], False
        for letter in letters:
            answer = await self._deliver(owner, letter, {"event": schema, "event_id": chosen})
            repeated = isinstance(answer, p.Repeated)
            position, heir = (answer.position, answer.heir) if isinstance(answer, p.Delivered) else (None, None)
            places.append(EventPlace(letter.machine, _number(heir, letter), position))
        return SentEvent(schema, chosen, owner, tuple(places), repeated)

    async def begin(self, tenant: str, letters: Sequence[LaneMessage]) -> list[p.Deliver]:
        """Begin the lanes of messages, unless somebody here has seen that they have begun: what delivers the messages.

        Raises InvalidFunction where a machine has another number of lanes, LaneFull and CellFull.
        """
        for letter in letters:
            await self._begin(tenant, letter)
        changes = [letter.deliver(tenant, self._app.clock.now()) for letter in letters]
        for letter, change in zip(letters, changes, strict=True):
            getter = self._getter(change)
            await self._check_depth(getter)
            await self._check_held(getter, letter)
        return changes

    async def getter(self, change: p.Deliver) -> p.Run:
        """The lane that a message reaches, by what the store has."""
        line = await lane_line(self._app.store, change.key, change.place or 0)
        for run in line:
            if run.split is not None and p.is_split(run.split):
                self._kind.marks[run.key] = run.split
        return line[-1]

    def _getter(self, change: p.Deliver) -> p.Key:
        """The lane that a message reaches, by what is known here."""
        key = change.key
        while (heir := p.heir_of(key, self._kind.marks.get(key), change.place)) is not None:
            key = heir
        return key

    async def _send_all(
        self, tenant: str, schema: str, id: str, letters: list[LaneMessage], by: str | None
    ) -> SentEvent:
        """Deliver an event to several lanes in one commit, with a note of it: all hear it, or none."""
        app = self._app
        changes = await self.begin(tenant, letters)
        note = operator_note(app, tenant, "send_event", by, None, "", {"event": schema, "event_id": id})
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), *changes)))
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            raise EngineError(f"event {id} was answered {answer!r}")
        app.wake_sealer()
        places = []
        for letter, change in zip(letters, changes, strict=True):
            run = await self.getter(change)
            app.delivered(run.key)
            self._reached(run.key, run.arrived)
            places.append(EventPlace(letter.machine, _number(run.key.run, letter), run.arrived))
        return SentEvent(schema, id, tenant, tuple(places), isinstance(answer, p.Repeated))

    async def _deliver(self, tenant: str, letter: LaneMessage, details: dict[str, str]) -> p.Delivered | p.Repeated:
        """Put a message into its lane's inbox; the lane is begun where it is not there yet."""
        app = self._app
        for _ in range(_TRIES):
            (change,) = await self.begin(tenant, [letter])
            if app.binding is None:
                answer = await app.committer.commit(change)
            else:
                answer = await self._noted(tenant, change, details)
            if isinstance(answer, p.Delivered | p.Repeated):
                if isinstance(answer, p.Delivered):
                    await self._arrived(change, answer)
                return answer
            self._kind.begun.discard((tenant, letter.machine, letter.lane))
        raise EngineError(f"lane {letter.lane} of machine {letter.machine} cannot be begun: {answer!r}")

    async def _noted(self, tenant: str, change: p.Deliver, details: dict[str, str]) -> p.Answer:
        """A user sends it: it is noted in the same commit."""
        app = self._app
        note = operator_note(app, tenant, "send_event", None, change.key.run, "", details)
        answer = await app.committer.commit(p.Operate(note, (*app.conditions(), change)))
        if not isinstance(answer, p.OperatedOn):
            return answer
        app.wake_sealer()
        run = await self.getter(change)
        heir = None if run.key == change.key else run.key.run
        return p.Delivered(run.arrived, heir)  # it stands there or before: whoever waits for this has waited for it

    async def _arrived(self, change: p.Deliver, answer: p.Delivered) -> None:
        got = change.key if answer.heir is None else p.Key(change.key.tenant, answer.heir)
        if got != self._getter(change):
            await self.getter(change)  # it was split a moment ago: the next one knows
        self._reached(got, answer.position)
        self._app.delivered(got)

    async def _begin(self, tenant: str, letter: LaneMessage) -> None:
        app, kind, lane = self._app, self._kind, (tenant, letter.machine, letter.lane)
        if lane in kind.begun:
            return
        counts = LaneCounts(app.whole_store, app.clock, kind.counted)
        await counts.confirm(tenant, {letter.machine: kind.machines[letter.machine].lanes})
        committer = app.committer if app.binding is None else app.binding.engine.committer
        await committer.commit(lane_start(tenant, letter.machine, letter.lane, app.clock.now()))
        kind.begun.add(lane)

    def _reached(self, lane: p.Key, position: int) -> None:
        self._kind.depths[lane] = position, self._kind.depths.get(lane, (0, 0))[1]

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

    async def _check_held(self, lane: p.Key, letter: LaneMessage) -> None:
        """Raises CellFull where so much is held for a parked cell that more must wait outside. What is in the lane's
        inbox by then, and what machines emit, is held all the same, so nothing is overtaken."""
        kind, now = self._kind, self._app.clock.now()
        heard = read_envelope(letter.envelope)
        assert isinstance(heard, Envelope), "it comes from outside"
        if now - kind.takers.get((lane, heard.key), now - LOOK_MICROSECONDS) < LOOK_MICROSECONDS:
            return
        for row in await self._app.store.cells(lane, [heard.key]):
            record = decode_cell(row.record)
            if record.held_count >= kind.held_limit:
                kind.takers.pop((lane, heard.key), None)
                cell = f"cell {shown_key(heard.key)} of {letter.machine}"
                state, remedy = "is parked", "release the cell, then send this again"
                if record.is_catching_up:
                    state, remedy = "catches up", "send this again in a while"
                held = f"{record.held_count:,} events are held for {cell}, which {state}"
                raise CellFull(f"{held}, and the limit is {kind.held_limit:,}: {remedy}.")
        if len(kind.takers) >= TAKERS:
            kind.takers.clear()
        kind.takers[lane, heard.key] = now


def _number(lane: str | None, letter: LaneMessage) -> int:
    """The number of the lane that got a message."""
    found = None if lane is None else parse_lane(lane)
    return letter.lane if found is None else found[1]


def _checked(id: object) -> str:
    if not isinstance(id, str) or not id or len(id) > ID_LIMIT or not id.isprintable():
        raise InvalidRequest(f"the event's id is 1 to {ID_LIMIT} printable characters, not {id!r:.60}")
    return id

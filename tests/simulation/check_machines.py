"""The laws of machines, checked when everything rests.

M1  The rows of a lane are what its journal notes, and what its handlers make of it from the beginning (where one code
    handled all); from any of its checkpoints a lane comes to where it comes to from its beginning.
M2  Equal content, equal root.
M3  Each event that was taken in is heard once. What was heard is handled once, or held, or a dead letter, or was
    dropped by a person.
M4  The events of a key are handled in the order in which they were heard.
M5  What a handled event emits is heard once, in its own tenant.
M6  A receipt reaches the very life of the very cell that asked for it, once; and where that life goes on, it comes.
M7  A timer comes once to the life that sent it, and to no other; where that life goes on, it comes.
M8  No act is done twice, and none for a turn that was not durable: what was done was asked for in a journal.
M9  Where a version of the code was applied, no other one handles an event any more.
M10 No secret is in a receipt, an audit entry, a task, a trace, a cell or a dead letter.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import cbor2
import msgspec

from holdfast import Holdfast
from holdfast.cells import tree
from holdfast.cells.cell import CellRecord, decode_cell, encode_cell
from holdfast.cells.growth import growth
from holdfast.cells.nodes import name_of
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.kernel.checkpoint import CheckpointUnusable
from holdfast.kernel.execution import Execution
from holdfast.lanes.roots import make_root
from holdfast.programs.machine.lanes.cell_turn import CIRCLE, UNHEARD, read_held
from holdfast.programs.machine.lanes.envelopes import Envelope, Release, read_envelope
from holdfast.programs.machine.lanes.held_events import unchained
from holdfast.programs.machine.lanes.notes import TurnNote, read_note
from holdfast.runs.checkpoints import unseal_checkpoint
from holdfast.runs.journals import check_chain
from holdfast.runs.kinds.cells import CELLS
from holdfast.runs.lanes import LANE_DIGEST, LANE_EVENT, is_lane
from holdfast.store import protocol as p
from tests.simulation.books import FIRST, MACHINE, NEXT, SECRET, Told
from tests.simulation.faults import Recorder
from tests.simulation.world import Violation


class Deed(msgspec.Struct, frozen=True):
    """An effect that happened: for which cell, in which life of it, and by which call."""

    tenant: str
    name: str
    id: str
    life: str
    acts: bool
    promise: str

    @property
    def result(self) -> str:
        return f"{self.tenant}/{self.name}/{self.id}/{self.life}"


class World:
    """What everybody outside has seen."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Told]] = []
        self.begun: list[Deed] = []
        self.done: list[Deed] = []
        self.applied: dict[str, int] = {}  # when the second version was put in force, by tenant
        self.troubles: list[BaseException] = []
        self.reached: Counter[str] = Counter()

    def deed_of(self, promise: str) -> Deed | None:
        return next((deed for deed in self.done if deed.promise == promise), None)


class Lane(msgspec.Struct):
    """A lane as its journal has it, read for the laws. ``handled`` are its annotations, by key, in order."""

    run: p.Run
    entries: list[e.Entry]
    heard: list[Envelope] = []
    drops: Counter[bytes] = msgspec.field(default_factory=Counter)
    handled: list[tuple[bytes, dict[str, Any]]] = []
    notes: list[TurnNote] = []
    calls: list[e.InvokeScheduled] = []


def _read(run: p.Run, entries: list[e.Entry]) -> Lane:
    lane = Lane(run, entries)
    for entry in entries:
        match entry.event:
            case e.SignalReceived(signal_name=name, payload=payload) if name == LANE_EVENT:
                envelope = read_envelope(payload.data)
                if isinstance(envelope, Envelope):
                    lane.heard.append(envelope)
                elif isinstance(envelope, Release) and envelope.drop:
                    lane.drops[envelope.key] += 1
            case e.InvokeScheduled(kind=kind, input=input) if kind == CELLS:
                note = read_note(input)
                lane.notes.append(note)
                lane.handled += [(key, cbor2.loads(data)) for key, data in note.annotations]
            case e.InvokeScheduled() as call:
                lane.calls.append(call)
    return lane


async def check_laws(app: Holdfast, store: Recorder, world: World, *, replays: bool) -> None:
    """Raises Violation."""
    for trouble in world.troubles:
        raise trouble
    runs = [run for run in await store.find(p.Query(), 1000) if is_lane(run.key.run)]
    lanes = [_read(run, [entry async for entry in check_chain(store, run)]) for run in runs]
    rows = {run.key: await _rows(store, run.key) for run in runs}
    for lane in lanes:
        _notes_are_the_rows(lane, rows[lane.run.key])
        _checkpoints_lead_there(store, app, lane)
    if replays:
        async for check in app.machines.verify():
            if not check.good:
                raise Violation(f"M1: {check.run} of {check.tenant}: {check.problems}")
    await _roots(app, store, runs, rows)
    for tenant in sorted({run.key.tenant for run in runs}):
        own = [lane for lane in lanes if lane.run.key.tenant == tenant]
        records = {
            key: unchained(record, (await _held(store, lane.run.key)).get(key, []))
            for lane in own
            for key, record in rows[lane.run.key].items()
        }
        dead = await store.dead_letters(tenant, 100_000)
        _Tenant(tenant, own, records, dead, world).check()
    _no_act_twice(world, lanes)
    await _no_secret(app, store)


async def _rows(store: Recorder, lane: p.Key) -> dict[bytes, CellRecord]:
    found = await store.unrooted(lane, 0)
    return {} if found is None else {key: decode_cell(data) for key, data in found.cells}


async def _held(store: Recorder, lane: p.Key) -> dict[bytes, list[bytes]]:
    """The rows of what is held for the cells of a lane."""
    found = await store.unrooted(lane, 0)
    held: dict[bytes, list[bytes]] = {}
    for key, _, event in sorted([] if found is None else found.held, key=lambda row: row[:2]):
        if event is not None:
            held.setdefault(key, []).append(event)
    return held


def _notes_are_the_rows(lane: Lane, rows: dict[bytes, CellRecord]) -> None:
    noted: dict[bytes, bytes] = {}
    for note in lane.notes:
        for cell in note.cells:
            noted.pop(cell.key, None)
            if cell.record_hash is not None:
                noted[cell.key] = cell.record_hash
    if noted != {key: name_of(encode_cell(record)) for key, record in rows.items()}:
        raise Violation(f"M1: the rows of {lane.run.key} are not what its journal notes")


def _checkpoints_lead_there(store: Recorder, app: Holdfast, lane: Lane) -> None:
    root, kind = PromiseId(lane.run.root), app.machine_kind
    whole = kind.program(MACHINE, LANE_DIGEST, None)
    Execution.rebuild(root, whole, lane.entries, 0, random.Random(0))
    row = store._tables.checkpoints.get(lane.run.key)
    if row is None:
        return
    try:
        checkpoint = unseal_checkpoint(row, root, LANE_DIGEST)
    except CheckpointUnusable:  # a fault has damaged it
        return
    restored = kind.program(MACHINE, LANE_DIGEST, None)
    tail = [entry for entry in lane.entries if entry.sequence >= row.version]
    Execution.restore(root, restored, checkpoint, tail, 0, random.Random(0), {})
    if restored.checkpoint() != whole.checkpoint():
        raise Violation(f"M1: {lane.run.key} is another one from its checkpoint than from its beginning")


async def _roots(app: Holdfast, store: Recorder, runs: Sequence[p.Run], rows: dict[p.Key, Any]) -> None:
    for run in runs:
        made = await make_root(store, app.clock, run.key)
        found = await store.unrooted(run.key, 0)
        if made is None or found is None:
            continue
        grown = growth(found.cells, (), found.held)
        fresh = tree.apply(tree.EMPTY, grown.changes, {}.__getitem__)
        if fresh.root != made.root:
            raise Violation(f"M2: the root of {run.key} is not that of its content")


class _Tenant:
    """The events of one tenant's cells."""

    def __init__(
        self, tenant: str, lanes: list[Lane], rows: dict[bytes, CellRecord], dead: list[p.DeadRow], world: World
    ) -> None:
        self.tenant = tenant
        self.lanes = lanes
        self.rows = rows
        self.dead = dead
        self.world = world
        self.reached = world.reached
        self.handled = [(key, each) for lane in lanes for key, each in lane.handled]
        self.heard = [each for lane in lanes for each in lane.heard]

    def check(self) -> None:
        self._taken_in()
        self._accounted_for()
        self._in_order()
        self._emitted()
        self._receipts()
        self._timers()
        self._versions()

    def _events(self) -> Iterator[tuple[bytes, str]]:
        for key, each in self.handled:
            if "settled" not in each and "rung" not in each:
                yield key, each["id"]

    def _taken_in(self) -> None:
        """M3: what was sent, and sent again, is heard once."""
        sent = Counter(event.id for tenant, event in self.world.sent if tenant == self.tenant)
        outside = Counter(_id(each) for each in self.heard if each.schema == _TOLD and not _again(each))
        if sent != outside:
            raise Violation(f"M3: sent and not heard {sent - outside}, heard more often {outside - sent}")

    def _accounted_for(self) -> None:
        """M3: handled, held, dead or dropped."""
        heard = Counter((each.key, _id(each)) for each in self.heard)
        found = Counter(self._events())
        self.reached["events handled"] += found.total()
        for record in self.rows.values():
            found.update((record.key, _id(each)) for each in map(read_held, record.held) if isinstance(each, Envelope))
        found.update((row.key, _value(row.value)["id"]) for row in self.dead if row.reason not in (UNHEARD, CIRCLE))
        # What was a dead letter once, and was heard again, was counted as heard twice.
        found.update((each.key, _id(each)) for each in self.heard if _again(each) and each.schema != _CIRCLED)
        if found - heard:
            raise Violation(f"M3: handled, held or dead more often than heard: {found - heard}")
        missing = heard - found
        drops = sum((lane.drops for lane in self.lanes), Counter[bytes]())
        lost = Counter[bytes]()
        for (key, id), count in missing.items():
            circled = id.count(NEXT) and any(each.schema == _CIRCLED and _id(each) == id for each in self.heard)
            if not circled:
                lost[key] += count
        if lost - drops:
            raise Violation(f"M3: lost, and nobody dropped them: {missing}")
        self.reached["events dropped"] += lost.total()

    def _in_order(self) -> None:
        """M4: those that were heard once."""
        heard, handled = defaultdict[bytes, list[str]](list), defaultdict[bytes, list[str]](list)
        for each in self.heard:
            heard[each.key].append(_id(each))
        for key, id in self._events():
            handled[key].append(id)
        for key, ids in handled.items():
            once = {id for id, count in Counter(heard[key]).items() if count == 1}
            done = [id for id in ids if id in once]
            if done != [id for id in heard[key] if id in once and id in set(done)]:
                raise Violation(f"M4: {key!r} heard {heard[key]} and handled {ids}")

    def _emitted(self) -> None:
        """M5."""
        words = {event.id: event for tenant, event in self.world.sent if tenant == self.tenant}
        wanted: Counter[str] = Counter()
        for _, id in self._events():
            base = id.rstrip(NEXT)
            hops = len(id) - len(base)
            if words[base].word == "pass" and hops < 3:
                wanted[id + NEXT] += 1
        found = Counter(_id(each) for each in self.heard if each.schema == _PASSED and not _again(each))
        if wanted != found:
            raise Violation(f"M5: emitted and not heard {wanted - found}, heard without a cause {found - wanted}")
        lost = Counter(id for _, id in self._events() if words[id.rstrip(NEXT)].word == "lost")
        letters = Counter(_value(row.value)["id"].removesuffix(NEXT) for row in self.dead if row.reason == UNHEARD)
        if lost != letters:
            raise Violation(f"M5: what nobody hears is no dead letter: {lost - letters}, or twice: {letters - lost}")

    def _lives(self) -> set[str]:
        """The lives that go on: their cells exist and have not ended."""
        states = [cbor2.loads(record.state) for record in self.rows.values() if record.state is not None]
        ended = {each.state for each in self.rows.values() if each.status in ("completed", "failed")}
        assert FIRST.key_schema is not None
        return {state["life"] for state in states} - {cbor2.loads(each)["life"] for each in ended if each is not None}

    def _receipts(self) -> None:
        """M6."""
        asked: Counter[tuple[str, str]] = Counter()
        settled: Counter[tuple[str, str]] = Counter()
        for key, each in self.handled:
            asked.update((each["life"], id) for id in each.get("asked", ()))
            if "settled" not in each:
                continue
            settled[each["life"], each["id"]] += 1
            assert FIRST.key_schema is not None
            id, _, mark = each["id"].partition("/")
            wanted = f"{self.tenant}/{FIRST.key_schema.decode(key)}/{id}/{each['life']}"
            if each["settled"] is not None and each["settled"] != wanted:
                raise Violation(f"M6: {wanted} got {each['settled']}")
            self.reached[f"receipt {mark}: {'ok' if each['settled'] else each['error'].partition(':')[0]}"] += 1
        if settled - asked:
            raise Violation(f"M6: settled and not asked for: {settled - asked}")
        living = self._lives()
        drops = sum(sum(lane.drops.values()) for lane in self.lanes)
        open_ = Counter({place: count for place, count in (asked - settled).items() if place[0] in living})
        if open_.total() > drops:
            raise Violation(f"M6: asked for and never settled: {open_}")

    def _timers(self) -> None:
        """M7."""
        sent: Counter[tuple[str, str]] = Counter()
        rung: Counter[tuple[str, str]] = Counter()
        for _, each in self.handled:
            sent[each["life"], each["id"]] += each.get("rings", 0)
            if "rung" in each:
                rung[each["life"], each["id"]] += 1
        self.reached["timers rung"] += rung.total()
        if rung - sent:
            raise Violation(f"M7: rung and not sent in that life: {rung - sent}")
        living = self._lives()
        late = Counter({place: count for place, count in (sent - rung).items() if place[0] in living})
        if late.total() > sum(sum(lane.drops.values()) for lane in self.lanes):
            raise Violation(f"M7: never rung: {late}")

    def _versions(self) -> None:
        """M9: no clock is wrong by more than the seconds that are added."""
        if self.tenant not in self.world.applied:
            return
        since = self.world.applied[self.tenant] + 2_000_000
        for lane in self.lanes:
            for entry in lane.entries:
                if not isinstance(entry.event, e.InvokeScheduled) or entry.event.kind != CELLS:
                    continue
                versions = {cbor2.loads(data)["version"] for _, data in read_note(entry.event.input).annotations}
                if 1 in versions and entry.timestamp > since:
                    raise Violation(f"M9: {lane.run.key} ran the first version after the second was applied")


def _no_act_twice(world: World, lanes: Sequence[Lane]) -> None:
    """M8."""
    asked = {str(call.promise_id) for lane in lanes for call in lane.calls}
    for deed in world.begun:
        if deed.promise not in asked:
            raise Violation(f"M8: {deed} was begun, and no journal asks for it")
    acts = Counter(deed.promise for deed in world.done if deed.acts)
    twice = [promise for promise, count in acts.items() if count > 1]
    if twice:
        raise Violation(f"M8: done twice: {twice}")
    world.reached["acts done"] += len(acts)


async def _no_secret(app: Holdfast, store: Recorder) -> None:
    """M10."""
    tables = store._tables
    shown: list[Any] = [*tables.receipts.values(), *tables.tasks.values(), *tables.audit]
    shown += [*tables.dead_letters.values(), *(row for rows in tables.cells.values() for row in rows.values())]
    for tenant in sorted({key.tenant for key in tables.cells}):
        for row in await store.find_cells(p.CellQuery(tenant, MACHINE), 3):
            assert FIRST.key_schema is not None
            shown.append(await app.cell(MACHINE, FIRST.key_schema.decode(row.key), tenant=tenant).trace())
    if any(SECRET in repr(each) for each in shown):
        raise Violation("M10: a secret is shown")


_TOLD, _PASSED, _CIRCLED = (
    next(name for name in FIRST.events if name.partition("/")[2].startswith(kind))
    for kind in ("Told", "Passed", "Circled")
)


def _value(data: bytes) -> Any:
    return cbor2.loads(data)


def _id(envelope: Envelope) -> str:
    id: str = _value(envelope.value)["id"]
    return id


def _again(envelope: Envelope) -> bool:
    """Whether it was a dead letter that was delivered again."""
    return envelope.cause.startswith("dead letter")

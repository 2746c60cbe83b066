"""Machines, their cells and their dead letters as people and programs see them, and as ``--json`` writes them.

The keys are stable: scripts read them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.cells.cell import CellRecord, CellStatus
from holdfast.client.views.times import iso, moment
from holdfast.client.views.values import data_value, plain
from holdfast.errors import HoldfastError
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.machine import Machine
from holdfast.store.protocol import DeadRow

S = TypeVar("S")


class MachineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of this process, and what a tenant has of it. ``cells`` counts them by status; ``begun`` is how many of
    its ``lanes`` have begun, and ``paused`` are the ids of those that are paused, with the reason. Of lanes that were
    split, ``moving`` is how many of the present ones do not have their cells yet, ``unmoved`` how many cells are not
    handed over, and ``forwarding`` how many old ones still wait for what comes of effects, which they forward."""

    name: str
    tenant: str
    version: int
    hash: str
    is_keyed: bool
    events: tuple[str, ...]
    effects: tuple[str, ...]
    emits: tuple[str, ...]
    lanes: int
    begun: int
    paused: dict[str, str]
    cells: dict[str, int]
    moving: int = 0
    unmoved: int = 0
    forwarding: int = 0


class IntentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An effect that a cell waits for. ``intent`` is its name in receipts, ``sequence`` its number in the cell."""

    effect: str
    intent: str
    sequence: int
    issuer: str | None


class TimerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a cell sends itself."""

    at: datetime
    schema: str
    value: Any


class CellInfo(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """One cell. ``state`` is of the machine's own type; where the code here cannot read it, it is plain data, and
    ``problem`` says why. ``events`` counts what it has handled, ``held`` what is held for it since it was parked.
    ``intents`` are the effects that it waits for: one whose receipt is held is none of them."""

    machine: str
    tenant: str
    key: Any
    lane: str
    status: CellStatus
    reason: str
    state: S | Any
    problem: str
    intents: tuple[IntentInfo, ...]
    timers: tuple[TimerInfo, ...]
    last_active: datetime
    events: int
    held: int
    machine_version: int
    machine_hash: str


class TraceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a cell's timeline. ``position`` is that of the entry in the journal of its lane.

    kind         name                 value
    event        its schema           the event
    timer        ``timer``
    effect       the effect           its arguments
    retry        the effect           when it is tried again; ``reason`` is the error of the attempt
    progress     the effect           what it reported while it was under way
    receipt      the effect           what it gave; ``status`` is ok or error
    emitted      the event's schema
    annotation   ``annotation``       what the handler noted
    changed      ``changed``          the hash of the cell's new record
    deleted      ``deleted``
    parked       ``parked``           ``reason`` says why
    released     release or drop
    adopted      ``adopted``          from where the machine was forked
    moved        ``moved``            the lane that handed it over, when lanes were split
    """

    position: int
    time: datetime
    kind: str
    name: str
    value: Any = None
    intent: str | None = None
    status: str = ""
    reason: str = ""
    id: str | None = None
    actor: str | None = None


class CellTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of a cell: the last items, oldest first. The journal of its lane was read from ``first`` on."""

    machine: str
    key: Any
    lane: str
    first: int
    items: list[TraceItem]


class CellCause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a cell is as it is. ``kind`` is a word for programs, ``text`` a sentence for people. ``subject``
    is what it is about: an intent, a task, a run; ``remedy`` the command that would move it."""

    kind: str
    text: str
    subject: str = ""
    remedy: str = ""


class CellDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cell does not move. The first cause is the one to look at first."""

    machine: str
    key: Any
    status: str
    causes: tuple[CellCause, ...]


class DeadLetterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An event that no cell could handle. ``key`` is that of the cell it was meant for; ``event_id`` is the id
    with which it was sent."""

    id: str
    tenant: str
    machine: str
    schema: str
    value: Any
    key: Any
    reason: str
    at: datetime
    event_id: str | None


def cell_info(machine: Machine[S], tenant: str, lane: str, root: bytes | None, record: CellRecord) -> CellInfo[S]:
    """A cell's record as a view. ``root`` is that of its lane's run."""
    state, problem = read_state(machine, record)
    return CellInfo(
        machine=machine.name,
        tenant=tenant,
        key=read_key(machine, record.key),
        lane=lane,
        status=record.status,
        reason=record.reason,
        state=state,
        problem=problem,
        intents=tuple(
            IntentInfo(
                effect=each.effect,
                intent="" if root is None else str(PromiseId(each.origin or root).child(each.position)),
                sequence=each.sequence,
                issuer=each.issuer,
            )
            for each in (record.intents if root is None else in_flight(record, root))
        ),
        timers=tuple(
            TimerInfo(at=moment(each.wake_at), schema=each.schema, value=data_value(each.value))
            for each in record.timers
        ),
        last_active=moment(record.last_active),
        events=record.last_sequence,
        held=record.held_count,
        machine_version=record.machine_version,
        machine_hash=record.machine_hash.hex(),
    )


def read_state(machine: Machine[S], record: CellRecord) -> tuple[S | Any, str]:
    """The state as the machine has it, and why it could not be read as that."""
    if record.state is None:
        return None, ""
    try:
        return machine.read_state(record.state, record.machine_version), ""
    except HoldfastError as error:
        return data_value(record.state), str(error)
    except Exception as error:  # an author's migration may raise anything
        return data_value(record.state), f"{type(error).__name__}: {error}"


def read_key(machine: Machine[Any], key: bytes) -> Any:
    """The key of a cell; None for the only one of a machine without keys."""
    return None if machine.key_schema is None or not key else machine.key_schema.decode(key)


def shown_key(key: Any) -> str:
    """A key as people write it on a command line: a text as it is, anything else as JSON."""
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def machine_record(info: MachineInfo) -> dict[str, Any]:
    """A machine as ``--json`` writes it."""
    return {name: plain(getattr(info, name)) for name in info.__struct_fields__}


def cell_record(info: CellInfo[Any]) -> dict[str, Any]:
    """A cell as ``--json`` writes it."""
    fields = {name: getattr(info, name) for name in info.__struct_fields__}
    timers = [{"at": iso(each.at), "schema": each.schema, "value": plain(each.value)} for each in info.timers]
    return {
        **{name: plain(value) for name, value in fields.items() if name not in ("state", "intents", "timers")},
        "key": plain_data(info.key),
        "state": plain_data(info.state),
        "intents": [msgspec.to_builtins(each) for each in info.intents],
        "timers": timers,
        "last_active": iso(info.last_active),
    }


def trace_item_record(item: TraceItem) -> dict[str, Any]:
    """A line of a trace as ``--json`` writes it."""
    fields = {name: getattr(item, name) for name in item.__struct_fields__}
    return {**{name: plain(value) for name, value in fields.items()}, "time": iso(item.time)}


def trace_record(trace: CellTrace) -> dict[str, Any]:
    """A trace as ``--json`` writes it."""
    items = [trace_item_record(each) for each in trace.items]
    head = {"machine": trace.machine, "key": plain_data(trace.key), "lane": trace.lane, "first": trace.first}
    return {**head, "items": items}


def diagnosis_record(diagnosis: CellDiagnosis) -> dict[str, Any]:
    """A diagnosis as ``--json`` writes it."""
    causes = [msgspec.to_builtins(each) for each in diagnosis.causes]
    head = {"machine": diagnosis.machine, "key": plain_data(diagnosis.key), "status": diagnosis.status}
    return {**head, "causes": causes}


def dead_letter_info(row: DeadRow, id: str, key: Any) -> DeadLetterInfo:
    """A dead letter's row as a view."""
    return DeadLetterInfo(
        id=id,
        tenant=row.tenant,
        machine=row.machine,
        schema=row.schema,
        value=data_value(row.value),
        key=key,
        reason=row.reason,
        at=moment(row.at),
        event_id=row.id,
    )


def dead_letter_record(info: DeadLetterInfo) -> dict[str, Any]:
    """A dead letter as ``--json`` writes it."""
    fields = {name: plain(getattr(info, name)) for name in info.__struct_fields__}
    return {**fields, "key": plain_data(info.key), "at": iso(info.at)}


def plain_data(value: Any) -> Any:
    """A value of a machine's own type as JSON has it."""
    return plain(msgspec.to_builtins(value, builtin_types=(bytes, datetime), enc_hook=_model))


def _model(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)

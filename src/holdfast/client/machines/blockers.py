"""What keeps a manifest from being applied: work of the machines that it changes, named cell by cell."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, Literal

import cbor2
import msgspec

from holdfast.cells.cell import TERMINAL, CellRecord, decode_cell
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.manifest import MachineEntry
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.runs.lanes import WAITS, lane_id
from holdfast.store import protocol as p

BlockerKind = Literal["effect", "events", "cell", "lane", "split"]

MOST_LANES: Final = 4096
_PAGE: Final = 500
_SHOWN: Final = 5


class ManifestBlocker(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that must end first. ``effect``: a call of one is in flight, ``intent`` names it. ``events``: so many
    wait in a lane. ``cell``: one that has not ended, where the manifest is applied strictly. ``lane``: a worker holds
    it and does not stop. ``split``: it does not have its cells yet, because lanes are being split."""

    kind: BlockerKind
    machine: str
    lane: int
    key: Any = None
    effect: str = ""
    intent: str = ""
    count: int = 1

    def __str__(self) -> str:
        match self.kind:
            case "effect":
                return f"{self.effect} for cell {self.key!r} of {self.machine} is in flight (intent {self.intent})"
            case "events":
                return f"{self.count:,} events wait in lane {self.lane} of {self.machine}"
            case "cell":
                return f"cell {self.key!r} of {self.machine} has not ended"
            case "lane":
                return f"a worker holds lane {self.lane} of {self.machine} and does not stop"
            case "split":
                return f"lane {self.lane} of {self.machine} does not have its cells yet"


async def lanes_of(store: p.Store, tenant: str, machine: str) -> list[tuple[int, p.Run]]:
    """The lanes of a machine that have begun, by number."""
    keys = {p.Key(tenant, lane_id(machine, number)): number for number in range(MOST_LANES)}
    found = [(keys[run.key], run) for run in await store.get(list(keys))]
    return sorted(found, key=lambda each: each[0])


async def cells_of(store: p.Store, tenant: str, machine: str) -> AsyncIterator[tuple[p.CellRow, CellRecord]]:
    """The cells of a machine, by lane and key."""
    after = None
    while rows := await store.find_cells(p.CellQuery(tenant, machine), _PAGE, after):
        for row in rows:
            yield row, decode_cell(row.record)
        after = p.CellCursor(rows[-1].lane, rows[-1].key)


def key_shown(key: bytes) -> Any:
    """A cell's key as plain data; None for the one cell of a machine without keys."""
    return cbor2.loads(key) if key else None


async def find_blockers(
    store: p.Store, tenant: str, concerned: Iterable[MachineChange], *, strict: bool, held: bool = False
) -> list[ManifestBlocker]:
    """What keeps these changes from being applied. Where the lanes are ``held``, the events that wait are for the new
    code, and do not count.

    A call that waits for a person's approval does not block where the machine may still ask for its effect. Nor do
    events and receipts that are held for parked cells, or events that wait in lanes that no worker's code fits: they
    are what a new manifest is to mend.
    """
    found: list[ManifestBlocker] = []
    for change in concerned:
        lanes = await lanes_of(store, tenant, change.machine)
        for number, run in lanes:
            queued = run.arrived - run.consumed
            if queued and not held and not (run.pause or "").startswith(WAITS):
                found.append(ManifestBlocker("events", change.machine, number, count=queued))
            if run.split == p.INHERITS:  # what its cells wait for cannot be seen
                found.append(ManifestBlocker("split", change.machine, number))
        found += [each async for each in _cells(store, tenant, change, dict(lanes), strict)]
    return found


async def find_unreadable(store: p.Store, tenant: str, machines: Sequence[MachineEntry]) -> list[ManifestBlocker]:
    """The effects in flight that these machines do not declare: other code has asked for them, and theirs could not
    read the receipts. Lanes that do not have their cells yet count, since what those wait for cannot be seen."""
    found: list[ManifestBlocker] = []
    for machine in machines:
        lanes = {run.key.run: (number, run) for number, run in await lanes_of(store, tenant, machine.name)}
        inheriting = [number for number, run in lanes.values() if run.split == p.INHERITS]
        found += [ManifestBlocker("split", machine.name, number) for number in inheriting]
        async for row, record in cells_of(store, tenant, machine.name):
            number, run = lanes[row.lane]
            for intent in in_flight(record, run.root):
                if intent.effect not in machine.effects:
                    promise = str(PromiseId(intent.origin or run.root).child(intent.position))
                    found.append(
                        ManifestBlocker("effect", machine.name, number, key_shown(row.key), intent.effect, promise)
                    )
    return found


async def _cells(
    store: p.Store, tenant: str, change: MachineChange, lanes: dict[int, p.Run], strict: bool
) -> AsyncIterator[ManifestBlocker]:
    numbers = {run.key.run: number for number, run in lanes.items()}
    askers = {run.root: run.key.run for run in lanes.values()}
    waiting: dict[str, set[int]] = {}
    async for row, record in cells_of(store, tenant, change.machine):
        if row.lane not in numbers:
            continue  # it has begun since: whoever looks while the lanes are held sees it
        number, key = numbers[row.lane], key_shown(row.key)
        if strict and record.status not in TERMINAL:
            yield ManifestBlocker("cell", change.machine, number, key)
        for intent in in_flight(record, lanes[number].root):
            root = intent.origin or lanes[number].root
            if change.kind == "changed" and intent.effect not in change.forbidden:
                asker = askers[root]
                if asker not in waiting:
                    waiting[asker] = await _approvals(store, tenant, asker)
                if intent.position in waiting[asker]:
                    continue
            promise = PromiseId(root).child(intent.position)
            yield ManifestBlocker("effect", change.machine, number, key, intent.effect, str(promise))


async def _approvals(store: p.Store, tenant: str, lane: str) -> set[int]:
    """The positions of a lane's calls that wait for a person's approval."""
    found: set[int] = set()
    after: p.TaskRow | None = None
    while rows := await store.tasks(p.TaskQuery(tenant, "requested", lane), _PAGE, after):
        found.update(row.position for row in rows if row.kind == "approval")
        after = rows[-1]
    return found


def blocked_message(proposal: str, blockers: Sequence[ManifestBlocker]) -> str:
    """What blocks, in words: the counts, and the first of each kind."""
    lines = []
    for kind, words in _WORDS.items():
        these = [each for each in blockers if each.kind == kind]
        if these:
            count = sum(each.count for each in these)
            shown = "; ".join(map(str, these[:_SHOWN]))
            more = f"; and {len(these) - _SHOWN:,} more" if len(these) > _SHOWN else ""
            lines.append(f"{count:,} {words}: {shown}{more}")
    return (
        f"proposal {proposal} cannot be applied, and nothing was changed. " + ". ".join(lines) + ". "
        "Let workers with the code in force finish this, then apply it again."
    )


_WORDS: Final[dict[BlockerKind, str]] = {
    "effect": "effects are in flight",
    "events": "events are queued",
    "cell": "cells have not ended",
    "lane": "lanes are at work",
    "split": "lanes are being split",
}

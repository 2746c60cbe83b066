"""The shadow run of a proposal: the machines here handle what the lanes have recorded, and what they make of it is
compared with what was done. Nothing is written.

It sees what was recorded and nothing else: the report says how far that goes, and names what it could not see.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import cbor2

from holdfast.cells.cell import CellRecord
from holdfast.client.machines.blockers import cells_of, key_shown, lanes_of
from holdfast.client.machines.migrations import migrated_state
from holdfast.errors import HoldfastError
from holdfast.journal import events as e
from holdfast.journal.promise import PromiseId
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.shadow_lane import ShadowTallies, shadow_lane
from holdfast.programs.machine.lanes.shadow_reports import EffectTally, MachineShadow, ShadowReport, StateDelta
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineManifest, manifest_digest
from holdfast.programs.machine.manifest_changes import MachineChange, misfit
from holdfast.runs.journals import check_chain
from holdfast.store import protocol as p

MOST_ENTRIES: Final = 100_000
"""A lane with a longer journal is not replayed."""

_SHOWN: Final = 20


async def shadow_of(
    store: p.Store,
    tenant: str,
    manifest: MachineManifest,
    concerned: Sequence[MachineChange],
    kind: Machines,
    now: int,
) -> ShadowReport:
    """What the machines here would have made of what was recorded, for the machines that the manifest changes."""
    seen = []
    for change in concerned:
        problem = misfit(manifest, kind.board.declared, change.machine)
        if change.kind == "removed":
            problem = f"machine {change.machine} is not in the proposed manifest"
        if problem is not None:
            seen.append(_blind(change, problem))
        else:
            watcher = _Watcher(store, tenant, manifest, kind, change, now)
            seen.append(await watcher.watch())
    events, cells = sum(each.events for each in seen), sum(each.cells for each in seen)
    bounds = (
        f"{events:,} recorded events of {cells:,} cells in {sum(each.lanes for each in seen):,} lanes. Events that "
        "never came, and receipts that were never recorded, are not judged."
    )
    return ShadowReport(manifest_digest(manifest), now, tuple(seen), bounds)


def _blind(change: MachineChange, problem: str) -> MachineShadow:
    reason = f"nothing: {problem.replace('in force', 'proposed')}"
    return MachineShadow(
        machine=change.machine,
        change=change.kind,
        allowed=change.allowed,
        forbidden=change.forbidden,
        unseen=(reason,),
    )


class _SeenLane(NamedTuple):
    number: int
    length: int
    shadows: dict[bytes, CellRecord]


class _Watcher:
    """Watches the lanes of one machine."""

    def __init__(
        self, store: p.Store, tenant: str, manifest: MachineManifest, kind: Machines, change: MachineChange, now: int
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._machine: Machine[Any] = kind.machines[change.machine]
        self._board = kind.board_of(manifest)
        self._change = change
        self._now = now
        self._tallies = ShadowTallies()
        self._statuses: dict[str, int] = {}
        self._shadow_statuses: dict[str, int] = {}
        self._deltas: list[StateDelta] = []
        self._different = 0
        self._cells = 0
        self._seen: dict[str, _SeenLane] = {}
        self._unreadable: dict[str, str] = {}
        self._unseen: list[str] = []

    async def watch(self) -> MachineShadow:
        for number, run in await lanes_of(self._store, self._tenant, self._change.machine):
            await self._lane(number, run)
        await self._compare()
        tallies, change = self._tallies, self._change
        effects = {
            name: EffectTally(
                tallies.recorded.get(name, 0),
                tallies.asked.get(name, 0),
                tallies.same.get(name, 0),
                tallies.unanswered.get(name, 0),
            )
            for name in sorted({*tallies.recorded, *tallies.asked})
        }
        return MachineShadow(
            machine=change.machine,
            change=change.kind,
            allowed=change.allowed,
            forbidden=change.forbidden,
            lanes=len(self._seen),
            events=tallies.events,
            cells=self._cells,
            effects=effects,
            emitted=tallies.emitted,
            statuses=self._statuses,
            shadow_statuses=self._shadow_statuses,
            failures=tallies.failures,
            different=self._different,
            deltas=tuple(self._deltas),
            unreadable=self._unreadable,
            unseen=tuple(self._unseen),
        )

    async def _lane(self, number: int, run: p.Run) -> None:
        if run.version > MOST_ENTRIES:
            self._unseen.append(f"lane {number}: its journal has {run.version:,} entries, over {MOST_ENTRIES:,}")
            return
        try:
            entries: list[e.Entry] = [entry async for entry in check_chain(self._store, run)]
            shadows = shadow_lane(
                PromiseId(run.root), entries, self._machine, self._board, self._now, random.Random(0), self._tallies
            )
        except HoldfastError as error:
            self._unseen.append(f"lane {number}: {error.code}: {str(error).splitlines()[0]}")
            return
        self._seen[run.key.run] = _SeenLane(number, len(entries), dict(shadows))

    async def _compare(self) -> None:
        """Compare the shadow's cells with those of the store, where these are as old as the journal that was read."""
        async for row, record in cells_of(self._store, self._tenant, self._change.machine):
            self._read(row, record)
            lane = self._seen.get(row.lane)
            if lane is None:
                continue
            shadow = lane.shadows.pop(row.key, None)
            if row.version >= lane.length:
                key = key_shown(row.key)
                self._unseen.append(f"cell {key!r} of lane {lane.number}: it has moved meanwhile")
            else:
                self._note(row.key, record, shadow)
        for lane in self._seen.values():
            for key, shadow in lane.shadows.items():
                self._note(key, None, shadow)
        for key, handed in self._tallies.handed.items():
            if handed.is_recorded:
                self._unseen.append(f"cell {key_shown(key)!r}: it is on its way between two lanes")
            else:
                self._note(key, None, handed.record)

    def _read(self, row: p.CellRow, record: CellRecord) -> None:
        """Note a cell whose kept state the machine here cannot read."""
        if record.state is None or len(self._unreadable) >= _SHOWN:
            return
        read = migrated_state(self._machine, key_shown(row.key), record.state, record.machine_version)
        if read.problem:
            self._unreadable[str(read.key)] = read.problem

    def _note(self, key: bytes, recorded: CellRecord | None, shadow: CellRecord | None) -> None:
        self._cells += 1
        before, after = _status(recorded), _status(shadow)
        self._statuses[before] = self._statuses.get(before, 0) + 1
        self._shadow_statuses[after] = self._shadow_statuses.get(after, 0) + 1
        old, new = _state(recorded), _state(shadow)
        if (old, before) != (new, after):
            self._different += 1
            if len(self._deltas) < _SHOWN:
                old, new = _fields(old, new)
                self._deltas.append(StateDelta(key_shown(key), old, new, (before, after)))


def _status(record: CellRecord | None) -> str:
    return "none" if record is None else record.status


def _state(record: CellRecord | None) -> Any:
    return None if record is None or record.state is None else cbor2.loads(record.state)


def _fields(old: Any, new: Any) -> tuple[Any, Any]:
    """Only the fields that differ, where both are maps."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: old.get(name) for name in names}, {name: new.get(name) for name in names}

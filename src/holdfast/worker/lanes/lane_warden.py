"""The lane warden: a lane is run only by code of the manifest in force in its tenant.

A lane that was just claimed waits until the manifest in force is read, so what was applied before the claim counts.
Where the code here is not that of the manifest, the lane is handed to another worker; where there is none, it is parked
with the reason, and the next worker whose code fits lets it go on. Its events wait meanwhile.

Where nobody has applied a manifest in a tenant, and the engine does not insist on it, each worker runs what its code
declares, and the warden records that as the manifest in force. It refuses only a machine whose code no longer declares
an effect that is in flight: nobody could read its receipt. Machines that do not fit the others of this code, see
``machine_code``, are refused in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Protocol

from holdfast.audit.notes import named, note
from holdfast.audit.records import Operated
from holdfast.cells.cell import decode_cell
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.lanes.code_fit import foreign_effect
from holdfast.programs.machine.lanes.held_events import in_flight
from holdfast.programs.machine.lanes.lane import LaneProgram
from holdfast.programs.machine.manifest import MachineManifest, decode_manifest
from holdfast.programs.machine.manifest_changes import changes, merged, misfit
from holdfast.programs.machine.proposals import ManifestInForce, in_force_key, keep, read_in_force, write
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs.clock import Clock
from holdfast.runs.lanes import WAITS, is_lane
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.worker.held import Held

log = logging.getLogger("holdfast.worker")

LOOK_SECONDS: Final = 5.0
_PAGE: Final = 500
_KEPT: Final = 256

Verdict = Mapping[str, str]
"""The machines whose lanes the code here must not run, each with the reason."""


class LaneFaults(Protocol):
    """What becomes of lanes that are not run here. See ``faults``."""

    def turn_away(self, held: Held, reason: str) -> None: ...
    def decline_turn(self, held: Held, reason: str) -> None: ...
    def engine_failed(self, held: Held, what: str, error: Exception) -> None: ...


class LaneWarden(Role):
    """``schedule`` gives a lane its turn, ``faults`` hands it to another worker, or parks it where the manifest cannot
    be read, ``background`` lets work run beside."""

    name = "lane warden"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        machines: Machines | None,
        schedule: Callable[[Held], None],
        faults: LaneFaults,
        background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._clock = clock
        self._machines = machines
        self._schedule = schedule
        self._faults = faults
        self._background = background
        self._waiting: dict[str, list[Held]] = {}
        self._read: dict[str, MachineManifest] = {}  # by digest
        self._adopted: dict[tuple[str, str], Verdict] = {}  # by tenant and digest of what the code here declares

    @property
    def has_machines(self) -> bool:
        """Whether there are machines here. A worker without any looks after no lanes."""
        return self._machines is not None and bool(self._machines.machines)

    def must_wait(self, held: Held) -> bool:
        """Whether the manifest in force must be read before the lane's turn. It gets the turn then, or is let go."""
        if held.admitted or held.pause is not None or self._machines is None:
            return False
        tenant = held.key.tenant
        waiting = self._waiting.get(tenant)
        if waiting is not None:
            if held not in waiting:
                waiting.append(held)
            return True
        self._waiting[tenant] = [held]
        self._background(self._admit(tenant))
        return True

    def declines(self, held: Held) -> bool:
        """Whether the next turn is offered to other workers: one of its cells waits for an effect that the code here
        does not declare. A worker with other code may ask for one at any time, and splits bring its cells here.

        It is offered once. Where nobody takes it, a receipt that cannot be read parks its cell.
        """
        program = held.live.program
        if held.is_offered or held.only_records or not isinstance(program, LaneProgram):
            return False
        effect = foreign_effect(program.machine, program.brought)
        if effect is None:
            return False
        held.is_offered = True
        self._faults.decline_turn(held, f"{WAITS}machine {held.workflow} does not declare {effect} here")
        return True

    async def _admit(self, tenant: str) -> None:
        """Judge the lanes of a tenant that wait: those that come while it is read are judged by the next reading."""
        while waiting := self._waiting[tenant]:
            self._waiting[tenant] = []
            try:
                verdict, board = await patiently(partial(self._judge, tenant))
            except Exception as error:
                for held in waiting:
                    self._faults.engine_failed(held, "cannot read the manifest in force", error)
                continue
            for held in waiting:
                self._tell(held, verdict, board)
        del self._waiting[tenant]

    def _tell(self, held: Held, verdict: Verdict, board: Switchboard | None) -> None:
        if held.dropped:
            return
        reason = verdict.get(held.workflow)
        if reason is not None:
            self._faults.turn_away(held, WAITS + reason)
            return
        held.admitted = True
        program = held.live.program
        if board is not None and isinstance(program, LaneProgram):
            program.route_by(board)
        self._schedule(held)

    async def _judge(self, tenant: str) -> tuple[Verdict, Switchboard | None]:
        """Which machines must not be run here, and the routes of the manifest in force; None where code declares."""
        machines = self._kind
        row = await self._store.item(in_force_key(tenant))
        body = None if row is None else read_in_force(row)
        declared = machines.board.code.manifest
        unfit = machines.board.code.refused()
        if body is None or body.source == "declared":
            if machines.mode == "governed":
                reason = f"no manifest was applied in tenant {tenant!r}: propose, approve and apply one."
                return {**dict.fromkeys((each.name for each in declared.machines), reason), **unfit}, None
            return {**await self._adopt(tenant, row, body), **unfit}, None
        in_force = await self._manifest(tenant, body.digest)
        remedy = f"start a worker with its code, or apply the manifest of this code (in force is {body.digest[:12]})."
        found = dict(unfit)
        for machine in declared.machines:
            problem = misfit(in_force, declared, machine.name)
            if problem is not None:
                found[machine.name] = f"{problem}: {remedy}"
        return found, machines.board_of(in_force)

    async def _manifest(self, tenant: str, digest: str) -> MachineManifest:
        if digest not in self._read:
            found = await self._store.code(tenant, [bytes.fromhex(digest)])
            while len(self._read) >= _KEPT:
                del self._read[next(iter(self._read))]
            self._read[digest] = decode_manifest(found[bytes.fromhex(digest)].data)
        return self._read[digest]

    @property
    def _kind(self) -> Machines:
        assert self._machines is not None
        return self._machines

    # -- what code declares --------------------------------------------------------------------------------------------

    async def _adopt(self, tenant: str, row: p.ItemRow | None, body: ManifestInForce | None) -> Verdict:
        """Record what the code here declares as the manifest in force, once. Nothing is recorded where a machine must
        not be run here."""
        board, declared = self._kind.board, self._kind.board.code.manifest
        known = self._adopted.get((tenant, board.manifest))
        if known is not None and not known:
            return known
        before = None if body is None else await self._manifest(tenant, body.digest)
        refused = {} if before is None else await self._in_flight(tenant, before, declared)
        if not refused:
            after = declared if before is None else merged(before, declared)
            await self._record(tenant, row, body, after)
        elif known is None:
            for reason in refused.values():
                log.warning("tenant %s: %s", tenant, reason)
        self._adopted[tenant, board.manifest] = refused
        return refused

    async def _record(
        self, tenant: str, row: p.ItemRow | None, body: ManifestInForce | None, after: MachineManifest
    ) -> None:
        kept = keep(tenant, after)
        digest = kept.code.digest.hex()
        if body is not None and body.digest == digest:
            return
        await self._committer.commit(kept)
        now = self._clock.now()
        version = 1 if row is None else row.version + 1
        item = p.ItemRow(*in_force_key(tenant), version, write(ManifestInForce(digest)), "declared", None, now)
        details = {"manifest": digest, "before": "" if body is None else body.digest}
        record = Operated(now, "adopt_manifest", "worker", None, "declared by code", details)
        await self._committer.commit(p.Operate(named(note(tenant, None, record)), (p.PutItem(item),)))
        # It is refused where another worker was first, which has recorded what its own code declares.

    async def _in_flight(self, tenant: str, before: MachineManifest, declared: MachineManifest) -> Verdict:
        """The machines with effects in flight that their code here no longer declares."""
        own = {machine.name for machine in declared.machines}
        found: dict[str, str] = {}
        for change in changes(before, merged(before, declared)):
            if change.machine not in own or not change.forbidden:
                continue
            count = await self._count(tenant, change.machine, change.forbidden)
            if count:
                effects = ", ".join(change.forbidden)
                found[change.machine] = (
                    f"machine {change.machine} no longer declares {effects}, and {count:,} calls of it are in flight: "
                    "start a worker with the code that declares it until they are settled."
                )
        return found

    async def _count(self, tenant: str, machine: str, effects: Collection[str]) -> int:
        count, after = 0, None
        while rows := await self._store.find_cells(p.CellQuery(tenant, machine), _PAGE, after):
            lanes = await self._store.get([p.Key(tenant, row.lane) for row in rows])
            roots = {run.key.run: run.root for run in lanes}
            for row in rows:
                open_intents = in_flight(decode_cell(row.record), roots[row.lane])
                count += sum(each.effect in effects for each in open_intents)
            after = p.CellCursor(rows[-1].lane, rows[-1].key)
        return count

    # -- lanes that wait for this code ---------------------------------------------------------------------------------

    async def round(self) -> float | None:
        """Let parked lanes go on that the code here may run now."""
        if self._machines is None or not self._machines.machines:
            return LOOK_SECONDS
        for name in list(self._machines.machines):
            parked = await self._store.find(p.Query(workflow=name, parked=True, pause=WAITS), _PAGE)
            lanes = [run for run in parked if is_lane(run.key.run)]
            for tenant in sorted({run.key.tenant for run in lanes}):
                verdict, _ = await self._judge(tenant)
                if name not in verdict:
                    await self._let_go_on(tenant, name, [run for run in lanes if run.key.tenant == tenant])
        await asyncio.sleep(0)
        return LOOK_SECONDS

    async def _let_go_on(self, tenant: str, machine: str, lanes: list[p.Run]) -> None:
        now = self._clock.now()
        details = {"machine": machine, "lanes": str(len(lanes))}
        record = Operated(now, "resume_lanes", "worker", None, "the code of the manifest in force is here", details)
        unpaused = tuple(p.Unpause(run.key, now) for run in lanes)
        await self._committer.commit(p.Operate(named(note(tenant, None, record)), unpaused))

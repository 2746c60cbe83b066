"""A hold on lanes: they stand still while a manifest is applied. Their events are kept meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.client.machines.blockers import ManifestBlocker, lanes_of
from holdfast.client.operators import operator_note
from holdfast.errors import EngineError, ProposalConflict
from holdfast.lanes.counts import LaneCounts
from holdfast.programs.machine.proposals import PROPOSAL
from holdfast.runs.lanes import HELD, WAITS, lane_id, lane_start
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

_REST_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05


class LaneHold:
    """The hold of one proposal. What it leaves held after a crash, the next one of any proposal takes over."""

    def __init__(self, app: Holdfast, tenant: str, proposal: str, by: str | None) -> None:
        self._app = app
        self._tenant = tenant
        self._proposal = proposal
        self._by = by
        self._reason = f"{HELD}proposal {proposal}"
        self._names: dict[p.Key, tuple[str, int]] = {}
        self._paused: dict[p.Key, str] = {}  # by a person, and why

    async def begin(self, machines: Sequence[str]) -> None:
        """Let the lanes of these machines stand still; those that a person has paused stay as they are.

        Lanes that no event has come for are begun for it: one that began later would not stand still.
        """
        now = self._app.clock.now()
        for machine in machines:
            await self._begin_lanes(machine)
            for number, run in await lanes_of(self._app.store, self._tenant, machine):
                if run.pause is None or run.pause.startswith((WAITS, HELD)):
                    self._names[run.key] = machine, number
                else:
                    self._paused[run.key] = run.pause
        if self._names:
            acts = [p.Pause(lane, self._reason, now) for lane in self._names]
            self._check("hold_lanes", await self._answer("hold_lanes", acts))

    async def _begin_lanes(self, machine: str) -> None:
        """Begin all lanes of a machine. Where it has no number of lanes yet, none has begun."""
        app, tenant = self._app, self._tenant
        engine = app if app.binding is None else app.binding.engine
        table = await LaneCounts(app.whole_store, app.clock).table(tenant, machine)
        if table is None:
            return
        lanes = range(table.first, table.total)
        begun = {run.key for run in await app.store.get([p.Key(tenant, lane_id(machine, each)) for each in lanes])}
        now, is_heir = app.clock.now(), table.first > 0
        starts = [lane_start(tenant, machine, each, now, is_heir=is_heir) for each in lanes]
        missing = [start for start in starts if start.key not in begun]
        await asyncio.gather(*map(engine.committer.commit, missing))

    async def acts(self) -> list[p.Act]:
        """What ends the hold in the commit that puts the manifest in force, if no lane is resumed before it.

        Raises ProposalConflict where somebody has resumed a lane: it may have gone on with the code before. Lanes that
        a person has paused stay paused. A worker may have parked one that it still had, since it waits for a manifest.
        """
        acts: list[p.Act] = []
        now = self._app.clock.now()
        for run in await self._app.store.get([*self._names, *self._paused]):
            pause, by_person = run.pause, self._paused.get(run.key)
            if pause is not None and pause == by_person:
                acts.append(p.Pause(run.key, pause, now, present=pause))
            elif by_person is None and pause is not None and (pause == self._reason or pause.startswith(WAITS)):
                acts.append(p.Unpause(run.key, now, present=pause))
            else:
                what = "resumed" if pause is None else "paused anew"
                raise ProposalConflict(
                    f"{run.key.run} was {what} while proposal {self._proposal} was applied: apply it again."
                )
        return acts

    async def still(self) -> list[ManifestBlocker]:
        """Wait until no worker has these lanes; those that one does not let go of."""
        app = self._app
        until = app.clock.now() + int(_REST_SECONDS * 1e6)
        while True:
            runs = await app.store.get(list(self._names)) if self._names else []
            moving = [self._names[run.key] for run in runs if run.owner is not None]
            if not moving:
                return []
            if app.clock.now() >= until:
                return [ManifestBlocker("lane", machine, number) for machine, number in moving]
            await app.changed(_LOOK_SECONDS)

    async def end(self) -> None:
        """Let those go on that nobody has resumed, paused or held since."""
        before: list[p.Key] = []
        while held := await self._held():
            now = self._app.clock.now()
            acts = [p.Unpause(lane, now, present=self._reason) for lane in held]
            answer = await self._answer("release_lanes", acts)
            if not isinstance(answer, p.Fenced) or held == before:  # else somebody was faster with one of them
                self._check("release_lanes", answer)
                return
            before = held

    async def _held(self) -> list[p.Key]:
        runs = await self._app.store.get(list(self._names)) if self._names else []
        return [run.key for run in runs if run.pause == self._reason]

    async def _answer(self, act: str, acts: Sequence[p.Pause | p.Unpause]) -> p.Answer:
        app, details = self._app, {PROPOSAL: self._proposal, "lanes": str(len(acts))}
        note = operator_note(app, self._tenant, act, self._by, None, "", details)
        return await app.committer.commit(p.Operate(note, (*app.conditions(), *acts)))

    def _check(self, act: str, answer: p.Answer) -> None:
        if not isinstance(answer, p.OperatedOn | p.Repeated):
            raise EngineError(f"{act} for proposal {self._proposal} was answered {answer!r}")
        self._app.wake_sealer()
        self._app.hint()

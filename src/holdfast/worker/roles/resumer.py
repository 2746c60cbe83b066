"""The resumer: it lets runs go on that were parked because no worker had a step that they call, and this one has it.

Code comes with a worker and does not change while that runs, so a worker tries each run once where it stands: one that
is parked again lacks something else. Lanes of machines wait for a whole manifest: see ``lane_warden``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from holdfast.audit.notes import named, note
from holdfast.audit.records import Operated
from holdfast.errors import StepMissing
from holdfast.programs.catalogue import Catalogue
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store import protocol as p
from holdfast.store.committer import Committer

PAGE: Final = 100
LOOK_SECONDS: Final = 10.0
"""So often it looks: a run may have been parked in the moment in which this worker began."""


class Resumer(Role):
    """``resumed`` is called when runs were let go on."""

    name = "resumer"

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        catalogue: Catalogue,
        steps: Collection[str],
        resumed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._store = store
        self._committer = committer
        self._clock = clock
        self._catalogue = catalogue
        self._reasons = {StepMissing.reason_of(name) for name in steps}
        self._resumed = resumed
        self._tried: dict[p.Key, tuple[int, int]] = {}

    async def round(self) -> float | None:
        query = p.Query(parked=True, pause=StepMissing.REASON)
        serves = self._catalogue.serves()
        tried: dict[p.Key, tuple[int, int]] = {}
        last: p.Run | None = None
        while found := await self._store.find(query, PAGE, last):
            for run in found:
                stands = run.generation, run.version
                if self._tried.get(run.key) == stands:
                    tried[run.key] = stands
                elif serves.takes(run.program_kind, run.workflow) and self._has_step(run):
                    tried[run.key] = stands
                    await self._resume(run)
            last = found[-1]
        self._tried = tried
        return LOOK_SECONDS

    def _has_step(self, run: p.Run) -> bool:
        reason, end, _ = (run.pause or "").partition(StepMissing.END)
        return reason + end in self._reasons

    async def _resume(self, run: p.Run) -> None:
        now = self._clock.now()
        record = Operated(now, "resume", "worker", run.key.run, "a worker has the step that was missing")
        unpause = p.Unpause(run.key, now, present=run.pause)
        answer = await self._committer.commit(p.Operate(named(note(run.key.tenant, run.key.run, record)), (unpause,)))
        if isinstance(answer, p.OperatedOn | p.Repeated):
            self._resumed()

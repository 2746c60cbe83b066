"""The opener: it takes the first turns of new runs before they are stored, at most 100 at a time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.runs.birth import Birth
from holdfast.store import protocol as p
from holdfast.store.committer import CALLER_PATIENCE_SECONDS, Committer, Done
from holdfast.worker.executions import Executions
from holdfast.worker.held import Held
from holdfast.worker.turn_plan import Gate, Plan

log = logging.getLogger("holdfast.worker")

BIRTHS_AT_ONCE: Final = 100
"""How many new runs may be in memory before they are stored. The others wait, and cost little meanwhile."""

Born = Callable[[Held, Plan, p.Start, Done, p.Answer | Exception], None]


class Opener:
    """Starts runs. ``push`` runs a plain callback soon, ``born`` gets the store's answer, ``queued`` is called where a
    run was left for any worker to begin."""

    def __init__(
        self,
        executions: Executions,
        gate: Gate,
        committer: Committer,
        push: Callable[[Callable[[], None]], None],
        born: Born,
        queued: Callable[[], None],
    ) -> None:
        self.unborn: set[Held] = set()
        self._executions = executions
        self._gate = gate
        self._committer = committer
        self._clock = executions.clock
        self._push = push
        self._born = born
        self._queued = queued
        self._births: deque[Callable[[], None]] = deque()
        self._bearing = 0

    def begin(self, birth: Birth, owner: str, done: Done) -> None:
        """Start a run here: its creation, its lease and its first turn are one change."""
        self._births.append(partial(self._bear, birth, owner, done))
        self._admit()

    def _admit(self) -> None:
        while self._births and self._bearing < BIRTHS_AT_ONCE:
            self._bearing += 1
            self._push(self._births.popleft())

    def _bear(self, birth: Birth, owner: str, done: Done) -> None:
        """Take a new run's first turn before it exists; it exists only if the commit says so."""
        held = Held(birth.row(owner, self._clock.now()))
        try:
            work = self._executions.plan(held, self._executions.begin(held, birth), self._gate)
        except Exception as error:  # it starts all the same, and is parked where that can be seen
            log.debug("the first turn of %s failed: %s", birth.key, error)
            work = None
        if work is None or work.change.renewal is not None:
            held.drop()
            self._delivered()
            self._committer.submit(birth.start(self._clock.now()), partial(self._left, done), CALLER_PATIENCE_SECONDS)
            return
        start = birth.start_with(work.change, owner)
        held.committing = True
        self.unborn.add(held)
        self._committer.submit(start, partial(self._answered, held, work, start, done), CALLER_PATIENCE_SECONDS)

    def _answered(self, held: Held, work: Plan, start: p.Start, done: Done, answer: p.Answer | Exception) -> None:
        self.unborn.discard(held)
        self._delivered()
        self._born(held, work, start, done, answer)

    def _left(self, done: Done, answer: p.Answer | Exception) -> None:
        done(answer)
        self._queued()  # not before it is there: whoever looks sooner finds nothing, and sleeps

    def _delivered(self) -> None:
        self._bearing -= 1
        self._admit()

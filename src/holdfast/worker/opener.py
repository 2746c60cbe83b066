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

STARTS_AT_ONCE: Final = 100
"""How many new runs may be in memory before they are stored. The others wait, and cost little meanwhile."""

OnStarted = Callable[[Held, Plan, p.Start, Done, p.Answer | Exception], None]


class Opener:
    """Starts runs. ``push`` runs a plain callback soon, ``started`` gets the store's answer, ``queued`` is called where
    a run was left for any worker to begin."""

    def __init__(
        self,
        executions: Executions,
        gate: Gate,
        committer: Committer,
        push: Callable[[Callable[[], None]], None],
        started: OnStarted,
        queued: Callable[[], None],
    ) -> None:
        self.unstored: set[Held] = set()
        self._executions = executions
        self._gate = gate
        self._committer = committer
        self._clock = executions.clock
        self._push = push
        self._started = started
        self._queued = queued
        self._waiting: deque[Callable[[], None]] = deque()
        self._unanswered = 0

    def begin(self, birth: Birth, owner: str, done: Done) -> None:
        """Start a run here: its creation, its lease and its first turn are one change."""
        self._waiting.append(partial(self._begin_one, birth, owner, done))
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._unanswered < STARTS_AT_ONCE:
            self._unanswered += 1
            self._push(self._waiting.popleft())

    def _begin_one(self, birth: Birth, owner: str, done: Done) -> None:
        """Take a new run's first turn before it exists; it exists only once that is committed."""
        held = Held(birth.row(owner, self._clock.now()))
        try:
            work = self._executions.plan(held, self._executions.begin(held, birth), self._gate)
        except Exception as error:  # it starts all the same, and is parked where that can be seen
            log.debug("the first turn of %s failed: %s", birth.key, error)
            work = None
        if work is None or work.change.renewal is not None:
            held.drop()
            self._make_room()
            self._leave(birth, done)
            return
        start = birth.start_with(work.change, owner)
        held.committing = True
        self.unstored.add(held)
        self._committer.submit(start, partial(self._answered, held, work, start, birth, done), CALLER_PATIENCE_SECONDS)

    def _answered(
        self, held: Held, work: Plan, start: p.Start, birth: Birth, done: Done, answer: p.Answer | Exception
    ) -> None:
        self.unstored.discard(held)
        self._make_room()
        if isinstance(answer, p.Limited):  # somebody has set a cap, and the next claim will know of it
            held.drop()
            self._leave(birth, done)
        else:
            self._started(held, work, start, done, answer)

    def _leave(self, birth: Birth, done: Done) -> None:
        """Start it for any worker to begin."""
        self._committer.submit(birth.start(self._clock.now()), partial(self._left, done), CALLER_PATIENCE_SECONDS)

    def _left(self, done: Done, answer: p.Answer | Exception) -> None:
        done(answer)
        self._queued()  # not before it is there: a claimer that looks sooner finds nothing, and sleeps

    def _make_room(self) -> None:
        self._unanswered -= 1
        self._admit()

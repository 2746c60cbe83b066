"""The runs that this worker leases: how they are taken, kept warm for a while, and let go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.store import protocol as p
from holdfast.worker.gate.acts import Acts
from holdfast.worker.held import Held
from holdfast.worker.warm_cache import WarmCache


class HeldRuns:
    """``by_key`` has one run for each key. ``doubt`` is called where a lease may be this worker's all the same."""

    def __init__(self, acts: Acts, doubt: Callable[[], None], warm_limit: int) -> None:
        self.by_key: dict[p.Key, Held] = {}
        self.freed = asyncio.Event()  # set whenever a lease is given up, for the claimer, which waits for room
        self._acts = acts
        self._doubt = doubt
        self._warm = WarmCache(warm_limit)
        self._closed = False

    def take(self, run: p.Run) -> Held:
        """Hold a run that was just claimed, with the execution that was kept of it, if it still fits."""
        held = Held(run)
        self.by_key[run.key] = held
        self._warm.give(held, run)
        return held

    def of_lease(self, run: p.Run) -> Held | None:
        """The run, where this very lease of it is held: an older one may be on its way out."""
        held = self.by_key.get(run.key)
        return held if held is not None and held.epoch == run.epoch else None

    def give_back(self, held: Held) -> None:
        """The lease was released with the turn: keep the execution warm for a while."""
        self._remove(held)
        if held.pause is None and not self._closed:
            self._warm.keep(held)
        else:
            held.drop()

    def let_go(self, held: Held) -> None:
        """Nothing more comes of this lease: what its next commit should have carried goes alone."""
        self._remove(held)
        held.drop()
        if held.gate is not None:
            self._acts.let_go(held)

    def relinquish(self, held: Held) -> None:
        """Another worker may have the run by now: begin nothing. If none has, the claimer finds it again."""
        self.let_go(held)
        self._doubt()

    def close(self) -> None:
        """Keep nothing warm from now on."""
        self._closed = True
        self._warm.clear()

    def _remove(self, held: Held) -> None:
        if self.by_key.get(held.key) is held:  # it may be leased again here before this is answered
            del self.by_key[held.key]
        self.freed.set()

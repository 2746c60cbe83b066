"""Warm executions: runs that were handed back and may return soon, kept in memory, a bounded number of them."""

from __future__ import annotations

from collections import OrderedDict

from holdfast.store.protocol import Key, Run
from holdfast.worker.held import Held, Warm


class WarmCache:
    """The executions handed back last. Losing one costs a replay and nothing else."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._warm: OrderedDict[Key, Warm] = OrderedDict()

    def keep(self, held: Held) -> None:
        """Take over the execution of a run that is handed back; the coldest makes room."""
        warm = held.cool()
        if warm is None:
            return
        self._warm[held.key] = warm
        while len(self._warm) > self._limit:
            _, coldest = self._warm.popitem(last=False)
            coldest.execution.program.close()

    def give(self, held: Held, run: Run) -> None:
        """Give a claimed run its execution back, if it is here and the run has not moved since."""
        warm = self._warm.pop(run.key, None)
        if warm is None:
            return
        if warm.fits(run):
            held.warm = warm.execution
        else:
            warm.execution.program.close()

    def clear(self) -> None:
        for warm in self._warm.values():
            warm.execution.program.close()
        self._warm.clear()

"""The pruner forgets ids of messages after their time, in small bites, whatever the retention of runs is."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.samples import NOW, begun, commit, deliver, start
from holdfast.worker.roles.pruner import BATCH, INTERVAL_SECONDS, REMEMBERED_SECONDS, Pruner


class Stopped(Clock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> int:
        return self.at


@pytest.mark.parametrize("retention", [None, 3600.0])
def test_ids_are_forgotten_after_their_time(retention: float | None) -> None:
    async def main() -> None:
        clock = Stopped()
        store = MemoryStore(clock.now)
        await store.open()
        await begun(store, start())
        for number in range(BATCH + 1):
            await commit(store, deliver(id=str(number)))
        pruner = Pruner(store, clock, EngineTools({}), retention)
        clock.at += round(REMEMBERED_SECONDS * 1e6)
        assert await pruner.round() == INTERVAL_SECONDS
        assert await commit(store, deliver(id="0")) == p.Repeated()
        clock.at += 1
        assert [await pruner.round(), await pruner.round()] == [0.1, INTERVAL_SECONDS]
        assert await commit(store, deliver(id="0")) == p.Delivered(BATCH + 2)

    asyncio.run(main())

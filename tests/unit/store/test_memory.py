"""The memory store's own features: its clock, its hints, and handles on several threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.governance.samples import receipt, task
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    begun,
    commit,
    deliver,
    key,
    leased,
    renewal,
    row,
    start,
    turn,
    work,
    worker,
)

Act = Callable[[MemoryStore], Awaitable[object]]


async def opened(clock: Callable[[], int] | None = None) -> MemoryStore:
    store = MemoryStore(clock)
    await store.open()
    return store


def test_workers_expire_by_the_clock_that_was_given() -> None:
    """Virtual time alone decides: a worker lives through its last microsecond and not beyond."""

    async def run() -> None:
        time = [NOW]
        store = await opened(lambda: time[0])
        await store.register(worker(), 30)
        await leased(store)
        time[0] += 30_000_000
        assert await store.rescue(NOW) == []
        time[0] += 1
        assert await store.rescue(NOW) == ["ann"]

    asyncio.run(run())


async def _hints(prepare: Act, act: Act) -> int:
    """How often a watcher on a twin is called because of an act."""
    store = await opened()
    twin = store.twin()
    await twin.open()
    await prepare(store)
    calls: list[None] = []
    twin.watch(lambda: calls.append(None))
    await act(store)
    assert calls == []  # never inside the operation itself
    await asyncio.sleep(0)
    return len(calls)


async def _held(store: MemoryStore) -> None:
    await store.register(worker(), -1)
    await leased(store)


async def _paused(store: MemoryStore) -> None:
    await begun(store, start())
    await store.pause(key(), "wait", NOW)


async def _ended(store: MemoryStore) -> None:
    await commit(store, turn(await leased(store), COMPLETED))


async def _end(store: MemoryStore) -> None:
    await commit(store, turn(await row(store), COMPLETED))


@pytest.mark.parametrize(
    ("prepare", "act"),
    [
        pytest.param(_held, lambda store: commit(store, deliver()), id="a message"),
        pytest.param(_held, lambda store: commit(store, start("two")), id="a run that nobody leases"),
        pytest.param(_held, _end, id="the end of a run"),
        pytest.param(_held, lambda store: commit(store, p.Enqueue(work())), id="work"),
        pytest.param(_held, lambda store: commit(store, p.PutTask(task(), (deliver(),))), id="an answer to a task"),
        pytest.param(_ended, lambda store: commit(store, p.Renew(key(), 0, renewal(), COMPLETED, NOW)), id="a renewal"),
        pytest.param(_paused, lambda store: store.unpause(key(), NOW), id="unpausing"),
        pytest.param(_held, lambda store: store.unregister("ann", NOW), id="a worker that leaves"),
        pytest.param(_held, lambda store: store.rescue(NOW), id="a rescue"),
    ],
)
def test_watchers_hear_of_what_they_may_wait_for(prepare: Act, act: Act) -> None:
    """Once per operation, on their own loop, after it is done."""
    assert asyncio.run(_hints(prepare, act)) == 1


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda store: commit(store, deliver("nobody")), id="a message to nobody"),
        pytest.param(lambda store: commit(store, start()), id="a start of what exists"),
        pytest.param(lambda store: commit(store, p.Beat(key(), 1, b"half", NOW)), id="progress"),
        pytest.param(lambda store: commit(store, p.PutTask(task("task", 2), (deliver(),))), id="a late answer"),
        pytest.param(lambda store: commit(store, p.OpenReceipt(receipt())), id="a receipt"),
        pytest.param(lambda store: store.beat("ann", 60), id="a heartbeat"),
        pytest.param(lambda store: store.workers(), id="a question"),
    ],
)
def test_watchers_are_left_alone_by_what_concerns_nobody(act: Act) -> None:
    """A refused or private change wakes no engine."""
    assert asyncio.run(_hints(_held, act)) == 0


@pytest.mark.parametrize("end", ["stop", "close"])
def test_an_ended_watch_is_silent(end: str) -> None:
    """After its end or the close of its handle; other watches continue."""

    async def run() -> None:
        store = await opened()
        twin = store.twin()
        await twin.open()
        hinted: list[str] = []
        store.watch(lambda: hinted.append("first"))
        stop = twin.watch(lambda: hinted.append("second"))
        if end == "stop":
            stop()
        else:
            await twin.close()
        await begun(store, start())
        await asyncio.sleep(0)
        assert hinted == ["first"]

    asyncio.run(run())


def test_a_watch_of_a_loop_that_is_gone_harms_nobody() -> None:
    """A handle that was never closed does not keep others from committing."""
    store = MemoryStore()

    async def forgetful() -> None:
        await store.open()
        store.watch(lambda: None)

    async def later() -> None:
        twin = store.twin()
        await twin.open()
        assert (await begun(twin, start())).version == 2

    asyncio.run(forgetful())
    asyncio.run(later())


def test_handles_on_two_threads_lose_no_message_and_hear_of_each_other() -> None:
    """Each thread has its own loop and handle; positions are consecutive and the hint crosses over."""

    async def run() -> None:
        store = await opened()
        await begun(store, start())
        hinted = asyncio.Event()
        store.watch(hinted.set)

        async def elsewhere() -> None:
            twin = store.twin()
            await twin.open()
            for _ in range(200):
                await commit(twin, deliver())
            await twin.close()

        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        for _ in range(200):
            await commit(store, deliver())
        await asyncio.to_thread(thread.join)
        async with asyncio.timeout(60):
            await hinted.wait()
        received = (await store.messages([key()]))[key()]
        assert [found.position for found in received] == list(range(1, 401))

    asyncio.run(run())


def test_what_a_caller_changes_afterwards_is_not_what_was_stored() -> None:
    """The store keeps its own copies of mutable values."""

    async def run() -> None:
        store = await opened()
        attributes = {"city": "Ur"}
        await begun(store, start(attributes=attributes))
        attributes["city"] = "Uruk"
        assert (await row(store)).attributes == {"city": "Ur"}

    asyncio.run(run())

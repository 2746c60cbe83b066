"""Large arguments and results of steps have a limit of bytes in a worker, and no step waits for ever because of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, TerminalError, action, step, workflow
from holdfast.errors import RunEnded
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from tests.unit.worker.ground import OPTIONS, Ground, policy_of

LARGE = 60_000
"""More than the 32 KiB that a payload may have in the journal itself."""
NARROW = msgspec.structs.replace(OPTIONS, payload_limit_bytes=100_000)
"""There is room for one large payload and not for two."""

UNDER_WAY: list[int] = []
"""How many steps were under way whenever one began."""


@pytest.fixture(autouse=True)
def begun() -> None:
    UNDER_WAY[:] = [0]


async def _work() -> None:
    UNDER_WAY[0] += 1
    UNDER_WAY.append(UNDER_WAY[0])
    try:
        await asyncio.sleep(1)
    finally:
        UNDER_WAY[0] -= 1


@step(name="room.take")
async def take(data: bytes) -> int:
    await _work()
    return len(data)


@action(connector="outside", operation="take", name="room.act")
async def act(data: bytes) -> int:
    await _work()
    return len(data)


@step(name="room.queued", queue="large", concurrency=50)
async def queued(data: bytes) -> bytes:
    await _work()
    return data


@step(name="room.give")
async def give(size: int) -> bytes:
    await asyncio.sleep(1)
    return bytes(size)


@workflow(name="room.taking")
async def taking(size: int, count: int, kind: str = "step") -> int:
    called = {"step": take, "action": act}[kind]
    return sum(await asyncio.gather(*[called(bytes([number]) * size) for number in range(count)]))


@workflow(name="room.giving")
async def giving(size: int, count: int) -> int:
    return sum(map(len, await asyncio.gather(*[give(size) for _ in range(count)])))


async def room_of(app: Holdfast) -> dict[str, int]:
    assert app.worker is not None
    return dict(app.worker.performer.room.bytes)


@pytest.mark.parametrize("kind", ["step", "action"])
@pytest.mark.parametrize(
    ("size", "most"),
    [(1_000, 4), (LARGE, 1), (40_000, 2), (200_000, 1)],
    ids=["small", "large", "two fit", "too large"],
)
def test_large_arguments_wait_for_room(virtual: Ground, kind: str, size: int, most: int) -> None:
    """As many are under way as fit; one that is over the limit goes alone. Small ones do not count."""

    async def main(ground: Ground) -> None:
        async with ground.engine(taking, policy=policy_of({}), options=NARROW) as app:
            assert await (await app.start(taking, size, 4, kind)).result() == 4 * size
            assert await room_of(app) == {"arguments": 0, "results": 0}

    virtual.play(main)
    assert max(UNDER_WAY) == most


def test_small_steps_pass_large_ones_that_wait(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(taking, options=NARROW) as app:
            large = await app.start(taking, LARGE, 5)
            small = await app.start(taking, 1, 5)
            await small.result()
            assert (await large.info()).status not in ("completed", "failed")
            await large.result()

    virtual.play(main)


def test_results_are_committed_as_they_fit(virtual: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit carries as much as fits, and the one that did not."""
    carried: list[int] = []
    commit = MemoryStore.commit

    async def weighed(store: MemoryStore, batch: Sequence[p.Change]) -> list[p.Answer]:
        carried.append(sum(len(data) for each in batch if isinstance(each, p.Advance) for data in each.blobs.values()))
        await asyncio.sleep(0.1)  # the disk
        return await commit(store, batch)

    monkeypatch.setattr(MemoryStore, "commit", weighed)

    async def main(ground: Ground) -> None:
        async with ground.engine(giving, options=NARROW) as app:
            runs = [await app.start(giving, LARGE + number, 1) for number in range(6)]
            assert [await run.result() for run in runs] == [LARGE + number for number in range(6)]
            assert await room_of(app) == {"arguments": 0, "results": 0}

    virtual.play(main)
    assert LARGE < max(carried) <= NARROW.payload_limit_bytes + LARGE + 6 + 1000


def test_a_step_that_waits_for_a_run_lends_its_room(virtual: Ground) -> None:
    """That run has a large step of its own: with the room taken by the one that waits, neither would ever end."""
    apps: list[Holdfast] = []

    @step(name="room.outer")
    async def outer(data: bytes, depth: int) -> int:
        run = await apps[0].start("room.nested", depth - 1)
        found = await run.result()
        assert isinstance(found, int)
        return found + len(data)

    @workflow(name="room.nested")
    async def nested(depth: int) -> int:
        return await (outer(bytes(LARGE), depth) if depth else take(bytes(LARGE)))

    async def main(ground: Ground) -> None:
        async with ground.engine(nested, options=NARROW) as app:
            apps.append(app)
            assert await (await app.start(nested, 3)).result() == 4 * LARGE
            assert await room_of(app) == {"arguments": 0, "results": 0}

    virtual.play(main)


@workflow(name="room.mixed")
async def mixed(seed: int) -> int:
    chance = random.Random(seed)
    calls = []
    for number in range(4):
        data = bytes([number]) * chance.choice([10, 40_000, LARGE, 150_000])
        match chance.randrange(4):
            case 0:
                calls.append(asyncio.ensure_future(take(data)))
            case 1:
                calls.append(asyncio.ensure_future(act(data)))
            case 2:
                calls.append(asyncio.ensure_future(queued(data)))
            case _:
                calls.append(asyncio.ensure_future(give(len(data))))
    if chance.random() < 0.3:
        try:
            await asyncio.wait_for(asyncio.gather(*calls), chance.choice([0.5, 1.5]))
        except TimeoutError:
            return -1
    if chance.random() < 0.2:
        await calls[0]
        raise TerminalError("it was enough")
    return len(await asyncio.gather(*calls))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_becomes_of_runs_no_room_is_lost(virtual: Ground, seed: int) -> None:
    """Runs of large payloads end, fail, run out of time, are cancelled, and are paused and resumed. In the end nothing
    is counted, so that the next large step begins."""

    async def main(ground: Ground) -> None:
        chance = random.Random(seed)
        options = msgspec.structs.replace(NARROW, queues={"large": 3})
        async with ground.engine(mixed, taking, policy=policy_of({}), options=options) as app:
            runs = [await app.start(mixed, chance.randrange(10**6)) for _ in range(12)]
            for run in runs:
                await asyncio.sleep(chance.random())
                with suppress(RunEnded):
                    match chance.randrange(4):
                        case 0:
                            await run.cancel("enough")
                        case 1:
                            await run.pause("wait", by="ann")
                            await asyncio.sleep(chance.random() * 3)
                            await run.resume(by="ann")
            for run in runs:
                with suppress(RunFailed, RunCancelled):
                    await run.result()
            assert await (await app.start(taking, LARGE, 2)).result() == 2 * LARGE
            assert app.worker is not None
            await app.worker.performer.rested()
            await app.worker.committer.flushed()
            assert await room_of(app) == {"arguments": 0, "results": 0}

    virtual.play(main)

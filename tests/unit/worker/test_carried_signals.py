"""Many signals that no generation has received: each carries them on, and none is lost, doubled or reordered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    RunCancelled,
    RunFailed,
    TerminalError,
    WorkerOptions,
    continue_as_new,
    receive,
    step,
    workflow,
)
from holdfast.audit.bundles import pack, unpack
from holdfast.audit.check.bundle import verify_bundle
from holdfast.cli.runs.replay import replay_run
from holdfast.journal import events as e
from holdfast.programs.function.decorators import Workflow
from holdfast.runs import journals
from holdfast.runs.carried import read_ahead
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.worker import rebuilder
from holdfast.worker.held import Held
from tests.carried import small_limits
from tests.operations import counted_lines
from tests.scope import volume
from tests.unit.worker.ground import Ground, kill, rested

MANY = 66
"""More than are delivered once more in each generation."""

WARM = WorkerOptions(retention_days=None, evidence=False)


@workflow(name="carried.lengths")
async def lengths(count: int, got: list[int]) -> list[int]:
    """The lengths of large signals, a generation for each."""
    if not got:
        await receive("start")
    got.append(len(await receive("item", str)))
    if len(got) < count:
        continue_as_new(count, got)
    return got


@workflow(name="carried.hurried")
async def hurried(count: int, *, begun: bool = False) -> list[int]:
    """All in the second generation, in which it may do what no workflow can."""
    if not begun:
        await receive("start")
        continue_as_new(count, begun=True)
    if FAULTS:
        await asyncio.open_connection("nowhere", 1)
    return [await receive("item", int) for _ in range(count)]


@step(name="carried.work")
async def work(number: int) -> int:
    if number in FAULTS:
        raise TerminalError("not this one")
    return number


FAULTS: set[int] = set()


@workflow(name="carried.one_by_one")
async def one_by_one(count: int, got: list[int]) -> list[int]:
    """A generation for each signal."""
    if not got:
        await receive("start")
    got.append(await receive("item", int))
    if len(got) < count:
        continue_as_new(count, got)
    return got


@workflow(name="carried.sum")
async def add_up(count: int, got: int, total: int) -> int:
    """The same, whose arguments do not grow."""
    if not got:
        await receive("start")
    total += await receive("item", int)
    if got + 1 < count:
        continue_as_new(count, got + 1, total)
    return total


@workflow(name="carried.sum_of_names")
async def add_up_names(count: int, got: int, total: int) -> int:
    """The same, with a name for each signal."""
    if not got:
        await receive("start")
    total += await receive(f"item {got}", int)
    if got + 1 < count:
        continue_as_new(count, got + 1, total)
    return total


@workflow(name="carried.with_work")
async def with_work(count: int, got: list[int]) -> list[int]:
    """A generation for every three, which are worked on; between two of them all goes out of memory."""
    if not got:
        await receive("start")
    for _ in range(3):
        number = await receive("item", int)
        got.append(await work(number))
        await asyncio.sleep(60)
    if len(got) < count:
        continue_as_new(count, got)
    return got


@workflow(name="carried.drain")
async def drain(count: int, *, begun: bool = False) -> list[int]:
    """All in the second generation, in one turn of another worker than the first one's, or as if it were."""
    if not begun:
        await receive("start")
        continue_as_new(count, begun=True)
    await asyncio.sleep(60)
    return [await receive("item", int) for _ in range(count)]


@workflow(name="carried.by_name")
async def by_name(count: int, *, begun: bool = False) -> list[int]:
    """The same, the last one first."""
    if not begun:
        await receive("start")
        continue_as_new(count, begun=True)
    await asyncio.sleep(60)
    return [await receive(f"item {number}", int) for number in reversed(range(count))]


@workflow(name="carried.two")
async def two(*, begun: bool = False) -> list[int]:
    """Receives two in its second generation, works on the second, and waits until it is told to receive the rest."""
    if not begun:
        await receive("start")
        continue_as_new(begun=True)
    first = await receive("item", int)
    second = await work(await receive("item", int))
    count = await receive("count", int)
    return [first, second, *[await receive("item", int) for _ in range(count)]]


@step(name="carried.may_fail")
async def may_fail(seed: int) -> None:
    """Fails the first time."""
    if seed not in FAILED:
        FAILED.add(seed)
        raise TerminalError("the first time")


FAILED: set[int] = set()
NAMES = ("a", "b", "c", "d", "e")
GENERATIONS = 8


@workflow(name="carried.wandering")
async def wandering(seed: int, generation: int, got: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Receives now and then, of any name and not for long, over some generations; in the last one all that is left.

    That one may fail and be retried. One before would lose what was sent in the moment of its failure.
    """
    chance = random.Random(f"{seed} {generation}")
    if generation == GENERATIONS:
        await receive("end")
    for name in NAMES if generation == GENERATIONS else chance.choices(NAMES, k=chance.randint(0, 6)):
        if chance.random() < 0.2:
            await asyncio.sleep(chance.choice([1, 40]))
        with suppress(TimeoutError):
            async with asyncio.timeout(3):
                for _ in range(chance.choice([1, 1, 2, 9])) if generation < GENERATIONS else count():
                    got.append((name, await receive(name, int)))
    if generation < GENERATIONS:
        continue_as_new(seed, generation + 1, got)
    if chance.random() < 0.5:
        await may_fail(seed)
    return got


EVERY = (wandering, one_by_one, add_up, add_up_names, with_work, drain, by_name, two, lengths, hurried)


def one_name(_number: int) -> str:
    return "item"


async def send(app: Holdfast, run: str, count: int, name: Callable[[int], str] = one_name) -> None:
    for number in range(count):
        await app.run(run).signal(name(number), number)


async def begin(app: Holdfast, begun: Workflow[..., Any], *arguments: Any, count: int = MANY, **more: Any) -> str:
    """A run that has been sent so many signals, and then begins to receive."""
    run = await app.start(begun, *arguments, id="one")
    await send(app, run.id, count, **more)
    await app.run(run.id).signal("start")
    return run.id


async def waiting_for(app: Holdfast, run: str, name: str) -> p.Run:
    """Wait until the run waits for such a signal and nothing moves it. Its row."""
    while f'"{name}"' not in ((row := await rested(app, run)).waiting or ""):
        await app.changed(0.05)
    return row


@pytest.fixture(params=["usual", "small"])
def limits(request: pytest.FixtureRequest) -> Iterator[None]:
    with small_limits() if request.param == "small" else nullcontext():
        yield


# -- in order, each once -----------------------------------------------------------------------------------------------


def test_each_generation_receives_the_next(ground: Ground, limits: None) -> None:
    async def play(ground: Ground) -> list[int]:
        async with ground.engine(*EVERY) as app:
            found: list[int] = await app.run(await begin(app, one_by_one, MANY, [])).result(60)
            return found

    assert ground.play(play) == list(range(MANY))


def test_workers_that_die_between_two_lose_nothing(virtual: Ground, limits: None) -> None:
    """Every generation is rebuilt from the store by another worker, which has read only some of what it carries."""

    async def play(ground: Ground) -> list[int]:
        async with ground.engine(*EVERY) as app:
            await begin(app, with_work, MANY, [])
        for _ in range(10):
            async with ground.engine(*EVERY) as app:
                await asyncio.sleep(200)
                kill(app)
        async with ground.engine(*EVERY) as app:
            found: list[int] = await app.run("one").result()
            return found

    assert virtual.play(play) == list(range(MANY))


@pytest.mark.parametrize("receiving", [drain, by_name])
def test_one_turn_may_receive_all(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch, receiving: Workflow[..., Any]
) -> None:
    """What was not read ahead is read when it is needed, more each time, and the turn is taken again."""
    reads: list[int] = []

    async def counted(store: p.Store, tenant: str, signals: Any, nodes: Any, most: int, wanted: bytes) -> None:
        reads.append(most)
        await read_ahead(store, tenant, signals, nodes, most, wanted)

    monkeypatch.setattr(rebuilder, "read_ahead", counted)

    async def play(ground: Ground) -> list[int]:
        async with ground.engine(*EVERY) as app:
            run = await begin(app, receiving, MANY, name="item {}".format if receiving is by_name else one_name)
            found: list[int] = await app.run(run).result()
            return found

    with small_limits():
        found = virtual.play(play)
    assert found == (list(reversed(range(MANY))) if receiving is by_name else list(range(MANY)))
    assert 3 <= len(reads) <= 12, "as often as what was read can be doubled"


def test_new_signals_come_after_the_carried_ones(virtual: Ground, limits: None) -> None:
    """Those that are sent while carried ones are received, in any generation."""

    async def play(ground: Ground) -> list[int]:
        async with ground.engine(*EVERY) as app:
            run = await begin(app, with_work, MANY + 9, [])
            for number in range(MANY, MANY + 9):
                await asyncio.sleep(70)
                await app.run(run).signal("item", number)
            found: list[int] = await app.run(run).result()
            return found

    assert virtual.play(play) == list(range(MANY + 9))


def test_few_signals_are_delivered_once_more(virtual: Ground) -> None:
    """As ever: the start carries nothing, and the signals have numbers from one on."""

    async def play(ground: Ground) -> list[e.Event]:
        async with ground.engine(*EVERY) as app:
            run = await begin(app, two, count=64)
            row = await rested(app, run)
            return [entry.event async for entry in journals.read(app.store, row)]

    started, *events = virtual.play(play)
    assert isinstance(started, e.ExecutionStarted)
    assert started.signals is None
    delivered = [event.delivery_id for event in events if isinstance(event, e.SignalDelivered)]
    assert delivered == list(range(1, 65))


def test_a_large_payload_is_carried_and_read_when_it_is_received(virtual: Ground, limits: None) -> None:
    async def play(ground: Ground) -> list[int]:
        async with ground.engine(*EVERY) as app:
            run = await app.start(lengths, 8, [], id="one")
            for number in range(8):
                await run.signal("item", "x" * (30_000 + 2_000 * number))
            await run.signal("start")
            found: list[int] = await run.result()
            return found

    assert virtual.play(play) == [30_000 + 2_000 * number for number in range(8)]


@pytest.mark.parametrize("seed", range(volume(6, 300)))
def test_random_generations_receive_what_was_sent(virtual: Ground, seed: int) -> None:
    """Whoever dies, is paused or fails in between: of each name all signals, each once, in the order of sending."""

    async def play(ground: Ground) -> None:
        chance = random.Random(seed)
        sent: list[tuple[str, int]] = []
        async with ground.engine(*EVERY) as app:
            await app.start(wandering, seed, 0, [], id="one")
        while len(sent) < 60:
            async with ground.engine(*EVERY) as app:
                run = app.run("one")
                for _ in range(chance.randint(1, 6)):
                    for _ in range(chance.choice([0, 1, 3, 12])):
                        sent.append((chance.choice(NAMES), len(sent)))
                        await run.signal(*sent[-1])
                    await asyncio.sleep(chance.choice([0.001, 1, 100]))
                    if chance.random() < 0.1:
                        await run.pause(by="ann")
                        await run.resume(by="ann")
                assert (await run.verify()).good
                kill(app)
        async with ground.engine(*EVERY) as app:
            run = app.run("one")
            await run.signal("end")
            with suppress(RunFailed):
                await run.result()
            if seed in FAILED:
                await run.retry(by="ann")
            got: list[list[Any]] = await run.result()
            assert (await run.verify()).good
            for name in NAMES:
                assert [number for each, number in got if each == name] == [at for each, at in sent if each == name]

    with small_limits(most_delivered=seed % 4):
        virtual.play(play)


# -- growth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("summing", [add_up, add_up_names])
def test_all_generations_together_write_and_do_as_much_as_there_are_signals(
    virtual: Ground, monkeypatch: pytest.MonkeyPatch, summing: Workflow[..., Any]
) -> None:
    """Each receives one of many. Were the others recorded again in each, it would be the square."""
    written = 0
    commit = MemoryStore.commit

    async def weighed(store: MemoryStore, batch: Sequence[p.Change]) -> list[p.Answer]:
        nonlocal written
        for change in batch:
            if isinstance(change, p.Advance):
                written += 0 if change.segment is None else len(change.segment.events)
                written += sum(map(len, change.blobs.values()))
            if isinstance(change, p.Advance) and change.renewal is not None:
                written += len(change.renewal.segment.events) + sum(map(len, change.renewal.blobs.values()))
        return await commit(store, batch)

    monkeypatch.setattr(MemoryStore, "commit", weighed)

    async def play(ground: Ground, count: int) -> tuple[int, int]:
        nonlocal written
        async with ground.engine(*EVERY, options=WARM) as app:
            run = await app.start(summing, count, 0, 0, id="one")
            await send(app, run.id, count, one_name if summing is add_up else "item {}".format)
            await rested(app, run.id)
            written = 0
            with counted_lines() as lines:
                await run.signal("start")
                assert await run.result() == sum(range(count))
            return lines.total, written

    small = virtual.play(lambda ground: play(ground, 150))
    large = virtual.play(lambda ground: play(ground, 600))
    assert large[0] <= 1.5 * 4 * small[0]
    assert large[1] <= 1.5 * 4 * small[1]


@pytest.mark.parametrize("summing", [add_up, add_up_names])
def test_what_a_worker_keeps_of_them_is_what_is_carried(virtual: Ground, summing: Workflow[..., Any]) -> None:
    """Blobs of generations that are over are forgotten on the way."""

    async def play(ground: Ground) -> int:
        most = 0
        async with ground.engine(*EVERY, options=WARM) as app:
            run = await app.start(summing, 700, 0, 0, id="one")
            await send(app, run.id, 700, one_name if summing is add_up else "item {}".format)
            keep = Held.learn_signals

            def kept(mine: Held, *arguments: Any) -> None:
                nonlocal most
                keep(mine, *arguments)
                most = max(most, len(mine.signals))

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(Held, "learn_signals", kept)
                await run.signal("start")
                await run.result()
        return most

    assert 1 <= virtual.play(play) <= 4 * 64


# -- all who read a journal --------------------------------------------------------------------------------------------


def test_verify_replay_and_views_know_what_is_carried(ground: Ground, limits: None) -> None:
    async def play(ground: Ground) -> None:
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, two))
            await waiting_for(app, run.id, "count")
            assert (await run.verify()).good
            assert (await replay_run(app, await journals.row_of(app.store, run.key))).good
            waiting = [(each.name, each.value, each.delivered) for each in await run.unreceived()]
            assert waiting == [("item", number, True) for number in range(2, MANY)]
            started = (await run.window(0, 1))[0]
            assert started.fields["signals"] == MANY
            assert f"with {MANY} signals that were not received before" in started.text
            items = [(item.kind, item.state) for item in await run.timeline() if item.name == "signal 'item'"]
            assert items == [("delivery", "done")] * 2
            await run.signal("count", MANY - 2)
            assert await run.result(60) == list(range(MANY))
            assert (await run.verify()).good
            assert (await app.audit.verify()).good

    ground.play(play)


def test_verify_finds_what_was_altered_or_lost(virtual: Ground) -> None:
    """A blob that is another, or none at all. Other laws are held to in ``test_carried_signals`` of the kernel."""

    async def play(ground: Ground) -> None:
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, two))
            await waiting_for(app, run.id, "count")
            blobs = ground.store._tables.blobs  # type: ignore[attr-defined]  # what nobody should do
            key, data = next(iter(blobs.items()))
            for harm in (data + b" ", None):
                if harm is None:
                    del blobs[key]
                else:
                    blobs[key] = harm
                check = await run.verify()
                assert not check.good
                assert "of the signals that a run carries is" in check.problem
            blobs[key] = data
            assert (await run.verify()).good

    virtual.play(play)


def test_a_fork_carries_them_too_and_outlives_its_origin(virtual: Ground, limits: None) -> None:
    """From before it had received any, and from after it: each has all that the origin had then."""

    async def play(ground: Ground) -> None:
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, two))
            row = await waiting_for(app, run.id, "count")
            forks = [await run.fork(at, by="ann") for at in (1, row.version)]
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
            assert await ground.store.prune(ground.clock.now() + 1, 100) == 1
            for fork in forks:
                await fork.signal("count", MANY - 2)
                assert await fork.result() == list(range(MANY))
                assert (await fork.verify()).good

    virtual.play(play)


def test_a_retried_generation_receives_them_as_before(virtual: Ground, limits: None) -> None:
    """The step after the second one fails the run. What it had received is received alike, and the rest after it."""

    async def play(ground: Ground) -> None:
        FAULTS.add(1)
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, two))
            with pytest.raises(RunFailed):
                await run.result()
            FAULTS.clear()
            await run.retry(by="ann")
            await run.signal("count", MANY - 2)
            assert await run.result() == list(range(MANY))
            assert (await run.verify()).good

    virtual.play(play)


def test_evidence_has_all_that_its_generations_carry(virtual: Ground, limits: None) -> None:
    """It is verified without the store. Without one of the blobs it is refused."""

    async def play(ground: Ground) -> None:
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, one_by_one, MANY, []))
            await run.result()
            data = (await run.evidence(values=True)).data
        verdict = verify_bundle(data)
        assert verdict.good
        assert any("signals that generation 0 carries" in each.text for each in verdict.claims) is False
        assert any(f"the {MANY - 1} signals that generation 1 carries" in each.text for each in verdict.claims)
        files = unpack(data)
        blob = next(name for name in files if name.startswith("blobs/"))
        less = pack({name: each for name, each in files.items() if name != blob})
        assert any(each.text.endswith(f"is missing: {blob}.") for each in verify_bundle(less).claims)

    virtual.play(play)


def test_a_run_whose_code_fails_records_what_arrived(virtual: Ground, limits: None) -> None:
    """It is parked with all that it carries, and goes on where it was once its code is mended."""

    async def play(ground: Ground) -> None:
        FAULTS.add(-1)
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, hurried, MANY + 1))
            while (await run.info()).pause_reason is None:
                await app.changed(1)
            await run.signal("item", MANY)
        FAULTS.clear()
        async with ground.engine(*EVERY) as app:
            assert len(await app.run("one").unreceived()) == MANY + 1
            await app.run("one").resume(by="ann")
            assert await app.run("one").result() == list(range(MANY + 1))

    virtual.play(play)


def test_a_cancelled_run_ends_with_all_that_it_carries(virtual: Ground, limits: None) -> None:
    async def play(ground: Ground) -> None:
        async with ground.engine(*EVERY) as app:
            run = app.run(await begin(app, two))
            await waiting_for(app, run.id, "count")
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result()
            assert (await run.verify()).good
            await run.retry(by="ann")
            await run.signal("count", MANY - 2)
            assert await run.result() == list(range(MANY))

    virtual.play(play)

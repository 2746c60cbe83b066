"""Retries under the eyes of a provider that knows acts by their keys: a ledger outside the engine judges what is done.

Random programs of steps with and without ``undo=``, of children, sleeps, races of calls and values that are drawn anew.
They fail before and after their acts, are cancelled, and are retried three deep, each time by another engine, which has
nothing but the store. At rest: one act of each if the run has completed, none if it was undone, never a second one, and
no goods shipped unpaid.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, ClassVar, Final

import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, RunHandle, StepFailed, step, step_info, uuid, workflow
from holdfast.errors import HoldfastError
from tests.laws.payments import Provider
from tests.scope import each_seed
from tests.unit.worker.ground import Ground

DEPTH: Final = 3
FOUND: Final = (15_418,)
"""Two acts had one key: one kept its place in the journal under a new number, another was called at that place."""


class Unlucky(Exception):
    """What a step fails with."""


class World:
    """Where the steps act, and how they fail: by the name of the act and how often it was tried. In the last generation
    nothing fails."""

    current: ClassVar[World]

    def __init__(self, seed: int) -> None:
        self.provider = Provider()
        self.is_kind = False
        self.succeeded: set[str] = set()
        self._seed = seed
        self._tries = 0

    def act(self, what: str, risk: float, *, leaves_open: bool = True) -> str:
        """With ``leaves_open`` it may fail after the act, too. Tried again under its key it is not done twice."""
        self._tries += 1
        luck = random.Random(f"{self._seed} {what} {self._tries}").random()
        fails = not self.is_kind and luck < risk
        if fails and (luck < risk / 2 or not leaves_open):
            raise Unlucky(f"{what}: before")
        key = self.provider.do(step_info().key, what)
        if fails:
            raise Unlucky(f"{what}: after")
        self.succeeded.add(what)
        return key


@step(name="keys.refund")
async def refund(payment: str) -> None:
    World.current.provider.undo(payment)


@step(name="keys.charge", undo=refund)
async def charge(what: str) -> str:
    return World.current.act(what, 0.15)


@step(name="keys.check")
async def check(what: str) -> str:
    return World.current.act(what, 0.1)


@step(name="keys.label")
async def label(what: str, number: str) -> str:
    return World.current.act(what, 0.1, leaves_open=False)  # another number is another label: it has another key


@step(name="keys.look", repeatable=True)
async def look(number: str) -> str:
    return number


@step(name="keys.try")
async def attempt(what: str) -> str:
    return World.current.act(what, 0.4)


Item = list[Any]
"""What it is, its name, and what is in it."""


async def _do(item: Item) -> None:
    kind, name, inside = item
    match kind:
        case "charge":
            await charge(name)
        case "check":
            await check(name)
        case "label":
            await label(name, str(uuid()))
        case "look":
            await look(str(uuid()))
        case "try":
            with contextlib.suppress(StepFailed):
                await attempt(name)
        case "sleep":
            await asyncio.sleep(inside)
        case "child":
            await child(inside)
        case "all":
            await asyncio.gather(*(_do(each) for each in inside))
        case "row":
            for each in inside:
                await _do(each)


@workflow(name="keys.child")
async def child(items: list[Item]) -> None:
    for item in items:
        await _do(item)


@workflow(name="keys.order")
async def order(items: list[Item]) -> str:
    """The goods are shipped last."""
    for item in items:
        await _do(item)
    return await check("goods")


class Author:
    """Writes random programs."""

    def __init__(self, seed: int) -> None:
        self._source = random.Random(seed)
        self._names = 0

    def program(self) -> list[Item]:
        return [self._item(0) for _ in range(self._source.randint(2, 6))]

    def _item(self, depth: int, *, alone: bool = True) -> Item:
        source = self._source
        kinds = ["charge", "charge", "check", "try", "look", "sleep"]
        kinds += ["label"] if alone else []  # which of two got a kept result could not be told
        kinds += ["all", "child"] if depth < 2 else []
        kind = source.choice(kinds)
        self._names += 1
        name, many = f"{kind}-{self._names}", source.randint(1, 3)
        if kind == "sleep":
            return [kind, name, source.choice((0.5, 1, 1, 60))]
        if kind == "child":
            return [kind, name, [self._item(depth + 1, alone=alone) for _ in range(many)]]
        if kind == "all":
            rows = [[self._item(depth + 1, alone=False) for _ in range(source.randint(1, 2))] for _ in range(many)]
            return [kind, name, [["row", "", row] for row in rows]]
        return [kind, name, None]


def _names(items: list[Item], *kinds: str) -> set[str]:
    found = {name for kind, name, _ in items if kind in kinds}
    return found.union(*(_names(inside, *kinds) for _, _, inside in items if isinstance(inside, list)))


async def _lived(run: RunHandle[Any], seed: int, generation: int, *, kind: bool) -> str:
    """Let a generation live to its end; some are cancelled on their way. Gives how it ended."""
    source = random.Random(f"{seed} lives {generation}")
    with contextlib.suppress(TimeoutError, HoldfastError):
        if not kind and source.random() < 0.3:
            await run.result(timeout=source.choice((0.2, 0.7, 30)))
        if not kind and source.random() < 0.3:
            await run.cancel()
    with contextlib.suppress(RunFailed, RunCancelled):
        await run.result(timeout=3600)
    return await run.status()


async def _retried(app: Holdfast, run: RunHandle[Any], source: random.Random) -> None:
    """Retry it, and answer it where it parks: what was drawn anew is for the label that it has."""
    plan = await run.plan_retry(tree=True)
    said = {"keep": ["keys.label"]} if "keys.label" in plan.kept and source.random() < 0.5 else {}
    await run.retry(tree=True, **said)  # type: ignore[arg-type]
    async for each in app.list(status="paused"):
        raise AssertionError(f"{each.id} is parked at once: {each.pause_reason}")


async def _answered(app: Holdfast) -> bool:
    """Answer the runs that are parked because they ask for another label."""
    found = False
    async for each in app.list(parked=True):
        reason = each.pause_reason or ""
        if reason.startswith("retry_diverged: keys.check"):  # one that it had not come to before another of that name
            await app.run(each.id).retry(again=["keys.check"])
        else:
            assert reason.startswith("retry_diverged: keys.label"), reason
            await app.run(each.id).retry(keep=["keys.label"])
        found = True
    return found


async def _settled(app: Holdfast, run: RunHandle[Any], seed: int, generation: int, *, kind: bool) -> str:
    """Let it live, with answers where it is parked. A child that was retried with it may end after it."""
    living = asyncio.ensure_future(_lived(run, seed, generation, kind=kind))
    while not living.done():
        await asyncio.wait([living], timeout=5)
        await _answered(app)
    while [each async for each in app.list() if each.status not in ("completed", "failed", "cancelled")]:
        await asyncio.sleep(5)
        await _answered(app)
    return living.result()


def _judge(world: World, items: list[Item], status: str) -> list[str]:
    provider = world.provider
    problems = list(provider.faults)
    problems += [f"{what} was done {count} times" for what, count in provider.net.items() if count not in (0, 1)]
    paid = _names(items, "charge")
    if status == "completed":
        wanted = paid | _names(items, "check", "label") | {"goods"}
        problems += [f"{what} is not done, and the run has completed" for what in wanted if provider.net[what] != 1]
    return problems


def _left_paid(world: World, items: list[Item]) -> list[str]:
    """Charges of the order itself that stand although the run failed; those of completed children stand, too."""
    own = {name for name in _own(items) if name in world.succeeded}
    return [f"{what} stands, and the run has not completed" for what in own if world.provider.net[what]]


def _own(items: list[Item]) -> set[str]:
    found = {name for kind, name, _ in items if kind == "charge"}
    return found.union(*(_own(inside) for kind, _, inside in items if kind in ("all", "row")))


def play(seed: int) -> list[str]:
    """One history; gives what is wrong with it."""
    items, world = Author(seed).program(), World(seed)
    World.current = world
    source = random.Random(f"{seed} retries")
    problems: list[str] = []

    async def main(ground: Ground) -> None:
        async with ground.engine(order, child) as app:
            status = await _settled(app, await app.start(order, items, id="one"), seed, 0, kind=False)
        for generation in range(1, DEPTH + 1):
            problems.extend(_judge(world, items, status))
            if status == "completed":
                return
            problems.extend(_left_paid(world, items))
            world.succeeded.clear()
            world.is_kind = generation == DEPTH
            async with ground.engine(order, child) as app:
                await _retried(app, app.run("one"), source)
                status = await _settled(app, app.run("one"), seed, generation, kind=world.is_kind)
                assert (await app.run("one").verify()).good
        problems.extend(_judge(world, items, status))
        if status != "completed":
            problems.append(f"the run is {status}, although nothing fails any more")

    Ground(None).play(main)
    return [f"{problem} (seed {seed}: {items})" for problem in dict.fromkeys(problems)]


@pytest.mark.parametrize("seed", FOUND)
def test_a_seed_that_found_a_fault_finds_none(seed: int) -> None:
    assert play(seed) == []


@each_seed(1.0)
def test_a_retried_run_does_each_act_once_and_pays_for_what_it_ships(seed: int) -> None:
    """Whatever failed before, and however deep the retry."""
    assert play(seed) == []

"""Engines, tenants, children and generations, on real files, with restarts in between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import (
    Holdfast,
    RunCancelled,
    continue_as_new,
    receive,
    spawn,
    step,
    workflow,
)
from holdfast.errors import RunNotFound
from tests.acceptance.authored import calls, greet, note
from tests.acceptance.evidence import check_store
from tests.acceptance.processes import eventually, sqlite_url, until_status


def test_several_engines_in_one_process_share_nothing_but_the_code(tmp_path: Path) -> None:
    """Two engines on two files run the same workflow under the same id, each with its own arguments and signals."""

    async def main() -> None:
        first, second = (Holdfast(sqlite_url(tmp_path / f"{n}.db"), workflows=[greet]) for n in (1, 2))
        async with first, second:
            one, two = await first.start(greet, "ann", id="x"), await second.start(greet, "bob", id="x")
            await one.signal("ok", "first")
            await two.signal("ok", "second")
            assert (await one.result(60), await two.result(60)) == ("ann first", "bob second")

    asyncio.run(main())


def test_two_engines_on_one_file_share_the_work_and_repeat_none(url: str) -> None:
    """Each run is executed by one of them; both learn of every end."""

    async def main() -> None:
        async with Holdfast(url, workflows=[greet]) as first, Holdfast(url, workflows=[greet]) as second:
            runs = [await (first, second)[n % 2].start(greet, str(n), id=f"r-{n}") for n in range(40)]
            for number, run in enumerate(runs):
                await (second, first)[number % 2].run(run.id).signal("ok", "done")
            assert [await second.run(run.id).result(60) for run in runs] == [f"{n} done" for n in range(40)]
            assert sorted(calls, key=int) == [str(n) for n in range(40)]

    asyncio.run(main())


def test_two_tenants_can_have_the_same_ids_and_are_separate(url: str) -> None:
    """Runs, signals, listing and cancelling stay within a tenant."""

    async def main() -> None:
        async with Holdfast(url, workflows=[greet]) as app:
            one = await app.start(greet, "ann", id="x", tenant="red")
            two = await app.start(greet, "bob", id="x", tenant="blue")
            await one.signal("ok", "red")
            assert await one.result(60) == "ann red"
            await until_status(two, "waiting")
            assert [run.tenant async for run in app.list(tenant="blue")] == ["blue"]
            with pytest.raises(RunNotFound):
                await app.run("x", tenant="green").signal("ok")
            await two.cancel()
            with pytest.raises(RunCancelled):
                await two.result(60)
            assert await one.status() == "completed"

    asyncio.run(main())


@workflow(name="engine.child")
async def child(word: str) -> str:
    await receive("go")
    return await note(f"child {word}")


@workflow(name="engine.parent")
async def parent(word: str) -> str:
    first = await note("first")
    apart = await spawn(child, "apart", id=f"apart-{word}")
    answers = await asyncio.gather(child(word), child(f"{word}2"))
    return " ".join([first, apart, *answers])


@workflow(name="engine.rounds")
async def rounds(number: int, received: list[str]) -> list[str]:
    received = [*received, await receive("word", str)]
    if number > 1:
        continue_as_new(number - 1, received)
    return received


def test_children_and_detached_runs_survive_a_restart(url: str) -> None:
    """Each is a run with its own journal; the parent waits for its children, but not for a detached run."""

    async def main() -> None:
        async with Holdfast(url, workflows=[parent, child]) as app:
            run = await app.start(parent, "p", id="p")
            await until_status(run, "waiting")
            children = [child.id async for child in run.children()]
            assert len(children) == 2
        async with Holdfast(url, workflows=[parent, child]) as app:
            run = app.run("p")
            for name in children:
                await app.run(name).signal("go")
            assert await run.result(60) == "first apart-p child p child p2"
            assert await app.run("apart-p").status() == "waiting"
            await app.run("apart-p").signal("go")
            assert await app.run("apart-p").result(60) == "child apart"
            assert sorted(calls) == ["child apart", "child p", "child p2", "first"]
        async with Holdfast(url, worker=False) as app:
            await check_store(app)

    asyncio.run(main())


def test_a_run_continues_as_new_over_restarts_and_keeps_its_signals(url: str) -> None:
    """Each generation begins a new journal; signals that were not received yet are kept."""

    async def main() -> None:
        async with Holdfast(url, workflows=[rounds]) as app:
            run = await app.start(rounds, 4, [], id="r")
            for word in ("a", "b"):
                await run.signal("word", word)

            async def in_third() -> bool:
                return (await run.info()).generation == 2 and await run.status() == "waiting"

            await eventually(in_third, "the third generation")
        async with Holdfast(url, workflows=[rounds]) as app:
            run = app.run("r")
            for word in ("c", "d"):
                await run.signal("word", word)
            assert await run.result(60) == ["a", "b", "c", "d"]
            assert (await run.info()).generation == 3
            assert (await run.verify()).good

    asyncio.run(main())


class Item(msgspec.Struct):
    name: str
    price: float


def test_typed_values_come_back_as_their_types_over_a_restart(url: str) -> None:
    """Arguments, signals and results are read as their annotated types, in the first run and in a replay."""

    @step(name="engine.price")
    async def price(item: Item) -> Item:
        return Item(item.name, item.price * 2)

    @workflow(name="engine.typed")
    async def typed(item: Item) -> Any:
        dear = await price(item)
        more = await receive("more", Item)
        return [type(item).__name__, type(dear).__name__, type(more).__name__, dear.price + more.price]

    async def main() -> None:
        async with Holdfast(url, workflows=[typed]) as app:
            await until_status(await app.start(typed, Item("book", 3.5), id="t"), "waiting")
        async with Holdfast(url, workflows=[typed]) as app:
            await app.run("t").signal("more", Item("pen", 1.0))
            assert await app.run("t").result(60) == ["Item", "Item", "Item", 8.0]

    asyncio.run(main())

"""The picture of a run: of a definition by its nodes, of a function by its calls; now, and at an earlier version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast import Holdfast, receive, step, workflow
from holdfast.client.definitions.pictures import picture_of_run
from holdfast.drawing.picture import Box, Picture
from holdfast.errors import InvalidRequest, RunFailed, RunNotFound
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Key
from tests.acceptance.processes import until_status
from tests.unit.drawing.geometry import faults

T = TypeVar("T")

FLOW = """\
holdfast: definition/1
name: drawn.flow
version: 1
state: {parts: {default: []}}
steps:
  - first: {step: drawn.double, with: {number: 2}, as: state.twice}
  - lines:
      repeat: {over: =start.items, item: line, at_once: 2}
      do: [{each: {wait: go, key: =line}}]
  - choose:
      switch:
        - {when: =state.twice > 3, do: [{yes: {set: {state.parts: [1]}}}]}
        - {else: [{no: {set: {state.parts: []}}}]}
  - last: {step: drawn.double, with: {number: 3}}
"""


@step(name="drawn.double")
async def double(number: int) -> int:
    return number * 2


@workflow(name="drawn.child")
async def child() -> int:
    return await double(1)


@workflow(name="drawn.parent")
async def parent() -> None:
    for number in range(6):
        await double(number)
    await asyncio.gather(double(10), child())
    await receive("go")


def with_app(work: Callable[[Holdfast], Awaitable[T]]) -> T:
    async def main() -> T:
        async with Holdfast(MemoryStore()) as app:
            return await work(app)

    return asyncio.run(main())


def boxes(picture: Picture) -> dict[str, Box]:
    assert faults(picture) == []
    return {box.id: box for box in picture.boxes}


async def _begun(app: Holdfast) -> Any:
    app.definitions.add(FLOW)
    run = await app.start("drawn.flow", {"items": ["a", "b", "c"]}, id="r-1")
    await until_status(run, "waiting")
    return run


def test_a_waiting_run_shows_what_it_waits_for_and_folds_iterations() -> None:
    """What is over is a success, what waits says since when, what was not reached is pending."""

    async def work(app: Holdfast) -> Picture:
        run = await _begun(app)
        return await picture_of_run(app, run.key)

    found = boxes(with_app(work))
    states = {name: found[name].state for name in ("first", "lines", "each", "choose", "yes", "last")}
    assert states == {
        "first": "success",
        "lines": "running",
        "each": "waiting",
        "choose": "pending",
        "yes": "pending",
        "last": "pending",
    }
    texts = [line.text for line in found["each"].texts]
    assert any(text.startswith("since 20") for text in texts)
    assert "×2, 2 under way" in texts
    assert "×3, 2 running" in [line.text for line in found["lines"].texts]
    assert found["lines"].shape == "stack"


def test_a_run_is_drawn_as_it_was() -> None:
    """At version 1 nothing has begun; later the first step is under way; other versions are refused."""

    async def work(app: Holdfast) -> tuple[Picture, list[str], int]:
        run = await _begun(app)
        version = (await run.info()).events
        pictures = [await picture_of_run(app, run.key, at=at) for at in range(1, version + 1)]
        for wrong in (0, version + 1):
            with pytest.raises(InvalidRequest, match="versions 1 to"):
                await picture_of_run(app, run.key, at=wrong)
        return pictures[0], [boxes(each)["first"].state for each in pictures], version

    first, states, version = with_app(work)
    assert {box.state for box in first.boxes if box.kind == "node"} == {"pending"}
    order = list(dict.fromkeys(states))
    assert order == ["pending", "running", "success"]
    assert len(states) == version


def test_an_ended_run_shows_the_way_it_took() -> None:
    """The branch that was not taken stays pending."""

    async def work(app: Holdfast) -> Picture:
        run = await _begun(app)
        for key in "abc":
            await run.signal(f"go#{key}")
        await run.result()
        return await picture_of_run(app, run.key)

    picture = with_app(work)
    found = boxes(picture)
    assert {name: found[name].state for name in ("lines", "choose", "yes", "no", "last")} == {
        "lines": "success",
        "choose": "success",
        "yes": "success",
        "no": "pending",
        "last": "success",
    }
    assert "completed" in picture.heading.subtitle


def test_a_failed_node_says_why() -> None:
    """In its box."""

    async def work(app: Holdfast) -> Picture:
        text = (
            "holdfast: definition/1\nname: drawn.bad\nversion: 1\nsteps: [{no: {raise: {code: NO, message: too bad}}}]"
        )
        app.definitions.add(text)
        run = await app.start("drawn.bad", {}, id="r-2")
        with pytest.raises(RunFailed):
            await run.result()
        return await picture_of_run(app, run.key)

    box = boxes(with_app(work))["no"]
    assert box.state == "failed"
    assert "too bad" in box.texts[-1].text


def test_a_function_is_drawn_by_its_calls() -> None:
    """Calls of one name in a row are folded, those at once stand beside each other, a child has its own inside."""

    async def work(app: Holdfast) -> Picture:
        run = await app.start(parent, id="r-3")
        await until_status(run, "waiting")
        return await picture_of_run(app, run.key)

    picture = with_app(work)
    found = boxes(picture).values()
    stack = next(box for box in found if box.shape == "stack")
    assert stack.texts[-1].text.startswith("×6")
    frame = next(box for box in found if box.kind == "frame")
    assert frame.texts[0].text == "drawn.child"
    assert [box.texts[0].text for box in found if box.parent == frame.id] == ["drawn.double"]


def test_a_run_that_is_not_there_is_told() -> None:
    """By name."""
    with pytest.raises(RunNotFound):
        with_app(lambda app: picture_of_run(app, Key("default", "nobody")))

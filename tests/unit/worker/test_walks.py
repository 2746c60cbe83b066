"""The walks of a step and of an approval, as ARCHITECTURE.md lists them: no part is entered more than twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import step, workflow
from holdfast.store.committer import Committer
from holdfast.worker.advancer import Advancer
from holdfast.worker.executions import Executions
from holdfast.worker.gate.acts import Acts
from holdfast.worker.gate.governor import Governor
from holdfast.worker.gate.openings import Openings
from holdfast.worker.gate.settler import Settler
from holdfast.worker.steps.dispatcher import Dispatcher
from holdfast.worker.steps.performer import Performer
from tests.unit.worker.ground import Ground, asked, asking, rested
from tests.unit.worker.paying import ALL, DONE, paying

TURN = "turn"


@pytest.fixture
def walk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts that were entered, in order, and where each turn began."""
    entered: list[str] = []

    def watch(part: type, name: str, word: str = "") -> None:
        inside: Callable[..., Any] = getattr(part, name)

        def outside(self: Any, *args: Any, **kwargs: Any) -> Any:
            entered.append(word or part.__name__)
            return inside(self, *args, **kwargs)

        monkeypatch.setattr(part, name, outside)

    watch(Executions, "plan", TURN)
    for name in ("due", "judge", "abandon"):
        watch(Governor, name)
    watch(Advancer, "perform_effect")
    watch(Openings, "answered")
    for name in ("settle", "check", "judge_after"):
        watch(Settler, name)
    for name in ("begin", "finish"):
        watch(Acts, name)
    for name in ("act", "begin"):
        watch(Dispatcher, name)
    watch(Performer, "perform")
    watch(Committer, "submit")
    return entered


def passes(entered: list[str]) -> list[list[str]]:
    """The parts of each turn, each once."""
    turns: list[list[str]] = []
    for part in entered:
        if part == TURN:
            turns.append([])
        elif turns and part not in turns[-1]:
            turns[-1].append(part)
    return turns


@step(name="walks.double")
async def double(number: int) -> int:
    return number * 2


@workflow(name="walks.one")
async def one(number: int) -> int:
    return await double(number)


def test_the_walk_of_a_step(virtual: Ground, walk: list[str]) -> None:
    """A turn asks for the step, and what came of it is the next turn."""

    async def main(ground: Ground) -> int:
        async with ground.engine(one) as app:
            return await (await app.start(one, 2, id="one")).result(30)

    assert virtual.play(main) == 4
    assert passes(walk) == [["Committer", "Dispatcher", "Performer"], ["Committer"]]


def test_the_walk_of_an_approval(virtual: Ground, walk: list[str]) -> None:
    """The governor asks in one turn and acts in the other. What came of the act is a turn like that of a step."""
    DONE.clear()

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(paying, "a-1", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            walk.append("a person")
            await app.tasks.approve(task.id, by="bob")
            return await run.result(30)

    assert virtual.play(main) == ["paid 1"]
    assert passes(walk) == [
        ["Governor", "Committer", "a person"],
        ["Governor", "Committer", "Openings", "Acts", "Advancer", "Dispatcher", "Performer"],
        ["Committer"],
    ]

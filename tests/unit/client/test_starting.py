"""Who starts a run: a name, as whoever answers has one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Holdfast, Trigger
from holdfast.errors import InvalidRequest
from holdfast.gate import tasks
from tests.unit.gate.test_tasks import NOW, task

NO_NAMES = ["", " ", "ann ", "\tann", "an\nn", "ann\x1b[31m", "\u200bann", "ann\ufe0f", "ann  b"]


@pytest.mark.parametrize("name", NO_NAMES, ids=repr)
def test_an_actor_that_could_not_answer_starts_nothing(name: str) -> None:
    """With a blank more, whoever started a run would not be known again when they approve it."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            with pytest.raises(InvalidRequest, match="the actor is a name, without blanks around it"):
                await app.start("greet", actor=name, id="one")
            assert [row async for row in app.list()] == []

    asyncio.run(main())
    with pytest.raises(InvalidRequest):
        tasks.answer(task(), name, tasks.APPROVED, "", NOW)


@pytest.mark.parametrize("name", [None, "ann", "Ann B. Ö'Hara", "svc:cron@example.org"])
def test_an_actor_is_any_name_or_nobody(name: str | None) -> None:
    """What a terminal can show, as it is."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            run = await app.start("greet", actor=name)
            assert (await run.info()).actor == name

    asyncio.run(main())


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"actor": 42}, "the actor is a name"),
        ({"workspace": None}, "the workspace is a text, not None"),
        ({"workspace": 7}, "the workspace is a text, not 7"),
        ({"trigger": Trigger("webhook", 7)}, "the trigger's ref is a text, not 7"),  # type: ignore[arg-type]
        ({"trigger": Trigger(None, "x")}, "the trigger's type is a text, not None"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_text_is_refused_before_it_is_stored(given: dict[str, Any], why: str) -> None:
    """A row that cannot be read again would stop more than its own run."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            with pytest.raises(InvalidRequest, match=why):
                await app.start("anything", **given)

    asyncio.run(main())

"""``verify`` compares a run's place in its inbox with the inbox."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast, receive, workflow


@workflow
async def heeding() -> int:
    return await receive("go", int)


async def problem_of(path: Path, statement: str | None = None, *, signals: int = 3) -> str:
    """What ``verify`` finds in a run with so many signals that no worker took, and that was changed by hand."""
    async with Holdfast(f"sqlite:///{path}", worker=False) as app:
        run = await app.start(heeding, id="one")
        for number in range(signals):
            await run.signal("go", number)
        if statement is not None:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(statement)
        return (await run.verify()).problem


@pytest.mark.parametrize("signals", [0, 3])
def test_an_inbox_that_nobody_has_changed_fits(tmp_path: Path, signals: int) -> None:
    assert asyncio.run(problem_of(tmp_path / "s.db", signals=signals)) == ""


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE runs SET consumed = 2",
            "of 3 messages 2 are in the journal, and its inbox has 3 messages from 1",
        ),
        ("UPDATE runs SET consumed = 9", "of 3 messages 9 are in the journal"),
        ("UPDATE runs SET consumed = -1", "of 3 messages -1 are in the journal"),
        ("UPDATE runs SET arrived = 7", "of 7 messages 0 are in the journal"),
        ("DELETE FROM inbox WHERE position = 1", "its inbox has 2 messages from 2 to 3"),
        ("DELETE FROM inbox WHERE position = 2", "its inbox has 2 messages from 1 to 3"),
        ("DELETE FROM inbox", "its inbox has 0 messages"),
    ],
)
def test_a_place_that_does_not_fit_is_found(tmp_path: Path, statement: str, found: str) -> None:
    assert found in asyncio.run(problem_of(tmp_path / "s.db", statement))


def test_a_run_that_has_ended_fits(tmp_path: Path) -> None:
    """What came too late for its end was dropped with that."""

    async def main() -> None:
        async with Holdfast(f"sqlite:///{tmp_path / 's.db'}", workflows=[heeding]) as app:
            run = await app.start(heeding, id="one")
            await asyncio.gather(*(run.signal("go", number) for number in range(50)))
            assert await run.result(30) == 0
            assert (await run.verify()).problem == ""

    asyncio.run(main())

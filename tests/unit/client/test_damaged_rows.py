"""A run's row that was damaged on disk is an error that names it, never a traceback."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.audit.check.journal import RunCheck
from holdfast.errors import StoreCorrupt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with run ``b`` in it, which waits."""

    async def make() -> None:
        async with Holdfast(f"sqlite:///{tmp_path}/s.db", worker=False) as app:
            await app.start("anything", id="b")

    asyncio.run(make())
    return tmp_path / "s.db"


def damage(path: Path, change: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"UPDATE runs SET {change}").rowcount == 1
        connection.commit()


async def verified(path: Path) -> RunCheck:
    async with Holdfast(f"sqlite:///{path}", worker=False) as app:
        return await app.run("b").verify()


@pytest.mark.parametrize("column", ["workflow", "error", "pause", "attributes", "actor", "workspace"])
def test_a_text_that_is_no_text_any_more_is_named(path: Path, column: str) -> None:
    """By its column. Waiting would not help, so the error is not that the store is unavailable."""
    damage(path, f"{column} = CAST(x'ff' AS TEXT)")
    with pytest.raises(StoreCorrupt, match=f"damaged .*column '{column}'"):
        asyncio.run(verified(path))


@pytest.mark.parametrize("damaged", ["'{\"a'", "x'00'", "7", "'[]'", """'{"a": 7}'"""])
def test_attributes_that_cannot_be_read_are_named_with_their_run(path: Path, damaged: str) -> None:
    """So the operator finds the one row among many."""
    damage(path, f"attributes = {damaged}")
    with pytest.raises(StoreCorrupt, match="the attributes of run 'b' of tenant 'default' cannot be read"):
        asyncio.run(verified(path))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("waiting = 'x'", "malformed"),
        ("standing = 'asleep'", "Invalid enum value 'asleep' - at `$.standing`"),
        ("pause = x'00'", "Expected `str | null`, got `bytes` - at `$.pause`"),
        ("created_at = 'x'", "Expected `int`, got `str` - at `$.created_at`"),
        ("head = 'x'", "got `str` - at `$.head`"),
    ],
)
def test_verify_names_what_is_wrong_with_a_row(path: Path, change: str, problem: str) -> None:
    """Even damage that only some commands would notice."""
    damage(path, change)
    verdict = asyncio.run(verified(path))
    assert verdict.problem.startswith("the row cannot be read (")
    assert problem in verdict.problem


def test_explain_names_a_damaged_wait(path: Path) -> None:
    """It reads what ``verify`` reads."""
    damage(path, "waiting = 'x', standing = 'waiting', ready_at = NULL")

    async def main() -> None:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            with pytest.raises(StoreCorrupt, match="what run 'b' of tenant 'default' waits for cannot be read"):
                await app.run("b").explain()

    asyncio.run(main())

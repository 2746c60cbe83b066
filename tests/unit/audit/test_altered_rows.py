"""The audit in a database that somebody changed by hand: the first broken entry or block is named."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.audit.check.claims import Verdict
from holdfast.audit.sealer import Sealer
from holdfast.runs.clock import SystemClock
from holdfast.store.sqlite.store import SqliteStore
from tests.unit.audit.governed import TENANT, run_in_store


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a chain of three blocks of nine entries."""
    path = tmp_path_factory.mktemp("audit") / "good.db"

    async def make() -> None:
        store = SqliteStore(str(path))
        await store.open()
        for name in ("one", "two", "three"):
            await run_in_store(store, name=name)
            await Sealer(store, SystemClock()).seal()
        await store.close()

    asyncio.run(make())
    return path


@pytest.fixture
def path(good: Path, tmp_path: Path) -> Path:
    with closing(sqlite3.connect(good)) as source, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        source.backup(copy)
    return tmp_path / "copy.db"


def verified(path: Path) -> Verdict:
    async def judge() -> Verdict:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            return await app.audit.verify(tenant=TENANT, trusted=await app.audit.public_keys())

    return asyncio.run(judge())


def chain(path: Path) -> str:
    """The text of the claim about the chain."""
    return next(claim.text for claim in verified(path).claims if claim.about == "chain")


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(sql).rowcount == 1
        connection.commit()


def test_the_chain_is_whole(path: Path) -> None:
    assert chain(path) == "the chain is whole: 27 entries in 3 signed blocks."


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ("body = replace(body, 'charge', 'refund')", "entry 9 (decision) was altered"),
        ("body = 'x'", "entry 9 (decision) was altered"),
        ("body = 7", "entry 9 (decision) was altered"),
        ("at = at + 1", "entry 9 (decision) was altered"),
        ("at = 'soon'", "entry 9 (decision) was altered"),
        ("kind = 'receipt'", "entry 9 (receipt) was altered"),
        ("run = NULL", "entry 9 (decision) was altered"),
        ("run = 5", "entry 9 (decision) was altered"),
        ("tenant = 'bolt'", "entry 9 is missing from block 2"),
        ("position = 'x'", "entry 9 is missing from block 2"),
        ("position = 99", "entry 9 is missing from block 2"),
        ("position = 8", "block 1 holds 9 entries, and 10 claim to be in it"),
        ("position = NULL", "entry 9 is missing from block 2"),
    ],
)
def test_an_altered_entry_is_named_whatever_it_became(path: Path, changed: str, problem: str) -> None:
    """SQLite takes any type in any column."""
    change(path, f"UPDATE audit SET {changed} WHERE position = 9")
    assert problem in chain(path)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ("first = first + 1", "block 2 begins at entry 10 instead of 9"),
        ("first = 'x'", "block 2 begins at entry 0 instead of 9"),
        ("count = 8", "block 2 was altered: its digests"),
        ("count = 'x'", "block 2 says that it holds 0 entries"),
        ("count = 8.5", "block 2 was altered: its digests"),
        ("count = -1", "block 2 says that it holds -1 entries"),
        ("count = 1000000000000", "block 2 was altered: its digests"),
        ("previous = 'x'", "block 2 does not follow from the block before it"),
        ("head = 'x'", "block 2 was altered: its digests"),
        ("digests = 7", "block 2 was altered: its digests"),
        ("digests = digests || 'x'", "block 2 was altered: its digests"),
        ("sealed_at = 'x'", "block 2 was altered: its signature"),
        ("signer = 7", "block 2 is signed by key 7, which is not known"),
        ("signature = 'x'", "block 2 was altered: its signature"),
        ("form = 1", "block 2 was altered: its digests"),
        ("form = 'x'", "block 2 is of form 0, which"),
        ("tenant = 'bolt'", "block 2 is missing"),
        ("number = 4", "block 2 is missing"),
    ],
)
def test_an_altered_block_is_named_whatever_it_became(path: Path, changed: str, problem: str) -> None:
    """Each column, with values of the right and the wrong type."""
    change(path, f"UPDATE blocks SET {changed} WHERE tenant = '{TENANT}' AND number = 2")
    assert problem in chain(path)


@pytest.mark.parametrize("at", range(27))
def test_a_second_entry_at_one_position_is_named(path: Path, at: int) -> None:
    """Even at the last position of a block, between it and the next block."""
    forged = "tenant, run, kind, at, CAST(replace(body, 'a', 'b') AS BLOB), position"
    columns = "tenant, run, kind, at, body, position"
    change(path, f"INSERT INTO audit ({columns}) SELECT {forged} FROM audit WHERE position = {at}")
    problem = chain(path)
    number = at // 9 + 1
    assert problem.startswith(
        (f"block {number} holds 9 entries, and 10 claim to be in it", f"entry {at + 1} is missing")
    )

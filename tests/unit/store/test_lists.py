"""Lists of runs and tasks are read from indexes that have their order: a page costs what is on it, at any size.

The plans are held, not the times; those of PostgreSQL in test_postgres.py.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.sqlite.connection import APPLICATION_ID
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.statements import load_migrations
from holdfast.testing.stores.samples import NOW, TENANT, start


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("lists") / "holdfast.db")


@asynccontextmanager
async def opened(path: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def plans(path: str, read: Callable[[SqliteStore], Awaitable[Any]], changes: Sequence[p.Change] = ()) -> list[str]:
    """The plans of all statements that a read makes, on a store with a run in each of two tenants."""
    found: list[str] = []

    async def judge() -> None:
        async with opened(path) as store:
            await store.commit([start(), start(tenant="bolt"), *changes])
            fetch = store._read

            def explained(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                found.append("; ".join(line[3] for line in fetch(f"EXPLAIN QUERY PLAN {sql}", values)))
                return fetch(sql, values)

            store._read = explained  # type: ignore[method-assign]
            await read(store)

    asyncio.run(judge())
    return found


PLACE = "(created_at,id)<(?,?)"


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (p.Query(), f"runs_newest (tenant=? AND {PLACE})"),
        (p.Query(workflow="w"), f"runs_of_workflow (tenant=? AND workflow=? AND {PLACE})"),
        (p.Query(workspace="w"), f"runs_of_workspace (tenant=? AND workspace=? AND {PLACE})"),
        (p.Query(actor="ann"), f"runs_of_actor (tenant=? AND actor=? AND {PLACE})"),
        (p.Query(parent="one"), f"runs_children (tenant=? AND parent=? AND {PLACE})"),
        (p.Query(reference="C-1"), f"runs_by_reference (reference=? AND tenant=? AND {PLACE})"),
        (p.Query(status="failed"), f"runs_standing (tenant=? AND standing=? AND {PLACE})"),
        (p.Query(status="waiting"), f"runs_standing (tenant=? AND standing=? AND {PLACE})"),
        (p.Query(status="paused"), f"runs_held_up (tenant=? AND {PLACE})"),
        (p.Query(status="cancelling"), f"runs_held_up (tenant=? AND {PLACE})"),
        (p.Query(parked=True), f"runs_held_up (tenant=? AND {PLACE})"),
        (
            p.Query(standings=("waiting", "queued"), parked=False),
            f"runs_standing (tenant=? AND standing=? AND {PLACE})",
        ),
        (p.Query(standings=("waiting", "queued"), parked=True), f"runs_held_up (tenant=? AND {PLACE})"),
        (p.Query(standings=("waiting",), cancelled=True), f"runs_held_up (tenant=? AND {PLACE})"),
        (p.Query(created_after=NOW), f"runs_newest (tenant=? AND created_at>? AND {PLACE})"),
        (
            p.Query(attributes={"city": "Ur"}),
            "SEARCH run_attributes USING PRIMARY KEY (of_tenant=? AND name=? AND content=? AND made_at<?)",
        ),
    ],
    ids=str,
)
def test_a_page_of_runs_is_read_in_order_from_the_index_of_its_filter(path: str, query: p.Query, index: str) -> None:
    """However deep in the list it is, and however many runs there are: nothing is sorted, and nothing is read past."""
    asked = replace(query, tenant=TENANT)
    for plan in plans(path, lambda store: store.find(asked, 50, p.Cursor(NOW, TENANT, "one"))):
        assert index in plan, plan
        assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (p.Query(workflow="few", status="queued"), "runs_of_workflow (tenant=? AND workflow=?)"),
        (p.Query(workflow="many", status="waiting"), "runs_standing (tenant=? AND standing=?)"),
        (p.Query(workflow="many", status="queued", reference="C-1"), "runs_by_reference (reference=? AND tenant=?)"),
        (p.Query(workflow="many", parked=True), "runs_held_up (tenant=?)"),
    ],
    ids=str,
)
def test_of_several_filters_the_one_that_fits_the_fewest_runs_leads(path: str, query: p.Query, index: str) -> None:
    """They are counted first, in their indexes and not to the end; the page is read by the index of the fewest."""
    many = [start(f"m{number}", workflow="many") for number in range(9)]
    few = [start(f"f{number}", workflow="few") for number in range(3)]
    *counted, page = plans(path, lambda store: store.find(replace(query, tenant=TENANT), 50), [*many, *few])
    assert index in page, page
    assert len(counted) > 1
    assert all("COVERING INDEX" in plan for plan in counted), counted


def test_an_attribute_leads_to_its_runs_until_they_are_deleted(tmp_path: Path) -> None:
    """Of several filters the rarest one; runs that were there before the table are in it, too."""
    path = str(tmp_path / "attributes.db")
    connection = sqlite3.connect(path)
    for migration in load_migrations("holdfast.store.sqlite")[:20]:
        connection.executescript(migration.sql)
    connection.execute("PRAGMA user_version = 20")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    columns = "tenant, id, workflow, root, version, head, standing, attributes, fingerprint, created_at, updated_at"
    old = (TENANT, "old", "w", b"r" * 32, 1, b"h" * 32, "waiting", '{"city": "Ur"}', b"f", NOW, NOW)
    connection.execute(f"INSERT INTO runs ({columns}) VALUES ({', '.join('?' * 11)})", old)  # our own
    connection.commit()
    connection.close()

    async def main() -> None:
        async with opened(path) as store:
            plain = [start(f"r{number}", at=NOW + number) for number in range(20)]
            done = p.Projection("completed")
            new = start("new", at=NOW + 99, attributes={"city": "Ur", "size": "10"}, projection=done)
            await store.commit([*plain, new])
            query = p.Query(tenant=TENANT, attributes={"city": "Ur"})
            assert [run.key.run for run in await store.find(query, 50)] == ["new", "old"]
            (first,) = await store.find(query, 1)
            assert [run.key.run for run in await store.find(query, 1, first)] == ["old"]
            both = replace(query, attributes={"city": "Ur", "size": "10"}, status="completed")
            assert [run.key.run for run in await store.find(both, 50)] == ["new"]
            assert store._read("SELECT count(*) FROM run_attributes") == [(3,)]
            assert await store.prune(NOW + 1000, 10) == 1
            assert store._read("SELECT run FROM run_attributes") == [("old",)]

    asyncio.run(main())


def test_a_page_of_all_tenants_is_made_of_one_page_of_each(path: str) -> None:
    """An order over all tenants has no index: without this the whole table would be sorted."""
    tenants, *pages = plans(path, lambda store: store.find(p.Query(status="failed"), 50))
    assert tenants.count("COVERING INDEX runs_newest") == 2
    assert len(pages) == 2
    assert all("runs_standing (tenant=? AND standing=?)" in page for page in pages)


def test_few_runs_that_ended_in_a_time_are_found_by_that_time(path: str) -> None:
    """Those that were started long ago are not looked for among all runs."""
    counted, *pages = plans(path, lambda store: store.find(p.Query(tenant=TENANT, ended_after=NOW), 50))
    assert "SCAN runs" not in counted
    assert ["runs_prunable (ended_at>?)" in pages[0], "runs_evidence_due (ended_at>?)" in pages[1]] == [True, True]


@pytest.mark.parametrize("most", [None, 5])
def test_runs_are_counted_from_indexes_alone(path: str, most: int | None) -> None:
    """Of a tenant its own part of them is read, and the rows of paused and cancelling runs, which are few."""
    (plan,) = plans(path, lambda store: store.counts(TENANT, most))
    assert "COVERING INDEX runs_standing (tenant=?" in plan
    assert "runs_held_up (tenant=?)" in plan
    assert "SCAN runs" not in plan
    assert "PRIMARY KEY" not in plan


def test_open_tasks_of_a_tenant_are_read_past_nobody_elses(path: str) -> None:
    """A tenant's inbox costs what is in it, however many tasks others have."""
    (plan,) = plans(path, lambda store: store.tasks(p.TaskQuery(TENANT, "requested"), 50))
    assert "tasks_open (tenant=?)" in plan
    assert "TEMP B-TREE" not in plan


def test_open_tasks_of_a_run_are_found_by_the_run(path: str) -> None:
    """Not among all open tasks of its tenant."""
    (plan,) = plans(path, lambda store: store.tasks(p.TaskQuery(TENANT, "requested", "one"), 50))
    assert "tasks_of_run (tenant=? AND run=?)" in plan

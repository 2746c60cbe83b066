"""The SQLite store's own matters: its file, its schema, its driver's errors, and the lock files of its workers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.errors import (
    SchemaTooNew,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedStore,
)
from holdfast.store import protocol as p
from holdfast.store.sqlite import store as sqlite_store
from holdfast.store.sqlite.backup import backup
from holdfast.store.sqlite.connection import APPLICATION_ID
from holdfast.store.sqlite.sql import GATE, SQL
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.statements import load_migrations
from holdfast.testing.stores.governance.samples import block, noted, receipt, seal
from holdfast.testing.stores.governance.writes import write
from holdfast.testing.stores.samples import NOW, TENANT, begun, commit, deliver, key, leased, row, start, worker

NEWEST = len(load_migrations("holdfast.store.sqlite"))

WORKER = """
import asyncio, sys
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.stores.samples import leased, worker

async def main():
    store = SqliteStore(sys.argv[1])
    await store.open()
    await store.register(worker("ann"), 600)
    await leased(store, owner="ann")
    print("registered", flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "holdfast.db")


@asynccontextmanager
async def opened(path: str) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def on_store(path: str, body: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def run() -> None:
        async with opened(path) as store:
            await body(store)

    asyncio.run(run())


def opening_fails(path: str, error: type[Exception], *, migrate: bool = True) -> str:
    """The message of the error that opening raises; the store can be closed after it."""

    async def run() -> str:
        store = SqliteStore(path)
        with pytest.raises(error) as raised:
            await store.open(migrate=migrate)
        await store.close()
        return str(raised.value)

    return asyncio.run(run())


@contextmanager
def another_process_with_a_worker(path: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has registered the worker ``ann``, leases the run ``one``, and lives until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "registered\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def user_version(path: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


# -- the file and its schema -------------------------------------------------------------------------------------------


def test_a_new_file_gets_the_newest_schema(path: str) -> None:
    """Opening makes the file, in WAL mode, marked as ours."""

    async def body(store: SqliteStore) -> None:
        assert (await store.facts()).schema == NEWEST

    on_store(path, body)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_migrations_are_applied_once(path: str) -> None:
    """Opening again finds the schema up to date and the data in place."""

    async def first(store: SqliteStore) -> None:
        await begun(store, start())

    async def second(store: SqliteStore) -> None:
        assert (await row(store)).version == 2
        assert (await store.facts()).schema == NEWEST

    on_store(path, first)
    on_store(path, second)


@contextmanager
def file_with_schema(path: str, number: int) -> Iterator[sqlite3.Connection]:
    """A new file that has the first migrations, up to this number."""
    with closing(sqlite3.connect(path)) as connection:
        for migration in load_migrations("holdfast.store.sqlite")[:number]:
            connection.executescript(migration.sql)
        yield connection
        connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.commit()


def test_a_file_of_the_first_schema_is_brought_up_to_date(path: str) -> None:
    """Its runs stay; those that are not queued began at their creation; the gate has its tables."""
    with file_with_schema(path, 1) as connection:
        for name, standing, created_at in (
            ("one", "running", NOW),
            ("two", "queued", NOW + 1),
            ("three", "failed", NOW),
        ):
            connection.execute(
                "INSERT INTO runs (tenant, id, workflow, root, version, head, standing, fingerprint, created_at,"
                " updated_at, ready_at) VALUES ('acme', ?, 'greet', x'00', 2, x'01', ?, x'02', ?, 0, ?)",
                (name, standing, created_at, created_at if standing == "queued" else None),
            )
    assert "holdfast migrate" in opening_fails(path, UnsupportedStore, migrate=False)

    async def body(store: SqliteStore) -> None:
        assert [(await row(store, name)).begun_at for name in ("one", "two", "three")] == [NOW, None, NOW]
        run = await row(store)
        assert (run.workspace, run.governed, run.writes, run.evidence) == ("", False, 0, None)
        limits = p.Limits(p.TenantLimits(p.Cap(max_concurrency=3)))
        (claimed,) = (await store.claim("ann", p.Serves(("greet",)), 9, NOW + 5, limits)).runs
        assert (claimed.key, claimed.begun_at) == (key("two"), NOW + 5)
        assert await commit(store, p.Note("acme", "one", "decided", NOW, b"said")) == p.Noted()

    upgraded(path, body)


def test_a_file_of_the_second_schema_is_brought_up_to_date(path: str) -> None:
    """Its entries stay, sealed or not; new ones may have an id, and are then written once."""
    with file_with_schema(path, 2) as connection:
        connection.executemany(
            "INSERT INTO audit (tenant, run, kind, at, body, position) VALUES ('acme', 'one', 'decided', 0, ?, ?)",
            [(b"sealed", 1), (b"not sealed", None), (b"not sealed", None)],
        )
    assert "holdfast migrate" in opening_fails(path, UnsupportedStore, migrate=False)

    async def body(store: SqliteStore) -> None:
        named = p.Note("acme", "one", "decided", NOW, b"named", "n")
        assert await store.commit([named, named]) == [p.Noted()] * 2
        entries = await store.entries(p.AuditQuery("acme"), 10)
        assert [entry.body for entry in entries] == [b"sealed", b"not sealed", b"not sealed", b"named"]

    upgraded(path, body)


def test_tasks_of_the_second_schema_are_read_as_they_were_and_listed_by_subject(path: str) -> None:
    """They have none of the later fields, and an altered task does not keep the store from opening."""
    old = (
        '{"tenant":"acme","id":"a-1","run":"one","generation":0,"root":"AAAA","position":1,"kind":"approval",'
        '"status":"requested","version":1,"proposal":"AAAA","summary":"pay","details":"oA==","tier":"med",'
        '"two_person":false,"candidates":["ann"],"starter":null,"policy":"p","rule":null,"created_at":1,"expires_at":9}'
    )
    with file_with_schema(path, 2) as connection:
        connection.executemany(
            "INSERT INTO tasks VALUES ('acme', ?, 'one', 0, 'requested', 1, 1, ?)", [("a-1", old), ("a-2", "altered")]
        )

    async def body(store: SqliteStore) -> None:
        (task,) = await store.tasks(p.TaskQuery("acme", kind="approval"), 10)
        assert (task.id, task.owner, task.groups, task.form, task.due_at) == ("a-1", None, (), b"", None)
        assert msgspec.json.encode(task).decode() == old

    on_store(path, body)


SIXTH_SCHEMA = """
DROP INDEX runs_of_trigger;
ALTER TABLE runs DROP COLUMN trigger_key;
DROP TABLE orphaned_receipts;
DROP INDEX audit_of_task;
DROP TABLE schema_versions;
DROP TABLE cell_nodes;
DROP TABLE cell_roots;
DROP TABLE deleted_cells;
DROP TABLE cells;
DROP TABLE dead_letters;
DROP INDEX runs_under_way;
CREATE INDEX runs_under_way ON runs (tenant, workflow);
DROP TABLE run_attributes;
DROP INDEX runs_of_workflow;
DROP INDEX runs_of_workspace;
DROP INDEX runs_of_actor;
DROP INDEX tasks_open;
DROP TABLE items;
DROP INDEX runs_of_templates;
DROP TABLE definitions;
DROP INDEX runs_by_reference;
ALTER TABLE runs DROP COLUMN split;
ALTER TABLE runs DROP COLUMN reference;
DROP INDEX tasks_by_reference;
ALTER TABLE tasks DROP COLUMN reference;
DROP TABLE code;
DROP INDEX runs_queued;
ALTER TABLE runs DROP COLUMN program_kind;
ALTER TABLE runs DROP COLUMN code_digest;
ALTER TABLE workers DROP COLUMN kinds;
CREATE INDEX runs_queued ON runs (tenant, workflow, priority DESC, ready_at)
    WHERE ready_at IS NOT NULL AND owner IS NULL AND pause IS NULL AND ended_at IS NULL
      AND parent IS NULL AND begun_at IS NULL;
DROP TABLE blob_uses;
CREATE TABLE blob_uses (tenant TEXT, digest BLOB, run TEXT, PRIMARY KEY (tenant, digest, run)) WITHOUT ROWID;
DROP INDEX deliveries_by_age;
ALTER TABLE deliveries DROP COLUMN at;
DROP INDEX runs_standing;
DROP INDEX runs_held_up;
ALTER TABLE work DROP COLUMN claims;
ALTER TABLE tasks DROP COLUMN kind;
ALTER TABLE tasks DROP COLUMN owner;
ALTER TABLE tasks DROP COLUMN due_at;
DROP TABLE declined;
DROP TABLE checkpoints;
DROP TABLE write_counts;
DROP INDEX blocks_first;
DROP TABLE chain_ends;
ALTER TABLE signing_keys DROP COLUMN chains;
ALTER TABLE signing_keys DROP COLUMN heads;
ALTER TABLE signing_keys DROP COLUMN retirement;
"""
"""Makes a file of the sixth schema from one of the present schema."""

FIFTH_SCHEMA = f"{SIXTH_SCHEMA} ALTER TABLE blocks DROP COLUMN form;"


def downgrade(path: str, number: int, script: str) -> None:
    """Bring a file of the present schema back to an earlier one."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        connection.execute(f"PRAGMA user_version = {number}")


def upgraded(path: str, body: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Open the file, which brings its schema up to date, and run the body on it."""
    on_store(path, body)
    assert user_version(path) == NEWEST


def test_a_file_of_the_third_schema_is_brought_up_to_date(path: str) -> None:
    """The end of a receipt's error showed that nobody waited for it any more; now it has a field for that."""
    errors = {"left": "went away; nobody waited for its outcome any more", "asked about": "went away"}

    async def before(store: SqliteStore) -> None:
        for name, error in errors.items():
            old = replace(receipt(name), error=error)
            await store.commit([p.OpenReceipt(old), p.CloseReceipt(replace(old, state="unknown"))])

    async def after(store: SqliteStore) -> None:
        found = await store.receipts(p.ReceiptQuery(TENANT), 10)
        assert {each.key: each.error for each in found} == errors
        assert {each.key: each.abandoned for each in found} == {"left": True, "asked about": False}

    on_store(path, before)
    downgrade(path, 3, FIFTH_SCHEMA + "DROP INDEX runs_prunable; CREATE INDEX runs_ended ON runs (ended_at);")
    upgraded(path, after)


def test_a_file_of_the_fifth_schema_is_brought_up_to_date(path: str) -> None:
    """Its blocks get the first form; others follow them."""
    first, second = replace(block(1, 1, 1), form=1), block(2, 2, 1)

    async def before(store: SqliteStore) -> None:
        (entry,) = await noted(store, "a")
        assert await seal(store, first, [entry.sequence])

    async def after(store: SqliteStore) -> None:
        (entry,) = await noted(store, "b")
        assert await seal(store, second, [entry.sequence])
        assert await store.blocks(TENANT, 1, 10) == [first, second]

    on_store(path, before)
    downgrade(path, 5, FIFTH_SCHEMA)
    upgraded(path, after)


def test_a_file_of_the_sixth_schema_is_brought_up_to_date(path: str) -> None:
    """Its keys have no retirement of earlier ones; a new key has."""
    old = p.SigningKey(1, "key 1", b"public", b"private", NOW)
    new = p.SigningKey(2, "key 2", b"public", b"private", NOW, b"endorsed", 1, b"heads", b"signed")

    async def before(store: SqliteStore) -> None:
        assert await store.add_signing_key(old)

    async def after(store: SqliteStore) -> None:
        assert await store.signing_keys() == [old]
        assert await store.add_signing_key(new, None, [p.ChainEnd(TENANT, 1, b"head")])
        assert await store.signing_keys() == [old, new]

    on_store(path, before)
    downgrade(path, 6, SIXTH_SCHEMA)
    upgraded(path, after)


def test_the_writes_of_a_file_of_the_sixth_schema_are_counted_with_their_families(path: str) -> None:
    """Earlier writes are counted for the run itself and for each run above it."""

    async def before(store: SqliteStore) -> None:
        await begun(store, start("one", projection=p.Projection("queued", governed=True, writes=1)))
        wrote = p.Projection("queued", governed=True, writes=2)
        await begun(store, start("one~1", parent="one", projection=wrote))
        await begun(store, start("one~1~1", parent="one~1", projection=wrote))

    async def after(store: SqliteStore) -> None:
        limits = p.WriteLimits(5)
        made = [await commit(store, write(name, "one~1", limits)) for name in ("a", "b")]
        assert made == [p.Capped("one", 5, 5)] * 2
        limits = p.WriteLimits(9, {})
        assert await commit(store, write("c", "one~1", limits)) == p.Opened()
        assert await commit(store, write("d", "one~1", p.WriteLimits(5))) == p.Capped("one~1", 5, 5)

    on_store(path, before)
    downgrade(path, 6, SIXTH_SCHEMA)
    upgraded(path, after)


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("unsuccessful_receipts", "receipts_of_run"),
        ("receipt", "receipts_by_id"),
        ("receipts_by_id", "receipts_by_id"),
        ("blocks_before", "blocks_first"),
        ("live_tasks", "tasks_of_run"),
        ("unsealed", "audit_unsealed"),
        ("evidence_due", "runs_evidence_due"),
        ("evidence_overdue", "runs_evidence_due"),
        ("prunable", "runs_prunable"),
        ("sealed_behind", "COVERING INDEX audit_of_run"),
        ("claim_going", "runs_going"),
        ("next_line", "runs_queued"),
        ("line", "runs_queued"),
        ("under_way", "COVERING INDEX runs_under_way"),
        ("under_way_of_templates", "runs_under_way"),
        ("begun_since", "runs_begun"),
        ("set_caps", "items_by_status"),
        ("untold", "runs_of_templates"),
    ],
)
def test_a_statement_reads_by_its_index(path: str, name: str, index: str) -> None:
    """The cost of a claim or a takeover depends on the rows found, not on the size of the store."""
    on_store(path, lambda store: store.facts())
    with closing(sqlite3.connect(path)) as connection:
        places = {f"{number}": 1 for number in range(1, 10)}
        statement = GATE[name] if name in GATE else SQL[name]
        values = places if "?1" in statement else (1,) * statement.count("?")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    assert any(f"{index} " in f"{step[3]} " for step in plan), plan


def test_handles_that_open_a_new_file_at_once_migrate_it_once(path: str) -> None:
    """The migration is a transaction, so one of them does it and the others find it done."""

    async def run() -> None:
        stores = [SqliteStore(path) for _ in range(4)]
        await asyncio.gather(*(store.open() for store in stores))
        await begun(stores[0], start())
        assert [(await row(store)).version for store in stores] == [2, 2, 2, 2]
        for store in stores:
            await store.close()

    asyncio.run(run())
    assert user_version(path) == NEWEST


def test_a_cancelled_opening_leaves_nothing_open(path: str) -> None:
    """The caller may give up at any time; the store can be opened afterwards."""

    async def run() -> None:
        store = SqliteStore(path)
        for moments in range(3):
            opening = asyncio.create_task(store.open())
            for _ in range(moments):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await store.close()
        await store.open()
        await begun(store, start())
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize("migrate", [True, False])
def test_a_schema_of_a_newer_holdfast_is_refused(path: str, migrate: bool) -> None:
    """An older Holdfast never touches a newer schema, and its error names the remedy."""
    on_store(path, lambda store: store.facts())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    assert "Upgrade" in opening_fails(path, SchemaTooNew, migrate=migrate)
    assert user_version(path) == NEWEST + 1


@pytest.mark.parametrize("migrate", [True, False])
@pytest.mark.parametrize("mark", ["CREATE TABLE theirs (a)", "PRAGMA application_id = 12345"])
def test_another_programs_database_is_refused(path: str, mark: str, migrate: bool) -> None:
    """Neither a file with tables of its own nor one marked by another program is written to."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(mark)
    assert "another program" in opening_fails(path, StoreCorrupt, migrate=migrate)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'runs'").fetchone() == (0,)
        assert connection.execute("PRAGMA journal_mode").fetchone() != ("wal",)


@pytest.mark.parametrize("migrate", [True, False])
def test_a_file_that_is_no_database_is_refused(path: str, migrate: bool) -> None:
    """It is left as it is."""
    text = b"these are the words of a letter, not the pages of a database\n" * 100
    Path(path).write_bytes(text)
    assert path in opening_fails(path, StoreCorrupt, migrate=migrate)
    assert Path(path).read_bytes() == text


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """It cannot be opened, and the message names it."""
    assert str(tmp_path) in opening_fails(str(tmp_path), UnsupportedStore)


def test_a_file_in_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    """The message names the remedy: the folder must exist."""
    assert "folder must exist" in opening_fails(str(tmp_path / "nowhere" / "holdfast.db"), UnsupportedStore)


def test_a_client_does_not_make_a_file_that_is_missing(path: str) -> None:
    """Opening without migrating, a wrong path is an error and leaves no file behind."""
    assert path in opening_fails(path, UnsupportedStore, migrate=False)
    assert not Path(path).exists()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_a_store_needs_a_file(path: str) -> None:
    """SQLite's own memory database is not shared by two connections, so it is refused with the store that is."""
    with pytest.raises(UnsupportedStore, match="memory://"):
        SqliteStore(path)


@pytest.mark.parametrize("name", ["a b.db", "50%25.db", "what?.db", "no#1.db", "ü.db"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Characters that mean something in a URI are part of the name."""
    on_store(str(tmp_path / name), lambda store: store.facts())
    assert (tmp_path / name).exists()


# -- the driver's errors -----------------------------------------------------------------------------------------------


def test_a_store_that_cannot_be_written_to_says_so(path: str) -> None:
    """A write raises StoreReadOnly and leaves no trace; reading still works, and so does writing later."""

    async def body(store: SqliteStore) -> None:
        await begun(store, start())
        writer = store._writer
        assert writer is not None
        writer.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreReadOnly, match="permissions"):
            await store.commit([deliver()])
        assert (await row(store)).arrived == 0
        writer.execute("PRAGMA query_only = OFF")
        assert await commit(store, deliver()) == p.Delivered(1)

    on_store(path, body)


def test_a_locked_file_is_waited_for_and_then_reported(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes: the engine tries again after this error, and the next try succeeds."""
    monkeypatch.setattr(sqlite_store, "LOCK_PATIENCE_SECONDS", 0.0)

    async def body(store: SqliteStore) -> None:
        await begun(store, start())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(
                StoreUnavailable, match=r"locked by another process: database is locked\. Find out which"
            ):
                await store.commit([deliver()])
            assert (await row(store)).arrived == 0
            other.execute("ROLLBACK")
        assert await commit(store, deliver()) == p.Delivered(1)

    on_store(path, body)


def test_a_commit_waits_for_another_process_to_finish_its_own(path: str) -> None:
    """A lock held for a moment is no error."""

    async def body(store: SqliteStore) -> None:
        await begun(store, start())
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(commit(store, deliver()))
            await asyncio.sleep(0)
            assert not waiting.done()
            other.execute("COMMIT")
            assert await waiting == p.Delivered(1)

    on_store(path, body)


def test_a_full_disk_stops_one_commit_and_not_the_store(path: str) -> None:
    """The commit raises StoreFull and is undone completely; reading still works, and writing does with new space."""

    async def body(store: SqliteStore) -> None:
        await begun(store, start())
        writer = store._writer
        assert writer is not None
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages}")
        large = start("large", blobs={b"digest": bytes(1_000_000)})
        for _ in range(2):
            with pytest.raises(StoreFull, match="free some"):
                await store.commit([deliver(), large])
        assert (await row(store)).arrived == 0
        assert await store.get([key("large")]) == []
        writer.execute("PRAGMA max_page_count = 1000000")
        assert await store.commit([deliver(), large]) == [p.Delivered(1), p.Started(1)]

    on_store(path, body)


# -- workers on this host ----------------------------------------------------------------------------------------------


def test_a_killed_worker_is_known_to_be_dead_at_once(path: str) -> None:
    """Long before its time to live is over: the system releases its lock when its process ends."""

    async def body(store: SqliteStore) -> None:
        assert await store.rescue(NOW) == ["ann"]
        run = await row(store)
        assert (run.owner, run.crashes, run.ready_at) == (None, 1, NOW)
        assert await store.workers() == []
        assert not list(Path(path).parent.glob("*.alive"))

    with another_process_with_a_worker(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    on_store(path, body)


def test_a_worker_alive_in_another_process_is_not_rescued(path: str) -> None:
    """At every look, and also from a process with its own workers."""

    async def body(store: SqliteStore) -> None:
        await store.register(worker("bob"), 600)
        before = await row(store)
        assert [await store.rescue(NOW) for _ in range(3)] == [[], [], []]
        assert await row(store) == before
        await store.unregister("bob", NOW)

    with another_process_with_a_worker(path):
        on_store(path, body)


def test_a_worker_that_stopped_beating_is_rescued_although_its_process_lives(path: str) -> None:
    """A free lock shows that a worker is dead; a held lock does not show that it is healthy."""

    async def body(store: SqliteStore) -> None:
        await store.beat("ann", -1)
        assert await store.rescue(NOW) == ["ann"]
        assert (await row(store)).owner is None

    with another_process_with_a_worker(path):
        on_store(path, body)


def test_a_worker_of_this_process_is_not_taken_for_dead(path: str) -> None:
    """A twin in the same process sees it alive, and leaving removes its lock file."""

    async def body(store: SqliteStore) -> None:
        await store.register(worker("ann"), 600)
        await leased(store)
        async with opened(path) as twin:
            assert await twin.rescue(NOW) == []
        assert len(list(Path(path).parent.glob("*.alive"))) == 1
        await store.unregister("ann", NOW)
        assert not list(Path(path).parent.glob("*.alive"))

    on_store(path, body)


def test_a_forked_child_does_not_keep_its_parents_worker_alive(path: str) -> None:
    """A child that outlives the worker's process holds none of its locks."""
    script = WORKER.replace(
        '    print("registered", flush=True)',
        "    import os, subprocess\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"  # it runs: what closes the locks in it is done
        "        sys.stdin.read()\n"
        "        os._exit(0)",
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()

        async def body(store: SqliteStore) -> None:
            assert await store.rescue(NOW) == ["ann"]

        on_store(path, body)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_a_watch_hears_of_another_handles_commit(path: str) -> None:
    """The hint comes for every commit of another process."""

    async def body(store: SqliteStore) -> None:
        hinted = asyncio.Event()
        stop = store.watch(hinted.set)
        await begun(store, start())
        async with opened(path) as twin:
            # The watch first reads a number and compares later; commits are repeated until it gives a hint.
            async with asyncio.timeout(60):
                while not hinted.is_set():
                    await commit(twin, deliver())
        stop()

    on_store(path, body)


def test_a_backup_has_the_code_that_its_runs_need(path: str, tmp_path: Path) -> None:
    """A run without its code could not continue from a backup."""
    data = b"steps: []"
    code = p.Code(hashlib.sha256(data).digest(), "definition", "settle", data)
    copy = tmp_path / "copy.db"

    async def judge() -> None:
        async with opened(path) as store:
            await store.commit([p.KeepCode(TENANT, code), start(program_kind="definition", code_digest=code.digest)])
            backup(path, copy)
        async with opened(str(copy)) as store:
            run = await row(store)
            assert run.code_digest is not None
            assert await store.code(TENANT, [run.code_digest]) == {code.digest: code}

    asyncio.run(judge())


def test_claims_find_ready_runs_by_their_index(path: str) -> None:
    """With kinds of programs and without; lines of queued runs are skipped through by the index."""
    names = ("ann", '["greet"]', 5, NOW, '["definition"]')
    asked = (
        (SQL["claim"], names, "runs_ready"),
        (GATE["claim_going"], names, "runs_going"),
        (GATE["next_line"], ("", "", "", ""), "runs_queued ((tenant,workspace,workflow,program_kind)>(?,?,?,?))"),
        (
            GATE["next_template"],
            ("acme", "", "greet", "function", -1),
            "runs_queued (tenant=? AND workspace=? AND work",
        ),
        (
            GATE["line"],
            ("acme", "", "greet", "function", "", 5),
            "runs_queued (tenant=? AND workspace=? AND workflow=?",
        ),
    )

    async def judge() -> None:
        async with opened(path):
            with closing(sqlite3.connect(path)) as connection:
                for sql, values, index in asked:
                    plan = "\n".join(line[3] for line in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))
                    assert index in plan, plan
                    assert "TEMP B-TREE" not in plan, plan

    asyncio.run(judge())

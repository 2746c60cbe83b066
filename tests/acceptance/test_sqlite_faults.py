"""Faults of a database file: killed writers, a full disk, no permission, damage, locks, other programs."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Holdfast, WorkerOptions, step, workflow
from holdfast.errors import SchemaTooNew, StoreCorrupt, StoreLost, StoreReadOnly, StoreUnavailable
from holdfast.store.sqlite import store
from tests.acceptance import full_disk, storm_app
from tests.acceptance.evidence import check_steps, check_store, results_of, rows_of
from tests.acceptance.processes import (
    ROOT,
    SECONDS,
    eventually,
    sqlite_url,
    start_all,
    storm,
    until_completed,
)
from tests.acceptance.test_kills import workers_on
from tests.scope import SEED, volume


@step
async def double(number: int) -> int:
    return 2 * number


@workflow(name="faults.doubled")
async def doubled(number: int) -> int:
    return await double(await double(number))


# -- kills in the middle of commits ------------------------------------------------------------------------------------


async def _kill_committers(url: str, folder: Path, seed: int) -> None:
    runs = volume(600, 2000)
    async with Holdfast(url, worker=False) as app:
        await start_all(app, storm_app.total_of, runs)
        with workers_on(url, folder) as group:  # a thousand concurrent steps: it commits all the time
            await storm(group, 1, volume(4, 8), seed, seconds=(0.0, 0.3))
            await until_completed(app, runs)
            group.stop()
        assert len(await results_of(app, await rows_of(app))) == runs
        await check_steps(app, folder / "steps.log")
        await check_store(app)


@pytest.mark.long
def test_kills_in_the_middle_of_commits_leave_a_sound_database(tmp_path: Path) -> None:
    """A transaction is written completely or not at all: the file is sound, every journal verifies, every run ends."""
    asyncio.run(_kill_committers(sqlite_url(tmp_path / "storm.db"), tmp_path, SEED))
    connection = sqlite3.connect(tmp_path / "storm.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


# -- a full disk -------------------------------------------------------------------------------------------------------


@contextmanager
def small_filesystem() -> Iterator[Path | None]:
    """A file system of a few megabytes, or None if this user may not mount one."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-small-"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    try:
        yield folder if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def test_a_full_disk_is_reported_and_loses_nothing_and_work_continues_with_space(tmp_path: Path) -> None:
    """The worker waits and logs why, a caller gets StoreFull at once, and with space again everything finishes.

    Without a mounted file system, a limit in SQLite keeps the database from growing, with the same error.
    """
    with small_filesystem() as small:
        done = subprocess.run(
            [sys.executable, full_disk.__file__, str(small or tmp_path), "disk" if small else "pages"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all is well"
    assert "no space is left for" in done.stderr
    assert "the store answers again" in done.stderr


# -- files that cannot be used -----------------------------------------------------------------------------------------


async def _open(path: Path) -> None:
    async with Holdfast(sqlite_url(path), workflows=[doubled]) as app:
        await (await app.start(doubled, 1)).result(60)


def _as_another_user(path: Path) -> None:
    """Open it as a user who may read the file but not write it; root may write everything."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
            try:
                asyncio.run(_open(path))
            except StoreReadOnly as error:
                code = 0 if "correct the permissions" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_database_that_cannot_be_written_to_asks_for_permissions() -> None:
    """Opening it raises StoreReadOnly at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "holdfast.db"
        asyncio.run(_open(path))
        path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
        folder.chmod(0o555)
        try:
            _as_another_user(path)
        finally:
            folder.chmod(0o755)


def test_a_damaged_database_is_refused_and_not_silently_repaired(tmp_path: Path) -> None:
    """A wrong header, or overwritten pages: StoreCorrupt, which says to restore a backup."""
    path = tmp_path / "holdfast.db"
    asyncio.run(_open(path))
    whole = path.read_bytes()
    path.write_bytes(b"not a database at all" + whole[21:])
    with pytest.raises(StoreCorrupt, match="restore it"):
        asyncio.run(_open(path))
    path.write_bytes(whole[:1000] + b"\xff" * (len(whole) - 1000))
    with pytest.raises(StoreCorrupt, match="restore it"):
        asyncio.run(_open(path))


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """StoreCorrupt, and the file is unchanged, byte for byte."""
    path = tmp_path / "theirs.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="another program: name another file"):
        asyncio.run(_open(path))
    assert path.read_bytes() == before


def test_a_database_of_a_newer_holdfast_asks_for_an_upgrade(tmp_path: Path) -> None:
    """SchemaTooNew, and nothing is changed."""
    path = tmp_path / "holdfast.db"
    asyncio.run(_open(path))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 1000")
    connection.close()
    with pytest.raises(SchemaTooNew, match="Upgrade this one"):
        asyncio.run(_open(path))


def test_an_altered_journal_is_found_by_verify(tmp_path: Path) -> None:
    """A journal that was altered with other tools does not verify, and its run is parked instead of continued."""

    async def alter() -> None:
        async with Holdfast(sqlite_url(tmp_path / "holdfast.db"), worker=False) as app:
            run = await app.start(doubled, 1, id="altered")
            connection = sqlite3.connect(tmp_path / "holdfast.db")
            connection.execute("UPDATE segments SET events = cast(zeroblob(20) AS BLOB)")
            connection.commit()
            connection.close()
            assert not (await run.verify()).good
        async with Holdfast(sqlite_url(tmp_path / "holdfast.db"), workflows=[doubled]) as app:
            run = app.run("altered")

            async def parked() -> bool:
                return await run.status() == "paused"

            await eventually(parked, "the run to be parked")
            assert "does not match its hash" in await run.explain()

    asyncio.run(alter())


# -- locks -------------------------------------------------------------------------------------------------------------


async def _lock_for_long(path: Path, log: pytest.LogCaptureFixture) -> None:
    async with Holdfast(sqlite_url(path), workflows=[doubled]) as app:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            await app.store.pause(app.run("x").key, "reason", 0)
        starting = asyncio.create_task(app.start(doubled, 3, id="patient"))

        async def is_logged() -> bool:
            return "changes wait" in log.text and "locked by another process" in log.text

        await eventually(is_logged, "the engine to log why it waits")
        assert not starting.done(), "a start must wait for a lock that will be released"
        other.execute("ROLLBACK")
        other.close()
        run = await starting
        assert await run.result(60) == 12
        assert (await run.verify()).good
    assert "the store answers again" in log.text


def test_a_lock_held_longer_than_the_timeout_is_reported_and_then_survived(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call fails with StoreUnavailable after a timeout; the engine keeps trying and loses nothing."""
    monkeypatch.setattr(store, "LOCK_PATIENCE_SECONDS", 1.0)
    asyncio.run(_lock_for_long(tmp_path / "holdfast.db", caplog))


# -- a file that is gone --------------------------------------------------------------------------------------------


def _delete(path: Path) -> None:
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        file.unlink(missing_ok=True)


def _replace(path: Path) -> None:
    """Put a copy in its place, as a careless restore does."""
    other = path.with_name("copy.db")
    shutil.copy(path, other)
    other.replace(path)


def _delete_log(path: Path) -> None:
    """The log has the commits that were not copied into the file yet."""
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize("harm", [_delete, _replace, _delete_log])
@pytest.mark.parametrize("worker", [True, False])
def test_a_file_that_is_deleted_or_replaced_is_noticed(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Path], None],
    worker: bool,
) -> None:
    """No start is acknowledged in a file that nobody can find again, and the error says what to do."""
    path = tmp_path / "holdfast.db"
    monkeypatch.setattr("holdfast.worker.worker.FLUSH_SECONDS", 0.1)  # nothing more can be written here

    async def main() -> None:
        options = WorkerOptions(grace_seconds=0.2)
        async with Holdfast(sqlite_url(path), workflows=[doubled], worker=worker, options=options) as app:
            await app.start(doubled, 1, id="kept")
            harm(path)
            for number in range(3):
                with pytest.raises(StoreLost, match="restart every worker and client"):
                    await app.start(doubled, number, id=f"lost {number}")
            with pytest.raises(StoreLost):
                await app.run("kept").status()

    asyncio.run(main())
    assert "was deleted or replaced while it was in use" in caplog.text
    assert "nothing is lost" not in caplog.text


def test_a_reader_notices_it_too(tmp_path: Path) -> None:
    """A client that never writes gets the error from a regular check of the file."""
    path = tmp_path / "holdfast.db"

    async def main() -> None:
        async with Holdfast(sqlite_url(path), workflows=[doubled], worker=False) as app:
            run = await app.start(doubled, 1, id="kept")
            _delete(path)

            async def noticed() -> bool:
                try:
                    await run.status()
                except StoreLost:
                    return True
                return False

            await eventually(noticed, "the reader to notice")

    asyncio.run(main())


def test_a_file_that_is_put_back_can_be_used_again(tmp_path: Path) -> None:
    """A file that was moved away and back has lost nothing, and the engine continues."""
    path, aside = tmp_path / "holdfast.db", tmp_path / "aside.db"

    async def main() -> None:
        async with Holdfast(sqlite_url(path), workflows=[doubled]) as app:
            assert await (await app.start(doubled, 1)).result(60) == 4
            path.rename(aside)
            with pytest.raises(StoreLost):
                await app.start(doubled, 2, id="refused")
            aside.rename(path)
            assert await (await app.start(doubled, 3)).result(60) == 12

    asyncio.run(main())

"""SQLite files shrink: beside workers, after an upgrade, and whole whatever interrupts that."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast, WorkerOptions, step, workflow
from holdfast.cli.main import main as cli
from holdfast.store.sqlite import compaction
from tests.acceptance.processes import sqlite_url

LARGE = 30_000
"""Bytes of a value that is stored in the journal itself."""


@step(name="compact.fill")
async def fill(number: int) -> bytes:
    return number.to_bytes(2, "big") * (LARGE // 2)


@workflow(name="compact.filling")
async def filling(count: int) -> int:
    return sum([len(await fill(number)) for number in range(count)])


def holdfast(*args: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == code, done.output
    return done.output


async def _fill(file: Path, runs: int = 40) -> None:
    async with Holdfast(sqlite_url(file), workflows=[filling], options=WorkerOptions(retention_days=None)) as app:
        for number in range(runs):
            assert await (await app.start(filling, 10, id=f"r-{number}")).result() == 10 * LARGE


def age(file: Path) -> None:
    """Make the file one of an earlier version, which gives no pages back."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = NONE")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def mode_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("PRAGMA auto_vacuum").fetchone()[0])


def prune(file: Path) -> None:
    holdfast("prune", "--older-than", "0s", "--yes", "--store", sqlite_url(file))


def test_a_new_file_shrinks_as_runs_are_deleted_and_wholly_beside_a_worker(tmp_path: Path) -> None:
    file = tmp_path / "new.db"

    async def main() -> None:
        await _fill(file)
        full = file.stat().st_size
        async with Holdfast(sqlite_url(file), workflows=[filling], options=WorkerOptions(retention_days=None)) as app:
            await asyncio.to_thread(prune, file)
            kept = await app.start(filling, 3, id="kept")
            said = await asyncio.to_thread(holdfast, "compact", "--store", sqlite_url(file))
            assert await kept.result() == 3 * LARGE
        assert "MB → " in said
        assert file.stat().st_size < full / 8

    asyncio.run(main())
    assert mode_of(file) == compaction.INCREMENTAL
    assert "all good" in holdfast("verify", "--all", "--store", sqlite_url(file))


def test_an_old_file_is_written_anew_once_the_workers_are_stopped(tmp_path: Path) -> None:
    """Beside a worker the command refuses, and names it."""
    file = tmp_path / "old.db"
    asyncio.run(_fill(file))
    age(file)

    async def beside() -> None:
        async with Holdfast(sqlite_url(file), workflows=[filling], options=WorkerOptions(retention_days=None)) as app:
            assert app.worker is not None
            refused = await asyncio.to_thread(lambda: holdfast("compact", "--store", sqlite_url(file), code=2))
            assert f"worker {app.worker.id} runs" in refused

    asyncio.run(beside())
    prune(file)
    full = file.stat().st_size
    assert "run `holdfast compact` once" in holdfast("doctor", "--store", sqlite_url(file))
    holdfast("compact", "--store", sqlite_url(file))
    assert mode_of(file) == compaction.INCREMENTAL
    assert file.stat().st_size < full / 8
    assert "all is well" in holdfast("doctor", "--store", sqlite_url(file))


def test_without_space_an_old_file_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "old.db"
    asyncio.run(_fill(file, 2))
    age(file)
    before = file.read_bytes()
    monkeypatch.setattr("shutil.disk_usage", lambda _: _Full)
    done = CliRunner().invoke(cli, ["compact", "--store", sqlite_url(file)])
    assert (done.exit_code != 0, "free some. Nothing was changed" in done.output) == (True, True)
    assert file.read_bytes() == before


class _Full:
    free = 1000


PROGRAM = """
import os, resource, signal, sys
from holdfast.errors import HoldfastError
from holdfast.store.sqlite import compaction
compaction.STEPS = 200
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it otherwise
seen = 0
def advance(count):
    global seen
    seen += 1
    if seen == 3:
        print("under way", flush=True)
        os.kill(os.getpid(), int(sys.argv[2]))
if sys.argv[2] == "0":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    compaction.compact(sys.argv[1], advance)
except KeyboardInterrupt:
    print("interrupted", flush=True)
except HoldfastError:
    print("full", flush=True)
"""


@pytest.mark.parametrize(("how", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGKILL, "under way"), (0, "full")])
def test_an_old_file_is_whole_when_it_is_interrupted(tmp_path: Path, how: int, said: str) -> None:
    """By Ctrl-C, by a kill, or by a disk that takes no more: nothing is lost, and the next try succeeds."""
    file = tmp_path / "old.db"
    asyncio.run(_fill(file, 10))
    age(file)
    command = [sys.executable, "-c", PROGRAM, str(file), str(int(how))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n")[-2] == said, done.stderr
    assert mode_of(file) == 0
    assert "all good" in holdfast("verify", "--all", "--store", sqlite_url(file))
    holdfast("compact", "--store", sqlite_url(file))
    assert mode_of(file) == compaction.INCREMENTAL
    assert "all good" in holdfast("verify", "--all", "--store", sqlite_url(file))


def test_the_doctor_accepts_a_fresh_backup(tmp_path: Path) -> None:
    """Made while a worker ran, which is not there any more; with a ready run that nothing serves."""
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"

    async def main() -> None:
        async with Holdfast(sqlite_url(live), worker=False) as app:
            await app.start("compact.elsewhere", id="ready")
        async with Holdfast(sqlite_url(live), workflows=[filling]) as app:
            await (await app.start(filling, 1, id="one")).result()
            await asyncio.to_thread(holdfast, "backup", str(copy), "--store", sqlite_url(live))

    asyncio.run(main())
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("UPDATE workers SET expires_at = 1")
    said = holdfast("doctor", "--store", sqlite_url(copy))
    assert "✗" not in said
    assert "a backup that no worker has opened yet" in said
    assert "all are sound" in said


def test_the_doctor_finds_damaged_pages(tmp_path: Path) -> None:
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"
    asyncio.run(_fill(live, 3))
    holdfast("backup", str(copy), "--store", sqlite_url(live))
    data = bytearray(copy.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'audit_of_run'").fetchone()
    data[(root - 1) * size : root * size] = b"\xff" * size
    copy.write_bytes(data)
    assert "✗" in holdfast("doctor", "--store", sqlite_url(copy), code=1)


def test_the_doctor_names_the_version_that_a_newer_store_needs(tmp_path: Path) -> None:
    file = tmp_path / "newer.db"
    holdfast("migrate", "--store", sqlite_url(file))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("INSERT INTO schema_versions VALUES (999, '7.4.0')")
        connection.execute("PRAGMA user_version = 999")
    said = holdfast("doctor", "--store", sqlite_url(file), code=1)
    assert "upgrade it, Holdfast 7.4.0 is needed" in said
    assert "migrate" not in said

"""Backups of a live SQLite store: complete although workers write; a bad copy is not taken for an empty store."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast, step, workflow
from holdfast.cli.main import main as cli
from holdfast.cli.store import doctor
from holdfast.errors import StoreCorrupt
from tests.acceptance.processes import sqlite_url


@step(name="backup.add")
async def add(number: int) -> int:
    return number + 1


@workflow(name="backup.count")
async def count(upto: int) -> int:
    number = 0
    while number < upto:
        number = await add(number)
    return number


def holdfast(*args: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, args)
    assert done.exit_code == code, done.output
    return done.output


def test_a_backup_made_while_a_worker_writes_is_complete(tmp_path: Path) -> None:
    """It has every run that was started before, each with a valid journal; and a worker can continue from it."""
    copy = tmp_path / "copy.db"
    command = [sys.executable, "-m", "holdfast", "backup", str(copy), "--store", sqlite_url(tmp_path / "live.db")]

    async def main() -> str:
        async with Holdfast(sqlite_url(tmp_path / "live.db"), workflows=[count]) as app:
            runs = [await app.start(count, 200, id=f"r-{number}") for number in range(20)]
            made = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
            output, _ = await made.communicate()
            assert made.returncode == 0
            for run in runs:
                assert await run.result() == 200
            return output.decode()

    output = asyncio.run(main())
    assert output.startswith(f"{copy}: ")
    assert "20 runs" in output
    assert "all good" in holdfast("verify", "--all", "--store", sqlite_url(copy))

    async def again() -> None:
        async with Holdfast(sqlite_url(copy), worker=False) as app:
            for worker in await app.store.workers():
                await app.store.beat(worker.id, 0.0)  # its lease is over: nobody waits for it here
        async with Holdfast(sqlite_url(copy), workflows=[count]) as app:
            for number in range(20):
                assert await app.run(f"r-{number}").result() == 200

    asyncio.run(again())


def _store(path: Path) -> str:
    """Add a run to the store, which is created if it is missing."""

    async def make() -> None:
        async with Holdfast(sqlite_url(path), worker=False) as app:
            await app.start("anything")

    asyncio.run(make())
    return sqlite_url(path)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    """It may be the last good backup. No partial file is left behind, either."""
    url = _store(tmp_path / "live.db")
    (tmp_path / "old.db").write_bytes(b"precious")
    output = holdfast("backup", str(tmp_path / "old.db"), "--store", url, code=2)
    assert "exists already: name another file" in output
    assert (tmp_path / "old.db").read_bytes() == b"precious"
    assert "cannot be written" in holdfast("backup", str(tmp_path / "no" / "x.db"), "--store", url, code=2)
    assert sorted(path.name for path in tmp_path.iterdir() if "old" in path.name or "partial" in path.name) == [
        "old.db"
    ]


def test_a_backup_of_a_postgresql_store_needs_its_own_tools(tmp_path: Path) -> None:
    """The error names them."""
    output = holdfast("backup", str(tmp_path / "x.db"), "--store", "postgresql://db.example/shop", code=2)
    assert "pg_dump" in output
    assert "pg_basebackup" in output


def test_a_missing_store_is_not_backed_up(tmp_path: Path) -> None:
    """A wrong path is reported, and no empty file is created."""
    missing = sqlite_url(tmp_path / "missing.db")
    assert "there is no database" in holdfast("backup", str(tmp_path / "x.db"), "--store", missing, code=5)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_a_live_file_without_its_log_is_not_an_empty_store(tmp_path: Path) -> None:
    """All data is still in the log. A user who opens the copy would think that every run is lost."""
    live, copy = tmp_path / "live.db", tmp_path / "copy.db"

    async def main() -> None:
        async with Holdfast(sqlite_url(live), worker=False) as app:
            await app.start("anything", id="r-1")
            shutil.copy(live, copy)

    asyncio.run(main())
    message = "looks like a copy of a live database without its -wal file"
    for command in (["list"], ["migrate"], ["doctor"], ["backup", str(tmp_path / "x.db")]):
        result = CliRunner().invoke(cli, [*command, "--store", sqlite_url(copy)])
        assert message in result.output, command
        assert "holdfast backup" in result.output
        assert result.exit_code == (1 if command == ["doctor"] else 5)

    async def open_it() -> None:
        async with Holdfast(sqlite_url(copy)):
            raise AssertionError("it was opened")

    with pytest.raises(StoreCorrupt, match=message):
        asyncio.run(open_it())


@pytest.mark.long
def test_many_processes_create_a_store_at_once(tmp_path: Path) -> None:
    """None mistakes a store that another process is creating for such a copy."""
    script = (
        "import asyncio, sys\n"
        "from holdfast import Holdfast\n"
        "async def main():\n"
        "    async with Holdfast(sys.argv[1], worker=False) as app:\n"
        "        await app.start('anything', id=sys.argv[2])\n"
        "sys.stdin.readline()\n"
        "asyncio.run(main())\n"
    )
    url = sqlite_url(tmp_path / "new.db")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, url, f"r-{number}"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(6)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
    assert holdfast("list", "--store", url).count("r-") == 6


def test_doctor_reports_a_log_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that never ends prevents it from being copied back: the line says so, and what to do."""
    url = _store(tmp_path / "live.db")
    with closing(sqlite3.connect(tmp_path / "live.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchone()
        _store(tmp_path / "live.db")
        size = (tmp_path / "live.db-wal").stat().st_size
        assert size > 0
        assert f"{size / 1e6:.1f} MB" in _line(holdfast("doctor", "--store", url, code=1), "✓ log")
        monkeypatch.setattr(doctor, "LARGEST_LOG_BYTES", size - 1)
        output = _line(holdfast("doctor", "--store", url, code=1), "✗ log")
        assert "end readers that take long" in output


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))

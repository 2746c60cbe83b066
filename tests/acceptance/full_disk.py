"""A process whose disk becomes full under load, and then has space again. It prints ``all is well`` or fails.

Usage: python full_disk.py FOLDER disk|pages
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import sys
import time
from pathlib import Path

from holdfast import Holdfast, RunHandle, step, workflow
from holdfast.errors import StoreFull

RUNS = 40
begun: list[str] = []
filled = asyncio.Event()


@step
async def fetch(name: str, part: int) -> bytes:
    begun.append(f"{name}/{part}")
    if name.startswith("r-"):  # so that turns must be committed while the disk is full
        await filled.wait()
    return os.urandom(20_000)


@workflow
async def collect(name: str) -> int:
    return sum([len(await fetch(name, part)) for part in range(6)])


class Ballast:
    """Takes up the space: with a file, or with a limit on the size of the database."""

    def __init__(self, folder: Path, app: Holdfast, way: str) -> None:
        self._file = folder / "ballast"
        self._app = app
        self._way = way

    def add(self) -> None:
        if self._way == "pages":
            self._limit(None)
            return
        with self._file.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass

    def remove(self) -> None:
        if self._way == "pages":
            self._limit(1_000_000)
        else:
            self._file.unlink()

    def _limit(self, pages: int | None) -> None:
        writer: sqlite3.Connection = self._app.store._writer  # type: ignore[attr-defined]
        (present,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages or present}")


async def full(app: Holdfast) -> None:
    """Wait until the engine itself reports that the disk is full."""
    deadline = time.monotonic() + 60
    while not (app.committer.trouble or "").startswith("no space is left"):
        assert time.monotonic() < deadline, "the disk never became full"
        await asyncio.sleep(0.01)


async def refused(app: Holdfast) -> None:
    """A caller gets the error soon, and does not wait."""
    message = ""
    try:
        async with asyncio.timeout(30):
            await app.start(collect, "refused", id="refused")
    except StoreFull as error:
        message = str(error)
    assert "free some" in message, "a start on a full disk succeeded"


async def main(folder: Path, way: str) -> None:
    async with Holdfast(f"sqlite:///{folder / 'holdfast.db'}") as app:
        early = [await app.start(collect, f"early-{n}", id=f"early-{n}") for n in range(3)]
        assert [await run.result(60) for run in early] == [120_000] * 3
        ballast = Ballast(folder, app, way)
        for n in range(RUNS // 2):
            await app.start(collect, f"r-{n}", id=f"r-{n}")
        ballast.add()
        filled.set()
        starts = [asyncio.create_task(app.start(collect, f"r-{n}", id=f"r-{n}")) for n in range(RUNS // 2, RUNS)]
        await full(app)
        await refused(app)
        assert await early[0].result(30) == 120_000, "reading needs no space"
        ballast.remove()
        answers = await asyncio.gather(*starts, return_exceptions=True)
        assert all(isinstance(answer, RunHandle | StoreFull) for answer in answers), answers
        for number in range(RUNS):
            run = await app.start(collect, f"r-{number}", id=f"r-{number}")
            assert await run.result(60) == 120_000
            assert (await run.verify()).good
        assert len(begun) == len(set(begun)), "a step ran twice"
    connection = sqlite3.connect(folder / "holdfast.db")
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    print("all is well")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

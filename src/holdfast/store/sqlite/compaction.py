"""Gives free pages of a database file back to the file system.

A new file gives them back in small portions, as its runs are deleted and by ``compact``, while workers go on. A file of
an earlier version must be written anew once, which keeps its workers from writing for as long: not while one runs.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest, StoreFull
from holdfast.store.sqlite.connection import PORTION, check_current, connect, schema_of, translated
from holdfast.store.sqlite.presence import is_dead

INCREMENTAL: Final = 2
STEPS: Final = 20_000
"""Steps of SQLite's machine between two looks at the progress, and at Ctrl-C."""


class Compacted(msgspec.Struct, frozen=True, gc=False):
    """The size of the file before and after, in bytes. ``rewritten`` is whether it was written anew."""

    before: int
    after: int
    rewritten: bool


def compact(path: str, advance: Callable[[int], None] = lambda _: None) -> Compacted:
    """Give all free pages back; ``advance`` is called with bytes that are done. Not for the event loop's thread.

    Whatever interrupts it, the file is whole. Raises InvalidRequest where a worker runs that would have to wait,
    StoreFull, and the errors of opening the store.
    """
    before = Path(path).stat().st_size
    with translated(path), closing(connect(path)) as connection:
        check_current(schema_of(connection, path), path)
        connection.execute("PRAGMA temp_store = FILE")
        (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        if mode == INCREMENTAL:
            _give_back(connection, advance)
        else:
            _refuse_beside_workers(connection, path)
            _check_space(path, before)
            _rewrite(connection, path, advance)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return Compacted(before, Path(path).stat().st_size, mode != INCREMENTAL)


def _give_back(connection: sqlite3.Connection, advance: Callable[[int], None]) -> None:
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    while free:
        connection.execute(f"PRAGMA incremental_vacuum({PORTION})").fetchall()
        (left,) = connection.execute("PRAGMA freelist_count").fetchone()
        advance(max(0, free - left) * size)
        if left >= free:  # others free as many pages at the same time
            return
        free = left


def _refuse_beside_workers(connection: sqlite3.Connection, path: str) -> None:
    now = time.time_ns() // 1000
    rows = connection.execute("SELECT id FROM workers WHERE expires_at > ?", (now,)).fetchall()
    running = [str(id) for (id,) in rows if not is_dead(path, str(id))]
    if running:
        raise InvalidRequest(
            f"worker {running[0]} runs, and {path} is of an earlier version: it must be written anew once, and nothing "
            "else can be written to it meanwhile. Stop the workers, then compact it; later it is compacted beside them."
        )


def _check_space(path: str, size: int) -> None:
    free = shutil.disk_usage(Path(path).resolve().parent).free
    if free < 2 * size:
        raise StoreFull(
            f"to write {path} anew takes up to {2 * size / 1e6:.0f} MB beside it, and {free / 1e6:.0f} MB are free: "
            "free some. Nothing was changed."
        )


def _rewrite(connection: sqlite3.Connection, path: str, advance: Callable[[int], None]) -> None:
    """Write the file anew, as one that gives pages back in portions. Until that is done, nothing is changed."""
    log, seen = Path(f"{path}-wal"), 0
    interrupts: list[BaseException] = []

    def look() -> int:
        nonlocal seen
        try:
            present = log.stat().st_size if log.exists() else 0
            advance(max(0, present - seen))
            seen = max(seen, present)
        except BaseException as error:  # Ctrl-C comes here, between two steps of SQLite
            interrupts.append(error)
            return 1
        return 0

    connection.set_progress_handler(look, STEPS)
    try:
        connection.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        connection.execute("VACUUM")
    except sqlite3.Error:
        if interrupts:
            raise interrupts[0] from None
        raise
    finally:
        connection.set_progress_handler(None, 0)

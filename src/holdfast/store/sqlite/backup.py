"""A copy of a live database file, by SQLite's own backup: complete and of one moment, while others read and write."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.store.sqlite.connection import check_current, connect, schema_of, translated


def backup(path: str, target: Path) -> int:
    """Copy the database to a new file; gives how many runs it has. Not for the event loop's thread.

    The file appears when it is complete and on disk, so a partial copy is never taken for a backup. Raises
    InvalidRequest where it cannot be written, and the errors of opening the store.
    """
    if target.exists():
        raise InvalidRequest(f"{target} exists already: name another file.")
    partial = target.with_name(f"{target.name}.partial")
    try:
        with closing(connect(path, readonly=True)) as source:
            check_current(schema_of(source, path), path)
            runs = _copy(source, path, partial)
        os.link(partial, target)  # unlike a rename, it fails where another file has appeared there
        _sync(target.parent)
    except OSError as error:
        raise InvalidRequest(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return runs


def _copy(source: sqlite3.Connection, path: str, partial: Path) -> int:
    partial.unlink(missing_ok=True)
    partial.touch(0o600)  # it has the private keys of the store
    with closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        with translated(path):
            source.backup(copy)
        # One file without a log beside it: the store that opens it turns the log on again.
        copy.execute("PRAGMA journal_mode = DELETE")
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise StoreCorrupt(f"{path} is damaged ({verdict}): restore it, nothing was written.")
        (runs,) = copy.execute("SELECT count(*) FROM runs").fetchone()
    _sync(partial)
    return int(runs)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

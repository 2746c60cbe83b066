"""Connections to the database file: how they are opened, the meaning of their errors, and the schema's migrations."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from holdfast.errors import (
    HoldfastError,
    SchemaTooNew,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedStore,
)
from holdfast.store.statements import load_migrations, newest_migration

T = TypeVar("T")

OLDEST_SQLITE: Final = (3, 38, 0)
APPLICATION_ID: Final = 0x486F6C64  # "Hold"
PATIENCE_SECONDS: Final = 10

PORTION: Final = 500
"""How many free pages one transaction gives back: other processes wait for the lock no longer than a moment."""
SPARE: Final = 1000
"""Free pages that are kept for what comes next. More than a quarter of the file are given back."""

_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_TEXT: Final = "Could not decode to UTF-8"  # the driver's error for a text column; it has no code
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process holds the write lock."""
    return _primary(error) in _BUSY


def is_interrupt(error: sqlite3.Error) -> bool:
    """Whether a progress handler has ended the statement."""
    return _primary(error) == sqlite3.SQLITE_INTERRUPT


def _primary(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def translate(error: sqlite3.Error, path: str) -> HoldfastError:
    """A driver's error as the error for the person who must act."""
    code = _primary(error)
    if code in _BUSY:
        return StoreUnavailable(f"{path} is locked by another process: {error}. Find out which, and why so long.")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no space is left for {path}: free some. Nothing is lost; the engine continues by itself.")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"{path} cannot be written to: correct the permissions of the file and of its folder.")
    if code in _CORRUPT or str(error).startswith(_NO_TEXT):
        return StoreCorrupt(
            f"{path} is damaged or is not a Holdfast database ({error}): restore it, or name another file."
        )
    if code == sqlite3.SQLITE_CANTOPEN:
        return UnsupportedStore(f"{path} cannot be opened: its folder must exist and be writable.")
    return StoreUnavailable(f"{path}: {error}")


@contextmanager
def translated(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error, path) from error


def connect(path: str, *, readonly: bool = False) -> sqlite3.Connection:
    """Open the file, durable and shared. May wait for another process's lock: not for the event loop's thread."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise UnsupportedStore(
            f"this Python has SQLite {sqlite3.sqlite_version}; Holdfast needs {'.'.join(map(str, OLDEST_SQLITE))} or "
            "newer. Use a newer Python build, or PostgreSQL."
        )
    with translated(path):
        name = f"file:{_quoted(path)}?mode={'ro' if readonly else 'rwc'}"
        connection = sqlite3.connect(
            name, uri=True, timeout=PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: often written pages are rarely copied
        except BaseException:
            connection.close()
            raise
    return connection


def prepare(path: str, *, wanted: bool) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """A writer and a reader of a file whose schema is up to date. They wait for no lock later: the store does that."""
    writer = connect(path)
    try:
        if wanted:
            migrate(writer, path)
        else:
            check_current(schema_of(writer, path), path)
        reader = connect(path)
    except BaseException:
        writer.close()
        raise
    for connection in (writer, reader):
        connection.execute("PRAGMA busy_timeout = 0")
    return writer, reader


def _quoted(path: str) -> str:
    return str(Path(path).absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Several reads of one state: another process may be creating the database."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def schema_of(connection: sqlite3.Connection, path: str) -> int:
    """The schema's number; 0 for an empty file.

    Raises StoreCorrupt where the file is another program's, or is marked as ours and has lost its log with all tables.
    """
    with translated(path), _snapshot(connection):
        (number,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application not in (0, APPLICATION_ID) or (application == 0 and tables):
        raise StoreCorrupt(f"{path} is a database of another program: name another file.")
    if application and not tables and not _has_log(path):  # with a log, it is being created at this moment
        raise StoreCorrupt(
            f"{path} is empty, and looks like a copy of a live database without its -wal file: copy it with "
            "`holdfast backup FILE`. If a process died while it created this file, delete it."
        )
    return int(number)


def _has_log(path: str) -> bool:
    try:
        return Path(f"{path}-wal").stat().st_size > 0
    except OSError:
        return False


def _mark(connection: sqlite3.Connection, path: str) -> None:
    """Mark a new file as ours, in the file itself and not only in its log: so a copy without the log is recognised.

    While another process reads the file, the mark stays in the log, and such a copy looks like a new file.
    """
    if connection.execute("PRAGMA application_id").fetchone() == (0,) and schema_of(connection, path) == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date inside one transaction, which is the lock. Raises SchemaTooNew."""
    migrations = load_migrations("holdfast.store.sqlite")
    with translated(path):
        check_schema(schema_of(connection, path), path)
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; of another it changes nothing
        _use_write_ahead_log(connection)
        _mark(connection, path)
        connection.execute("BEGIN IMMEDIATE")
        try:
            present = schema_of(connection, path)
            check_schema(present, path)
            connection.create_function("sha256", 1, lambda text: hashlib.sha256(text.encode()).digest())
            for migration in migrations[present:]:
                for statement in _split(migration.sql):
                    connection.execute(statement)
            if present < len(migrations):
                from importlib.metadata import version  # only here: it takes long to load

                mine = (len(migrations), version("holdfast"))
                connection.execute("INSERT OR REPLACE INTO schema_versions VALUES (?, ?)", mine)
                connection.execute(f"PRAGMA user_version = {len(migrations)}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL. Where two processes do so at once, SQLite does not wait, even with a busy timeout."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > patience:
                raise
            time.sleep(0.01)
        else:
            return


def shrink(connection: sqlite3.Connection) -> None:
    """Inside a transaction that has deleted much: give some free pages back, if they are many."""
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if free > max(SPARE, pages // 4):
        connection.execute(f"PRAGMA incremental_vacuum({PORTION})").fetchall()


def check_schema(present: int, path: str) -> None:
    newest = newest_migration("holdfast.store.sqlite")
    if present > newest:
        raise SchemaTooNew(
            f"{path} has schema {present} and this Holdfast knows {newest}: a newer one wrote it. Upgrade this one."
        )


def check_current(present: int, path: str) -> None:
    """Raises SchemaTooNew, or UnsupportedStore where the schema must still be migrated."""
    check_schema(present, path)
    newest = newest_migration("holdfast.store.sqlite")
    if present < newest:
        raise UnsupportedStore(
            f"{path} has schema {present} and this Holdfast needs {newest}: run `holdfast migrate`, or start a worker."
        )


def _split(script: str) -> Iterator[str]:
    """The script's statements; unlike executescript this keeps the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


async def uninterrupted(future: asyncio.Future[T]) -> T:
    """Await to the end even when cancelled; the cancellation follows."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            await asyncio.wait([future])
        raise

"""The schema that a store has, and the newest that this Holdfast knows; nothing is changed."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import UnsupportedStore
from holdfast.store.statements import newest_migration
from holdfast.store.urls import store_at


async def schema_numbers(url: str) -> tuple[int, int]:
    """The schema that is there (0 where there is none yet) and the newest known. Raises as opening the store does."""
    store_at(url)
    if url.startswith("sqlite:"):
        return _sqlite(url)
    if url.startswith("postgres"):
        return await _postgres(url)
    raise UnsupportedStore(f"{url} has no schema.")


def newest_schema(url: str) -> int:
    """The newest schema that this Holdfast knows for such a store."""
    return newest_migration("holdfast.store.sqlite" if url.startswith("sqlite:") else "holdfast.store.postgres")


def sqlite_path(url: str) -> Path:
    """The file that a SQLite URL names."""
    from holdfast.store.sqlite.store import SqliteStore

    store = store_at(url)
    assert isinstance(store, SqliteStore)
    return Path(store.path)


async def version_of(url: str) -> str | None:
    """The version of Holdfast that brought the store's schema up to date; None where that is not written there."""
    if url.startswith("postgres"):
        return await _postgres_version(url)
    from holdfast.store.sqlite.connection import connect

    connection = connect(str(sqlite_path(url)), readonly=True)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_versions'").fetchone():
            return None
        found = connection.execute("SELECT holdfast FROM schema_versions ORDER BY number DESC LIMIT 1").fetchone()
        return None if found is None else str(found[0])
    finally:
        connection.close()


async def _postgres_version(url: str) -> str | None:
    from holdfast.store.postgres import connection as c
    from holdfast.store.postgres.cluster import connect
    from holdfast.store.postgres.sql import SQL

    connection = await connect(url)
    try:
        found = await connection.fetchval(SQL["version_of_schema"])
        return None if found is None else str(found)
    except c.failures() as error:
        raise c.translate(error, url) from error
    finally:
        await c.close(connection)


def _sqlite(url: str) -> tuple[int, int]:
    from holdfast.store.sqlite.connection import connect, schema_of

    path = sqlite_path(url)
    if not path.exists():
        raise UnsupportedStore(
            f"there is no database at {path}: check --store, or create it with `holdfast migrate` or `holdfast worker`."
        )
    connection = connect(str(path), readonly=True)
    try:
        return schema_of(connection, str(path)), newest_schema(url)
    finally:
        connection.close()


async def _postgres(url: str) -> tuple[int, int]:
    from holdfast.store.postgres import connection as c
    from holdfast.store.postgres.cluster import connect
    from holdfast.store.postgres.sql import SQL

    connection = await connect(url)
    try:
        row = await connection.fetchrow(SQL["surroundings"])
        return (await connection.fetchval(SQL["schema_number"]) if row["prepared"] else 0), newest_schema(url)
    except c.failures() as error:
        raise c.translate(error, url) from error
    finally:
        await c.close(connection)

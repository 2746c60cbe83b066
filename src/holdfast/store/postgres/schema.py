"""The checks of a server when a store is opened: its version, its schema, and a pooler before it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdfast.errors import SchemaTooNew, UnsupportedStore
from holdfast.store.postgres.cluster import Cluster
from holdfast.store.postgres.connection import close, driver, failures, shown, translate
from holdfast.store.postgres.sql import SQL
from holdfast.store.statements import load_migrations, newest_migration

OLDEST_SERVER: Final = 13
MIGRATION_SECONDS: Final = 3600.0
"""Migrating a large table takes long, and other processes that open the store wait for it."""


class Surroundings(NamedTuple):
    """The facts about the server: the schema of unqualified names."""

    schema: str

    @property
    def channel(self) -> str:
        """The channel for announcing changes. Two schemas of one database do not wake each other."""
        name = f"holdfast_{self.schema}"
        if len(name.encode()) < 64:  # the longest name that the server takes
            return name
        return f"holdfast_{hashlib.sha256(self.schema.encode()).hexdigest()[:32]}"


async def prepare(cluster: Cluster, *, wanted: bool) -> Surroundings:
    """Look at the server and, if ``wanted``, bring the schema up to date. Raises SchemaTooNew, UnsupportedStore, …"""
    url = cluster.url
    session = await cluster.connect()
    try:
        await _check_pooler(session, cluster)
        found = await session.fetchrow(SQL["surroundings"])
        _check_server(found, url)
        if wanted:
            await _migrate(session, url)
        elif not found["prepared"]:
            raise UnsupportedStore(
                f"{shown(url)} holds no Holdfast tables: check the URL, or start a worker on it first."
            )
        else:
            _check_current(await session.fetchval(SQL["schema_number"]), url)
    except failures() as error:
        raise translate(error, url) from error
    finally:
        await close(session)
    return Surroundings(found["schema"])


async def _check_pooler(session: Any, cluster: Cluster) -> None:
    """Check that a session stays with one server process: its locks, LISTEN, settings and prepared statements need it.

    A pooler by transaction gives each transaction any free server process. So one session meets several processes, or
    two sessions meet the same. Neither happens without a pooler, or with one that pools by session.
    """
    try:
        met = {await session.fetchval(SQL["process"]) for _ in range(2)}
        other = await cluster.connect()
        try:
            async with other.transaction():
                shared = other.host == session.host and await other.fetchval(SQL["process"]) in met
        finally:
            await close(other)
    except driver().PostgresError as error:
        if error.sqlstate not in _SIGNS_OF_A_POOLER:
            raise
        raise UnsupportedStore(_POOLED.format(shown(cluster.url))) from error
    if shared or len(met) > 1:
        raise UnsupportedStore(_POOLED.format(shown(cluster.url)))


_SIGNS_OF_A_POOLER: Final = ("26000", "42P05", "08P01")
"""The errors of such poolers: a prepared statement is unknown or another's, or several statements are refused."""

_POOLED: Final = (
    "a pooler that pools by transaction stands before {}, and locks, LISTEN and prepared statements need a session: "
    "set pool_mode = session for this database (pgbouncer), or name the server itself in the URL."
)


def _check_server(found: Mapping[str, Any], url: str) -> None:
    if found["version"] < OLDEST_SERVER * 10000:
        major = found["version"] // 10000
        raise UnsupportedStore(
            f"{shown(url)} is PostgreSQL {major}; Holdfast needs {OLDEST_SERVER} or newer: upgrade it."
        )
    if found["encoding"] != "UTF8":
        raise UnsupportedStore(
            f"{shown(url)} is encoded in {found['encoding']}: create the database with ENCODING 'UTF8'."
        )
    if found["schema"] is None:
        raise UnsupportedStore(f"{shown(url)}: the schema in search_path does not exist: create it, or set another.")


def _check_schema(present: int, url: str) -> None:
    newest = newest_migration("holdfast.store.postgres")
    if present > newest:
        raise SchemaTooNew(
            f"{shown(url)} has schema {present} and this Holdfast knows {newest}: a newer Holdfast wrote it. "
            "Upgrade this one."
        )


def _check_current(present: int, url: str) -> None:
    _check_schema(present, url)
    newest = newest_migration("holdfast.store.postgres")
    if present < newest:
        raise UnsupportedStore(
            f"{shown(url)} has schema {present} and this Holdfast needs {newest}: run `holdfast migrate`, or start a "
            "worker."
        )


async def _migrate(connection: Any, url: str) -> None:
    """Apply the missing migrations in one transaction, under a lock that only migrations take."""
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute(SQL["lock_schema"], timeout=MIGRATION_SECONDS)
        # Checked again under the lock. The table is created only where it is missing, so that a user without the right
        # to create tables can open a database that is up to date.
        prepared = (await connection.fetchrow(SQL["surroundings"]))["prepared"]
        present = await connection.fetchval(SQL["schema_number"]) if prepared else 0
        _check_schema(present, url)
        if not prepared:
            await connection.execute(SQL["make_schema"])
        missing = load_migrations("holdfast.store.postgres")[present:]
        for migration in missing:
            await connection.execute(migration.sql, timeout=MIGRATION_SECONDS)
            await connection.execute(SQL["note_migration"], migration.number, migration.name)
        if missing:
            from importlib.metadata import version  # only here: it takes long to load

            await connection.execute(SQL["note_version"], missing[-1].number, version("holdfast"))
        if missing:  # after all of them: a new table has its policies from the start
            await connection.execute(SQL["secure_rows"], timeout=MIGRATION_SECONDS)

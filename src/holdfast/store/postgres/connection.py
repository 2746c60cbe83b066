"""Connections to the server: how they are opened, what their errors mean, how the schema is brought up to date.

The driver is imported when a store is opened and not before: without PostgreSQL nothing needs it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from holdfast.errors import (
    EngineError,
    HoldfastError,
    SchemaTooNew,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedStore,
)
from holdfast.store.postgres.sql import SQL
from holdfast.store.statements import load_migrations

OLDEST_SERVER: Final = 13
COMMAND_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
PLAN_SECONDS: Final = 10
"""Planning takes longer than a small commit, so plans are kept; but not for long, because tables grow."""

DEADLOCK: Final = "40P01"
SERIALIZATION: Final = "40001"

_SETTINGS: Final = {
    "application_name": "holdfast",
    # The statements read what decides from the row they have locked; that needs exactly this level.
    "default_transaction_isolation": "read committed",
    # A process that hangs between BEGIN and COMMIT must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60000",
    # A plan is kept for a while. One made while a table was empty must not read all of it when it has grown.
    "enable_seqscan": "off",
    "jit": "off",
    # A host that lost its power is noticed by the server, which then lets go of its workers' locks.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


def driver() -> Any:
    """The module ``asyncpg``. Raises UnsupportedStore where it is not installed."""
    try:
        import asyncpg
    except ImportError as error:
        raise UnsupportedStore("PostgreSQL needs a driver: pip install holdfast[postgres]") from error
    return asyncpg


def shown(url: str) -> str:
    """The URL as messages show it: host, port and database, without user and password."""
    parts = urlsplit(url)
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # a password that is not quoted: parts of it are anywhere
        return f"{parts.scheme}://…"
    _, _, place = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{place}{parts.path}"


def failures() -> tuple[type[BaseException], ...]:
    """What the driver raises, for ``except``."""
    asyncpg = driver()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


def translate(error: BaseException, url: str) -> HoldfastError:
    """What a driver error means to the one who must act."""
    place = shown(url)
    state = getattr(error, "sqlstate", None)
    if state is None:
        if isinstance(error, ValueError):  # the driver's own DataError: a value that the protocol cannot carry
            return EngineError(f"{place} was given a value that it cannot hold: {error}")
        why = str(error) or type(error).__name__
        return StoreUnavailable(f"{place} does not answer: {why}. Check that the server runs and can be reached.")
    if state == "53100":
        return StoreFull(f"no space is left for {place}: free some. Nothing is lost; the engine goes on by itself.")
    if state == "25006":
        return StoreReadOnly(
            f"{place} cannot be written to ({error}): name the primary server, or let it accept writes."
        )
    if state in ("XX001", "XX002"):
        return StoreCorrupt(f"{place} is damaged ({error}): restore it from a backup.")
    if state.startswith("28"):
        return UnsupportedStore(f"{place} refused the login ({error}): check user and password in the URL.")
    if state == "3D000":
        return UnsupportedStore(f"{place} does not exist ({error}): create the database, or name another.")
    if state == "42501":
        return UnsupportedStore(f"{place} refused ({error}): grant the user its rights on the schema.")
    if state in ("42P01", "3F000"):
        return UnsupportedStore(f"{place} holds no Holdfast tables ({error}): start a worker on it first.")
    if state[:2] in ("22", "23", "42"):
        return EngineError(f"{place} refused a statement: {error}")
    return StoreUnavailable(f"{place}: {error}")


class Surroundings(NamedTuple):
    """What was found at the server: the schema that unqualified names live in, and settings for further connections."""

    schema: str
    settings: Mapping[str, str]

    @property
    def channel(self) -> str:
        """Where changes are announced. Two schemas of one database do not wake each other."""
        name = f"holdfast_{self.schema}"
        if len(name.encode()) < 64:  # the longest name that the server takes
            return name
        return f"holdfast_{hashlib.sha256(self.schema.encode()).hexdigest()[:32]}"


async def connect(url: str, settings: Mapping[str, str] = _SETTINGS) -> Any:
    """One connection outside the pool. Raises as ``translate`` says."""
    asyncpg = driver()
    try:
        return await asyncpg.connect(
            url, timeout=CONNECT_SECONDS, command_timeout=COMMAND_SECONDS, server_settings=dict(settings)
        )
    except failures() as error:
        raise translate(error, url) from error
    except ValueError as error:
        raise UnsupportedStore(
            f"{shown(url)} is not a PostgreSQL URL ({error}): postgresql://USER@HOST/DATABASE"
        ) from error


async def prepare(url: str, *, wanted: bool) -> Surroundings:
    """Look at the server and, if ``wanted``, bring the schema up to date. Raises SchemaTooNew, UnsupportedStore, …"""
    connection = await connect(url)
    try:
        found = await connection.fetchrow(SQL["surroundings"])
        _check_server(found, url)
        if wanted:
            await _migrate(connection, url)
        elif not found["prepared"]:
            raise UnsupportedStore(
                f"{shown(url)} holds no Holdfast tables: check the URL, or start a worker on it first."
            )
        else:
            _check_current(await connection.fetchval(SQL["schema_number"]), url)
    except failures() as error:
        raise translate(error, url) from error
    finally:
        await close(connection)
    # An intent must be durable before its effect starts, whatever the server's default is.
    durable = {"synchronous_commit": "on"} if found["durability"] == "off" else {}
    return Surroundings(found["schema"], {**_SETTINGS, **durable})


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
        raise UnsupportedStore(f"{shown(url)}: the schema in search_path does not exist: create it, or mend the path.")


def _check_schema(present: int, url: str) -> None:
    newest = len(load_migrations("holdfast.store.postgres"))
    if present > newest:
        raise SchemaTooNew(
            f"{shown(url)} has schema {present} and this Holdfast knows {newest}: a newer Holdfast wrote it. "
            "Upgrade this one."
        )


def _check_current(present: int, url: str) -> None:
    _check_schema(present, url)
    newest = len(load_migrations("holdfast.store.postgres"))
    if present < newest:
        raise UnsupportedStore(
            f"{shown(url)} has schema {present} and this Holdfast needs {newest}: run `holdfast migrate`, or start a "
            "worker."
        )


async def _migrate(connection: Any, url: str) -> None:
    """Apply what is missing in one transaction, under a lock that only migrations take."""
    async with connection.transaction():
        await connection.execute(SQL["lock_schema"])
        # Looked for again under the lock. Only a database without the table is changed at all, so that a user who may
        # not create tables can open one that is up to date.
        prepared = (await connection.fetchrow(SQL["surroundings"]))["prepared"]
        present = await connection.fetchval(SQL["schema_number"]) if prepared else 0
        _check_schema(present, url)
        if not prepared:
            await connection.execute(SQL["make_schema"])
        for migration in load_migrations("holdfast.store.postgres")[present:]:
            await connection.execute(migration.sql)
            await connection.execute(SQL["note_migration"], migration.number, migration.name)


async def make_pool(url: str, settings: Mapping[str, str], *, most: int) -> Any:
    """Connections that are made again by themselves when the server comes back."""
    asyncpg = driver()

    class Connection(asyncpg.Connection):  # type: ignore[misc, name-defined]  # the driver has no types
        def get_reset_query(self) -> str:
            # Nothing here changes a session, so nothing is to be reset: that would double the round trips of a commit.
            return ""

    try:
        return await asyncpg.create_pool(
            url,
            min_size=0,  # with a floor the driver logs a traceback for every try while the server is away
            max_size=most,
            timeout=CONNECT_SECONDS,
            command_timeout=COMMAND_SECONDS,
            server_settings=dict(settings),
            connection_class=Connection,
            max_cached_statement_lifetime=PLAN_SECONDS,
        )
    except failures() as error:
        raise translate(error, url) from error


async def close(connection: Any) -> None:
    """Let go of a connection or pool, politely if the server still answers."""
    try:
        async with asyncio.timeout(2):
            await connection.close()
    except failures():
        connection.terminate()

"""One connection to a server: how it is made, its own facts, the meaning of its errors, and how it ends.

The driver is imported when a store is opened and not before: without PostgreSQL nothing needs it.
"""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.errors import (
    EngineError,
    HoldfastError,
    InvalidRequest,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    UnsupportedStore,
)

COMMAND_SECONDS: Final = 30.0
"""After so long without an answer a connection is dropped. The server itself cancels a statement a little sooner."""

STATEMENT_SECONDS: Final = 25.0
PLAN_SECONDS: Final = 10
"""Planning takes longer than a small commit, so plans are kept, but not for long, because tables grow."""

DEADLOCK: Final = "40P01"
SERIALIZATION: Final = "40001"
READ_ONLY: Final = "25006"
CANCELED: Final = "57014"

_SETTINGS: Final = {
    # The statements decide by the row that they have locked; that needs exactly this level.
    "default_transaction_isolation": "read committed",
    # A process that hangs between BEGIN and COMMIT must not hold its locks for ever.
    "idle_in_transaction_session_timeout": "60000",
    # The server cancels a statement that waits for a lock, but not a commit that waits for a standby.
    "statement_timeout": str(round(STATEMENT_SECONDS * 1000)),
    # Plans are kept for a while. A plan made for an empty table must not scan the whole table when it has grown.
    "enable_seqscan": "off",
    "jit": "off",
    # The server notices a host that lost its power, and releases the locks of its workers.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

SET_UP: Final = "".join(f"SET {name} = '{value}';" for name, value in _SETTINGS.items()) + (
    # An intent must be durable before its effect starts, even if the server's default is off.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
"""Set in the session and not at the login: poolers refuse logins with settings that they do not know."""


def driver() -> Any:
    """The module ``asyncpg``. Raises UnsupportedStore where it is not installed."""
    try:
        import asyncpg
    except ImportError as error:
        raise UnsupportedStore("PostgreSQL needs a driver: pip install holdfast[postgres]") from error
    return asyncpg


@cache
def session_class() -> Any:
    """The driver's connection class, with further facts about each session."""

    class Session(driver().Connection):  # type: ignore[misc]  # the driver has no types
        host: Any = None
        """The host of the URL that it is connected to."""

        standing: Any = None
        """How its server describes itself, see ``cluster``."""

        lineage: Any = None
        """The lineage of its server, see ``lineage``; None for a standby."""

        confirmed = False
        """Whether the standbys have everything that it can read, see ``doubt``."""

        warned = False
        """Whether the server warned that it did not wait for a standby, see ``doubt``."""

        since = 0.0
        """When its present use began, or its last one ended."""

    return Session


async def connect_to(url: str, seconds: float, **options: Any) -> Any:
    """One session within so many seconds, with its settings. Raises the driver's errors, and ValueError for a bad
    URL."""
    session = await driver().connect(
        url,
        timeout=seconds,
        command_timeout=COMMAND_SECONDS,
        connection_class=session_class(),
        max_cached_statement_lifetime=PLAN_SECONDS,
        server_settings={"application_name": "holdfast"},
        **options,
    )
    try:
        async with asyncio.timeout(seconds):
            await session.execute(SET_UP)
    except BaseException:
        session.terminate()
        raise
    return session


def shown(url: str) -> str:
    """The URL as messages show it: host, port and database, without user and password."""
    parts = urlsplit(url)
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":  # an unquoted password: parts of it may be anywhere
        return f"{parts.scheme}://…"
    _, _, place = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{place}{parts.path}"


def failures() -> tuple[type[BaseException], ...]:
    """The driver's errors, for ``except``."""
    asyncpg = driver()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)


def translate(error: BaseException, url: str) -> HoldfastError:
    """A driver's error as the error for the person who must act."""
    place = shown(url)
    state = getattr(error, "sqlstate", None)
    said = _said(error)
    if "server_login_retry" in said:
        return StoreUnavailable(
            f"the pooler before {place} lets nobody in for its server_login_retry (15 s unless set) since it lost its "
            f"server ({said}): set server_login_retry = 1 there."
        )
    if state is None:
        if isinstance(error, ValueError):  # the driver's own DataError: a value that the protocol cannot carry
            return EngineError(f"{place} was given a value that it cannot hold: {said}")
        if isinstance(error, driver().TargetServerAttributeNotMatched):
            return StoreUnavailable(f"{place} takes no writes: it is a standby. Name the primary, or promote it.")
        return StoreUnavailable(f"{place} {what_failed(error)}. Check that the server runs and can be reached.")
    if state == "53100":
        return StoreFull(f"no space is left for {place}: free some. Nothing is lost; the engine continues by itself.")
    if state == READ_ONLY:
        return StoreReadOnly(
            f"{place} cannot be written to ({said}): name the primary server, or let it accept writes."
        )
    if state in ("XX001", "XX002"):
        return StoreCorrupt(f"{place} is damaged ({said}): restore it from a backup.")
    if state == "08P01" and "startup parameter" in said:
        return UnsupportedStore(
            f"the pooler before {place} refused the login ({said}): set this for the role or the database instead of "
            "in the URL."
        )
    if state == CANCELED:
        return StoreUnavailable(
            f"{place} did not finish a statement within {STATEMENT_SECONDS:.0f} s: it is very busy, or another session "
            "holds what it needs, such as one that waits for a standby."
        )
    if state.startswith("28"):
        return UnsupportedStore(f"{place} refused the login ({said}): check user and password in the URL.")
    if state == "3D000":
        return UnsupportedStore(f"{place} does not exist ({said}): create the database, or name another.")
    if state == "42501":
        return UnsupportedStore(f"{place} refused ({said}): grant the user its rights on the schema.")
    if state in ("42P01", "3F000"):
        return UnsupportedStore(f"{place} holds no Holdfast tables ({said}): start a worker on it first.")
    if state in ("22021", "22P05"):  # its texts cannot have it; everything else is UTF-8 already
        return InvalidRequest("a text has the character U+0000 in it, which PostgreSQL cannot hold: take it out.")
    if state[:2] in ("22", "23", "42"):
        return EngineError(f"{place} refused a statement: {said}")
    return StoreUnavailable(f"{place}: {said}")


def _said(error: BaseException) -> str:
    """An error's own line. Further lines are the driver's advice to programmers."""
    return (str(error) or type(error).__name__).splitlines()[0]


def what_failed(error: BaseException) -> str:
    """An error of a connection, for the person who runs the server: without the driver's own state."""
    if isinstance(error, TimeoutError):
        return "does not answer in time"
    if isinstance(error, OSError) and error.strerror:
        return f"does not answer: {error.strerror}"
    if isinstance(error, OSError | driver().PostgresError):
        return _said(error)
    return "has ended the connection"


async def close(connection: Any) -> None:
    """Close a connection, in an orderly way if the server still answers."""
    try:
        async with asyncio.timeout(2):
            await connection.close()
    except failures():
        connection.terminate()

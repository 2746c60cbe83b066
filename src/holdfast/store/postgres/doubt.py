"""Doubt: commits of the primary that a synchronous standby may lack. Nothing is acknowledged while in doubt.

A commit that waits for its standby is visible to nobody until the standby has it or the wait is interrupted. After an
interruption it is visible to everybody, though a loss of the primary would still undo it. So:

- A wait is never interrupted from here. A command that takes too long, or whose caller has gone, is not cancelled: its
  connection is dropped, and the commit keeps waiting at the server, invisible.
- The server reports a wait that someone else interrupted with a warning. Such a commit counts as not answered.
- A restart of the server interrupts all waits. So a session is confirmed before it is used, by a separate commit:
  when the standbys have that one, they have everything before it.
- After a use whose outcome is unknown, all sessions of the handle are confirmed again. So a repetition that finds its
  change already made is not answered before the standbys have it.

Without synchronous standbys there is nothing to wait for, and confirming costs one query per session.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import StoreUnavailable
from holdfast.store.postgres.connection import close, driver, shown
from holdfast.store.postgres.sql import SQL

CONFIRM_SECONDS: Final = 5.0
_WAIT: Final = "SyncRepWaitForLSN"
"""The server's function that waits for standbys. Messages are in the server's language; this name is not translated."""

_ENDED: Final = "57P"
"""Errors with which the server ends a session, perhaps in the middle of a commit."""


def note_warnings(session: Any) -> None:
    """Make the session note a warning that the server did not wait for a standby to the end."""

    def note(session: Any, message: Any) -> None:
        if getattr(message, "server_source_function", None) == _WAIT:
            session.warned = True

    session.add_log_listener(note)


async def confirm(session: Any, url: str) -> None:
    """Wait until the standbys have all that the session can read. Raises StoreUnavailable, with the session closed.

    This wait may be interrupted and then leaves nothing in doubt: nobody reads the data that it commits.
    """
    try:
        await session.fetchval(SQL["confirm"], timeout=CONFIRM_SECONDS)
    except TimeoutError as error:
        await close(session)
        raise StoreUnavailable(absent(url)) from error
    check_warnings(session, url)
    session.confirmed = True


def absent(url: str, names: str = "") -> str:
    """Why nothing is acknowledged while no synchronous standby answers, and what to do."""
    which = f" ({names})" if names else ""
    return (
        f"{shown(url)} waits for a synchronous standby that does not answer{which}: bring it back, or take it out of "
        "synchronous_standby_names. Nothing is acknowledged until then, and nothing is lost."
    )


def check_warnings(session: Any, url: str) -> None:
    """Raises StoreUnavailable where the server did not wait for a standby to the end."""
    if session.warned:
        raise StoreUnavailable(
            f"{shown(url)}: the wait for a synchronous standby was broken off, which leaves a commit in doubt."
        )


def is_doubtful(error: BaseException) -> bool:
    """Whether the outcome of a use that ended with this error is unknown: no answer came, or nobody waited for it."""
    if not isinstance(error, Exception):
        return True
    if isinstance(error, ValueError):
        return False  # the driver's own DataError: nothing was sent
    if str(getattr(error, "sqlstate", None))[:3] == _ENDED:
        return True
    lost = (driver().PostgresConnectionError, driver().InterfaceError, driver().InternalClientError, OSError)
    return isinstance(error, lost)

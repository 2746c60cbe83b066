"""Doubt: what the primary has committed, and a synchronous standby may not have. Nothing is acknowledged in doubt.

A commit that waits for its standby is seen by nobody, until the standby has it or the wait is broken off. After that
everybody sees it, though the loss of the primary would still undo it. So:

- A wait is never broken off from here. A command that takes too long, or whose caller has gone, is not cancelled: its
  connection is dropped, and the commit goes on waiting at the server, unseen.
- A wait that someone else broke off is told by the server with a warning. Such a commit counts as not answered.
- A restart of the server breaks off all waits. So a session is confirmed before it is used: by a commit of its own,
  which the standbys have only with everything before it.
- After a use whose outcome is unknown all sessions of the handle are confirmed anew: whatever repeats it, and finds
  that it was done, writes before it answers.

Without synchronous standbys there is nothing to wait for, and confirming costs one question per session.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import StoreUnavailable
from holdfast.store.postgres.connection import close, driver, shown
from holdfast.store.postgres.sql import SQL

CONFIRM_SECONDS: Final = 5.0
_WAIT: Final = "SyncRepWaitForLSN"
"""The server's function that waits for standbys. Its words are translated into the server's language; this is not."""

_ENDED: Final = "57P"
"""Errors with which the server ends a session, perhaps in the middle of a commit."""


def hear_warnings(session: Any) -> None:
    """Have the session note when the server did not wait for a standby to the end."""

    def hear(session: Any, message: Any) -> None:
        if getattr(message, "server_source_function", None) == _WAIT:
            session.warned = True

    session.add_log_listener(hear)


async def confirm(session: Any, url: str) -> None:
    """Wait until the standbys have all that the session can read. Raises StoreUnavailable, with the session closed.

    This wait may be broken off, and then leaves nothing behind at the server: nobody reads what it commits.
    """
    try:
        await session.fetchval(SQL["confirm"], timeout=CONFIRM_SECONDS)
    except TimeoutError as error:
        await close(session)
        raise StoreUnavailable(
            f"{shown(url)} waits for a synchronous standby that does not answer: bring it back, or take it out of "
            "synchronous_standby_names. It is tried again."
        ) from error
    check_warnings(session, url)
    session.confirmed = True


def check_warnings(session: Any, url: str) -> None:
    """Raises StoreUnavailable where the server did not wait for a standby to the end."""
    if session.warned:
        raise StoreUnavailable(
            f"{shown(url)}: the wait for a synchronous standby was broken off, which leaves a commit in doubt. "
            "It is tried again."
        )


def is_doubtful(error: BaseException) -> bool:
    """Whether it is unknown what became of the use that ended so: no answer came, or nobody waited for it."""
    if not isinstance(error, Exception):
        return True
    if isinstance(error, ValueError):
        return False  # the driver's own DataError: nothing was sent
    if str(getattr(error, "sqlstate", None))[:3] == _ENDED:
        return True
    lost = (driver().PostgresConnectionError, driver().InterfaceError, driver().InternalClientError, OSError)
    return isinstance(error, lost)

"""What PostgreSQL, its driver and poolers say, in words for the person who runs the server."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.errors import StoreUnavailable
from holdfast.store.postgres.connection import translate

URL = "postgresql://ann:secret@db/shop"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (asyncpg.InterfaceError("cannot switch to state 12; another operation (2) is in progress"), "has ended the"),
        (asyncpg.InternalClientError("got result for unknown protocol state 3"), "has ended the connection"),
        (TimeoutError(), "does not answer in time"),
        (ConnectionRefusedError(111, "Connection refused"), "does not answer: Connection refused"),
        (asyncpg.QueryCanceledError("canceling statement due to statement timeout"), "holds what it needs"),
        (
            asyncpg.ProtocolViolationError("server login has been failing, cached error: x (server_login_retry)"),
            "set server_login_retry = 1",
        ),
    ],
)
def test_a_message_says_what_to_do_and_nothing_of_the_drivers_insides(error: Exception, words: str) -> None:
    """No state of the driver, no cancelled statement without its reason, no password."""
    translated = translate(error, URL)
    assert isinstance(translated, StoreUnavailable)
    assert words in str(translated)
    for inside in ("state 12", "protocol state", "canceling statement", "secret"):
        assert inside not in str(translated)


def test_advice_of_the_driver_to_programmers_is_left_out() -> None:
    """``statement_cache_size`` is nothing that a user of Holdfast can set."""
    hint = "pgbouncer with pool_mode set to transaction: set statement_cache_size to 0"
    error = asyncpg.DuplicatePreparedStatementError('prepared statement "a" already exists\nHINT: ' + hint)
    assert "statement_cache_size" not in str(translate(error, URL))
    assert "already exists" in str(translate(error, URL))

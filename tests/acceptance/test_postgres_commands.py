"""Commands while a server of PostgreSQL is away, and with clocks that differ."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from click.testing import CliRunner

from holdfast import Holdfast, WorkerOptions
from holdfast.cli import exits, session
from holdfast.cli.main import main
from holdfast.testing.postgres import PostgresServer


def test_start_waits_for_a_server_that_is_away(own_postgres: PostgresServer) -> None:
    """As the manual promises; what it waits for is said at once."""
    url = own_postgres.schema_url()
    assert CliRunner().invoke(main, ["migrate", "--store", url]).exit_code == 0
    own_postgres.stop("immediate")
    back = threading.Timer(2.0, own_postgres.start)
    back.start()
    try:
        done = CliRunner().invoke(main, ["start", "anything", "--id", "waited", "--store", url])
    finally:
        back.join()
    assert done.exit_code == exits.GOOD, done.output
    assert "Waiting for up to 30 seconds." in done.output
    assert own_postgres.execute("SELECT id FROM runs", url) == [("waited",)]


def test_a_command_that_gives_up_says_that_it_is_not_tried_again(
    own_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine would go on; a command has ended."""
    monkeypatch.setattr(session, "PATIENCE_SECONDS", 0.2)
    url = own_postgres.schema_url()
    own_postgres.stop("immediate")
    try:
        done = CliRunner().invoke(main, ["start", "anything", "--id", "lost", "--store", url])
    finally:
        own_postgres.start()
    assert done.exit_code not in (exits.GOOD, exits.NO)
    assert "It is not tried again: with the same id, the command can be repeated." in done.output


def test_doctor_judges_leases_by_the_stores_clock(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is alive, though the clock of this host is an hour ahead."""

    async def judge() -> str:
        async with Holdfast(postgres.schema_url(), options=WorkerOptions(evidence=False)) as app:
            done = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", "--store", app.url])
            return done.output

    true_time = time.time
    monkeypatch.setattr("holdfast.cli.store.doctor.time.time", lambda: true_time() + 3600)
    monkeypatch.setattr("holdfast.cli.store.servers.time.time", lambda: true_time() + 3600)
    said = asyncio.run(judge())
    assert "1 running" in said
    assert "is dead" not in said

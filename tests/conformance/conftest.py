"""Bring up the server that some stores need."""

from collections.abc import Iterator

import pytest

from holdfast.testing.postgres import PostgresServer, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of this process; under xdist each of its processes has its own."""
    with server(fast=True) as running:
        yield running

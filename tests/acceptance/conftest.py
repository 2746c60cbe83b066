"""Servers, files and flags of the acceptance tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.postgres import PostgresServer, server
from tests.acceptance import authored
from tests.acceptance.processes import sqlite_url


@pytest.fixture(autouse=True)
def _fresh_flags() -> Iterator[None]:
    """No test sees the calls of another, and no thread outlives its test."""
    authored.reset()
    yield
    authored.let_go.set()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A database file that does not exist yet."""
    return sqlite_url(tmp_path / "holdfast.db")


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[PostgresServer]:
    """A server that a test may stop and start."""
    with server(own=True, fast=True) as running:
        yield running

"""Servers that carry wake-ups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.testing.redis import RedisServer, server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """One server for all tests of this process that leave it as it is."""
    with server() as running:
        yield running


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A server that the test may stop."""
    with server() as running:
        yield running

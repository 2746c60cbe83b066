"""Servers on this machine, which may be called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.transports.server import Server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be called, by its address and by no name; nothing else of the environment counts."""
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.1")
    monkeypatch.delenv("HOLDFAST_HTTP_HOSTS", raising=False)
    monkeypatch.delenv("HOLDFAST_SECRETS", raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@pytest.fixture
def other() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()

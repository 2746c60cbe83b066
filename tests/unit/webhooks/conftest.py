"""A receiver on this machine, which may be called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.transports.server import Reply, Server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be called, by its address and by no name; nothing else of the environment counts."""
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.1")
    for name in ("HOLDFAST_HTTP_HOSTS", "HOLDFAST_SECRETS", "HOLDFAST_KEY_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def receiver() -> Iterator[Server]:
    found = Server()
    found.behaviour = lambda _: Reply(204)
    yield found
    found.close()

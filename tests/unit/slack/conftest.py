"""The stores on which presses are tested: a URL for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.postgres import PostgresServer
from tests.scope import one_stays


@pytest.fixture(params=one_stays(["memory", "sqlite", "postgres"]))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store of each kind."""
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    running: PostgresServer = request.getfixturevalue("postgres")
    return running.schema_url()

"""The stores on which the promises about effects of machines are tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.postgres import PostgresServer
from tests.scope import one_stays
from tests.unit.worker.ground import Ground


@pytest.fixture(params=one_stays(["memory", "sqlite", "postgres"]))
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """On memory the time is virtual, on the others it is real."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return Ground(server.schema_url())
    return Ground(None if request.param == "memory" else tmp_path / "store.db")

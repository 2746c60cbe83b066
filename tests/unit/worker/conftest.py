"""The ground of the gate's engine tests, on each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scope import one_stays
from tests.unit.worker.ground import Ground


@pytest.fixture(params=one_stays(["memory", "sqlite"]))
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """On memory in virtual time, then on SQLite in real time."""
    return Ground(None if request.param == "memory" else tmp_path / "store.db")


@pytest.fixture
def virtual() -> Ground:
    """On memory alone, for what waits."""
    return Ground(None)

"""Traces of the model of templates are followed on the stores that people use, as they are in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.model_traces.__main__ import followed
from holdfast.testing.model_traces.trace import ModelTrace, read_trace
from holdfast.testing.model_traces.walks import random_trace
from holdfast.testing.postgres import PostgresServer
from tests.acceptance.processes import sqlite_url
from tests.scope import volume
from tests.unit.testing.model_traces.corpus import FILES

SEEDS = (4, 11)
SAMPLE = volume(130, 65)
"""Every so-manieth published trace is followed here."""


def sample() -> list[tuple[str, ModelTrace]]:
    """Random traces, and some of the published ones where they are at hand."""
    published = [(str(file), read_trace(file)) for file in FILES[::SAMPLE]]
    return [(f"seed {seed}", random_trace(seed)) for seed in SEEDS] + published


def check(url: str) -> None:
    """They share a store: each has tenants of its own."""
    for name, trace in sample():
        report = followed(trace, name, url)
        assert report.agrees, f"{name}: {report.problems}"


@pytest.mark.long
def test_traces_are_followed_on_sqlite(tmp_path: Path) -> None:
    """T-41 on SQLite."""
    check(sqlite_url(tmp_path / "traces.db"))


@pytest.mark.long
def test_traces_are_followed_on_postgres(postgres: PostgresServer) -> None:
    """T-41 on PostgreSQL."""
    check(postgres.schema_url())

"""Outages of random length for each worker: see ``outages`` for the law."""

from __future__ import annotations

import logging
from collections import Counter

import pytest

from holdfast.store.outage import Outage
from tests.scope import volume
from tests.simulation.outages import simulate_outages
from tests.simulation.violation import Violation

SEEDS = volume(range(1, 41), range(1, 1001))
HAPPENS = (
    "began at the return",
    "came back late",
    "died",
    "nothing was repeated",
    "outage of few seconds",
    "outage of many seconds",
    "was found dead",
    "was given up",
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Workers log every outage."""
    caplog.set_level(logging.CRITICAL, logger="holdfast")


def test_no_worker_that_lives_loses_a_run_by_an_outage() -> None:
    """However long it was, for one or for all; those that died in it are found, and all runs end."""
    total: Counter[str] = Counter()
    for seed in SEEDS:
        total += simulate_outages(seed)
    assert [what for what in HAPPENS if not total[what]] == []


@pytest.mark.parametrize("patience", ["none after an outage", "none while it lasts"])
def test_workers_without_patience_are_found(patience: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law can be broken, and the simulation sees it."""
    if patience == "none after an outage":
        monkeypatch.setattr(Outage, "settled", property(lambda outage: outage._since is None))
    else:
        monkeypatch.setattr(Outage, "lost", lambda _: None)
    with pytest.raises(Violation, match="was declared dead"):
        for seed in SEEDS:
            simulate_outages(seed)

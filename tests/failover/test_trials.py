"""Two short trials. ``make test-failover`` plays all of them."""

from __future__ import annotations

import pytest

from tests.failover.trials import TRIALS, Trial, killed, perform, row
from tests.scope import SEED

SHORT = [
    Trial("killed", True, killed),
    next(trial for trial in TRIALS if trial.name.startswith("old primary back") and not trial.synchronous),
]


@pytest.mark.parametrize("trial", SHORT, ids=["killed", "old primary back"])
def test_a_failover_under_load_loses_and_repeats_nothing(trial: Trial) -> None:
    """Judged by acknowledgements and effects that were written down outside the engine."""
    verdict, broken = perform(trial, SEED)
    print(row(trial, verdict))
    assert broken == []

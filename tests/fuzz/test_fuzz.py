"""Random requests for every route; `make fuzz SEED=1 COUNT=50` sends many more."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzz_http import fuzz


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_random_requests_are_answered_or_refused_and_never_break_the_server() -> None:
    """No 5xx, every refusal a problem, every answer as documented, no byte of another tenant."""
    assert fuzz("memory://", 1, 1) > 200

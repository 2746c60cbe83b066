"""The laws of sagas, over a thousand random programs. A failure's notes show the smallest program that was found."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from tests.laws.sagas.runner import check

SEEDS: Final = 1000
CHUNK: Final = 50
WHOLE_SEEDS: Final = 200
WHOLE_CHUNK: Final = 20


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_every_law_holds_for_random_programs_and_schedules(first: int) -> None:
    """L1 to L6, each seed a program and a schedule. ``make sagas SEED=…`` plays one again."""
    for seed in range(first, first + CHUNK):
        check(seed)


@pytest.mark.parametrize("first", range(0, WHOLE_SEEDS, WHOLE_CHUNK))
def test_every_law_holds_on_the_whole_engine(first: int, caplog: pytest.LogCaptureFixture) -> None:
    """The same, with real workers on virtual time that die around their commits."""
    caplog.set_level(logging.CRITICAL)
    for seed in range(first, first + WHOLE_CHUNK):
        check(seed, whole=True)

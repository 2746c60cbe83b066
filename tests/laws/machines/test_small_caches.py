"""The laws hold however few cells stay in memory: what leaves it is read again, as it was committed."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from holdfast.testing.virtual import run_virtually
from tests.laws.machines.bank import Account, account, events, expected
from tests.laws.machines.test_lanes import Life
from tests.scope import each_seed

NOTHING = {"cached_cells": 0}
ONE = {"cached_cells": 1}
FEW_BYTES = {"cached_cell_bytes": 8 * 600}
NO_BYTES = {"cached_cell_bytes": 0}


def _balances(accounts: dict[str, Account]) -> dict[str, tuple[int, list[str], dict[str, int]]]:
    return {name: (each.balance, sorted(each.seen), each.fees) for name, each in accounts.items()}


@pytest.mark.parametrize("bounds", [NOTHING, ONE, FEW_BYTES, NO_BYTES], ids=["none", "one", "few bytes", "no bytes"])
@each_seed(0.25)
def test_every_event_is_handled_once_with_hardly_a_cell_in_memory(seed: int, bounds: dict[str, int]) -> None:
    """Also where engines die, timers ring and effects come back; the journals replayed give the rows."""
    given = events(seed, random.Random(seed).randint(5, 25))
    life = Life(seed)
    life.options = replace(life.options, **bounds)

    found = run_virtually(life.run(given))

    assert _balances(found) == _balances(expected(given))
    for name, each in found.items():
        assert [id for id in each.seen if not id.endswith("+")] == [e.id for e in given if e.account == name]
    assert account.lanes > 1  # they share one cache

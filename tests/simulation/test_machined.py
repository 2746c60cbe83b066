"""Machines under crashes, pauses, releases, new versions and people who do everything twice: see ``check_machines`` for
the laws."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.programs.machine.lanes import cell_turn
from holdfast.programs.machine.lanes.cell_turn import CellTurn, ReceiptArrived
from holdfast.programs.machine.lanes.envelopes import Envelope
from tests.scope import volume
from tests.simulation.machined import simulate_machines
from tests.simulation.violation import Violation

SEEDS = volume([5, 13], range(1, 100))
FURTHER = range(101, 113)


def test_the_laws_of_machines_hold() -> None:
    """M1 to M10, and every seed comes to rest. What the laws are about happens."""
    wanted = {"a worker died", "a handler killed its worker", "a handler raised", "a cell was released"}
    wanted |= {"a dead letter was redelivered", "a lane was paused", "a manifest was applied", "acts done"}
    wanted |= {"timers rung", "receipt w: ok", "receipt a: ok", "receipt a: ActionDenied", "receipt w: TimeoutError"}
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += simulate_machines(seed)
    for seed in FURTHER:  # a change of the engine leads seeds elsewhere
        if wanted - set(reached):
            reached += simulate_machines(seed)
    assert wanted - set(reached) == set()


@pytest.mark.long
def test_a_seed_gives_the_same_simulation() -> None:
    assert simulate_machines(7) == simulate_machines(7)


# -- the laws can be broken, and are found broken ----------------------------------------------------------------------


def _simulate_some(first: int) -> None:
    """Simulate a seed, and some that follow: a change of the engine leads seeds elsewhere."""
    for seed in range(first, first + 12):
        simulate_machines(seed)


def test_an_event_that_is_lost_while_its_cell_is_parked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """M3."""
    hold = CellTurn._hold

    def forgetful(self: CellTurn, record: Any, occurrence: Any) -> None:
        if not record.held_count or not isinstance(occurrence, Envelope):
            hold(self, record, occurrence)

    monkeypatch.setattr(CellTurn, "_hold", forgetful)
    with pytest.raises(Violation, match="M3"):
        _simulate_some(5)


def test_a_receipt_that_reaches_the_next_cell_of_its_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """M6: what an earlier cell of the key asked for is not for the next one."""

    def first_open(_: CellTurn, record: Any, occurrence: Any) -> bool:
        return not isinstance(occurrence, ReceiptArrived) or bool(record.intents)

    receipt = CellTurn._receipt

    def misled(self: CellTurn, record: Any, occurrence: Any) -> Any:
        first = replace(record.intents[0], position=occurrence.promise.path[-1])
        return receipt(self, replace(record, intents=(first, *record.intents[1:])), occurrence)

    monkeypatch.setattr(CellTurn, "_is_open", first_open)
    monkeypatch.setattr(CellTurn, "_receipt", misled)
    with pytest.raises(Violation, match=r"M6|parked KeyError"):
        _simulate_some(4)


def test_events_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """M4: the last of what came for a cell comes first."""
    monkeypatch.setattr(cell_turn, "file", lambda mailbox, occurrence: mailbox.appendleft(occurrence))
    with pytest.raises(Violation, match="M4"):
        _simulate_some(1)

"""The laws hold where everything comes together: see ``mixture`` for what happens, ``mixture_laws`` for the laws."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from holdfast.programs.machine.lanes.cell_turn import CellTurn
from holdfast.programs.machine.lanes.envelopes import Envelope
from holdfast.programs.machine.lanes.succession import Succession
from holdfast.store.memory import changes
from tests.laws.machines.mixture import play
from tests.laws.machines.mixture_laws import MixtureViolation
from tests.scope import play_seeds, volume

FINDING = (15, 153, 77, 94, 113)


def test_the_laws_hold_whatever_comes_together() -> None:
    """Every seed comes to rest."""
    play_seeds(play, 1.0)


def test_what_the_laws_are_about_happens() -> None:
    """And every seed comes to rest.

    Seeds that found something: 15, newer code that dropped an effect got a cell that waited for it, from a lane that
    was split; 77, two versions of the code waited for each other; 94, a first manifest was applied over effects in
    flight of older code; 113, a queued step was begun beside its queue by code that does not declare it; 153, the order
    to hand cells over was handled in one turn behind a receipt, and the cells that were brought for it were gone.
    """
    reached: Counter[str] = Counter()
    for seed in FINDING[: volume(2, len(FINDING))]:
        reached += play(seed)
    wanted = ["_split", "_pause", "_resume", "_release", "events held", "an effect failed"]
    assert [what for what in wanted if not reached[what]] == []


# -- the laws can be broken, and are found broken ----------------------------------------------------------------------


def test_events_of_parked_cells_that_are_lost_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 1."""
    hold = CellTurn._hold

    def forgetful(self: CellTurn, record: Any, occurrence: Any) -> None:
        if not record.held_count or not isinstance(occurrence, Envelope):
            hold(self, record, occurrence)

    monkeypatch.setattr(CellTurn, "_hold", forgetful)
    with pytest.raises(MixtureViolation, match="lacks of"):
        play(15)


def test_a_cell_that_stays_behind_when_its_lane_is_split_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laws 1 and 2: its later events make another cell."""
    hand_over = Succession._hand_over

    def lazy(self: Succession, turn: Any, run: Any, order: Any) -> None:
        self.batch = list(self.batch or ())[:-1]
        hand_over(self, turn, run, order)

    monkeypatch.setattr(Succession, "_hand_over", lazy)
    with pytest.raises(MixtureViolation):
        play(15)


def test_events_that_change_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 2: what comes while a cell catches up is handled at once."""
    hold = CellTurn._hold

    def hasty(self: CellTurn, record: Any, occurrence: Any) -> None:
        (self._advance if record.status == "running" else partial(hold, self))(record, occurrence)

    monkeypatch.setattr(CellTurn, "_hold", hasty)
    with pytest.raises(MixtureViolation, match="handled"):
        for seed in range(15, 27):
            play(seed)


def test_messages_that_stay_in_an_inbox_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 7."""
    drop = changes._drop_messages
    monkeypatch.setattr(changes, "_drop_messages", lambda tables, key, consumed: drop(tables, key, consumed - 1))
    with pytest.raises(MixtureViolation, match="left behind"):
        play(15)

"""Schedules under crashes, jumping clocks and busy people: see ``scheduled`` for the laws."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.schedules.planner import Move, Situation, plan
from holdfast.schedules.schedule import Schedule
from holdfast.schedules.timing import next_tick
from holdfast.worker.roles import scheduler
from tests.scope import unreached, volume
from tests.simulation.scheduled import simulate_schedules
from tests.simulation.violation import Violation

SEEDS = volume((2, 3, 5, 10, 11), range(1, 13))


def test_the_laws_of_schedules_hold() -> None:
    """And what they are about happens: deaths around commits, lost answers, and every word of the audit."""
    wanted = [f"{word}_scheduled" for word in ("trigger", "find", "queue", "skip", "miss")]
    wanted += ["died after commit", "lost the answer of commit"]
    assert unreached(simulate_schedules, wanted, (*SEEDS, *range(20, 50))) == []


@pytest.mark.long
def test_a_seed_gives_the_same_simulation() -> None:
    seed = volume(2, 3)
    assert simulate_schedules(seed) == simulate_schedules(seed)


def test_a_scheduler_that_loses_a_tick_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws can be broken, and the simulation sees it."""

    def forgetful(id: str, schedule: Schedule, situation: Situation) -> Move | None:
        move = plan(id, schedule, situation)
        if move is None or move.start is None:
            return move
        beyond = next_tick(schedule.timing, move.schedule.cursor)
        return move if beyond is None else replace(move, schedule=replace(move.schedule, cursor=beyond))

    monkeypatch.setattr(scheduler, "plan", forgetful)
    with pytest.raises(Violation, match="S2"):
        for seed in SEEDS:
            simulate_schedules(seed)

"""Tenants, users, templates and schedules under crashes and demotions: see ``check_templates`` for the laws."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from typing import Any

import pytest

from holdfast.audit.records import Operated
from holdfast.client.governance.export import ExportedAction
from holdfast.client.people.binding import Binding
from holdfast.client.schedules import launcher
from holdfast.schedules.planner import OPEN
from holdfast.store.memory import store as memory_store
from tests.scope import volume
from tests.simulation.check_templates import ACTIONS, Ground, check_levels, check_story
from tests.simulation.templated import simulate_tenants
from tests.simulation.violation import Violation

SEEDS = volume((1, 2, 3), (1, 2, 3, 5))
NAMED = {
    20: "somebody was demoted between the judgement of an act and its commit",
    1003: "a template was paused while a schedule of it was being made",
}
"""Seeds that found something once, in the engine or in one that was broken on purpose."""


def test_the_laws_of_tenants_hold() -> None:
    """T-28 to T-36; and every seed comes to its end, T-37 to T-40. What the laws are about happens."""
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += simulate_tenants(seed)
    wanted = ("judged T-29", "judged T-30", "judged T-35", "at the cap", "a worker died", "a program of people died")
    exported = [f"exported {word}" for word in ACTIONS]
    assert [what for what in (*wanted, *exported) if not reached[what]] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", NAMED)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    simulate_tenants(seed)


@pytest.mark.long
def test_a_seed_gives_the_same_simulation() -> None:
    assert simulate_tenants(3) == simulate_tenants(3)


# -- the laws can be broken, and are found broken ----------------------------------------------------------------------


def test_an_act_that_outlives_a_demotion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-29 and T-30: the level that was judged must still be there in the commit."""
    monkeypatch.setattr(Binding, "conditions", lambda *_: ())
    with pytest.raises(Violation, match=r"T-29|T-30"):
        for seed in (21, 10, 14, 56):  # which one has the demotion in the moment depends on how many commits an act has
            simulate_tenants(seed)


@pytest.mark.long
def test_a_schedule_that_outlives_its_owners_level_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-30: the owner is judged at each firing."""
    monkeypatch.setattr(launcher, "owner_gate", lambda _: OPEN)
    with pytest.raises(Violation, match="T-30"):
        for seed in range(1, 10):  # in about each second one, an owner whose schedule is due was demoted before
            simulate_tenants(seed)


@pytest.mark.long
def test_claims_that_count_nothing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-32."""
    monkeypatch.setattr(memory_store, "limits_in", lambda _, limits: limits)
    with pytest.raises(Violation, match="T-32"):
        for seed in range(1, 10):
            simulate_tenants(seed)


NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def story_of(*words: str) -> list[ExportedAction]:
    """A story of one instance: ``execute_step:a`` and so on, of a template in which b needs a."""
    plan = {"steps": ["a", "b"], "dependencies": {"a": [], "b": ["a"]}, "trigger": "manual"}
    made: list[ExportedAction] = []
    for word in ("create_template", "activate_template", "start_workflow", *words):
        action, _, step = word.partition(":")
        fields: dict[str, Any] = {"at": NOON, "user": "ann", "action": action, "tenant": "t", "template": "wf"}
        instance = None if action in ("create_template", "activate_template") else "r1"
        made.append(ExportedAction(**fields, instance=instance, step=step or None, details=plan))
    return made


A, B = ("execute_step:a", "complete_step:a"), ("execute_step:b", "complete_step:b")


@pytest.mark.parametrize(
    ("words", "law"),
    [
        (("execute_step:b",), "T-35"),
        ((*A, "complete_workflow"), "complete_unfinished"),
        ((*A, *B, "complete_workflow", "cancel_workflow"), "T-34"),
        ((*A, *B), "T-36"),
        (("execute_step:a", "fail_step:a", "retry_step:a", "execute_step:a", "fail_step:a", "retry_step:a"), "T-33"),
        (("complete_step:a",), "T-36"),
    ],
)
def test_a_story_that_the_model_does_not_allow_is_found(words: tuple[str, ...], law: str) -> None:
    ground = Ground(random.Random(1), {"t": 1}, 2)
    check_story("t", story_of(*A, *B, "complete_workflow"), ground)
    with pytest.raises(Violation, match=law):
        check_story("t", story_of(*words), ground)


@pytest.mark.parametrize(
    ("act", "level", "status", "law"),
    [
        ("create_template", "4", "enabled", "T-29"),
        ("start_workflow", "3", "enabled", "T-30"),
        ("trigger_scheduled", "6", "disabled", "T-30"),
    ],
)
def test_an_act_without_the_level_for_it_is_found(act: str, level: str, status: str, law: str) -> None:
    user = Operated(1, "change_user", "ruler", details={"user": "ann", "level": level, "status": status})
    enough = Operated(0, "create_user", "ruler", details={"user": "ann", "level": "6", "status": "enabled"})
    check_levels("t", [enough, Operated(2, act, "ann")], Counter())
    with pytest.raises(Violation, match=law):
        check_levels("t", [enough, user, Operated(2, act, "ann")], Counter())
    with pytest.raises(Violation, match="T-31"):
        check_levels("t", [enough, Operated(2, act, "eve")], Counter())

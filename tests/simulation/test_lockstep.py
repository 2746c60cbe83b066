"""SQLite and PostgreSQL do what the store in memory does, whatever simulations and random programs ask of both."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from holdfast.store.sqlite.sql import SQL
from holdfast.testing.postgres import PostgresServer
from tests.laws.definitions.grow import case
from tests.laws.definitions.judge import judge_whole
from tests.laws.machines import mixture
from tests.laws.sagas import runner
from tests.laws.sagas.grow import program
from tests.scope import volume
from tests.simulation.beside import beside_postgres, beside_sqlite
from tests.simulation.lockstep import StoresDiffer
from tests.simulation.machined import simulate_machines
from tests.simulation.scheduled import simulate_schedules
from tests.simulation.simulate import simulate
from tests.simulation.templated import simulate_tenants
from tests.simulation.told import simulate_subscriptions
from tests.simulation.world import DEFINED, STEERED


def _saga(seed: int) -> None:
    broken = runner.play(program(seed), seed, whole=True)
    assert broken is None, broken.shown()


def _definition(seed: int) -> None:
    judge_whole(case(seed))


@pytest.mark.parametrize(
    ("play", "seeds"),
    [
        each
        for each in (
            pytest.param(simulate, volume((3,), range(150)), id="functions"),
            pytest.param(simulate, volume((DEFINED + 5,), range(DEFINED, DEFINED + 40)), id="definitions"),
            pytest.param(simulate, volume((STEERED + 30,), range(STEERED, STEERED + 40)), id="steered"),
            pytest.param(simulate_machines, volume((5,), range(40)), id="machines", marks=pytest.mark.long),
            pytest.param(simulate_schedules, volume((), range(60)), id="schedules"),
            pytest.param(simulate_tenants, volume((1,), range(60)), id="tenants", marks=pytest.mark.long),
            pytest.param(simulate_subscriptions, volume((), range(60)), id="subscriptions"),
            pytest.param(mixture.play, volume((2,), range(200)), id="mixtures", marks=pytest.mark.long),
            pytest.param(_saga, volume(range(4), range(1000)), id="sagas"),
            pytest.param(_definition, volume(range(1), range(150)), id="whole definitions"),
        )
        if each.values[1]  # some are played in make test-long only
    ],
)
def test_sqlite_answers_alike(
    play: Callable[[int], object], seeds: range | tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # workers log that they die, and here they die often
    for seed in seeds:
        with beside_sqlite(seed):
            play(seed)


@pytest.mark.parametrize(
    ("play", "seeds"),
    [
        each
        for each in (
            pytest.param(simulate, volume((3,), range(20)), id="functions"),
            pytest.param(simulate, volume((), range(DEFINED, DEFINED + 5)), id="definitions"),
            pytest.param(simulate, volume((), range(STEERED, STEERED + 5)), id="steered"),
            pytest.param(simulate_machines, volume((), range(5)), id="machines"),
            pytest.param(simulate_schedules, volume((), range(5)), id="schedules"),
            pytest.param(simulate_tenants, volume((), range(5)), id="tenants"),
            pytest.param(simulate_subscriptions, volume((), range(5)), id="subscriptions"),
            pytest.param(mixture.play, volume((), range(20)), id="mixtures"),
            pytest.param(_saga, volume(range(2), range(60)), id="sagas"),
            pytest.param(_definition, volume((), range(10)), id="whole definitions"),
        )
        if each.values[1]  # some are played in make test-long only
    ],
)
def test_postgresql_answers_alike(
    play: Callable[[int], object],
    seeds: range | tuple[int, ...],
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in seeds:
        with beside_postgres(postgres):
            play(seed)


# -- a difference is found ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "now", "then"),
    [
        ("drop_messages", "<=", "<"),
        ("unpause", "pause = NULL", "pause = pause"),
    ],
)
def test_a_statement_that_is_wrong_is_found(
    statement: str, now: str, then: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    assert now in SQL[statement]
    monkeypatch.setitem(SQL, statement, SQL[statement].replace(now, then))
    with pytest.raises(StoresDiffer), beside_sqlite(2):
        mixture.play(2)

"""Cron lines against two other implementations, where those are known to be right: away from changes of clocks."""

from __future__ import annotations

import datetime
import itertools
import random
import warnings

import pytest

from holdfast.schedules.cron import next_time, times, zone_named
from holdfast.schedules.cron_fields import read_cron

cronsim = pytest.importorskip("cronsim", reason="cronsim is not installed: it is one of the extras dev")
croniter = pytest.importorskip("croniter", reason="croniter is not installed: it is one of the extras dev")

SEED = 20_270_328
COUNT = 300
BEGIN = datetime.datetime(2027, 5, 1, 12, 0, tzinfo=datetime.UTC)


def _field(chance: random.Random, low: int, high: int) -> str:
    kind = chance.random()
    if kind < 0.35:
        return "*"
    if kind < 0.5:
        return f"*/{chance.randint(2, max(2, (high - low) // 2))}"
    if kind < 0.7:
        first = chance.randint(low, high - 1)
        return f"{first}-{chance.randint(first + 1, high)}"
    return ",".join(map(str, sorted(chance.sample(range(low, high + 1), chance.randint(1, 3)))))


def _line(chance: random.Random) -> str:
    bounds = ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6))
    fields = [_field(chance, low, high) for low, high in bounds]
    if chance.random() < 0.5:  # both kinds of days: their rules for `*` with a step differ
        fields[chance.choice((2, 4))] = "*"
    if not fields[2].startswith("*") and not fields[4].startswith("*"):
        return " ".join(fields)
    return " ".join("*" if at in (2, 4) and field.startswith("*/") else field for at, field in enumerate(fields))


def test_random_lines_have_the_same_times() -> None:
    """In UTC, where no clock changes: the first five times of each."""
    chance = random.Random(SEED)
    for number in range(COUNT):
        line = _line(chance)
        ours = list(itertools.islice(times(read_cron(line), datetime.UTC, BEGIN), 5))
        theirs = list(itertools.islice(cronsim.CronSim(line, BEGIN), 5))
        assert ours == theirs, f"seed {SEED}, line {number}: {line!r} by cronsim"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            walk = croniter.croniter(line, BEGIN)
            others = [walk.get_next(datetime.datetime) for _ in range(5)]
        assert ours == others, f"seed {SEED}, line {number}: {line!r} by croniter"


@pytest.mark.parametrize("zone", ["Europe/Vienna", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"])
def test_zones_between_changes_of_their_clocks(zone: str) -> None:
    """In a month in which no clock of the zone changes."""
    chance = random.Random(SEED)
    local = BEGIN.astimezone(zone_named(zone))
    for number in range(60):
        line = f"{_field(chance, 0, 59)} {_field(chance, 0, 23)} * * *"
        ours = list(itertools.islice(times(read_cron(line), zone_named(zone), BEGIN), 5))
        theirs = [each.astimezone(datetime.UTC) for each in itertools.islice(cronsim.CronSim(line, local), 5)]
        assert ours == theirs, f"seed {SEED}, line {number}: {line!r} in {zone}"


def test_the_line_on_which_another_loops_for_ever_is_found_at_once() -> None:
    """Every third hour in Pacific/Chatham, whose clocks are at three quarters of an hour."""
    after = datetime.datetime(2027, 4, 3, 13, 0, tzinfo=datetime.UTC)
    found = next_time(read_cron("59 */3 * * *"), zone_named("Pacific/Chatham"), after)
    assert found is not None
    assert found - after < datetime.timedelta(hours=4)

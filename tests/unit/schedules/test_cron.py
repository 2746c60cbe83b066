"""Cron lines: what is one, and when it comes due."""

from __future__ import annotations

import datetime
import itertools
import json
import random
import time
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli.main import main
from holdfast.errors import InvalidRequest
from holdfast.schedules.cron import next_time, times, zone_named
from holdfast.schedules.cron_fields import LONGEST, read_cron
from tests.unit.expressions.corpus import CORPORA

REFERENCE, CRONSIM = CORPORA / "cron" / "reference.json", CORPORA / "cron" / "cronsim.json"
needs_cases = pytest.mark.skipif(not REFERENCE.exists(), reason="the cron cases are not here: set HOLDFAST_CORPORA")


def utc(text: str) -> datetime.datetime:
    found = datetime.datetime.fromisoformat(text)
    return found.astimezone(datetime.UTC) if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def upcoming(cron: str, zone: str, after: str, count: int) -> list[str]:
    found = itertools.islice(times(read_cron(cron), zone_named(zone), utc(after)), count)
    return [each.strftime("%Y-%m-%dT%H:%MZ") for each in found]


@needs_cases
def test_clock_changes_follow_debians_rule() -> None:
    """Every case of the reference: five fields in 18 zones, near clock changes and far from them."""
    cases: list[dict[str, Any]] = json.loads(REFERENCE.read_text())["cases"]
    wrong = [
        case for case in cases if upcoming(case["cron"], case["zone"], case["after"], len(case["next"])) != case["next"]
    ]
    assert (len(cases), wrong) == (120, [])


@needs_cases
def test_the_cases_of_another_implementation_come_out() -> None:
    """Also its refusals, six fields and the days that only extensions name."""
    cases = json.loads(CRONSIM.read_text())["cases"]
    for case in cases:
        if case["kind"] == "error":
            with pytest.raises(InvalidRequest):
                read_cron(case["cron"])
            continue
        zone = datetime.UTC if case["zone"] is None else zone_named(case["zone"])
        wanted = [utc(text) for text in case["next"] if text is not None]
        found = list(itertools.islice(times(read_cron(case["cron"]), zone, utc(case["after"])), len(wanted)))
        assert found == wanted, case
    assert len(cases) == 407


@pytest.mark.parametrize(
    ("cron", "zone", "after", "wanted"),
    [
        ("30 2 * * *", "Europe/Vienna", "2027-03-27T12:00:00Z", ["2027-03-28T01:00Z", "2027-03-29T00:30Z"]),
        ("30 2 * * *", "Europe/Vienna", "2027-10-30T12:00:00Z", ["2027-10-31T00:30Z", "2027-11-01T01:30Z"]),
        ("*/30 2 * * *", "Europe/Vienna", "2027-10-30T23:45:00Z", ["2027-10-31T00:00Z", "2027-10-31T00:30Z"]),
        ("0 12 29 2 *", "UTC", "2097-01-01T00:00:00Z", ["2104-02-29T12:00Z"]),
        ("0 9 * * 1#1", "UTC", "2027-01-01T00:00:00Z", ["2027-01-04T09:00Z", "2027-02-01T09:00Z"]),
        ("0 9 LW * *", "UTC", "2027-01-01T00:00:00Z", ["2027-01-29T09:00Z", "2027-02-26T09:00Z"]),
        ("0 0 * * 7", "UTC", "2027-01-01T00:00:00Z", ["2027-01-03T00:00Z"]),
        ("@monthly", "UTC", "2027-01-15T00:00:00Z", ["2027-02-01T00:00Z"]),
        ("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", ["2011-12-30T10:00Z"]),
    ],
)
def test_the_next_times_of_a_line(cron: str, zone: str, after: str, wanted: list[str]) -> None:
    assert upcoming(cron, zone, after, len(wanted)) == wanted


def test_a_line_that_hardly_ever_comes_is_found_quickly() -> None:
    """A Sunday that is the 29th of February; and one for which the calendar ends before it."""
    began = time.process_time()
    (found,) = upcoming("0 0 29 2 */7", "UTC", "2065-01-01T00:00:00Z", 1)
    assert utc(found.replace("Z", ":00Z")).date().weekday() == 6
    assert next_time(read_cron("0 0 29 2 */7"), datetime.UTC, utc("9990-01-01T00:00:00Z")) is None
    assert next_time(read_cron("1 1 */100 * MON#4"), datetime.UTC, utc("2027-01-01T00:00:00Z")) is None
    always_left_out = read_cron("* 2 * 3 0L")
    assert next_time(always_left_out, zone_named("Europe/Vienna"), utc("2027-01-01T00:00:00Z")) is None
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("cron", "words"),
    [
        ("* * 30 2 *", "never comes"),
        ("@nightly", "there is no '@nightly'"),
        ("* * * *", "has 4"),
        ("5-1 * * * *", "goes backwards"),
        ("* 24 * * *", "the hour is 0 to 23"),
        ("* * * * 1#6", "is no day of week"),
        ("*/0 * * * *", "the step of"),
        ("* " * 5_000, f"at most {LONGEST} characters"),
        (f"{'9' * 900} * * * *", "the minute is 0 to 59"),
    ],
)
def test_what_is_no_cron_line_says_why(cron: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        read_cron(cron)


def test_every_time_follows_the_one_before() -> None:
    """Random lines in zones with odd clocks: times go up, fit the line, and each is found from just before it."""
    source = random.Random(7)
    zones = ("Pacific/Chatham", "Australia/Lord_Howe", "America/St_Johns", "Africa/Casablanca", "Pacific/Apia", "UTC")
    for _ in range(120):
        line, zone = read_cron(_random_line(source)), zone_named(source.choice(zones))
        after = utc("2009-01-01T00:00:00Z") + datetime.timedelta(hours=source.randrange(20 * 365 * 24))
        found = list(itertools.islice(times(line, zone, after), 6))
        assert found == sorted(set(found))
        for at in found:
            local = at.astimezone(zone)
            assert next_time(line, zone, at - datetime.timedelta(seconds=1)) == at
            if line.elapsed:
                assert (local.minute in line.minutes, local.hour in line.hours) == (True, True), (line.text, zone, at)


def _random_line(source: random.Random) -> str:
    def field(low: int, high: int) -> str:
        number = source.randint(low, high)
        return source.choice(("*", f"*/{source.randint(2, 9)}", str(number), f"{number}-{high}", f"{low},{number}"))

    return f"{field(0, 59)} {field(0, 23)} {field(1, 28)} {field(1, 12)} {field(0, 6)}"


def test_the_command_prints_times_in_utc() -> None:
    line = ["schedules", "next", "30 2 * * *", "--timezone", "Europe/Vienna", "--after", "2027-03-27T12:00:00Z"]
    said = CliRunner().invoke(main, [*line, "--count", "2"])
    assert said.output == "2027-03-28T01:00:00Z\n2027-03-29T00:30:00Z\n"
    assert CliRunner().invoke(main, [*line, "--count", "1", "--json"]).output == '"2027-03-28T01:00:00Z"\n'
    for wrong in (["x"], ["@daily", "--timezone", "Mars/Olympus"], ["@daily", "--after", "noon"]):
        refused = CliRunner().invoke(main, ["schedules", "next", *wrong])
        assert (refused.exit_code, "Traceback" in refused.output) == (2, False), refused.output

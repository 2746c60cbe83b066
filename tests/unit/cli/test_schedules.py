"""``holdfast schedules``: what people type, and what they read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from holdfast.cli import exits
from tests.unit.cli.conftest import Invoke

NIGHTLY = ("schedules", "create", "nightly", "order", "--cron", "30 2 * * *", "--timezone", "Europe/Vienna")


def made(holdfast: Invoke, *more: str) -> dict[str, Any]:
    done = holdfast(*NIGHTLY, "--json", *more)
    assert done.exit_code == exits.GOOD, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_schedule_is_made_listed_and_shown(holdfast: Invoke) -> None:
    record = made(holdfast, "--input", "5", "--overlap", "queue_one", "--catch-up-window", "12h", "--as", "ann")
    assert (record["action"], record["status"], record["arguments"]) == ("create", "active", [5])
    assert (record["overlap"], record["catch_up_window_seconds"], record["owner"]) == ("queue_one", 43_200.0, "ann")
    assert len(record["next"]) == 10
    assert "nightly  active  order" in holdfast("schedules").stdout
    shown = holdfast("schedules", "show", "nightly").stdout
    assert "when      30 2 * * * (Europe/Vienna)" in shown
    assert len(re.findall(r"02:30:00 \+0[12]00|03:00:00 \+0200", shown)) == 10
    assert [json.loads(line)["id"] for line in holdfast("schedules", "list", "--json").stdout.splitlines()] == [
        "nightly"
    ]


def test_a_list_of_several_tenants_names_them(holdfast: Invoke) -> None:
    """One of the default tenant alone does not."""
    made(holdfast)
    assert holdfast("schedules").stdout.split()[0] == "ID"
    made(holdfast, "--tenant", "acme")
    listed = holdfast("schedules").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["TENANT", "ID"], ["acme", "nightly"], ["default", "nightly"]]
    assert holdfast("schedules", "list", "--tenant", "acme").stdout.split()[0] == "ID"


def test_it_is_changed_paused_resumed_explained_and_deleted(holdfast: Invoke) -> None:
    made(holdfast)
    assert "is changed: every 15m 0s" in holdfast("schedules", "change", "nightly", "--every", "15m").stdout
    assert holdfast("schedules", "pause", "nightly", "--reason", "look").stdout == "schedule nightly is paused\n"
    assert "It is paused (look)" in holdfast("schedules", "explain", "nightly").stdout
    advice = json.loads(holdfast("schedules", "explain", "nightly", "--json").stdout)["advice"]
    assert (advice[0]["code"], advice[0]["command"]) == ("resume_schedule", "holdfast schedules resume nightly")
    assert "schedule nightly is active; the next tick is" in holdfast("schedules", "resume", "nightly").stdout
    sentences = json.loads(holdfast("schedules", "explain", "nightly", "--json").stdout)["explanation"]
    assert sentences[0] == "Schedule nightly starts order: every 15m 0s."
    assert holdfast("schedules", "delete", "nightly").stdout == "schedule nightly is deleted\n"
    assert holdfast("schedules").stdout == ""
    assert "nightly  deleted" in holdfast("schedules", "list", "--status", "deleted").stdout


def test_runs_are_started_now_and_of_the_past(holdfast: Invoke) -> None:
    """A backfill starts each tick once; a dry run starts nothing."""
    made(holdfast, "--input", "5")
    run = json.loads(holdfast("schedules", "run-now", "nightly", "--json").stdout)["run"]
    assert run.startswith("nightly@")
    assert holdfast("show", run).exit_code == exits.GOOD
    week = ("schedules", "backfill", "nightly", "--from", "2025-11-01", "--to", "2025-11-08")
    assert holdfast(*week, "--dry-run").stdout == "7 ticks: 7 would be started, 0 were started before\n"
    assert holdfast(*week).stdout == "7 ticks: 7 are started, 0 were started before\n"
    again = json.loads(holdfast(*week, "--json").stdout)
    assert (again["count"], again["started"], again["existed"]) == (7, 0, 7)
    refused = holdfast(*week, "--limit", "3")
    assert (refused.exit_code, "has 7 ticks in this time, and the limit is 3" in refused.stderr) == (exits.USAGE, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("create", "x", "order"), exits.USAGE, "say when"),
        (("create", "x", "order", "--cron", "0 0 30 2 *"), exits.USAGE, "never comes"),
        (("create", "x", "order", "--cron", "* " * 5_000), exits.USAGE, "at most 1000 characters"),
        (("create", "x", "order", "--cron", "@daily", "--timezone", "Mars/Base"), exits.USAGE, "no time zone"),
        (("create", "x", "order", "--at", "soon"), exits.USAGE, "a time is written as"),
        (("create", "x", "--every", "1h"), exits.USAGE, "a workflow or a template"),
        (("create", "x", "--template", "none", "--every", "1h"), exits.NOT_FOUND, "there is no template 'none'"),
        (("show", "none"), exits.NOT_FOUND, "there is no schedule 'none' in tenant 'default'"),
        (("pause", "none"), exits.NOT_FOUND, "there is no schedule"),
    ],
)
def test_what_cannot_be_done_is_said(holdfast: Invoke, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = holdfast("schedules", *arguments)
    assert (done.exit_code, words in done.stderr) == (code, True), done.stderr


def test_an_id_that_is_taken_is_a_conflict(holdfast: Invoke) -> None:
    made(holdfast)
    done = holdfast(*NIGHTLY)
    assert (done.exit_code, "there is a schedule 'nightly' already" in done.stderr) == (exits.CONFLICT, True)

"""``templates``, ``emit`` and ``audit export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Invoke, lines
from tests.unit.cli.test_pages import cursor_of

BILLS = """\
holdfast: definition/1
name: bills
version: {version}
steps:
  - all:
      graph:
        collect: {{step: cli.collect}}
        send: {{step: cli.send, needs: [collect]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "bills.yaml"
    path.write_text(BILLS.format(version=1))
    return str(path)


def test_a_template_is_made_started_and_archived(holdfast: Invoke, file: str) -> None:
    """Each command says what the template is then, and a refusal says why."""
    made = holdfast("templates", "create", "bills", "--file", file, "--max-concurrency", "2", "--as", "ann")
    assert made.stdout == "template bills is draft, version 1 of bills@1\n"
    refused = holdfast("templates", "start", "bills", "--as", "bob")
    assert (refused.exit_code, "is draft" in refused.stderr) == (4, True)
    assert holdfast("templates", "activate", "bills", "--as", "ann").exit_code == 0
    (started,) = lines(holdfast("templates", "start", "bills", "--id", "one", "--as", "bob", "--json"))
    assert (started["status"], started["started_by"], started["result"]) == ("queued", "bob", "in_progress")
    assert [(step["name"], step["state"]) for step in started["steps"]] == [
        (name, "pending") for name in ("all", "collect", "send")
    ]
    assert "all pending, collect pending, send pending" in holdfast("templates", "instances", "bills").stdout
    assert holdfast("templates", "instances", "bills", "--state", "running").stdout == ""
    Path(file).write_text(BILLS.format(version=2))
    changed = holdfast("templates", "new-version", "bills", "--file", file, "--no-caps", "--as", "ann")
    assert changed.stdout == "template bills is active, version 2 of bills@2\n"
    assert holdfast("templates", "pause", "bills", "--reason", "closed").exit_code == 0
    assert holdfast("templates", "resume", "bills").exit_code == 0
    (archived,) = lines(holdfast("templates", "archive", "bills", "--as", "ann", "--json"))
    assert (archived["status"], archived["caps"]["max_concurrency"]) == ("archived", None)
    assert "archived" in holdfast("templates").stdout
    assert "owner               ann" in holdfast("templates", "show", "bills").stdout
    missing = holdfast("templates", "show", "other")
    assert (missing.exit_code, "no template 'other'" in missing.stderr) == (3, True)


def test_instances_go_on_from_a_cursor(holdfast: Invoke, file: str) -> None:
    """Newest first, in every state; a cursor of another list is refused."""
    holdfast("templates", "create", "bills", "--file", file)
    holdfast("templates", "activate", "bills")
    for name in ("one", "two", "three"):
        holdfast("templates", "start", "bills", "--id", name)
    whole = [record["id"] for record in lines(holdfast("templates", "instances", "bills", "--json"))]
    assert sorted(whole) == ["one", "three", "two"]
    begun = holdfast("templates", "instances", "bills", "--limit", "2")
    assert "these are the newest 2; --limit 0 shows all" in begun.stderr
    cursor = cursor_of(begun)
    rest = lines(holdfast("templates", "instances", "bills", "--after", cursor, "--json"))
    assert [record["id"] for record in rest] == whole[2:]
    assert len(lines(holdfast("templates", "instances", "bills", "--limit", "0", "--json"))) == 3
    refused = holdfast("list", "--after", cursor)
    assert (refused.exit_code, "this cursor is of a list of instances" in refused.stderr) == (2, True)


def test_an_event_starts_what_hears_it(holdfast: Invoke, file: str) -> None:
    """Exit 1 where nobody does."""
    heard = ("--event", "order.paid", "--filter", "event.data.total > 10.0", "--event-input", "event.data")
    holdfast("templates", "create", "bills", "--file", file, *heard)
    holdfast("templates", "activate", "bills")
    for _ in range(2):
        emitted = holdfast("emit", "order.paid", '{"total": 12.5}', "--id", "e1")
        assert (emitted.exit_code, emitted.stdout) == (0, "bills started bills:event:e1\n")
    unheard = holdfast("emit", "order.paid", '{"total": 1.5}', "--id", "e2", "--json")
    assert (unheard.exit_code, lines(unheard)[0]["heard"]) == (1, False)
    other = holdfast("emit", "order.paid", '{"total": 2.5}', "--id", "e1")
    assert (other.exit_code, "another id" in other.stderr) == (4, True)
    wrong = holdfast("templates", "create", "bad", "--file", file, "--event", "e", "--filter", "event.nothing")
    assert (wrong.exit_code, "filter" in wrong.stderr) == (2, True)


def test_the_story_is_written_as_lines(holdfast: Invoke, file: str, tmp_path: Path) -> None:
    holdfast("templates", "create", "bills", "--file", file, "--as", "ann")
    holdfast("templates", "activate", "bills", "--as", "ann")
    holdfast("templates", "start", "bills", "--id", "one", "--as", "bob")
    actions = lines(holdfast("audit", "export"))
    assert [(each["action"], each["user"], each["instance"]) for each in actions] == [
        ("create_template", "ann", None),
        ("activate_template", "ann", None),
        ("queue_workflow", "bob", "one"),
    ]
    assert actions[0]["details"]["dependencies"] == {"all": [], "collect": [], "send": ["collect"]}
    target = tmp_path / "story.jsonl"
    assert "3 actions" in holdfast("audit", "export", "-o", str(target)).stdout
    assert [json.loads(line) for line in target.read_text().splitlines()] == actions


def test_options_that_exclude_each_other_are_refused(holdfast: Invoke, file: str) -> None:
    for wrong in (
        ("--file", file, "--workflow", "greet"),
        ("--file", file, "--filter", "true"),
        ("--file", file, "--no-caps", "--max-concurrency", "1"),
    ):
        assert holdfast("templates", "create", "bills", *wrong).exit_code == 2

"""``def diff`` and ``def migrate`` on a store with live runs of a definition."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.unit.cli.conftest import Invoke, lines

OLD = """\
holdfast: definition/1
name: cli.moves
version: 1
steps:
  - review: {wait: go}
  - old: {set: {state.old: 1}}
  - done: {end: old}
"""
NEW = """\
holdfast: definition/1
name: cli.moves
version: 2
state: {rate: {type: number, default: 2}}
steps:
  - route:
      switch:
        - {when: =1 > 2, do: [{no: {end: no}}]}
        - {else: [{ask: {wait: go}}]}
  - done: {end: new}
migrate: {1: {steps: {review: route.ask}}}
"""
ELSEWHERE = """\
holdfast: definition/1
name: cli.moves
version: 3
steps: [{other: {wait: go}}]
"""


@pytest.fixture
def files(tmp_path: Path, database: str) -> dict[str, str]:
    """The three versions as files; one run of the first waits."""
    paths = {}
    for name, text in (("old", OLD), ("new", NEW), ("elsewhere", ELSEWHERE)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        paths[name] = str(path)

    async def fill() -> None:
        async with Holdfast(database) as app:
            app.definitions.add(Path(paths["old"]))
            run = await app.start("cli.moves", {}, id="live")
            while await run.status() != "waiting":
                await app.changed(0.05)

    asyncio.run(fill())
    return paths


def test_diff_shows_what_changed(holdfast: Invoke, files: dict[str, str]) -> None:
    said = holdfast("def", "diff", files["old"], files["new"])
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        "+ state.rate",
        "+ route",
        "+ route.no",
        "> route.ask  (was review)",
        "~ done  (end)",
        "- old",
    ]
    record = json.loads(holdfast("def", "diff", files["old"], files["new"], "--json").stdout)
    assert [record["old"]["version"], record["new"]["version"]] == [1, 2]
    assert {"change": "renamed", "what": "route.ask", "details": "was review"} in record["differences"]


def test_diff_says_which_runs_could_move(holdfast: Invoke, files: dict[str, str]) -> None:
    said = holdfast("def", "diff", files["old"], files["new"], "--runs")
    assert (said.exit_code, said.stdout.splitlines()[-1]) == (0, "live  1 → 2  can move, mapped")
    blocked = holdfast("def", "diff", files["old"], files["elsewhere"], "--runs", "--json")
    assert blocked.exit_code == 1
    (run,) = json.loads(blocked.stdout)["runs"]
    assert (run["run"], run["verdict"], run["asked"]) == ("live", "blocked", False)
    assert "it stands at review" in run["reasons"][0]


def test_migrate_says_first_and_does_it_then(holdfast: Invoke, database: str, files: dict[str, str]) -> None:
    assert "say --dry-run" in holdfast("def", "migrate", files["new"]).stderr
    dry = holdfast("def", "migrate", files["new"], "--dry-run")
    assert dry.stdout == "live  1 → 2  can move, mapped\n"
    applied = holdfast("def", "migrate", files["new"], "--apply", "--as", "ann", "--reason", "faster", "--json")
    assert [(move["run"], move["asked"]) for move in lines(applied)] == [("live", True)]

    async def work() -> object:
        async with Holdfast(database) as app:
            run = app.run("live")
            await run.signal("go")
            return await run.result(30)

    assert asyncio.run(work()) == "new"
    assert holdfast("def", "migrate", files["new"], "--dry-run").stdout == ""
    shown = holdfast("show", "live").stdout
    assert "revision to version 2" in shown
    audit = lines(holdfast("audit", "--run", "live", "--json"))
    assert [each["record"]["reason"] for each in audit if each["record"].get("act") == "migrate"] == ["faster"]


def test_a_run_that_cannot_move_is_left_alone(holdfast: Invoke, files: dict[str, str]) -> None:
    said = holdfast("def", "migrate", files["elsewhere"], "live", "--apply", "--as", "ann")
    assert said.exit_code == 1
    assert "live  1 → 3  BLOCKED" in said.stdout
    assert "1 blocked" in said.stderr
    unknown = holdfast("def", "migrate", files["elsewhere"], "nobody", "--apply")
    assert "there is no run 'nobody' of the definition cli.moves" in unknown.stderr


def test_two_definitions_are_not_compared(holdfast: Invoke, files: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(OLD.replace("cli.moves", "cli.other"))
    assert "give two versions of one definition" in holdfast("def", "diff", files["old"], str(other)).stderr

"""``def publish``, ``list``, ``show`` and ``start`` of what was published; ``list --reference``."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.unit.cli.conftest import Invoke, lines

CLAIM = """\
holdfast: definition/1
name: claims
version: {version}
title: Claims, {title}
reference: =start.no
start: {{type: object, required: [no], properties: {{no: {{type: string}}}}}}
tasks: {{well: {{title: Well, form: {{type: object}}}}}}
steps:
  - ask: {{task: well}}
  - done: {{end: =run.reference}}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for version in (1, 2):
        (tmp_path / f"claims{version}.yaml").write_text(CLAIM.format(version=version, title=f"no. {version}"))
    return [str(tmp_path / f"claims{version}.yaml") for version in (1, 2)]


def test_what_is_published_is_listed_and_shown(holdfast: Invoke, files: list[str]) -> None:
    """By its name, and by its version; the newest unless one is named."""
    done = holdfast("def", "publish", *files, "--as", "ann")
    assert (done.exit_code, done.stdout.count("is published")) == (0, 2)
    listed = lines(holdfast("def", "list", "--json"))
    assert [(each["name"], each["version"], each["title"]) for each in listed] == [
        ("claims", 1, "Claims, no. 1"),
        ("claims", 2, "Claims, no. 2"),
    ]
    assert "Claims, no. 2" in holdfast("def", "list").stdout
    assert "version: 2" in holdfast("def", "show", "claims").stdout
    (shown,) = lines(holdfast("def", "show", "claims@1", "--json"))
    assert (shown["digest"], shown["definition"]["version"]) == (listed[0]["digest"], 1)
    assert shown["published_at"] == listed[0]["published_at"]
    assert "publish claims version 2" in holdfast("audit", "list").stdout


def test_a_changed_file_needs_a_new_version(holdfast: Invoke, files: list[str]) -> None:
    holdfast("def", "publish", files[0], "--as", "ann")
    Path(files[0]).write_text(CLAIM.format(version=1, title="changed"))
    refused = holdfast("def", "publish", *files, "--as", "ann")
    assert refused.exit_code != 0
    assert "claims version 1 is published with other content" in refused.stderr
    assert len(lines(holdfast("def", "list", "--json"))) == 1
    again = holdfast("def", "show", "letters")
    assert again.exit_code != 0
    assert "no definition of that name is published" in again.stderr
    assert "there is no file or folder" in holdfast("def", "publish", "gone.yaml").stderr


def test_a_published_definition_is_started_by_name_and_found_by_reference(
    holdfast: Invoke, files: list[str], database: str
) -> None:
    """Without the file, and without an app."""
    holdfast("def", "publish", *files, "--as", "ann")
    assert "run C-1 started" in holdfast("start", "claims@1", json.dumps({"no": "A-7"}), "--id", "C-1").stdout
    asyncio.run(_until_asked(database))
    (found,) = lines(holdfast("list", "--reference", "A-7", "--json"))
    assert (found["id"], found["reference"]) == ("C-1", "A-7")
    assert "A-7" in holdfast("list").stdout
    assert holdfast("list", "--reference", "A-8").stdout == ""
    (task,) = lines(holdfast("tasks", "--reference", "A-7", "--json"))
    assert (task["run"], task["reference"]) == ("C-1", "A-7")
    assert "A-7" in holdfast("tasks", "show", task["id"]).stdout
    missing = holdfast("start", "claims@9", "{}")
    assert missing.exit_code != 0
    assert "there is no definition 'claims@9' here" in missing.stderr


async def _until_asked(url: str) -> None:
    async with Holdfast(url) as app:
        while not [task async for task in app.tasks.list(run="C-1")]:
            await app.changed(0.05)

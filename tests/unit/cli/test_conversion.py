"""``def import`` and ``def export``: from and to Serverless Workflow documents."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from holdfast.cli import exits
from holdfast.cli.main import main

pytest.importorskip("jq", reason="jq is not installed: holdfast[serverless]")

DOCUMENT = """\
document: {dsl: 1.0.3, namespace: test, name: greet, version: 1.0.0}
do: [{say: {set: {words: '${ "hello " + .name }'}}}]
"""


def test_a_document_is_imported_checked_and_exported(tmp_path: Path) -> None:
    target = tmp_path / "greet.yaml"
    arguments = ["def", "import", "-", "--from", "serverless", "-o", str(target)]
    assert CliRunner().invoke(main, arguments, input=DOCUMENT).exit_code == exits.GOOD
    assert "test.greet version 1000000" in CliRunner().invoke(main, ["def", "check", str(target)]).output
    exported = CliRunner().invoke(main, ["def", "export", str(target), "--to", "serverless"])
    assert yaml.safe_load(exported.stdout)["do"] == yaml.safe_load(DOCUMENT)["do"]


def test_what_is_not_supported_is_printed_with_its_places(tmp_path: Path) -> None:
    path = tmp_path / "shell.yaml"
    path.write_text(DOCUMENT + "schedule: {cron: x}\n")
    found = CliRunner().invoke(main, ["def", "import", str(path), "--from", "serverless"])
    assert found.exit_code != exits.GOOD
    assert f"{path}:3:1: `schedule` is not supported" in found.output


def test_a_definition_in_cel_is_not_exported(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("holdfast: definition/1\nname: one\nversion: 1\nsteps: [{a: {end: 1}}]\n")
    found = CliRunner().invoke(main, ["def", "export", str(path), "--to", "serverless"])
    assert found.exit_code != exits.GOOD
    assert "are in CEL" in found.output


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    arguments = ["def", "import", "-", "--from", "serverless", "-o", str(tmp_path / "no" / "x.yaml")]
    found = CliRunner().invoke(main, arguments, input=DOCUMENT)
    assert found.exit_code != exits.GOOD
    assert "cannot be written" in found.output

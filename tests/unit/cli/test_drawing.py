"""``def draw``: files and runs, in every form, and what cannot be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli import exits
from holdfast.cli.main import main
from tests.definitions import CLAIMS
from tests.unit.cli.conftest import Invoke

BEGINNINGS = {"svg": b"<svg ", "png": b"\x89PNG", "json": b"{", "mmd": b"---\ntitle:"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "claims.yaml"
    path.write_text(CLAIMS, encoding="utf-8")
    return path


@pytest.mark.parametrize("form", BEGINNINGS)
def test_the_ending_says_the_form(form: str, source: Path, tmp_path: Path) -> None:
    """And so does --form, where the picture goes to stdout."""
    target = tmp_path / f"picture.{form}"
    done = CliRunner().invoke(main, ["def", "draw", str(source), "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert target.read_bytes().startswith(BEGINNINGS[form])
    assert str(target) in done.stdout
    piped = CliRunner().invoke(main, ["def", "draw", str(source), "--form", form])
    assert piped.stdout_bytes == target.read_bytes()


def test_a_definition_is_read_from_stdin() -> None:
    """Left to right it is wider than from the top down."""
    pictures = [
        json.loads(CliRunner().invoke(main, ["def", "draw", "-", "--json", way], input=CLAIMS).stdout)
        for way in ("--across", "--down")
    ]
    assert [picture["direction"] for picture in pictures] == ["across", "down"]


def test_a_run_is_drawn_now_and_as_it_was(holdfast: Invoke) -> None:
    """By its id, in its tenant."""
    now = json.loads(holdfast("def", "draw", "done", "--form", "json").stdout)
    assert "completed" in now["heading"]["subtitle"]
    before = json.loads(holdfast("def", "draw", "done", "--at", "1", "--form", "json").stdout)
    assert "at version 1" in before["heading"]["subtitle"]
    assert len(before["boxes"]) < len(now["boxes"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("missing.yaml",), "cannot be read"),
        (("FILE", "-o", "picture.gif"), "ends in none of"),
        (("FILE", "-o", "missing/picture.svg"), "missing/picture.svg cannot be written"),
        (("FILE", "--at", "3"), "a file has no past"),
    ],
)
def test_wrong_uses_are_told(arguments: tuple[str, ...], text: str, source: Path) -> None:
    """With what to write instead."""
    given = [str(source) if each == "FILE" else each for each in arguments]
    done = CliRunner().invoke(main, ["def", "draw", *given])
    assert done.exit_code == exits.USAGE
    assert text in done.stderr


def test_a_definition_that_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    """Nothing is written."""
    path, target = tmp_path / "bad.yaml", tmp_path / "bad.svg"
    path.write_text(
        "holdfast: definition/1\nname: bad\nversion: 1\nsteps: [{a: {step: x, wait: y}}]\n", encoding="utf-8"
    )
    done = CliRunner().invoke(main, ["def", "draw", str(path), "-o", str(target)])
    assert done.exit_code != 0
    assert "bad.yaml" in done.stderr
    assert not target.exists()


def test_a_run_that_is_not_there_and_a_version_that_was_not(holdfast: Invoke) -> None:
    """Each is an error with a remedy."""
    assert "there is no run 'nobody'" in holdfast("def", "draw", "nobody").stderr
    assert "has the versions 1 to" in holdfast("def", "draw", "done", "--at", "9999").stderr

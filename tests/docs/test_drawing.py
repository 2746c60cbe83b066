"""The page on drawing: its picture is what the command draws, and its words are those of the code."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

from holdfast.cli.definitions.pictures import FORMS
from holdfast.cli.main import main
from holdfast.drawing.picture import State
from tests.definitions import CLAIMS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "drawing.md").read_text(encoding="utf-8")


def test_the_picture_is_what_the_command_draws(tmp_path: Path) -> None:
    """Delete the picture and run this again where a change is meant."""
    source, target, kept = tmp_path / "claims.yaml", tmp_path / "drawing.svg", DOCS / "drawing.svg"
    source.write_text(CLAIMS, encoding="utf-8")
    done = CliRunner().invoke(main, ["def", "draw", str(source), "--across", "-o", str(target)])
    assert done.exit_code == 0, done.output
    if not kept.exists():
        kept.write_bytes(target.read_bytes())
        pytest.fail("docs/drawing.svg is written: look at it, and keep it")
    assert target.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


def test_every_state_and_form_is_documented() -> None:
    """A new one needs a line."""
    assert [state for state in get_args(State) if state and f"| `{state}` |" not in PAGE] == []
    assert [form for form in FORMS if f"| `.{form}` |" not in PAGE] == []

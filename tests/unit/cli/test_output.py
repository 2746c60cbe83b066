"""How things are written."""

from __future__ import annotations

import sys
from datetime import timedelta

import click
import pytest

from holdfast.cli import output
from holdfast.client.views.times import iso, length, microseconds, moment, span


def test_columns_are_aligned_and_headers_stand_above(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal: plain text that is easy to cut."""
    output.table(["id", "note"], [["a", "x"], [output.TableCell("longer", "red"), ""]])
    assert capsys.readouterr().out == "ID      NOTE\na       x\nlonger\n"


def test_a_terminal_has_the_same_headers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages show them so."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.table(["id", "note"], [["a", "x"]])
    assert click.unstyle(capsys.readouterr().out).split() == ["ID", "NOTE", "a", "x"]


def test_control_characters_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """A run's error message cannot move the cursor, change colours or ring the bell."""
    output.say("a\x1b[31mb\x07")
    output.table([], [["c\x1b]0;title\x07"]])
    output.note("d\x9b2J")
    captured = capsys.readouterr()
    assert captured.out == "a\\x1b[31mb\\x07\nc\\x1b]0;title\\x07\n"
    assert captured.err == "d\\x9b2J\n"


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 ms"),
        (12_000, "12 ms"),
        (3_400_000, "3.4 s"),
        (312_000_000, "5m 12s"),
        (7_500_000_000, "2h 5m"),
        (183_600_000_000, "2d 3h"),
    ],
)
def test_lengths_of_time_have_two_units_at_most(microseconds: int, text: str) -> None:
    """Exact enough to read."""
    assert span(length(microseconds)) == text


def test_times_in_json_are_exact() -> None:
    """Microseconds survive: floats would lose them."""
    assert iso(moment(1_700_000_000_123_457)) == "2023-11-14T22:13:20.123457Z"
    assert iso(None) is None


def test_times_beyond_those_of_python_are_the_last_that_it_knows() -> None:
    """A timer may be set for longer than the calendar: it is shown all the same."""
    assert iso(moment(2**62)) == "9999-12-31T23:59:59.999999Z"
    assert length(10**25) == timedelta.max
    assert microseconds(moment(-1)) == -1

"""The log of a process on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from holdfast.cli.logs import configure

SENT = "a\nb\r\x1b[31mc\x9b\u2028d\u202ee \tü"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of this process, as they were."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def test_a_message_is_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    """What strangers sent can neither look like a line of its own nor steer a terminal."""
    configure("info", "text", as_json=False)
    logging.getLogger("holdfast.webhooks").info("a delivery to webhook %s was refused", SENT)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"to webhook a\nb\r\x1b[31mc\x9b\u2028d\u202ee \tü was refused")


def test_a_message_in_json_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json", as_json=False)
    logging.getLogger("holdfast.webhooks").info("refused: %s", SENT)
    (line, end) = capsys.readouterr().err.split("\n")
    assert not end
    assert json.loads(line)["message"] == f"refused: {SENT}"


def test_a_traceback_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "text", as_json=False)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("holdfast.server").exception("it failed")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("it failed")
    assert (lines[1], lines[-1]) == ("Traceback (most recent call last):", "ValueError: no")

"""The worker's log on stderr: readable lines, or one JSON object per line."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LEVELS: Final = ["debug", "info", "warning", "error"]
FORMATS: Final = ["text", "json"]


def log_options(command: F) -> F:
    """``--log-level`` and ``--log-format``."""
    for option in (
        click.option(
            "--log-format", type=click.Choice(FORMATS), help="How: lines to read, or JSON; with --json it is JSON."
        ),
        click.option(
            "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="What is logged."
        ),
    ):
        command = option(command)
    return command


class _Lines(logging.Formatter):
    """``2026-05-01T12:00:00Z WARNING holdfast.worker  message``.

    A message is one line, whatever is quoted in it: what strangers sent can neither look like a line of its own nor
    steer a terminal.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s  %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the library's name
        return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in super().formatMessage(record))


def configure(level: str, form: str | None, *, as_json: bool) -> None:
    """Send every log record of this process from ``level`` on to stderr, by default in the form of the output."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form or ("json" if as_json else "text")))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in ("asyncio", "httpx", "websockets"):
            logging.getLogger(name).setLevel(logging.WARNING)


def _formatter(form: str) -> logging.Formatter:
    if form == "text":
        return _Lines()
    from holdfast.telemetry import JsonFormatter

    return JsonFormatter()

"""The worker's log on stderr: readable lines, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time


class _Lines(logging.Formatter):
    """``2026-05-01T12:00:00Z WARNING holdfast.worker  message``."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s  %(message)s", "%Y-%m-%dT%H:%M:%S")


class _Objects(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure(level: str, *, as_json: bool) -> None:
    """Send every log record of this process from ``level`` on to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Objects() if as_json else _Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        for name in ("asyncio", "httpx", "websockets"):
            logging.getLogger(name).setLevel(logging.WARNING)

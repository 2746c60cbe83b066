"""The schema of what a definition says of its schedule."""

from __future__ import annotations

from typing import Any, Final

from holdfast.schedules.schedule import CATCH_UPS, OVERLAPS

SCHEDULE: Final[dict[str, Any]] = {
    "type": ["string", "object"],
    "description": "When it starts by itself: a cron line, or these words. Publishing it makes the schedule.",
    "properties": {
        "cron": {"type": "string", "description": "A cron line of five fields, or six with seconds first."},
        "timezone": {"type": "string", "description": "The zone whose clocks the line follows; UTC if not said."},
        "every": {"type": "string", "description": "An interval, such as 15m, in place of a line."},
        "input": {"description": "What each run is started with, as plain data."},
        "overlap": {
            "enum": list(OVERLAPS),
            "description": "What becomes of a tick while the run before it is under way.",
        },
        "catch_up": {
            "enum": list(CATCH_UPS),
            "description": "Which ticks are started that no worker was there for.",
        },
        "catch_up_window": {"type": "string", "description": "How late a tick may be started; any time if not said."},
        "jitter": {"type": "string", "description": "Over how long starts are spread."},
    },
    "additionalProperties": False,
}

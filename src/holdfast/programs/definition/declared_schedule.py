"""What a definition says of when it starts by itself."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.schedules.schedule import CatchUp, Overlap


class ScheduleDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """When runs of the definition start by themselves: by a cron line or ``every`` so many microseconds; 0 is neither.

    ``input`` is plain data: what each run is started with.
    """

    cron: str = ""
    timezone: str = "UTC"
    every: int = 0
    input: Any = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    catch_up_window: int | None = None
    jitter: int = 0

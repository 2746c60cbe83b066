"""The app of the tests of schedules: what is started by a clock."""

from __future__ import annotations

from holdfast import Holdfast, workflow

app = Holdfast("sqlite:///clockwork.db", worker=False)


@workflow
async def strike(hour: int = 12) -> int:
    return hour

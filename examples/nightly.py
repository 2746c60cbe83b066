"""A run that never ends: it works, sleeps until tomorrow, and continues with a new journal.

    python examples/nightly.py

A night is half a second here. ``continue_as_new`` keeps the run and its id, and begins a new journal, so that no
journal grows without bound. Signals that were not received yet are kept.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast import Holdfast, RunHandle, continue_as_new, receive, step, workflow

A_DAY = 24 * 3600.0


@step(retries=10)
async def back_up(night: int) -> str:
    """The work of one night."""
    print(f"night {night}: backed up")
    return f"backup-{night}"


@workflow
async def nightly(night: int = 1, pause_seconds: float = A_DAY) -> str:
    """One night per journal, until someone sends ``stop``."""
    name = await back_up(night)
    try:
        async with asyncio.timeout(pause_seconds):
            await receive("stop")
    except TimeoutError:
        continue_as_new(night + 1, pause_seconds=pause_seconds)
    return f"stopped after {name}"


async def night_reached(run: RunHandle[str], night: int) -> None:
    """Wait until that night's journal has begun."""
    async for _ in run.tail():
        if (await run.info()).generation >= night - 1:
            return


async def main() -> None:
    """Three nights, then a signal."""
    with tempfile.TemporaryDirectory() as folder:
        async with Holdfast(f"sqlite:///{Path(folder) / 'nightly.db'}") as app:
            run = await app.start(nightly, pause_seconds=0.5, id="nightly")
            await night_reached(run, 3)
            await run.signal("stop")
            print(await run.result())
            info = await run.info()
            print(f"the run is in generation {info.generation}, whose journal has {info.events} events")


if __name__ == "__main__":
    asyncio.run(main())

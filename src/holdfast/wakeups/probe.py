"""Trying a driver: a hint to oneself."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from holdfast.wakeups.driver import Wakeups


async def round_trip_seconds(driver: Wakeups, seconds: float = 5.0) -> float:
    """How long a hint takes through the driver and back. Raises what the driver raises, or TimeoutError."""
    token = uuid.uuid4().hex
    stands, back = asyncio.Event(), asyncio.Event()

    def heard(sender: str) -> None:
        (back if sender == token else stands).set()

    channel = f"holdfast:{token}"
    listening = asyncio.ensure_future(driver.listen(channel, heard))
    try:
        async with asyncio.timeout(seconds):
            await _first(stands, listening)
            sent_at = time.perf_counter()
            await driver.publish(channel, token)
            await _first(back, listening)
            return time.perf_counter() - sent_at
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await driver.close()


async def _first(event: asyncio.Event, listening: asyncio.Future[None]) -> None:
    """Wait for the event; raises what ends the subscription before it comes."""
    waiting = asyncio.ensure_future(event.wait())
    both: list[asyncio.Future[Any]] = [waiting, listening]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            listening.result()
            raise ConnectionError("the subscription ended")
    finally:
        waiting.cancel()

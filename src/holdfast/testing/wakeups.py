"""The suite that judges every driver of wake-ups. Subclass it in your tests, and say how a driver is made.

class TestMyWakeups(WakeupSuite):
    def driver(self) -> Wakeups:
        return MyWakeups("broker.example")
"""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from holdfast.wakeups.driver import Wakeups
from holdfast.wakeups.probe import round_trip_seconds

SECONDS: Final = 60.0

S = TypeVar("S", bound="WakeupSuite")


class Ear:
    """What one listener has heard, in order."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, sender: str) -> None:
        self.heard.append(sender)
        self._news.set()

    async def until(self, sender: str) -> None:
        async with asyncio.timeout(SECONDS):
            while sender not in self.heard:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def listening(driver: Wakeups, channel: str) -> AsyncIterator[Ear]:
    """A listener whose subscription stands."""
    ear = Ear()
    task = asyncio.ensure_future(driver.listen(channel, ear))
    try:
        await ear.until("")
        yield ear
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def on_two_drivers(body: Callable[[S, Wakeups, Wakeups], Awaitable[None]]) -> Callable[[S], None]:
    """Make an async test body that takes the drivers of two processes into a test that pytest can call."""

    @functools.wraps(body)
    def test(self: S) -> None:
        async def judge() -> None:
            ours, theirs = self.driver(), self.driver()
            try:
                await body(self, ours, theirs)
            finally:
                await ours.close()
                await theirs.close()

        asyncio.run(judge())

    del test.__wrapped__  # pytest would look for fixtures called like the drivers
    return test


def _channel() -> str:
    return f"holdfast:{uuid.uuid4().hex}"


class WakeupSuite:
    """Subclass it, and define ``driver``."""

    def driver(self) -> Wakeups:
        """A driver on the same broker each time, not connected yet."""
        raise NotImplementedError(f"{type(self).__name__} must define driver()")

    @on_two_drivers
    async def test_a_message_reaches_every_listener(self, ours: Wakeups, theirs: Wakeups) -> None:
        """Those of the other process, and those of one's own."""
        channel = _channel()
        async with listening(ours, channel) as near, listening(theirs, channel) as far:
            await ours.publish(channel, "one")
            await near.until("one")
            await far.until("one")

    @on_two_drivers
    async def test_a_subscription_is_reported_before_anything_else(self, ours: Wakeups, theirs: Wakeups) -> None:
        """Whoever begins to listen looks at the store then: what came before may have been missed."""
        channel = _channel()
        async with listening(theirs, channel) as ear:
            await ours.publish(channel, "one")
            await ear.until("one")
            assert ear.heard[0] == ""
            assert ear.heard.count("") == 1

    @on_two_drivers
    async def test_channels_do_not_mix(self, ours: Wakeups, theirs: Wakeups) -> None:
        """Two stores on one broker do not wake each other."""
        one, other = _channel(), _channel()
        async with listening(theirs, one) as ear, listening(theirs, other) as other_ear:
            await ours.publish(other, "to the other")
            await ours.publish(one, "to the one")
            await ear.until("to the one")
            await other_ear.until("to the other")
            assert "to the other" not in ear.heard
            assert "to the one" not in other_ear.heard

    @on_two_drivers
    async def test_nobody_needs_to_listen(self, ours: Wakeups, theirs: Wakeups) -> None:
        """A message to nobody is no error."""
        await ours.publish(_channel(), "one")

    @on_two_drivers
    async def test_a_listener_can_be_cancelled_and_begin_again(self, ours: Wakeups, theirs: Wakeups) -> None:
        """The driver goes on being usable, and the old listener hears nothing more."""
        channel = _channel()
        async with listening(theirs, channel) as first:
            pass
        async with listening(theirs, channel) as second:
            await ours.publish(channel, "one")
            await second.until("one")
        assert first.heard == [""]

    @on_two_drivers
    async def test_a_closed_driver_can_be_used_again(self, ours: Wakeups, theirs: Wakeups) -> None:
        """Closing gives up connections and nothing else; closing twice does nothing, nor closing what is unused."""
        await ours.close()
        assert await round_trip_seconds(ours) < SECONDS
        await ours.close()
        await ours.close()
        assert await round_trip_seconds(ours) < SECONDS

    def test_another_event_loop_may_take_over(self) -> None:
        """An engine that is closed may be opened on another loop."""
        driver = self.driver()
        for _ in range(2):
            assert asyncio.run(round_trip_seconds(driver)) < SECONDS

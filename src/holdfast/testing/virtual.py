"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing else is left to do.

Days of sleeping pass in milliseconds, and a seed gives the same order of events every time. There is no I/O on this
loop, and there are no threads: their functions are called at once. A wait that no timer and no task can end raises
``Stuck``.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_MICROSECONDS = 1_700_000_000_000_000
"""The virtual time when its loop begins."""


class Stuck(RuntimeError):
    """Every task waits, and nothing can end the wait."""


class _Selector(selectors.SelectSelector):
    """A selector that does not wait for I/O: the time passes at once."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("every task waits for something that will never happen")
        self.loop.skip(max(0.0, timeout))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._virtual = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        # A timer is due when less than this remains. asyncio's own nanosecond is lost in a float that counts months:
        # the loop would spin for ever just before the timer's time.
        self._clock_resolution = 1e-7

    def time(self) -> float:
        return self._virtual

    def skip(self, seconds: float) -> None:
        self._virtual += seconds

    def _run_once(self) -> None:
        """A timer that is due although a trifle is left moves the clock: else whoever asks for it asks for ever."""
        if self._scheduled:  # type: ignore[attr-defined]  # asyncio's own heap of timers
            first: float = self._scheduled[0].when()  # type: ignore[attr-defined]
            if self._virtual < first <= self._virtual + self._clock_resolution:
                self._virtual = first
        super()._run_once()  # type: ignore[misc]

    def run_in_executor(  # type: ignore[override]  # its arguments are not checked against the function
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """There are no threads here: it is done at once, and no time passes."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done


class VirtualClock:
    """The engine's clock on a virtual loop, ahead or behind by ``skew_seconds``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_seconds: float = 0.0) -> None:
        self._loop = loop
        self.skew_seconds = skew_seconds

    def now(self) -> int:
        return EPOCH_MICROSECONDS + round((self._loop.time() + self.skew_seconds) * 1e6)


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)

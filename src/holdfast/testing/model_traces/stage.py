"""The stage: step functions that begin and end when a trace says so.

When a step begins is the engine's own: its function comes to the door at once and waits there. The trace lets it in,
and then says how it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from holdfast.programs.function.decorators import STEPS, step

PREFIX: Final = "model."
"""Of the names of the steps' functions."""

NEVER_SECONDS: Final = 50 * 365 * 86400.0
"""How long a step that the trace does not retry waits for its next attempt."""

Place = tuple[str, str, str]
"""Tenant, run and step."""


class ToldToFail(Exception):
    """The trace says that the attempt fails, and when the next one begins."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the trace says that it fails")
        self.retry_after = retry_after


class StageAttempt:
    """One attempt of a step."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_inside = False
        self.is_over = False
        self._word: asyncio.Future[float | None] = asyncio.get_running_loop().create_future()

    async def play(self) -> None:
        """Wait for the word of the trace. Raises ToldToFail."""
        try:
            retry_after = await self._word
        finally:
            self.is_over = True
        if retry_after is not None:
            raise ToldToFail(retry_after)

    def enter(self) -> None:
        """The trace executes it."""
        self.is_inside = True

    def succeed(self) -> None:
        if not self._word.done():
            self._word.set_result(None)

    def fail(self, retry_after: float) -> None:
        if not self._word.done():
            self._word.set_result(retry_after)


class Stage:
    """The last attempt of every step of every run, and how many of them the trace has asked for."""

    def __init__(self) -> None:
        self._attempts: dict[Place, StageAttempt] = {}
        self._asked: dict[Place, int] = {}

    async def perform(self, place: Place) -> None:
        """An attempt of a step, from its beginning to its end."""
        before = self._attempts.get(place)
        attempt = self._attempts[place] = StageAttempt(1 if before is None else before.number + 1)
        await attempt.play()

    def attempt(self, place: Place) -> StageAttempt | None:
        """The last attempt of a step."""
        return self._attempts.get(place)

    def attempts(self, tenant: str, run: str) -> int:
        """How many attempts of a run's steps were begun. A retry that has begun changes nothing else for a while."""
        return sum(each.number for place, each in self._attempts.items() if place[:2] == (tenant, run))

    def at_door(self, place: Place) -> StageAttempt | None:
        """The attempt that the engine has begun and the trace has not executed yet."""
        found = self._attempts.get(place)
        return found if found is not None and not found.is_inside else None

    def inside(self, place: Place) -> StageAttempt | None:
        """The attempt that is under way."""
        found = self._attempts.get(place)
        return found if found is not None and found.is_inside and not found.is_over else None

    def retries(self, place: Place) -> int:
        """How often the trace has retried the step."""
        return self._asked.get(place, 0)

    def retry(self, place: Place) -> None:
        """The trace retries the step: its next attempt is one that the trace knows of."""
        self._asked[place] = self.retries(place) + 1


_stages: dict[asyncio.AbstractEventLoop, Stage] = {}


def use_stage(stage: Stage | None) -> None:
    """Let the steps of the running loop play on this stage; None ends that."""
    loop = asyncio.get_running_loop()
    if stage is None:
        _stages.pop(loop, None)
    else:
        _stages[loop] = stage


def know_step(name: str) -> str:
    """Make the function of a step of the model known, and give its name."""
    known = PREFIX + name
    if known not in STEPS:
        step(name=known)(_function(name))
    return known


def _function(name: str) -> Callable[..., Coroutine[Any, Any, None]]:
    async def perform(tenant: str, run: str) -> None:
        await _stages[asyncio.get_running_loop()].perform((tenant, run, name))

    return perform

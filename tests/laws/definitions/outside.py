"""The outside of both sides: what every call does, how long it takes and what it gives, decided by the call alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from holdfast import action, receive, step, workflow
from holdfast.programs.function.loop import durable_loop

FUNCTION: Final = "laws.definitions.child"
CONTINUED: Final = "laws.definitions.continued"
SECOND: Final = 1_000_000
LONGEST: Final = 60 * SECOND

ERRORS: Final[dict[str, type[Exception]]] = {
    "error": ValueError,
    "transport": ConnectionResetError,
    "timeout": TimeoutError,
}
"""What a failing call raises, by the class of errors that it stands for."""
UNKNOWN: Final = ("transport", "timeout")
"""After these nobody knows whether an action that writes was done."""
WRITING: Final = ("act(", "book(")
GIVEN_UP: Final = "given up"


@dataclass(frozen=True)
class Fate:
    """What comes of one attempt, and when. Without an ``error`` it gives ``value``."""

    duration: int
    value: int
    error: str = ""


@dataclass
class Outside:
    """One case's outside. ``log`` has every attempt with the time at which it began."""

    seed: int
    log: list[tuple[int, str, int]] = field(default_factory=list)
    calm: bool = False
    _calls: Counter[str] = field(default_factory=Counter)

    def name(self, what: str, arguments: Any) -> str:
        """A name for one more call with these arguments: the first, the second, …"""
        plain = f"{what}({arguments['at']}{''.join(f'/{part}' for part in arguments['i'])})"
        self._calls[plain] += 1
        return f"{plain}:{self._calls[plain]}"

    def judge(self, now: int, name: str, fate: Fate, *, noted: bool = True) -> Fate | None:
        """People say at once what became of an attempt: it happened, or they give up. One without an undo may not have
        happened, too: then it is begun again, and there is no fate. Others are as they are."""
        if fate.error not in UNKNOWN or not name.startswith(WRITING):
            return fate
        if noted:
            self.log.append((now, f"what became of {name}", 1))
        source = random.Random(f"{self.seed} what became of {name}")
        said = source.choice(("happened", "given up", "given up" if name.startswith("book") else "did not happen"))
        if said == "did not happen":
            return None
        return Fate(0, source.randrange(1_000)) if said == "happened" else Fate(0, 0, GIVEN_UP)

    def begin(self, now: int, name: str, attempt: int = 1) -> Fate:
        """An attempt begins."""
        self.log.append((now, name, attempt))
        source = random.Random(f"{self.seed} {name} {attempt}")
        duration, value = source.randrange(SECOND, LONGEST), source.randrange(1_000)
        lucky = self.calm or source.random() < (0.9 if name.startswith("take_back") else 0.85)
        return Fate(duration, value, "" if lucky else source.choice(sorted(ERRORS)))


class Stage(Protocol):
    """Where calls happen, when a whole engine plays."""

    async def perform(self, what: str, arguments: dict[str, Any]) -> int: ...

    def decide(self, run: str, what: str, arguments: dict[str, Any]) -> Fate: ...

    def cancel(self, run: str) -> Fate: ...


STAGE: Final[ContextVar[Stage]] = ContextVar("stage")


@step(name="laws.definitions.take_back")
async def take_back(at: str, i: list[str]) -> int:
    return await STAGE.get().perform("take_back", {"at": at, "i": i})


@step(name="laws.definitions.call")
async def call(at: str, i: list[str], n: int = 0) -> int:
    return await STAGE.get().perform("call", {"at": at, "i": i})


@action(name="laws.definitions.act", connector="laws", operation="act", risk="low", safe_to_retry=True)
async def act(at: str, i: list[str], n: int = 0) -> int:
    return await STAGE.get().perform("act", {"at": at, "i": i})


@action(name="laws.definitions.book", connector="laws", operation="book", risk="low", safe_to_retry=True)
async def book(at: str, i: list[str], n: int = 0) -> int:
    """It has an undo."""
    return await STAGE.get().perform("book", {"at": at, "i": i})


@action(name="laws.definitions.look", connector="laws", operation="look", writes=False)
async def look(at: str, i: list[str], n: int = 0) -> int:
    """It only reads, so nobody is asked what became of it, and it is tried again."""
    return await STAGE.get().perform("look", {"at": at, "i": i})


def _run() -> str:
    """The run that this code is part of."""
    loop = durable_loop()
    assert loop is not None
    return str(loop.scribe.run)


@workflow(name=FUNCTION)
async def function(at: str, i: list[str]) -> int:
    """A child that is no definition. One that is cancelled takes its time, too."""
    key = _run()
    fate = STAGE.get().decide(key, "run", {"at": at, "i": i})
    try:
        await asyncio.sleep(fate.duration / SECOND)
    except asyncio.CancelledError:
        fate = STAGE.get().cancel(key)
        await asyncio.sleep(fate.duration / SECOND)
        raise
    if fate.error:
        raise ERRORS[fate.error]("no")
    return fate.value


@workflow(name=CONTINUED)
async def continued(at: str, i: list[str]) -> None:
    STAGE.get().decide(_run(), "continue", {"at": at, "i": i})


@workflow(name="laws.definitions.other")
async def other() -> None:
    """A run that signals can be sent to."""
    await receive("an end")

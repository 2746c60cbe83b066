"""What a call itself says of its attempts: after which errors another follows, and how long each may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import RetryPolicy, RunFailed, action, step, workflow
from holdfast.journal.error_classes import error_class, error_members
from holdfast.programs.function.failures import unwrap
from holdfast.programs.function.loop import durable_loop
from holdfast.transports.http.refusals import LONGEST_WAIT_SECONDS
from holdfast.worker.steps.attempt_errors import retry_after
from tests.unit.worker.ground import Ground, kill, until
from tests.unit.worker.paying import failure_of

TRIED: list[str] = []
AFTER_TRY: list[Callable[[], None]] = []


class Slow(TimeoutError):
    """A time-out by another name."""


class Refused(Exception):
    """An answer of an HTTP library."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


ERRORS: dict[str, Callable[[], Exception]] = {
    "value": lambda: ValueError("wrong"),
    "slow": lambda: Slow("late"),
    "reset": lambda: ConnectionResetError("cut"),
    "busy": lambda: Refused(503),
}


async def _try(error: str) -> str:
    TRIED.append(error)
    for act in AFTER_TRY:
        act()
    if error in ERRORS:
        raise ERRORS[error]()
    if error == "hangs":
        await asyncio.sleep(3600)
    return error


@step(name="words.here", timeout=7200)
async def here(error: str) -> str:
    return await _try(error)


@step(name="words.plain")
async def plain(error: str) -> str:
    return await _try(error)


@step(name="words.queued", queue="words")
async def queued(error: str) -> str:
    return await _try(error)


@action(connector="words", operation="read", writes=False, name="words.read")
async def read(error: str) -> str:
    return await _try(error)


@workflow(name="words.run")
async def run_it(name: str, error: str, words: dict[str, Any]) -> Any:
    """Call a step with words of the call's own, as a definition does."""
    loop = durable_loop()
    assert loop is not None
    called = {each.name: each for each in (here, plain, queued, read)}[name]
    policy = RetryPolicy(**{**words, "on": tuple(words.get("on", ()))}, max_attempts=3, initial=1.0, jitter=0.0)
    call = called.write_call((error,), {}, loop.program)
    promise = loop.scribe.invoke(called.kind, called.name, call, policy, called.queue)
    return unwrap(await loop.promise(promise), name).data


KINDS = ["words.here", "words.plain", "words.queued", "words.read"]


@pytest.fixture(autouse=True)
def fresh() -> None:
    TRIED.clear()
    AFTER_TRY.clear()


async def _failed(ground: Ground, name: str, error: str, **words: Any) -> Any:
    async with ground.engine(run_it) as app:
        await app.start(run_it, name, error, words, id="one")
        return await failure_of(app, "one")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("error", "on", "tries"),
    [
        ("value", [], 3),
        ("value", ["timeout", "transport"], 1),
        ("value", ["error"], 3),
        ("slow", ["timeout"], 3),
        ("slow", ["transport"], 1),
        ("reset", ["transport"], 3),
        ("busy", ["transport"], 3),
        ("busy", ["timeout"], 1),
    ],
)
def test_another_attempt_follows_only_after_the_errors_that_the_call_names(
    virtual: Ground, name: str, error: str, on: list[str], tries: int
) -> None:
    """Of a step beside its run, of a queued one and of an action. Without any, after all that may be mended."""
    virtual.play(lambda ground: _failed(ground, name, error, on=on))
    assert len(TRIED) == tries


@pytest.mark.parametrize("name", KINDS)
def test_an_attempt_may_take_as_long_as_the_call_says(virtual: Ground, name: str) -> None:
    """Also of a step that says nothing, or something else, of its time."""
    failure = virtual.play(lambda ground: _failed(ground, name, "hangs", on=["timeout"], attempt_timeout=5.0))
    assert len(TRIED) == 3
    assert failure.message == "the attempt took longer than 5.0 s"
    assert error_class(failure) == "timeout"


def test_what_the_name_of_an_error_does_not_tell_is_recorded_with_it(virtual: Ground) -> None:
    """Whoever reads the journal has no exception to look at."""
    failure = virtual.play(lambda ground: _failed(ground, "words.plain", "slow"))
    assert (failure.type.rpartition(":")[2], error_class(failure)) == ("Slow", "timeout")


def test_the_status_of_an_answer_is_recorded_with_the_error(virtual: Ground) -> None:
    """For programs that decide by it."""
    failure = virtual.play(lambda ground: _failed(ground, "words.queued", "busy"))
    assert error_members(failure) == {"status": 503, "class": "transport"}


@pytest.mark.parametrize("name", ["words.plain", "words.queued"])
def test_the_words_of_a_call_outlive_its_worker(virtual: Ground, name: str) -> None:
    """A worker dies between an attempt and the commit that would have recorded its end. The next one tries again, and
    ends there: the journal has what the call said."""

    async def main(ground: Ground) -> None:
        async with ground.engine(run_it) as first:
            AFTER_TRY.append(lambda: kill(first))
            await first.start(run_it, name, "value", {"on": ["timeout"]}, id="one")
            await until(first, lambda: bool(TRIED))
        AFTER_TRY.clear()
        async with ground.engine(run_it) as second:
            with pytest.raises(RunFailed, match="wrong"):
                await second.run("one").result(60)

    virtual.play(main)
    assert len(TRIED) == 2


def test_the_time_of_an_attempt_outlives_its_worker(virtual: Ground) -> None:
    """The second worker cuts the attempt off as the first would have."""

    async def main(ground: Ground) -> None:
        async with ground.engine(run_it) as first:
            await first.start(run_it, "words.queued", "hangs", {"attempt_timeout": 5.0}, id="one")
            await until(first, lambda: bool(TRIED))
            kill(first)
        async with ground.engine(run_it) as second:
            with pytest.raises(RunFailed, match=r"longer than 5\.0 s"):
                await second.run("one").result(600)

    virtual.play(main)


@pytest.mark.parametrize(
    ("wish", "seconds"), [("inf", None), ("nan", None), ("1e300", LONGEST_WAIT_SECONDS), ("-1", 0.0), ("5", 5.0)]
)
def test_a_wish_for_patience_must_be_a_time(wish: str, seconds: float | None) -> None:
    """What another side says must not stop the run that asked it."""
    error = Refused(429)
    error.headers = {"Retry-After": wish}  # type: ignore[attr-defined]
    assert retry_after(error, 0) == seconds

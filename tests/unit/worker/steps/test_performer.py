"""What a step's failure means: another attempt may mend it, or none can."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from types import SimpleNamespace

import pytest

from holdfast import RetryableError, TerminalError, step
from holdfast.journal.error_classes import error_members
from holdfast.journal.payload import Err, Ok
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, CallSettled
from holdfast.programs.function.decorators import Step
from holdfast.store.memory import MemoryStore
from holdfast.store.protocol import Key
from holdfast.testing.virtual import EPOCH_MICROSECONDS, VirtualClock, run_virtually
from holdfast.worker.steps.performance import Performance
from holdfast.worker.steps.performer import Performer

PROMISE = PromiseId.of_run("digest", None, "run").child(0)


class Response:
    """What an HTTP library's error carries."""

    def __init__(self, status_code: int, headers: dict[str, str]) -> None:
        self.status_code = status_code
        self.headers = headers


class HTTPError(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"status {status}")
        self.response = Response(status, {name.replace("_", "-"): value for name, value in headers.items()})


class Declined(Exception):
    """The error of a client of some service, which keeps the status in a field of its own."""

    def __init__(self, status: int, field: str) -> None:
        super().__init__(f"{field} {status}")
        setattr(self, field, SimpleNamespace(status=status) if field == "response" else status)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def ignore(_performance: object, _details: bytes) -> None:
    """Nobody listens to its heart."""


async def attempt(definition: Step[..., object], *args: object) -> CallSettled | AttemptFailed:
    """One attempt of a step, and the one thing that came of it."""
    loop = asyncio.get_running_loop()
    reported: asyncio.Future[CallSettled | AttemptFailed] = loop.create_future()
    with ThreadPoolExecutor(1) as threads:
        store = MemoryStore()
        await store.open()
        performer = Performer(store, VirtualClock(loop), threads, 1, 1)
        payload = definition.signature.write(args, {})
        key = Key("default", "run")
        performer.perform(definition, key, PROMISE, 1, payload, lambda _, outcome: reported.set_result(outcome), ignore)
        return await reported


def raising(error: Exception) -> CallSettled | AttemptFailed:
    @step
    async def fails() -> None:
        raise error

    return run_virtually(attempt(fails))


def test_an_attempt_that_is_called_off_before_it_starts_gives_its_place_back() -> None:
    """A task that is cancelled before its first moment runs nothing, not even what it does in the end."""

    @step
    async def works(name: str) -> str:
        return name

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        with ThreadPoolExecutor(1) as threads:
            performer = Performer(MemoryStore(), VirtualClock(loop), threads, 1, 1)
            key = Key("default", "run")
            payloads = [works.signature.write([name], {}) for name in ("first", "second")]
            first = performer.perform(works, key, PROMISE, 1, payloads[0], lambda *_: done.cancel(), ignore)
            first.cancel()
            performer.perform(works, key, PROMISE, 1, payloads[1], lambda *_: done.set_result(None), ignore)
            await done
            assert performer.running == 0

    run_virtually(main())


RETRYABLE = [
    TimeoutError("slow"),
    ConnectionError("gone"),
    RetryableError("later"),
    *map(HTTPError, (408, 425, 429, 500, 502, 503, 504)),
]


@pytest.mark.parametrize("error", RETRYABLE, ids=str)
def test_timeouts_server_errors_and_rate_limits_may_be_tried_again(error: Exception) -> None:
    """G-34: what time may mend is a failed attempt, not a failed step."""
    assert isinstance(raising(error), AttemptFailed)


@pytest.mark.parametrize("error", [TerminalError("never"), *map(HTTPError, (400, 401, 403, 404, 409, 422))], ids=str)
def test_what_the_other_side_refuses_for_good_is_not_tried_again(error: Exception) -> None:
    """G-35: an invalid payload, or a denial, settles the step at once with its error."""
    outcome = raising(error)
    assert isinstance(outcome, CallSettled)
    assert isinstance(outcome.outcome, Err)


@pytest.mark.parametrize(
    "error",
    [
        *(Declined(422, field) for field in ("status_code", "status", "response")),
        caused(ValueError("wrapped"), Declined(422, "status_code")),
        caused(ValueError("twice"), caused(ValueError("wrapped"), HTTPError(422))),
    ],
    ids=str,
)
def test_the_status_of_an_error_is_found_wherever_its_library_keeps_it(error: Exception) -> None:
    """G-34a: as a field of its own, of its response, or of the error that it was raised from."""
    outcome = raising(error)
    assert isinstance(outcome, CallSettled)
    assert isinstance(outcome.outcome, Err)
    assert error_members(outcome.outcome.failure) == {"status": 422, "class": "transport"}


def test_what_is_no_status_of_http_is_none() -> None:
    """A number by the same name may mean anything."""
    assert isinstance(raising(Declined(3, "status")), AttemptFailed)


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (HTTPError(429, Retry_After="7"), 7.0),
        (HTTPError(503, Retry_After="0.5"), 0.5),
        (RetryableError("later", after=12), 12.0),
        (HTTPError(429, Retry_After="Fri, 31 Dec 1999 23:59:59 GMT"), 0.0),
        (HTTPError(429, Retry_After=formatdate(EPOCH_MICROSECONDS // 1_000_000 + 90, usegmt=True)), 90.0),
        (HTTPError(429, Retry_After="soon"), None),
        (HTTPError(429, Retry_After="9" * 5000), None),
        (caused(ValueError("wrapped"), HTTPError(429, Retry_After="7")), 7.0),
        (HTTPError(429), None),
    ],
    ids=str,
)
def test_the_other_sides_wish_for_patience_is_passed_on(error: Exception, seconds: float | None) -> None:
    """G-34a: Retry-After in seconds or as a date, also of the error's cause, and a RetryableError's own."""
    outcome = raising(error)
    assert isinstance(outcome, AttemptFailed)
    assert outcome.retry_after_seconds == seconds


def test_an_attempt_that_takes_too_long_is_a_failed_attempt() -> None:
    """G-34: the step's own timeout is one of the timeouts."""

    @step(timeout=5.0)
    async def slow() -> None:
        await asyncio.sleep(6.0)

    outcome = run_virtually(attempt(slow))
    assert isinstance(outcome, AttemptFailed)
    assert "longer than 5.0 s" in outcome.failure.message


def test_a_step_within_its_timeout_gives_its_value() -> None:
    """The counterpart of the above: a limit that is kept changes nothing."""

    @step(timeout=5.0)
    async def quick() -> str:
        await asyncio.sleep(4.0)
        return "done"

    outcome = run_virtually(attempt(quick))
    assert isinstance(outcome, CallSettled)
    assert isinstance(outcome.outcome, Ok)


def test_what_was_called_off_before_it_began_takes_no_place() -> None:
    """The next one in line begins where there is room, and does not wait for another to end."""
    ended: list[int] = []

    async def main() -> None:
        gate = asyncio.Event()

        @step
        async def waits(number: int) -> int:
            await gate.wait()
            return number

        def report(performance: Performance, _outcome: object) -> None:
            ended.append(performance.promise.path[-1])

        with ThreadPoolExecutor(1) as threads:
            performer = Performer(MemoryStore(), VirtualClock(asyncio.get_running_loop()), threads, 1, 1)
            key, run = Key("default", "run"), PromiseId.of_run("digest", None, "run")
            _, second, _ = (
                performer.perform(
                    waits, key, run.child(number), 1, waits.signature.write((number,), {}), report, ignore
                )
                for number in range(3)
            )
            second.cancel()
            gate.set()
            await asyncio.sleep(1)

    run_virtually(main())
    assert ended == [0, 2]

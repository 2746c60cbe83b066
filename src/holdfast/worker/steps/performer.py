"""The performer: it runs steps, distinguishes failures, and keeps to timeouts.

Steps run on the worker's own event loop, plain functions in threads. An attempt ends in exactly one arrival, or in none
when it was called off.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from concurrent.futures import Executor
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import AuthorError, TerminalError
from holdfast.gate.effects import Arguments, Performable
from holdfast.journal.error_classes import error_class
from holdfast.journal.payload import ONCE, Err, Failure, Ok, Payload, RetryPolicy
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, CallSettled
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.programs.function.values import decode
from holdfast.runs.clock import Clock
from holdfast.runs.observer import Observer
from holdfast.runs.payload_room import PayloadRoom, is_large, lender
from holdfast.store.patience import patiently
from holdfast.store.protocol import Key, ReceiptRow, Run, Store
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.transports.secrets import connector_secrets
from holdfast.worker.spans import Spans
from holdfast.worker.steps.attempt_errors import failure_of, is_terminal, is_unknown, retry_after
from holdfast.worker.steps.containment import Escaped, contained
from holdfast.worker.steps.performance import Beats, Outcome, Performance, Report, _performance
from holdfast.worker.steps.progress import ProgressReports


class Performer:
    """Runs attempts, at most ``limit`` at once; the rest wait their turn. Large payloads wait for ``room``, too. Acts
    get their tenant's ``secrets``."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        threads: Executor,
        limit: int,
        payload_limit_bytes: int,
        observer: Observer | None = None,
        spans: Spans | None = None,
        secrets: SecretKeeper | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._threads = threads
        self._limit = limit
        self._observer = observer
        self._spans = spans
        self._secrets = secrets
        self._running = 0
        self._backlog: deque[Performance] = deque()
        self._large: deque[Performance] = deque()  # those with large arguments, which wait for room as well
        self.room = PayloadRoom(payload_limit_bytes, self._begin_more)
        self._closed = False
        self._resting: asyncio.Future[None] | None = None  # for those that wait until no attempt is under way

    @property
    def running(self) -> int:
        return self._running

    async def rested(self) -> None:
        """Wait until no attempt is under way, and what came of each is reported."""
        while self._running:
            if self._resting is None:
                self._resting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._resting)

    def perform(
        self,
        step: Performable,
        key: Key,
        promise: PromiseId,
        attempt: int,
        input: Payload,
        report: Report,
        beats: Beats,
        owner: Any = None,
        given: Arguments | None = None,
        act: str | None = None,
        uncut: bool = False,
        mark: str = "",
        begun_before: bool = False,
        retry: RetryPolicy = ONCE,
        run: Run | None = None,
        receipt: ReceiptRow | None = None,
        trace: str | None = None,
        reports: ProgressReports | None = None,
    ) -> Performance:
        """Begin an attempt as soon as there is room. ``report`` is called once, unless it is called off before.

        ``act`` is the idempotency key of what it does, or looks for. One that is ``uncut`` cannot be called off any
        more once it has begun. ``retry`` is what the call itself says: how long an attempt may take, and after which
        errors another may follow. ``run`` is its run's row, else ``trace`` is what that has of a trace. ``reports``
        takes what it reports to the cell that asked for it.
        """
        loop = asyncio.get_running_loop()
        performance = Performance(
            step,
            key,
            promise,
            attempt,
            input,
            report,
            beats,
            owner,
            loop,
            given,
            act,
            mark,
            uncut,
            begun_before,
            retry,
            run,
            receipt,
            trace,
            reports,
        )
        if self._closed:
            return performance
        waiting = self._large if is_large(len(input.data)) else self._backlog
        waiting.append(performance)
        self._begin_more()
        return performance

    def _begin_more(self) -> None:
        """Begin what there is room for. What was called off meanwhile takes no place."""
        while self._large and self._running < self._limit:
            first = self._large[0]
            if not first.called_off and not self.room.fits(len(first.input.data)):
                break
            self._begin(self._large.popleft())
        while self._backlog and self._running < self._limit:
            self._begin(self._backlog.popleft())

    def _begin(self, performance: Performance) -> None:
        if not performance.called_off:
            self._running += 1
            performance.arguments = self.room.place("arguments", len(performance.input.data))
            performance.begun = True
            # Not by the loop's task factory: that is for what steps make, and this contains itself.
            performance.task = asyncio.Task(self._attempt(performance), loop=performance.loop)

    def close(self) -> None:
        """Begin nothing more; what is under way may end."""
        self._closed = True
        self._backlog.clear()
        self._large.clear()

    async def _attempt(self, performance: Performance) -> None:
        started_at = self._clock.now()
        step, promise, attempt = performance.step, performance.promise, performance.attempt
        outcome: Outcome | None = None
        span = None if self._spans is None else self._spans.attempt(performance, started_at)
        try:
            performance.entered = True
            if performance.called_off:
                raise asyncio.CancelledError
            args, kwargs = performance.given or step.read(performance.input)
            _performance.set(performance)
            if self._secrets is not None and performance.act is not None:
                connector_secrets.set(self._secrets.of_connectors(performance.key.tenant))
            if performance.arguments is not None:
                lender.set((performance.loop, performance.arguments))
            if step.is_plain and performance.retry.attempt_timeout is None:
                value = await step.function(*args, **kwargs)
            else:
                value = await self._call(performance, args, kwargs)
            performance.done = True
            if self.room.bytes["results"]:  # a large result is being committed
                await self.room.results_fit()
            outcome = CallSettled(promise, Ok(self._written(performance, value)), attempt, started_at)
        except asyncio.CancelledError as error:
            if not performance.called_off:
                performance.unknown = True
                outcome = _judged(performance, AttemptFailed(promise, failure_of(error), attempt, started_at))
        except Exception as error:
            failed = error.error if isinstance(error, Escaped) else error
            outcome = _failed(performance, failed, started_at, self._clock.now())
        except BaseException as error:
            if is_interrupt(error) or not performance.under_way:
                raise
            outcome = _failed(performance, error, started_at, self._clock.now())
        finally:
            _performance.set(None)  # what the engine does from here on is not the step's
            if span is not None:
                span.leave()
            performance.task = None  # breaks a reference cycle: the task holds its context, and that holds this
            if performance.reports is not None:
                performance.end_reports(performance.reports)
            self._running -= 1
            self.room.let_in()
            if performance.arguments is not None:
                performance.arguments.release()
            self._begin_more()
            if self._resting is not None and not self._running:
                self._resting.set_result(None)
                self._resting = None
        if span is not None:
            span.end(_failure_in(outcome), self._clock.now(), called_off=outcome is None)
        if outcome is not None and not performance.called_off:
            performance.report(performance, outcome)
            if self._observer is not None:
                ended = "completed" if performance.done else "failed"
                self._observer.step_ended(step.name, ended, (self._clock.now() - started_at) / 1e6)
        if (left := performance.take_result()) is not None:  # nothing waits for it to be durable
            left.release()

    def _written(self, performance: Performance, value: Any) -> Payload:
        result = performance.step.write_result(value)
        performance.result = self.room.place("results", len(result.data))
        return result

    async def _call(self, performance: Performance, args: list[Any], kwargs: dict[str, Any]) -> Any:
        step = performance.step
        call = self._awaitable(step, args, kwargs)
        if step.heartbeat_timeout is not None:
            performance.progress = await self._last_progress(performance)
            call = _listened(call, performance, step)
        try:
            async with asyncio.timeout(performance.timeout) as scope:
                return await call
        except TimeoutError:
            if scope.expired():
                performance.expired = True  # a thread cannot be stopped, but its next heartbeat() can raise
                raise TimeoutError(f"the attempt took longer than {performance.timeout} s") from None
            raise

    async def _last_progress(self, performance: Performance) -> Any:
        """The details of the last attempt's heartbeat, so that this one can continue from there."""
        for progress in await patiently(partial(self._store.progress_of, performance.key)):
            if progress.position == performance.promise.path[-1]:
                return decode(Payload(progress.details))
        return None

    async def _awaitable(self, step: Performable, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if step.is_async:
            try:
                return await step.function(*args, **kwargs)
            except (
                SystemExit,
                KeyboardInterrupt,
            ) as error:  # this may be a task of its own, and asyncio would let it by
                if is_interrupt(error):
                    raise
                raise Escaped(error) from error
        call = partial(contextvars.copy_context().run, step.function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, contained, call)


async def _listened(call: Any, performance: Performance, step: Performable) -> Any:
    """Await the call, and fail it when it falls silent."""
    limit = step.heartbeat_timeout or 0.0
    performance.last_beat = performance.loop.time()
    task = asyncio.ensure_future(call)
    try:
        while True:
            left = performance.last_beat + limit - performance.loop.time()
            if left <= 0:
                raise TimeoutError(f"no heartbeat for {limit} s")
            done, _ = await asyncio.wait([task], timeout=left)
            if done:
                return task.result()
    finally:
        task.cancel()


def _failure_in(outcome: Outcome | None) -> Failure | None:
    if isinstance(outcome, AttemptFailed):
        return outcome.failure
    return outcome.outcome.failure if outcome is not None and isinstance(outcome.outcome, Err) else None


def _failed(performance: Performance, error: BaseException, started_at: int, now: int) -> Outcome:
    """Tell what another attempt may mend from what it cannot."""
    promise, attempt, failure = performance.promise, performance.attempt, failure_of(error)
    not_done = performance.step.not_done
    if isinstance(error, TerminalError | AuthorError):
        performance.unknown = performance.writes and is_unknown(error, writes=True, not_done=not_done)
        return CallSettled(promise, Err(failure), attempt, started_at)
    # What interrupts may have come at any moment of the act.
    interrupted = isinstance(error, KeyboardInterrupt | GeneratorExit)
    performance.unknown = interrupted or is_unknown(error, writes=performance.writes, not_done=not_done)
    if is_terminal(error):
        return CallSettled(promise, Err(failure), attempt, started_at)
    return _judged(performance, AttemptFailed(promise, failure, attempt, started_at, retry_after(error, now)))


def _judged(performance: Performance, failed: AttemptFailed) -> Outcome:
    """The failed attempt, or the end of it all where its call wants no other attempt after such an error."""
    on = performance.retry.on
    if not on or error_class(failed.failure) in on:
        limited = performance.retry.deadline is not None and performance.timeout is not None
        return msgspec.structs.replace(failed, timeout_seconds=performance.timeout) if limited else failed
    return CallSettled(failed.promise_id, Err(failed.failure), failed.attempt, failed.started_at)

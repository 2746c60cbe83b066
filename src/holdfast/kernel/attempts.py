"""The attempts of invocations: what is recorded of each, when another follows, and what settles the promise."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome, RetryPolicy
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, Begun, CallSettled
from holdfast.kernel.outstanding import Outstanding, Pending
from holdfast.kernel.pen import Pen
from holdfast.kernel.requests import Abandon
from holdfast.kernel.scribe import Entropy, KernelScribe

SHORTEST_ATTEMPT_SECONDS: Final = 1.0
"""The time before a deadline that the last attempt has at least."""


class Attempts:
    """The attempts of one run. CallSettled promises are added to ``settled``, which the execution owns.

    They get no method of the execution: the two would be a reference cycle, which only the garbage collector frees.
    """

    __slots__ = ("_entropy", "_open", "_pen", "_scribe", "_settled")

    def __init__(
        self,
        pen: Pen,
        outstanding: Outstanding,
        scribe: KernelScribe,
        entropy: Entropy,
        settled: list[tuple[PromiseId, Outcome | None]],
    ) -> None:
        self._pen = pen
        self._open = outstanding
        self._scribe = scribe
        self._entropy = entropy
        self._settled = settled

    def settle(self, arrival: CallSettled) -> None:
        """An attempt has ended its invocation."""
        if (moved := self._open.moved.get(arrival.promise_id)) is not None:
            arrival = msgspec.structs.replace(arrival, promise_id=moved)
        pending = self._open.invocations.get(arrival.promise_id)
        # Too late: a second completion, or one of an attempt that was given up, or of an abandoned promise.
        if pending is None or pending.attempt != arrival.attempt:
            return
        self.begin(arrival)
        self.complete(arrival.promise_id, arrival.outcome, arrival.attempt)

    def begin(self, arrival: CallSettled | AttemptFailed | Begun) -> None:
        """An attempt was begun: record it, once."""
        # A journal may have the start of an attempt and not its end: then the run was taken over since. Only the first
        # takeover of an attempt is recorded: every record counts as progress, even of a run that kills its workers.
        if self._pen.ledger.invocations[arrival.promise_id].attempt < arrival.attempt:
            event = e.InvokeStarted(arrival.promise_id, arrival.attempt, arrival.begun_before)
            self._pen.record(event, min(arrival.started_at, self._pen.now))

    def fail(self, arrival: AttemptFailed) -> None:
        """An attempt has failed: another follows, or the invocation has failed."""
        promise, attempt = arrival.promise_id, arrival.attempt
        pending = self._open.invocations.get(promise)
        if pending is None or pending.attempt != attempt:
            return
        self.begin(arrival)
        policy = pending.event.retry_policy
        if attempt >= policy.max_attempts or pending.stopped:
            self.complete(promise, Err(arrival.failure), attempt)
            return
        retry_at = self._retry_at(pending, arrival)
        if retry_at is None:
            self.complete(promise, Err(_ended_by_deadline(arrival.failure, policy)), attempt)
            return
        self._pen.record(e.InvokeRetrying(promise, attempt, arrival.failure, retry_at))
        self._open.set_retry(pending, attempt, retry_at)
        pending.failed_here = True
        if pending.queue is not None:  # the queue keeps it until its time has come
            self._scribe.request(pending.request())

    def _retry_at(self, pending: Pending, failed: AttemptFailed) -> int | None:
        """When the next attempt begins; None if the deadline does not allow another.

        The policy's own delay is shortened so that the attempt has its time before the deadline. What the other side
        asks for is not. Time in which the call waited for people does not count.
        """
        policy, now = pending.event.retry_policy, self._pen.clock
        wish = round((failed.retry_after_seconds or 0.0) * 1e6)
        retry_at = now + max(wish, round(policy.delay_seconds(failed.attempt, self._entropy.random()) * 1e6))
        if policy.deadline is None:
            return retry_at
        deadline = pending.scheduled_at + failed.waited + round(policy.deadline * 1e6)
        timeout = policy.attempt_timeout or failed.timeout_seconds or 0.0
        last = deadline - round(max(timeout, SHORTEST_ATTEMPT_SECONDS) * 1e6)
        if now < last < retry_at:
            retry_at = max(now + wish, last)
        return retry_at if retry_at <= deadline else None

    def complete(self, promise: PromiseId, outcome: Outcome, attempt: int) -> None:
        """An invocation is settled. The program gets it when the run resumes."""
        self._pen.record(e.InvokeCompleted(promise, outcome, attempt))
        pending = self._open.invocations.pop(promise)
        if pending.event.undoes is not None:
            self._scribe.undone.append((promise, pending.request().name, type(outcome) is Ok))
        if pending.queue is not None:  # its place in the queue is no longer needed
            self._scribe.request(Abandon(promise, pending.event.kind, pending.queue))
        self._settled.append((promise, outcome))

    def take_former(self, promise: PromiseId, outcome: Outcome) -> None:
        """A call gets the outcome of a former one, a timer counts as fired: recorded as if it had taken no time."""
        if self._open.timers.pop(promise, None) is not None:
            self._pen.record(e.TimerFired(promise))
            self._settled.append((promise, None))
        elif (pending := self._open.invocations.pop(promise, None)) is not None:
            if pending.event.place is not None and type(outcome) is Ok:
                self._scribe.inherited.append((promise, pending.event.place))
            self._pen.record(e.InvokeStarted(promise, 1))
            self._pen.record(e.InvokeCompleted(promise, outcome, 1))
            self._settled.append((promise, outcome))


def _ended_by_deadline(failure: Failure, policy: RetryPolicy) -> Failure:
    message = f"{failure.message} (the deadline of {policy.deadline:g} s ended the retries)".lstrip()
    return msgspec.structs.replace(failure, message=message)

"""The attempts of invocations: what is recorded of each, when another follows, and what settles the promise."""

from __future__ import annotations

import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.kernel.arrivals import AttemptFailed, Begun, CallSettled
from holdfast.kernel.outstanding import Outstanding
from holdfast.kernel.pen import Pen
from holdfast.kernel.requests import Abandon
from holdfast.kernel.scribe import Entropy, KernelScribe


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
        delay = policy.delay_seconds(attempt, self._entropy.random())
        if arrival.retry_after_seconds is not None:
            delay = max(delay, arrival.retry_after_seconds)
        retry_at = self._pen.clock + round(delay * 1e6)
        late = policy.deadline is not None and retry_at > pending.scheduled_at + policy.deadline * 1e6
        if attempt >= policy.max_attempts or late or pending.stopped:
            self.complete(promise, Err(arrival.failure), attempt)
            return
        self._pen.record(e.InvokeRetrying(promise, attempt, arrival.failure, retry_at))
        self._open.set_retry(pending, attempt, retry_at)
        pending.failed_here = True
        if pending.queue is not None:  # the queue keeps it until its time has come
            self._scribe.request(pending.request())

    def complete(self, promise: PromiseId, outcome: Outcome, attempt: int) -> None:
        """An invocation is settled. The program gets it when the run resumes."""
        self._pen.record(e.InvokeCompleted(promise, outcome, attempt))
        pending = self._open.invocations.pop(promise)
        if pending.queue is not None:  # its place in the queue is no longer needed
            self._scribe.request(Abandon(promise, pending.event.kind, pending.queue))
        self._settled.append((promise, outcome))

    def take_former(self, promise: PromiseId, outcome: Outcome) -> None:
        """A call gets the outcome of a former one, a timer counts as fired: recorded as if it had taken no time."""
        if self._open.timers.pop(promise, None) is not None:
            self._pen.record(e.TimerFired(promise))
            self._settled.append((promise, None))
        elif self._open.invocations.pop(promise, None) is not None:
            self._pen.record(e.InvokeStarted(promise, 1))
            self._pen.record(e.InvokeCompleted(promise, outcome, 1))
            self._settled.append((promise, outcome))

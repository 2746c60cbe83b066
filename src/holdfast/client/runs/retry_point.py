"""The point from which a retried run continues: a pure function of its journal.

The law: after a retry, every act that was not undone has been done exactly once. So all calls that the run undid are
done again, and no step that succeeded and was not undone. Where a journal has no such point, the retry is refused with
the reason.

The journal is cut before the event that made the run fail, and before the first success that was undone. Two things
behind the cut are kept: signals, because their senders rely on it, and the results of calls that were made before it.
A child, a sent signal, a started run or an action behind the cut does no harm: the new generation finds each by its
name or key and does not do it again. A step cannot be found so: it would be done twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.errors import RetryRefused
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.table import is_gated, readable_kind

Attempt = e.InvokeStarted | e.InvokeRetrying | e.InvokeCompleted


class RetryPoint(msgspec.Struct, frozen=True):
    """The journal that the next generation begins with, and the names of the calls that it does again."""

    kept: list[e.Entry]
    again: tuple[str, ...]


class _RecordedCall(msgspec.Struct):
    """What a journal says of one call."""

    scheduled_at: int
    event: e.InvokeScheduled
    is_repeated: bool
    ended_at: int | None = None
    failure: Failure | None = None
    undone: bool = False

    @property
    def stands(self) -> bool:
        """Whether it has succeeded and was not undone."""
        return self.ended_at is not None and self.failure is None and not self.undone

    @property
    def is_lasting(self) -> bool:
        """Whether a second call would do it a second time, which must not be."""
        return self.stands and self.is_repeated and self.event.undoes is None


def retry_point(run: str, entries: Sequence[e.Entry]) -> RetryPoint:
    """The point from which the run continues. Raises RetryRefused where that would break the law."""
    calls = _calls(entries)
    undone = [call for call in calls.values() if call.undone]
    _check_undone(run, calls, undone)
    cut = _cut(entries, calls, undone)
    for call in calls.values():
        if call.scheduled_at >= cut and call.is_lasting:
            raise RetryRefused(_why_not(run, call, undone, entries[cut]))
    return _keep(entries, calls, cut)


def _calls(entries: Sequence[e.Entry]) -> dict[PromiseId, _RecordedCall]:
    calls: dict[PromiseId, _RecordedCall] = {}
    started = entries[0].event
    edition = started.edition if isinstance(started, e.ExecutionStarted) else e.EDITION
    for index, entry in enumerate(entries):
        event = entry.event
        if isinstance(event, e.InvokeScheduled):
            calls[event.promise_id] = _RecordedCall(index, event, readable_kind(event.kind).is_repeated(edition))
        elif isinstance(event, e.InvokeCompleted) and event.promise_id in calls:
            call = calls[event.promise_id]
            call.ended_at = index
            call.failure = event.result.failure if isinstance(event.result, Err) else None
            undoes = call.event.undoes
            if call.failure is None and undoes is not None and undoes in calls:
                calls[undoes].undone = True
    return calls


def _check_undone(run: str, calls: dict[PromiseId, _RecordedCall], undone: Sequence[_RecordedCall]) -> None:
    fork = "Fork it from where you want it to go on, or start a new run."
    for call in calls.values():
        if call.event.undoes is not None and call.event.undoes not in calls and call.stands:
            name = call.event.function_name
            raise RetryRefused(
                f"run {run} has undone, with {name!r}, what an earlier generation of it did, and that cannot be done "
                f"again from here. {fork}"
            )
    for call in undone:
        if is_gated(call.event.kind):
            raise RetryRefused(
                f"run {run} has undone its action {call.event.function_name!r}, whose receipt still stands: called "
                f"again under its key it would not be done again. {fork}"
            )


def _cut(entries: Sequence[e.Entry], calls: dict[PromiseId, _RecordedCall], undone: Sequence[_RecordedCall]) -> int:
    """The first entry that is not kept as it is."""
    undoing = min((call.scheduled_at for call in calls.values() if call.event.undoes is not None), default=None)
    end = len(entries) - 1 if undoing is None else undoing  # the body had ended by then
    requests = (n for n in range(end) if isinstance(entries[n].event, e.CancelRequested))
    cancelled = next(requests, None)
    first = min((call.ended_at for call in undone if call.ended_at is not None), default=None)
    failed = sorted(call.ended_at for call in calls.values() if call.failure is not None and call.ended_at is not None)
    if first is not None and (cancelled is None or first < cancelled):
        return _together(entries, failed, first)
    if cancelled is not None:
        return cancelled
    cause = _cause(entries, calls, [index for index in failed if index < end])
    if cause is not None:
        return _together(entries, failed, cause)
    return _last_resumed(entries, end) or 1


def _cause(entries: Sequence[e.Entry], calls: dict[PromiseId, _RecordedCall], failed: Sequence[int]) -> int | None:
    """The failed call that made the run fail: the last one that failed with the run's error.

    Where none has that error, the body raised it: then the last failed call behind which no lasting call was made.
    """
    end = entries[-1].event
    error = end.error if isinstance(end, e.ExecutionFailed) else None
    failures = {call.ended_at: call.failure for call in calls.values()}
    causes = [index for index in failed if failures[index] == error]
    if not causes:
        since = max((call.scheduled_at for call in calls.values() if call.is_lasting), default=0)
        causes = [index for index in failed if index > since]
    return max(causes, default=None)


def _together(entries: Sequence[e.Entry], failed: Sequence[int], index: int) -> int:
    """The first failed call of the same turn as this entry: each that was kept would fail the run again."""
    since = _last_resumed(entries, index)
    return min((one for one in failed if since < one <= index), default=index)


def _last_resumed(entries: Sequence[e.Entry], before: int) -> int:
    return max((n for n in range(before) if isinstance(entries[n].event, e.ExecutionResumed)), default=0)


def _keep(entries: Sequence[e.Entry], calls: dict[PromiseId, _RecordedCall], cut: int) -> RetryPoint:
    open_again = {
        promise
        for promise, call in calls.items()
        if call.scheduled_at < cut and call.ended_at is not None and call.ended_at >= cut and not call.stands
    }
    kept = [_reopened(entry, calls, open_again) for entry in entries[:cut]]
    kept += _behind(entries[cut:], {promise for promise, call in calls.items() if call.scheduled_at < cut})
    lasting = [entry for entry in kept if _promise_of(entry.event) not in open_again]
    settled = {event.promise_id for entry in lasting if isinstance(event := entry.event, e.InvokeCompleted)}
    called = {promise: call.event.function_name for promise, call in calls.items() if call.scheduled_at < cut}
    return RetryPoint(lasting, tuple(name for promise, name in called.items() if promise not in settled))


def _reopened(entry: e.Entry, calls: dict[PromiseId, _RecordedCall], open_again: set[PromiseId]) -> e.Entry:
    """A call that was undone gets a new key when it is done again: ``again`` counts up."""
    event = entry.event
    if isinstance(event, e.InvokeScheduled) and event.promise_id in open_again and calls[event.promise_id].undone:
        again = msgspec.structs.replace(event, again=event.again + 1)
        return e.Entry(entry.sequence, entry.timestamp, again)
    return entry


def _behind(entries: Sequence[e.Entry], known: set[PromiseId]) -> Iterator[e.Entry]:
    """The entries behind the cut that are kept: signals, and attempts of calls that were made before it."""
    for entry in entries:
        if isinstance(entry.event, e.SignalDelivered) or _promise_of(entry.event) in known:
            yield entry


def _promise_of(event: e.Event) -> PromiseId | None:
    """The call whose attempt or end the event records."""
    return event.promise_id if isinstance(event, Attempt) else None


def _why_not(run: str, call: _RecordedCall, undone: Sequence[_RecordedCall], cut: e.Entry) -> str:
    name = call.event.function_name
    if undone:
        what = f"it undid {', '.join(sorted({call.event.function_name for call in undone}))}, which would be done again"
    elif isinstance(cut.event, e.CancelRequested):
        what = "it would go on from before its cancellation"
    else:
        what = "it would go on from before its failure"
    return (
        f"run {run} cannot be retried: {what}, and {name!r} (sequence {call.scheduled_at}) came after that, has "
        "succeeded and was not undone, so it would be done twice. Fork the run from where you want it to go on."
    )

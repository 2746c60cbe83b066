"""The calls and timers of one journal, and why its run failed: what a retry is planned from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.table import readable_kind

_STOPPED: Final = frozenset({"asyncio.exceptions:CancelledError", "holdfast.errors:RunCancelled"})

_COMMANDS: Final = (
    e.InvokeScheduled,
    e.TimerScheduled,
    e.JoinSetCreated,
    e.RandomGenerated,
    e.TimeRecorded,
    e.SignalReceived,
)
"""What a body does. What a definition undoes before its end is done by its body, too: it goes on afterwards."""

_TIME_IS_OVER: Final = frozenset({"builtins:TimeoutError", "holdfast.errors:NodeTimeout"})
"""The errors of a run that failed of a time-out, if no call has given them."""


class RecordedCall(msgspec.Struct):
    """What a journal says of one call."""

    scheduled_at: int
    event: e.InvokeScheduled
    is_repeated: bool
    ended_at: int | None = None
    outcome: Outcome | None = None
    undone: bool = False

    @property
    def failure(self) -> Failure | None:
        return self.outcome.failure if isinstance(self.outcome, Err) else None

    @property
    def stands(self) -> bool:
        """Whether it has succeeded and was not undone."""
        return isinstance(self.outcome, Ok) and not self.undone

    @property
    def is_lasting(self) -> bool:
        """Whether a second call would do it a second time, which must not be."""
        return self.stands and self.is_repeated and self.event.undoes is None

    @property
    def was_stopped(self) -> bool:
        """Whether the body had given it up: its failure says nothing of the call."""
        return self.failure is not None and self.failure.type in _STOPPED


class RecordedTimer(msgspec.Struct):
    """What a journal says of one timer."""

    scheduled_at: int
    event: e.TimerScheduled
    fired_at: int | None = None


class RunAccount(msgspec.Struct):
    """A journal's calls and timers, and where its body's end began: ``end`` is the first entry that is not the body's,
    ``cancelled`` a request before it, ``cause`` the entry that the run failed of, where one can be named."""

    calls: dict[PromiseId, RecordedCall]
    timers: dict[PromiseId, RecordedTimer]
    end: int
    cancelled: int | None
    cause: int | None = None

    @property
    def undone(self) -> list[RecordedCall]:
        return [call for call in self.calls.values() if call.undone]

    @property
    def failed(self) -> list[int]:
        """Where calls have failed, in order."""
        calls = self.calls.values()
        return sorted(call.ended_at for call in calls if call.failure is not None and call.ended_at is not None)


def account_of(entries: Sequence[e.Entry], taken_back: Collection[PromiseId] = ()) -> RunAccount:
    """Read a journal that has ended. The acts of some calls were ``taken_back`` elsewhere since."""
    calls, timers = _calls(entries), _timers(entries)
    for promise in taken_back:
        calls[promise].undone = True
    acted = _last_command(entries, len(entries), with_undos=False)  # a definition goes on after it has undone a branch
    undos = (call.scheduled_at for call in calls.values() if call.event.undoes is not None)
    end = min((at for at in undos if at > acted), default=len(entries) - 1)  # the body had ended by then
    requests = (n for n in range(end) if isinstance(entries[n].event, e.CancelRequested))
    account = RunAccount(calls, timers, end, next(requests, None))
    if account.cancelled is not None and _had_failed(account, entries[-1].event, account.cancelled):
        account.cancelled = None
    account.cause = _cause(account, entries) if account.cancelled is None else None
    return account


def _last_command(entries: Sequence[e.Entry], end: int, *, with_undos: bool) -> int:
    """The last that the body did before the end."""
    for index in range(end - 1, 0, -1):
        event = entries[index].event
        is_undo = isinstance(event, e.InvokeScheduled) and event.undoes is not None
        if isinstance(event, _COMMANDS) and (with_undos or not is_undo):
            return index
    return 0


def last_resumed(entries: Sequence[e.Entry], before: int) -> int:
    return max((n for n in range(before) if isinstance(entries[n].event, e.ExecutionResumed)), default=0)


def _calls(entries: Sequence[e.Entry]) -> dict[PromiseId, RecordedCall]:
    calls: dict[PromiseId, RecordedCall] = {}
    started = entries[0].event
    edition = started.edition if isinstance(started, e.ExecutionStarted) else e.EDITION
    for index, entry in enumerate(entries):
        event = entry.event
        if isinstance(event, e.InvokeScheduled):
            calls[event.promise_id] = RecordedCall(index, event, readable_kind(event.kind).is_repeated(edition))
        elif isinstance(event, e.InvokeCompleted) and event.promise_id in calls:
            call = calls[event.promise_id]
            call.ended_at, call.outcome = index, event.result
            undoes = call.event.undoes
            if isinstance(event.result, Ok) and undoes is not None and undoes in calls:
                calls[undoes].undone = True
    return calls


def _timers(entries: Sequence[e.Entry]) -> dict[PromiseId, RecordedTimer]:
    timers: dict[PromiseId, RecordedTimer] = {}
    for index, entry in enumerate(entries):
        event = entry.event
        if isinstance(event, e.TimerScheduled):
            timers[event.promise_id] = RecordedTimer(index, event)
        elif isinstance(event, e.TimerFired):
            timers[event.promise_id].fired_at = index
    return timers


def _had_failed(account: RunAccount, end: e.Event, cancelled: int) -> bool:
    """Whether the body had failed before the request, which came while the run waited for the ends of its calls."""
    return isinstance(end, e.ExecutionFailed) and any(n < cancelled for n in _failed_with(account, end.error))


def _failed_with(account: RunAccount, error: Failure) -> list[int]:
    """Where calls have failed with a run's error. A definition adds details to it, which no call gave; and it says more
    if the run could not undo everything, or left children."""
    ends = [(call.ended_at, call.failure) for call in account.calls.values()]
    failures = [(at, each) for at, each in ends if at is not None and at < account.end and each is not None]
    same = [
        at for at, each in failures if (each.type, each.message, each.trace) == (error.type, error.message, error.trace)
    ]
    noted = [at for at, each in failures if error.message.startswith(f"{each.message or each.type}; ")]
    return sorted(same or noted)


def _cause(account: RunAccount, entries: Sequence[e.Entry]) -> int | None:
    """The entry that the run failed of: a call that failed with the run's error, or the time-out that fired.

    Where there is none, the body raised it: then a failed call after which no lasting call was made. Of several it is
    the first after which the body did nothing more, or nothing after the turn that took it in, in which parts beside it
    may have gone on. What failed later had been stopped, perhaps with the same error.
    """
    end = entries[-1].event
    error = end.error if isinstance(end, e.ExecutionFailed) else None
    failed = [index for index in account.failed if index < account.end]
    causes = [] if error is None else _failed_with(account, error)
    if not causes and error is not None and error.type in _TIME_IS_OVER:
        fired = (timer.fired_at for timer in account.timers.values())
        causes = [index for index in fired if index is not None and index < account.end]
    if not causes:
        since = max((call.scheduled_at for call in account.calls.values() if call.is_lasting), default=0)
        causes = [index for index in failed if index > since]
    acted = _last_command(entries, account.end, with_undos=True)
    turns = [n for n in range(account.end) if isinstance(entries[n].event, e.ExecutionResumed)]
    last = [index for index in causes if acted < index]
    last = last or [index for index in causes if acted < _end_of_turn(turns, index, account.end)]
    return min(last, default=max(causes, default=None))


def _end_of_turn(turns: Sequence[int], index: int, end: int) -> int:
    """Where the turn ends that took in what this entry says."""
    following = bisect_right(turns, index) + 1
    return turns[following] if following < len(turns) else end

"""The point from which a retried run continues: a pure function of its journal.

The law: after a retry, every act that was not undone has been done exactly once. So all calls that the run undid are
done again, and no call that succeeded and was not undone, unless a person says so.

The journal is cut before the event that made the run fail, and before the first success that was undone. Kept of what
is behind the cut are signals, because their senders rely on it, and the results of calls that were made before it. All
other calls behind the cut are carried by content (``dropped_calls``), and met again by the new generation.

One thing is not known: whether what a body did after the failure took something back by hand. The run may go on to ship
what was refunded so. Such a run is retried only if a person says what becomes of those calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.client.runs.dropped_calls import DroppedCalls, dropped_calls, used_numbers
from holdfast.client.runs.former_acts import NO_ACTS, FormerActs
from holdfast.client.runs.recorded_calls import RecordedCall, RunAccount, account_of, last_resumed
from holdfast.errors import RetryRefused
from holdfast.journal import events as e
from holdfast.journal.former import UNSAID, Answers, write_answers, write_former
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.table import is_gated

Attempt = e.InvokeStarted | e.InvokeRetrying | e.InvokeCompleted


class RetryPoint(msgspec.Struct, frozen=True):
    """The journal that the next generation begins with, and what becomes of the calls behind it, by name.

    ``again`` are done again, ``kept`` are not if they are called alike, and timers of ``slept`` microseconds run again.
    ``lost`` are the positions of children that are called again, ``places`` those of kept calls at the gate.
    """

    journal: list[e.Entry]
    again: tuple[str, ...]
    kept: tuple[str, ...] = ()
    slept: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    places: tuple[int, ...] = ()


def retry_point(
    run: str, entries: Sequence[e.Entry], now: int, answers: Answers = UNSAID, acts: FormerActs = NO_ACTS
) -> RetryPoint:
    """The point from which the run continues; ``acts`` is what became of those of its calls. Raises RetryRefused where
    that would break the law."""
    account = account_of(entries, acts.taken_back)
    _check_undone(run, account, acts)
    cut = _cut(entries, account)
    _check_handlers(run, account, cut, answers)
    journal, restarted = _restarted(_keep(entries, account, cut), account, now)
    dropped = dropped_calls(entries, account, cut, journal, acts.places)
    before = [call for call in account.calls.values() if call.scheduled_at < cut]
    settled = {event.promise_id for entry in journal if isinstance(event := entry.event, e.InvokeCompleted)}
    again = [call.event.function_name for call in before if call.event.promise_id not in settled]
    return RetryPoint(
        _carrying(journal, dropped, answers),
        (*again, *dropped.again),
        dropped.kept,
        (*restarted, *dropped.slept),
        dropped.lost,
        tuple(call.key[0] for call in dropped.former.calls if call.is_kept and is_gated(call.kind) and call.key),
    )


def _check_undone(run: str, account: RunAccount, acts: FormerActs) -> None:
    calls = account.calls
    fork = "Fork it from where you want it to go on, or start a new run."
    for call in calls.values():
        if call.event.undoes is not None and call.event.undoes not in calls and call.stands:
            name = call.event.function_name
            raise RetryRefused(
                f"run {run} has undone, with {name!r}, what an earlier generation of it did, and that cannot be done "
                f"again from here. {fork}"
            )
    for call in account.undone:
        if call.event.promise_id in acts.once:
            raise RetryRefused(
                f"the act of {call.event.function_name!r} was taken back, and its key counts only once: run {run} "
                f"would get its result without the act. {fork}"
            )


def _check_handlers(run: str, account: RunAccount, cut: int, answers: Answers) -> None:
    """Raises RetryRefused where a lasting call was made after the failure, and nobody has said what becomes of it."""
    failure = account.cancelled if account.cancelled is not None else account.cause
    if failure is None or answers.new:
        return
    said = {*answers.again, *answers.keep}
    for call in account.calls.values():
        name = call.event.function_name
        if call.scheduled_at > max(failure, cut) and call.is_lasting and name not in said:
            before = "its failure" if account.cancelled is None else "its cancellation"
            raise RetryRefused(
                f"run {run} cannot be retried as it is: it would go on from before {before}, and {name!r} (sequence "
                f"{call.scheduled_at}) came after that, has succeeded and was not undone. It may have taken back by "
                f"hand what the run relies on. Say `--keep {name}` if it may stand, `--again {name}` if it is to be "
                "done again when it is called, or fork the run from where you want it to go on."
            )


def _cut(entries: Sequence[e.Entry], account: RunAccount) -> int:
    """The first entry that is not kept as it is."""
    first = min((call.ended_at for call in account.undone if call.ended_at is not None), default=None)
    if first is not None and (account.cancelled is None or first < account.cancelled):
        # A call that was stopped may have succeeded, and been undone, after the failure: that is not kept either.
        return _together(entries, account, first if account.cause is None else min(first, account.cause))
    if account.cancelled is not None:
        return account.cancelled
    if account.cause is not None:
        return _together(entries, account, account.cause)
    return last_resumed(entries, account.end) or 1


def _together(entries: Sequence[e.Entry], account: RunAccount, index: int) -> int:
    """The first failed call of the same turn as this entry: each that was kept would fail the run again."""
    since = last_resumed(entries, index)
    return min((one for one in account.failed if since < one <= index), default=index)


def _keep(entries: Sequence[e.Entry], account: RunAccount, cut: int) -> list[e.Entry]:
    calls = account.calls
    open_again = {
        promise
        for promise, call in calls.items()
        if call.scheduled_at < cut and call.ended_at is not None and call.ended_at >= cut and not call.stands
    }
    used = used_numbers(entries)
    kept = [_reopened(entry, calls, open_again, used) for entry in entries[:cut]]
    kept += _behind(entries[cut:], {promise for promise, call in calls.items() if call.scheduled_at < cut})
    return [entry for entry in kept if _promise_of(entry.event) not in open_again and not _is_answer(entry.event)]


def _reopened(
    entry: e.Entry, calls: dict[PromiseId, RecordedCall], open_again: set[PromiseId], used: dict[int, int]
) -> e.Entry:
    """A call that was undone gets a new key when it is done again: ``again`` counts up."""
    event = entry.event
    if isinstance(event, e.InvokeScheduled) and event.promise_id in open_again and calls[event.promise_id].undone:
        used[event.key_place] += 1
        again = msgspec.structs.replace(event, again=used[event.key_place])
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


def _is_answer(event: e.Event) -> bool:
    """Whether it says what becomes of kept results, which is said anew at each retry."""
    return isinstance(event, e.SignalDelivered) and event.signal_name == e.RETRY


def _restarted(journal: list[e.Entry], account: RunAccount, now: int) -> tuple[list[e.Entry], list[int]]:
    """The journal with a time-out that the run failed of begun anew: its time is over, and would be again at once."""
    timers = account.timers.items()
    late = {promise for promise, each in timers if each.fired_at is not None and each.fired_at == account.cause}
    slept, found = [], []
    for entry in journal:
        event = entry.event
        if isinstance(event, e.TimerScheduled) and event.promise_id in late:
            slept.append(event.duration)
            event = msgspec.structs.replace(event, fire_at=now + event.duration)
            entry = e.Entry(entry.sequence, entry.timestamp, event)
        found.append(entry)
    return found, slept


def _carrying(journal: list[e.Entry], dropped: DroppedCalls, answers: Answers) -> list[e.Entry]:
    """The journal, whose start carries the dropped calls, and whose end has what was said about them."""
    first, last = journal[0], journal[-1]
    assert isinstance(first.event, e.ExecutionStarted)
    former = write_former(dropped.former) if dropped.former.calls or dropped.former.used else None
    started = msgspec.structs.replace(first.event, former=former)
    found = [e.Entry(first.sequence, first.timestamp, started), *journal[1:]]
    if answers:
        said = e.SignalDelivered(e.RETRY, write_answers(answers), 1)
        found.append(e.Entry(last.sequence + 1, last.timestamp, said))
    return found

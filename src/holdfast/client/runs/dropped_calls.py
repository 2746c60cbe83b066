"""The calls in the dropped part of a retried run's journal, as its next generation carries them.

They are those of the journal, and after them those that its own start carries and that it has not met: a generation
that failed before it reached them passes them on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from holdfast.client.runs.recorded_calls import RecordedCall, RecordedTimer, RunAccount, last_resumed
from holdfast.client.views.mask import JournalMask
from holdfast.journal import events as e
from holdfast.journal.former import (
    TIMER,
    UNSAID,
    Former,
    FormerCall,
    content_of,
    read_answers,
    read_former,
    shown_input,
)
from holdfast.journal.payload import NOTHING, Err, Ok
from holdfast.journal.promise import PromiseId
from holdfast.journal.secrecy import leaves, secrets_of
from holdfast.kernel.former_calls import FormerCalls
from holdfast.runs.kinds.child import WORKFLOW
from holdfast.runs.kinds.table import is_gated

AWAITS_CHILDREN: Final = 2
"""The edition from which on a run that fails ends after its children."""


class DroppedCalls(msgspec.Struct, frozen=True):
    """What the next generation carries; and the names of calls that are done again, or kept if they are called alike,
    the timers that run again, and the positions of children that are called again."""

    former: Former
    again: tuple[str, ...]
    kept: tuple[str, ...]
    slept: tuple[int, ...]
    lost: tuple[int, ...]


def dropped_calls(
    entries: Sequence[e.Entry],
    account: RunAccount,
    cut: int,
    journal: Sequence[e.Entry],
    taken_back: Collection[int] = (),
) -> DroppedCalls:
    """All that was called behind the cut, and what is left of earlier generations, without the results of acts at these
    places that were ``taken_back`` since. ``journal`` is what the next generation begins with: no call behind it may
    have a number that one in it has at the same position of its key."""
    mask = JournalMask()
    for entry in entries:
        mask.learn(entry.event)
    behind: list[RecordedCall | RecordedTimer] = []
    behind += [each for each in account.calls.values() if each.scheduled_at >= cut and _is_carried(each)]
    behind += [each for each in account.timers.values() if each.scheduled_at >= cut]
    behind.sort(key=lambda each: each.scheduled_at)
    excused, unbegun = _excused(entries, account), never_begun(entries)
    left, called_off = left_over(entries)
    own: list[FormerCall] = []
    for each in behind:
        if isinstance(each, RecordedTimer):
            own.append(_former_timer(each, account))
        else:
            met = called_off.get(each.event.promise_id)
            own.append(met or _former_call(each, account, excused, unbegun, mask))
    passed_on = [_later(_if_it_stands(call, taken_back), len(entries)) for call in left]
    calls = [*own, *passed_on]
    is_open = [call for call in calls if call.outcome is None]
    lost = [call.key[0] for call in is_open if call.kind == WORKFLOW and call.key is not None]
    return DroppedCalls(
        Former(
            _since(entries, cut),
            calls,
            sorted(used_numbers([*entries, *journal]).items()),
            _children(entries),
            _secrets(entries),
        ),
        tuple(call.name for call in is_open if call.kind != TIMER and not call.kind.startswith("undo ")),
        tuple(call.name for call in calls if call.is_kept),
        tuple(int(call.input) for call in is_open if call.kind == TIMER),
        tuple(lost),
    )


def left_over(entries: Sequence[e.Entry]) -> tuple[list[FormerCall], dict[PromiseId, FormerCall]]:
    """What a journal's own start carries, and the journal has not met; and what calls have met that were called off in
    the same turn: its outcome is not in the journal, and still stands, and a child of it is still there."""
    started = entries[0].event
    if not isinstance(started, e.ExecutionStarted) or started.former is None:
        return [], {}
    ended = {entry.event.promise_id for entry in entries if isinstance(entry.event, e.InvokeCompleted)}
    called_off: dict[PromiseId, FormerCall] = {}
    said = [UNSAID]
    former = FormerCalls(read_former(started.former), lambda: said[-1])
    for entry in entries:
        match entry.event:
            case e.InvokeScheduled() as call:
                former.call(call, repeatable=False, live=False)
                met = former.latest
                if met is not None and (met.is_kept or met.kind == WORKFLOW) and call.promise_id not in ended:
                    called_off[call.promise_id] = met
            case e.TimerScheduled(promise_id=promise, duration=duration):
                former.timer(promise.path[-1], duration)
            case e.SignalDelivered(signal_name=e.RETRY, payload=payload):
                said.append(said[-1].joined(read_answers(payload)))
            case _:
                continue
    return former.left, called_off


def never_begun(entries: Sequence[e.Entry]) -> set[PromiseId]:
    """The children that were called off in the turn that called them. From edition 2 on all others have an end: a run
    that fails waits for it."""
    started = entries[0].event
    if not isinstance(started, e.ExecutionStarted) or started.edition < AWAITS_CHILDREN:
        return set()
    events = [entry.event for entry in entries]
    ended = {event.promise_id for event in events if isinstance(event, e.InvokeCompleted)}
    calls = (event for event in events if isinstance(event, e.InvokeScheduled) and event.kind == WORKFLOW)
    return {call.promise_id for call in calls if call.promise_id not in ended}


def _excused(entries: Sequence[e.Entry], account: RunAccount) -> set[int]:
    """Where the calls failed that are tried again: what the run failed of, and what failed in the same turn."""
    if account.cause is None:
        return set()
    since = last_resumed(entries, account.cause)
    return {index for index in account.failed if since < index <= account.cause}


def _children(entries: Sequence[e.Entry]) -> list[int]:
    """The positions that runs of children are named after, in any generation."""
    started = entries[0].event
    carried = started.former if isinstance(started, e.ExecutionStarted) else None
    calls = (entry.event for entry in entries)
    own = {call.key_place for call in calls if isinstance(call, e.InvokeScheduled) and call.kind == WORKFLOW}
    return sorted(own.union(() if carried is None else read_former(carried).children))


def _secrets(entries: Sequence[e.Entry]) -> list[Any]:
    """The secrets of actions, in any generation."""
    started = entries[0].event
    carried = started.former if isinstance(started, e.ExecutionStarted) else None
    known: dict[Any, None] = dict.fromkeys(() if carried is None else read_former(carried).secrets)
    known.update(dict.fromkeys(leaves(secret for entry in entries for secret in secrets_of(entry.event))))
    return list(known)


def _is_carried(call: RecordedCall) -> bool:
    """Whether a new call may meet it. An undo that has undone something is not made again."""
    return call.event.undoes is None or not call.stands


def _former_call(
    call: RecordedCall, account: RunAccount, excused: set[int], unbegun: set[PromiseId], mask: JournalMask
) -> FormerCall:
    event, ended_at = call.event, call.ended_at
    content = content_of(event.kind, event.function_name, event.input, event.undoes)
    is_new = call.undone or event.promise_id in unbegun
    key = None if is_new else (event.key_place, event.again)
    found = FormerCall(*content, key, ended_at or 0)
    if event.undoes is not None:
        return found
    if call.stands and isinstance(call.outcome, Ok):
        shown = mask.entry(e.Entry(0, 0, event)).event
        assert isinstance(shown, e.InvokeScheduled)
        value = call.outcome.value
        return msgspec.structs.replace(found, shown=shown_input(shown.input), value=(value.codec, value.data))
    end = min(each for each in (account.end, account.cancelled, account.cause) if each is not None)
    handled = ended_at is not None and ended_at < end and ended_at not in excused and not call.was_stopped
    if handled and isinstance(call.outcome, Err):  # the body went on from it
        return msgspec.structs.replace(found, failure=call.outcome.failure.fields())
    return found


def _former_timer(timer: RecordedTimer, account: RunAccount) -> FormerCall:
    found = FormerCall(TIMER, "", str(timer.event.duration).encode(), None, timer.fired_at or 0)
    if timer.fired_at is None or timer.fired_at == account.cause:
        return found
    return msgspec.structs.replace(found, value=(NOTHING.codec, NOTHING.data))


def _later(call: FormerCall, by: int) -> FormerCall:
    return msgspec.structs.replace(call, order=call.order + by)


def _if_it_stands(call: FormerCall, taken_back: Collection[int]) -> FormerCall:
    gone = is_gated(call.kind) and call.is_kept and call.key is not None and call.key[0] in taken_back
    return msgspec.structs.replace(call, key=None, value=None) if gone else call


def _since(entries: Sequence[e.Entry], cut: int) -> int:
    """The first position that the kept journal has not used."""
    return 1 + max((each.path[-1] for entry in entries[:cut] for each in _promises(entry.event)), default=-1)


def _promises(event: e.Event) -> list[PromiseId]:
    match event:
        case e.ExecutionAwaiting(waiting_on=waiting_on, receives=receives):
            return [*waiting_on, *(receive.promise_id for receive in receives)]
        case e.JoinSetCreated(join_set_id=join_set):
            return [join_set.position]
        case (
            e.InvokeScheduled(promise_id=promise)
            | e.TimerScheduled(promise_id=promise)
            | e.RandomGenerated(promise_id=promise)
            | e.TimeRecorded(promise_id=promise)
            | e.SignalReceived(promise_id=promise)
        ):
            return [promise]
        case _:
            return []


def used_numbers(entries: Sequence[e.Entry]) -> dict[int, int]:
    """The highest number that a key has at each position, in any generation."""
    started = entries[0].event
    carried = started.former if isinstance(started, e.ExecutionStarted) else None
    found = {} if carried is None else dict(read_former(carried).used)
    for entry in entries:
        if isinstance(event := entry.event, e.InvokeScheduled):
            found[event.key_place] = max(event.again, found.get(event.key_place, 0))
    return found

"""What became of the acts of a run's calls since: a retry does not rely on what was taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.client.runs.dropped_calls import left_over
from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.journal.promise import PromiseId
from holdfast.runs.kinds.table import is_gated
from holdfast.store import protocol as p


class FormerActs(msgspec.Struct, frozen=True):
    """Of the calls of a journal: whose act was ``taken_back``, by an undo or by a person, and whose key counts only
    ``once``; and the places of calls of earlier generations whose act was taken back."""

    taken_back: frozenset[PromiseId] = frozenset()
    once: frozenset[PromiseId] = frozenset()
    places: frozenset[int] = frozenset()


NO_ACTS: Final = FormerActs()


async def former_acts(store: p.Store, run: p.Run, entries: Sequence[e.Entry]) -> FormerActs:
    """Look up what the receipts say of the calls of a journal."""
    if not run.governed:
        return NO_ACTS
    events = [entry.event for entry in entries]
    gated = {
        call.promise_id
        for call in events
        if isinstance(call, e.InvokeScheduled) and is_gated(call.kind) and call.undoes is None
    }
    ends = (event for event in events if isinstance(event, e.InvokeCompleted))
    calls = [end.promise_id for end in ends if isinstance(end.result, Ok) and end.promise_id in gated]
    former = [call.key[0] for call in left_over(entries)[0] if call.is_kept and is_gated(call.kind) and call.key]
    callers = [p.ActCaller(run.key.run, call.root, call.path[-1]) for call in calls]
    callers += [p.ActCaller(run.key.run, run.root, place) for place in former]
    found = await store.acts_of(run.key.tenant, callers)
    own, earlier = found[: len(calls)], found[len(calls) :]
    return FormerActs(
        frozenset(call for call, row in zip(calls, own, strict=True) if row is not None and row.reversed_by),
        frozenset(call for call, row in zip(calls, own, strict=True) if row is not None and row.once),
        frozenset(place for place, row in zip(former, earlier, strict=True) if row is not None and row.reversed_by),
    )

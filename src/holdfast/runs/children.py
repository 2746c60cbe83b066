"""How a parent hears of its child's end: from the child as it ends, or, where that journal is gone, once more.

A retried run begins again before what had failed, and forgets what came after. A child that it comes to once more is
there already; one that has ended told so to a journal that is gone. So it is asked for its end once more. And the run
may go another way now, and come to another child at the same place: that is refused, for the place is taken.
"""

from __future__ import annotations

from functools import partial

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.runs import messages
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.store.patience import patiently


def ended(child: p.Run, promise: PromiseId | None, ending: e.Event, now: int, id: str) -> p.Message:
    """What tells a parent how its child ended."""
    if promise is None:
        raise EngineError(f"run {child.key.run} has a parent and does not know which promise of it")
    return messages.settled(promise, _outcome(ending), 1, child.created_at, now, id)


def _outcome(ending: e.Event) -> Outcome:
    match ending:
        case e.ExecutionCompleted(result=result):
            return Ok(result)
        case e.ExecutionFailed(error=error):
            return Err(error)
        case e.ExecutionCancelled(reason=reason):
            return Err(Failure("holdfast.errors:RunCancelled", reason))
        case _:
            raise EngineError(f"{ending!r} ends no run")


async def met_again(
    store: p.Store, start: p.Start, found: p.Exists | p.Retired, parent: PromiseId, generation: int, now: int
) -> p.Message | None:
    """What this generation of a parent must hear of the child at a place that was taken; None while that goes on."""
    promise = parent.child(start.parent_position or 0)
    if isinstance(found, p.Retired) or found.fingerprint != start.fingerprint:
        return messages.settled(promise, _refusal(start, found), 1, now, now, f"refused:{promise}:{generation}")
    rows = await patiently(partial(store.get, [start.key]))
    if not rows or rows[0].standing not in p.ENDED:
        return None
    loaded = (await patiently(partial(store.load, [start.key], whole=True))).get(start.key)
    if loaded is None:
        return None
    ending = unseal(loaded.segments, PromiseId(rows[0].root), loaded.blobs)[-1].event
    id = f"ended:{rows[0].root.hex()}:{rows[0].generation}:{generation}"
    return ended(rows[0], promise, ending, now, id)


def _refusal(start: p.Start, found: p.Exists | p.Retired) -> Err:
    if isinstance(found, p.Retired):
        told = (
            f"{start.key.run!r} was run before and deleted, and its evidence is kept: start the run under another id."
        )
        return Err(Failure("holdfast.errors:RunRetired", told))
    told = (
        f"{start.key.run!r} is a run of {found.workflow!r} that this run started before it was retried, with another "
        "workflow or other arguments: fork the run instead of retrying it."
    )
    return Err(Failure("holdfast.errors:RunConflict", told))

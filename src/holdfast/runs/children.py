"""How a parent learns of its child's end: by a message from the ending child, or, after a retry, from its journal.

A retried run begins again before the failed call, and its later journal is dropped. A child that it reaches again
exists already. If the child has ended, its message went into the dropped part, so its end is read from its own journal.
The retried run may also take another path and reach another child at the same position: that one is refused, because
the position is taken.
"""

from __future__ import annotations

from functools import partial

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.blobs import hydrate, references
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.runs import messages
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.store.patience import patiently


def ended(child: p.Run, promise: PromiseId | None, ending: e.Event, now: int, id: str) -> p.Message:
    """The message that tells a parent how its child ended."""
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
    """The message to this generation of a parent about the existing child at a position; None while the child runs."""
    promise = parent.child(start.parent_position or 0)
    if isinstance(found, p.Retired) or found.fingerprint != start.fingerprint:
        return messages.settled(promise, _refusal(start, found), 1, now, now, f"refused:{promise}:{generation}")
    rows = await patiently(partial(store.get, [start.key]))
    if not rows or rows[0].standing not in p.ENDED:
        return None
    loaded = (await patiently(partial(store.load, [start.key], whole=True))).get(start.key)
    if loaded is None:
        return None
    ending = unseal(loaded.segments, PromiseId(rows[0].root), {})[-1].event
    if digests := references(ending):
        ending = hydrate(ending, await patiently(partial(store.blobs, start.key.tenant, digests)))
    id = f"ended:{rows[0].root.hex()}:{rows[0].generation}:{generation}"
    return ended(rows[0], promise, ending, now, id)


def _refusal(start: p.Start, found: p.Exists | p.Retired) -> Err:
    if isinstance(found, p.Retired):
        message = (
            f"{start.key.run!r} was run before and deleted, and its evidence is kept: start the run under another id."
        )
        return Err(Failure("holdfast.errors:RunRetired", message))
    message = (
        f"{start.key.run!r} is a run of {found.workflow!r} that this run started before it was retried, with another "
        "workflow or other arguments: fork the run instead of retrying it."
    )
    return Err(Failure("holdfast.errors:RunConflict", message))

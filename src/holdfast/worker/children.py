"""How a parent hears of its child's end: from the child as it ends, or, where that journal is gone, once more.

A retried run begins again before what had failed, and forgets what came after. A child that it comes to once more is
there already; one that has ended told so to a journal that is gone. So it is asked for its end once more.
"""

from __future__ import annotations

from functools import partial

from holdfast.errors import EngineError
from holdfast.journal import events as e
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.store import protocol as p
from holdfast.worker import messages
from holdfast.worker.patience import patiently
from holdfast.worker.sealing import unseal


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


async def told_again(store: p.Store, child: p.Key, parent: p.Key, generation: int, now: int) -> p.Deliver | None:
    """What tells this generation of the parent of a child that has ended; None while it goes on."""
    rows = await patiently(partial(store.get, [child]))
    if not rows or rows[0].standing not in p.ENDED:
        return None
    row = rows[0]
    loaded = (await patiently(partial(store.load, [child]))).get(child)
    if loaded is None:
        return None
    journal = unseal(loaded.segments, PromiseId(row.root), loaded.blobs)
    started, ending = journal[0].event, journal[-1].event
    assert isinstance(started, e.ExecutionStarted)
    id = f"ended:{row.root.hex()}:{row.generation}:{generation}"
    return p.Deliver(parent, ended(row, started.parent_id, ending, now, id))

"""Acts that forks and retries inherit: they rely on what their journal says was done, so they hold the receipts from
their birth.

What its journal says was undone a fork lets go at once. A fork of it may begin before that undo, and finds the receipt
so. A retried run had let its acts go when it failed, also those that it could not undo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.journal import events as e
from holdfast.journal.payload import Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.compensation import Undo
from holdfast.programs.function.values import decode
from holdfast.runs.kinds.table import is_gated
from holdfast.store import protocol as p


async def holds_of_fork(
    store: p.Store, run: p.Run, entries: Sequence[e.Entry], fork: p.Key, root: PromiseId, now: int
) -> tuple[p.Hold | p.SetHolds, ...]:
    """The changes by which a fork of the run, with these entries and this root, holds what it inherits."""
    acts = _acts(entries)
    found = await store.acts_of(run.key.tenant, [p.ActCaller(run.key.run, act.root, act.path[-1]) for act in acts])
    holds: list[p.Hold | p.SetHolds] = []
    undone: list[tuple[bytes, int]] = []
    for act, receipt in zip(acts, found, strict=True):
        if receipt is not None:
            own = root.root if act.root == run.root else act.root  # what earlier generations did keeps its promise
            caller = p.ActCaller(fork.run, own, act.path[-1])
            holds.append(p.Hold(receipt.tenant, receipt.key, receipt.id, caller, now, inherited=True))
            if not acts[act]:
                undone.append((caller.root, caller.position))
    if undone:
        holds.append(p.SetHolds(run.key.tenant, fork.run, tuple(undone), "let_go"))
    return tuple(holds)


async def holds_of_retry(
    store: p.Store, run: p.Run, entries: Sequence[e.Entry], carried: Sequence[int]
) -> tuple[p.Hold, ...]:
    """The changes by which the next generation holds what this journal and the kept calls of these places have done.

    They are as old as the acts: of two calls at one place, in different generations, the newer one counts.
    """
    acts = [act for act, stands in _acts(entries).items() if stands]
    callers = [p.ActCaller(run.key.run, act.root, act.path[-1]) for act in acts]
    callers += [p.ActCaller(run.key.run, run.root, place) for place in carried]
    found = await store.acts_of(run.key.tenant, callers)
    return tuple(
        p.Hold(receipt.tenant, receipt.key, receipt.id, caller, receipt.opened_at)
        for caller, receipt in zip(callers, found, strict=True)
        if receipt is not None and receipt.reversed_by is None
    )


def _acts(entries: Sequence[e.Entry]) -> Mapping[PromiseId, bool]:
    """The calls that have acted at the gate, of this journal and of those that it carries on, with whether the run
    still relies on them: it does not on what it undid."""
    gated: set[PromiseId] = set()
    undoing: dict[PromiseId, PromiseId] = {}
    done: dict[PromiseId, bool] = {}
    for entry in entries:
        match entry.event:
            case e.ExecutionStarted(carried=carried) if carried is not None:
                done.update((PromiseId(each.root, each.path), True) for each in _carried(carried))
            case e.InvokeScheduled(promise_id=promise, kind=kind, undoes=undoes):
                if undoes is not None:
                    undoing[promise] = undoes
                if is_gated(kind):
                    gated.add(promise)
            case e.InvokeCompleted(promise_id=promise, result=Ok()):
                if undoing.get(promise) in done:
                    done[undoing[promise]] = False
                if promise in gated:
                    done[promise] = True
            case _:
                continue
    return done


def _carried(carried: Payload) -> list[Undo]:
    found: list[Undo] = decode(carried, list[Undo], "what earlier generations did")
    return found

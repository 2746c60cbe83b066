"""Which changes of a batch can be made as one set, so that the outcome is as if all were made in order.

Changes of different runs do not see each other, so only the order of those that touch the same run matters. A batch is
laid out in layers: within one, every run is touched by one change, or by several that one statement handles in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from holdfast.store import protocol as p


def keys_of(change: p.Change) -> Iterator[p.Key]:
    """The runs that a change touches, with all that comes also."""
    match change:
        case p.Start() | p.Advance():
            yield change.key
            for also in change.also:
                yield from keys_of(also)
        case p.Enqueue(work=work):
            yield work.key
        case p.Deliver() | p.Renew() | p.Withdraw() | p.FinishWork() | p.Beat():
            yield change.key
        case _ as never:
            assert_never(never)


def layers(changes: Sequence[p.Change]) -> list[list[int]]:
    """The indices of the changes, layer by layer, each in ascending order."""
    found: list[list[int]] = []
    last: dict[p.Key, tuple[int, str | None]] = {}
    taken: set[tuple[type[p.Change], p.Key, int]] = set()
    for index, change in enumerate(changes):
        family = _family(change)
        if (work := _work_of(change)) is not None:
            # The same work offered or finished twice in one batch: the second must find what the first did.
            family = None if work in taken else family
            taken.add(work)
        level = 0
        for key in keys_of(change):
            if key in last:
                before, kind = last[key]
                level = max(level, before if family is not None and family == kind else before + 1)
        for key in keys_of(change):
            last[key] = level, family
        while len(found) <= level:
            found.append([])
        found[level].append(index)
    return found


def _family(change: p.Change) -> str | None:
    """Changes of one family may share a run within a layer: one statement keeps their order."""
    match change:
        case p.Deliver() | p.FinishWork():
            return "inbox"
        case p.Enqueue():
            return "enqueue"
        case p.Withdraw():
            return "withdraw"
        case p.Beat():
            return "beat"
        case _:
            return None


def _work_of(change: p.Change) -> tuple[type[p.Change], p.Key, int] | None:
    match change:
        case p.Enqueue(work=work):
            return p.Enqueue, work.key, work.position
        case p.FinishWork():
            return p.FinishWork, change.key, change.position
        case _:
            return None


def is_plain(change: p.Change) -> bool:
    """Whether one statement makes the whole change."""
    match change:
        case p.Start():
            return not change.also and not change.blobs
        case p.Advance():
            return not change.also and not change.blobs and change.renewal is None
        case p.Renew() | p.FinishWork():
            return False
        case _:
            return True


def concerns_others(change: p.Change) -> bool:
    """Whether another process may wait for this: it is hinted at with the commit."""
    match change:
        case p.Start():
            return change.owner is None or any(concerns_others(also) for also in change.also)
        case p.Advance():
            ended = change.projection.standing in p.ENDED
            return ended or any(concerns_others(also) for also in change.also)
        case p.Withdraw() | p.Beat():
            return False
        case _:
            return True

"""Numbers of runs that are counted no further than somebody wants to know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast.store.rows import RunCount


def cut(counts: Iterable[RunCount], most: int | None) -> list[RunCount]:
    """The numbers; those above ``most`` as one above it."""
    return [each if most is None or each.count <= most else replace(each, count=most + 1) for each in counts]


def are_whole(counts: Sequence[RunCount], most: int) -> bool:
    """Whether all paused and cancelling runs of a tenant were counted.

    They are subtracted from those of their standing. If not all were counted, too few would be subtracted.
    """
    return sum(each.count for each in counts if each.status in ("paused", "cancelling")) <= most

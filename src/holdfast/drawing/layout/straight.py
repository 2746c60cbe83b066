"""Places in layers after Brandes and Köpf: chains of items, one in each layer, stand on one line as far as they can.

Four layouts are made: each aligns an item with a median neighbour above or below, and is packed to the left or to the
right. The place of an item is the mean of the two in the middle. The inner pieces of a long edge go before all others,
so that it is straight between its ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

I = TypeVar("I", bound="LayerItem")  # noqa: E741  # an item


class LayerItem(Protocol):
    """An item of a layer, with its neighbours in the layers next to it."""

    @property
    def above(self) -> Sequence[Self]: ...

    @property
    def below(self) -> Sequence[Self]: ...

    @property
    def is_dummy(self) -> bool: ...


Distance = Callable[[I, I], int]
"""How far the axes of two neighbours in a layer are apart, at least."""


def straight_places(layers: Sequence[Sequence[I]], distance: Distance[I]) -> dict[int, int]:
    """The place of each item across the flow, by ``id``. The order in each layer and all distances are kept."""
    conflicts = _conflicts(layers)
    found = []
    for upwards, rightwards in itertools.product((False, True), repeat=2):
        turned = [list(reversed(layer)) if rightwards else list(layer) for layer in layers]
        if upwards:
            turned.reverse()
        blocks = _aligned(turned, conflicts, upwards=upwards)
        places = _packed(turned, blocks, distance, mirrored=rightwards)
        found.append({key: -place for key, place in places.items()} if rightwards else places)
    _bring_together(found)
    return {key: sum(sorted(each[key] for each in found)[1:3]) // 2 for key in found[0]}


def _conflicts(layers: Sequence[Sequence[I]]) -> set[tuple[int, int]]:
    """The pieces of edges that cross a piece of a long edge between two dummies: these are not aligned."""
    found: set[tuple[int, int]] = set()
    for upper, lower in itertools.pairwise(layers):
        at = {id(item): number for number, item in enumerate(upper)}
        left, scanned = -1, 0
        for number, item in enumerate(lower):
            inner = next((at[id(each)] for each in item.above if item.is_dummy and each.is_dummy), None)
            if inner is None and number < len(lower) - 1:
                continue
            right = len(upper) if inner is None else inner
            for each in lower[scanned : number + 1]:
                for other in each.above:
                    if not left <= at[id(other)] <= right and not (each.is_dummy and other.is_dummy):
                        found.add((id(other), id(each)))
            left, scanned = right, number + 1
    return found


def _aligned(layers: Sequence[Sequence[I]], conflicts: set[tuple[int, int]], *, upwards: bool) -> dict[int, int]:
    """The block of each item: the first item on its line."""
    root = {id(item): id(item) for layer in layers for item in layer}
    taken: set[int] = set()  # items that have a neighbour on their line in the next layer
    for upper, lower in itertools.pairwise(layers):
        at = {id(item): number for number, item in enumerate(upper)}
        last = -1
        for item in lower:
            near = sorted(item.below if upwards else item.above, key=lambda each: at[id(each)])
            for middle in {(len(near) - 1) // 2, len(near) // 2} if near else ():
                other = near[middle]
                pair = (id(item), id(other)) if upwards else (id(other), id(item))
                if id(other) in taken or pair in conflicts or at[id(other)] <= last:
                    continue
                root[id(item)], last = root[id(other)], at[id(other)]
                taken.add(id(other))
                break
    return root


def _packed(
    layers: Sequence[Sequence[I]], root: Mapping[int, int], distance: Distance[I], *, mirrored: bool
) -> dict[int, int]:
    """All blocks as far to the left as they can be; then each to the right as far as its neighbours let it."""
    after: dict[int, dict[int, int]] = {block: {} for block in root.values()}
    before: dict[int, int] = dict.fromkeys(after, 0)
    for left, right in (pair for layer in layers for pair in itertools.pairwise(layer)):
        apart = distance(right, left) if mirrored else distance(left, right)
        first, second = root[id(left)], root[id(right)]
        if second not in after[first]:
            before[second] += 1
        after[first][second] = max(apart, after[first].get(second, 0))
    places = dict.fromkeys(after, 0)
    ready = [block for block, count in before.items() if not count]
    order: list[int] = []
    while ready:
        block = ready.pop()
        order.append(block)
        for other, apart in after[block].items():
            places[other] = max(places[other], places[block] + apart)
            before[other] -= 1
            if not before[other]:
                ready.append(other)
    for block in reversed(order):
        rooms = [places[other] - apart for other, apart in after[block].items()]
        places[block] = max([places[block], *([min(rooms)] if rooms else [])])
    return {key: places[block] for key, block in root.items()}


def _bring_together(found: list[dict[int, int]]) -> None:
    """Move the layouts: those packed to the left begin with the narrowest, those packed to the right end with it."""
    narrowest = min(found, key=lambda places: max(places.values(), default=0) - min(places.values(), default=0))
    for number, places in enumerate(found):
        side = max if number % 2 else min
        moved = side(narrowest.values(), default=0) - side(places.values(), default=0)
        for key in places:
            places[key] += moved

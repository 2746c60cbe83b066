"""Parts by their dependencies, in layers.

A part's layer is the longest way to it. An edge that passes layers goes by a dummy in each of them: a place of its own
between the parts, so that it runs through none. The order in a layer comes from barycentres, the order with the fewest
crossings is kept, and the places are the nearest to the neighbours' that this order allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from holdfast.drawing.layout.fragments import Fragment, Place, Port, Wire, straightened
from holdfast.drawing.measures import BRANCH_GAP
from holdfast.drawing.parts import Link

_SWEEPS: Final = 12
_PASSES: Final = 8
_LANE: Final = 18
"""Between two edges that pass a layer, or an edge and a part."""
_DUMMY_WEIGHT: Final = 4.0
_NARROWEST_GAP: Final = 44
_WIDEST_GAP: Final = 150


class _Item:
    """A part in its layer, or the dummy of an edge that passes it."""

    __slots__ = ("above", "below", "layer", "part", "place")

    def __init__(self, layer: int, part: Fragment | None) -> None:
        self.layer = layer
        self.part = part
        self.above: list[_Item] = []
        self.below: list[_Item] = []
        self.place = 0.0

    @property
    def before(self) -> int:
        return 0 if self.part is None else self.part.axis

    @property
    def behind(self) -> int:
        return 0 if self.part is None else self.part.cross - self.part.axis


def layered(parts: Sequence[Fragment], links: Sequence[Link]) -> Fragment:
    """The parts in layers, with their edges. The links must have no cycle."""
    numbers = _layers(len(parts), links)
    items = [_Item(number, part) for number, part in zip(numbers, parts, strict=True)]
    layers: list[list[_Item]] = [[] for _ in range(max(numbers, default=-1) + 1)]
    for item in items:
        layers[item.layer].append(item)
    chains = [_chain(items[link.source], items[link.target], layers) for link in links]
    _order(layers)
    _place(layers)
    return _assembled(layers, links, chains)


def _layers(count: int, links: Sequence[Link]) -> list[int]:
    """The length of the longest way to each part."""
    found = [0] * count
    for _ in range(count):
        changed = False
        for link in links:
            if found[link.target] <= found[link.source]:
                found[link.target] = found[link.source] + 1
                changed = True
        if not changed:
            return found
    if links and count:
        raise ValueError("the dependencies have a cycle")
    return found


def _chain(source: _Item, target: _Item, layers: list[list[_Item]]) -> list[_Item]:
    """The items that an edge goes by, with a dummy in each layer between."""
    chain = [source]
    for number in range(source.layer + 1, target.layer):
        dummy = _Item(number, None)
        layers[number].append(dummy)
        chain.append(dummy)
    chain.append(target)
    for upper, lower in itertools.pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


# -- the order in a layer ----------------------------------------------------------------------------------------------


def _order(layers: list[list[_Item]]) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        for layer in layers[1:] if downwards else reversed(layers[:-1]):
            _sort(layer, layers, downwards)
        count = _crossings(layers)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _sort(layer: list[_Item], layers: list[list[_Item]], downwards: bool) -> None:
    """Sort a layer by the mean position of its neighbours. What has none stays about where it is."""
    at = {id(item): number for number, item in enumerate(layer)}
    other = layers[layer[0].layer + (-1 if downwards else 1)] if layer else []
    positions = {id(item): number for number, item in enumerate(other)}

    def centre(item: _Item) -> float:
        near = item.above if downwards else item.below
        if not near:
            return at[id(item)] * len(other) / max(1, len(layer))
        return sum(positions[id(each)] for each in near) / len(near)

    layer.sort(key=lambda item: (centre(item), at[id(item)]))


def _crossings(layers: list[list[_Item]]) -> int:
    """How many pairs of edges cross, by counting inversions between each two layers."""
    total = 0
    for upper, lower in itertools.pairwise(layers):
        positions = {id(item): number for number, item in enumerate(lower)}
        seen = [0] * (len(lower) + 1)
        count = 0
        for item in upper:
            ends = [positions[id(each)] for each in item.below]
            for end in ends:
                total += count - _sum(seen, end)
            for end in ends:
                _add(seen, end)
                count += 1
    return total


def _add(tree: list[int], at: int) -> None:
    at += 1
    while at < len(tree):
        tree[at] += 1
        at += at & -at


def _sum(tree: list[int], at: int) -> int:
    """How many positions up to ``at`` have been added."""
    at += 1
    found = 0
    while at > 0:
        found += tree[at]
        at -= at & -at
    return found


# -- places in a layer -------------------------------------------------------------------------------------------------


def _place(layers: list[list[_Item]]) -> None:
    for layer in layers:
        _settle(layer, [0.0] * len(layer))
    for number in range(_PASSES):
        downwards = number % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _settle(layer, [_wish(item, downwards, last=number >= _PASSES - 2) for item in layer])


def _wish(item: _Item, downwards: bool, *, last: bool) -> float:
    near = item.above + item.below if last else item.above if downwards else item.below
    return sum(each.place for each in near) / len(near) if near else item.place


def _settle(layer: list[_Item], wishes: list[float]) -> None:
    """Give each item the place nearest to its wish (by least squares) that keeps order and distances."""
    offsets, offset = [], 0.0
    for at, item in enumerate(layer):
        if at:
            offset += _distance(layer[at - 1], item)
        offsets.append(offset)
    weights = [_DUMMY_WEIGHT if item.part is None else 1.0 for item in layer]
    blocks: list[list[float]] = []  # mean, weight, count
    for wish, offset, weight in zip(wishes, offsets, weights, strict=True):
        blocks.append([wish - offset, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, heavy, count = blocks.pop()
            upper = blocks[-1]
            upper[0] = (upper[0] * upper[1] + mean * heavy) / (upper[1] + heavy)
            upper[1] += heavy
            upper[2] += count
    means = [mean for mean, _, count in blocks for _ in range(int(count))]
    for item, mean, offset in zip(layer, means, offsets, strict=True):
        item.place = mean + offset


def _distance(first: _Item, second: _Item) -> int:
    gap = BRANCH_GAP if first.part is not None and second.part is not None else _LANE
    return first.behind + gap + second.before


# -- the fragment ------------------------------------------------------------------------------------------------------


def _assembled(layers: list[list[_Item]], links: Sequence[Link], chains: list[list[_Item]]) -> Fragment:
    axes = _whole(layers)
    starts, ends, main = [], [], 0
    for layer in layers:
        starts.append(main)
        ends.append(main + max((item.part.main for item in layer if item.part is not None), default=0))
        main = ends[-1] + _gap(layer, axes)
    inside = [
        (starts[item.layer], axes[id(item)] - item.before, item.part)
        for layer in layers
        for item in layer
        if item.part is not None
    ]
    cross = max((axes[id(item)] + item.behind for layer in layers for item in layer), default=0)
    wires = [_edge(link, chain, starts, ends, axes) for link, chain in zip(links, chains, strict=True)]
    return Fragment(main=ends[-1] if ends else 0, cross=cross, axis=cross // 2, wires=wires, inside=inside)


def _whole(layers: list[list[_Item]]) -> dict[int, int]:
    """The axis of each item in whole pixels, none to the left of the corner, and distances kept."""
    axes: dict[int, int] = {}
    for layer in layers:
        previous: _Item | None = None
        for item in layer:
            place = round(item.place)
            if previous is not None:
                place = max(place, axes[id(previous)] + _distance(previous, item))
            axes[id(item)] = place
            previous = item
    left = min((axes[id(item)] - item.before for layer in layers for item in layer), default=0)
    return {key: place - left for key, place in axes.items()}


def _gap(layer: list[_Item], axes: dict[int, int]) -> int:
    """The room below a layer: more where edges go far to the side."""
    far = max((abs(axes[id(item)] - axes[id(each)]) for item in layer for each in item.below), default=0)
    return max(_NARROWEST_GAP, min(_WIDEST_GAP, _NARROWEST_GAP + far // 8))


def _edge(link: Link, chain: list[_Item], starts: list[int], ends: list[int], axes: dict[int, int]) -> Wire:
    source, target = _port(chain[0], starts, axes, leaves=True), _port(chain[-1], starts, axes, leaves=False)
    places: list[Place] = [source.place, (ends[chain[0].layer], source.cross)]
    for item in chain[1:-1]:
        places += [(starts[item.layer], axes[id(item)]), (ends[item.layer], axes[id(item)])]
    places += [(starts[chain[-1].layer], target.cross), target.place]
    return Wire(source.box, target.box, link.kind, straightened(places))


def _port(item: _Item, starts: list[int], axes: dict[int, int], *, leaves: bool) -> Port:
    if item.part is None:
        raise AssertionError("an edge begins and ends at a part")
    port = item.part.exit if leaves else item.part.entry
    if port is None:
        raise AssertionError("a part of a graph has an entry and an exit")
    return port.moved(starts[item.layer], axes[id(item)] - item.before)

"""Parts by their dependencies, in layers.

A part's layer is the longest way to it. An edge that passes layers goes by a dummy in each of them: a place of its own
between the parts, so that it runs through none. The order in a layer comes from barycentres, the order with the fewest
crossings is kept; neighbours in it are exchanged while that leaves fewer. Long edges are straight: ``straight.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from holdfast.drawing.layout.fragments import Fragment, Place, Port, Wire, straightened
from holdfast.drawing.layout.straight import straight_places
from holdfast.drawing.measures import BRANCH_GAP, PORT_GAP
from holdfast.drawing.parts import Link

Axes = dict[int, int]
"""Where each item stands across the flow, by ``id``."""

_SWEEPS: Final = 12
_BEGINNINGS: Final = 6
"""Orders to begin with: the author's, one by depth, and some by chance."""
_ROUNDS: Final = 8
_MOST_EXCHANGED: Final = 600
"""Of so many items neighbours are exchanged; larger graphs are only sorted."""
_LANE: Final = 18
"""Between two edges that pass a layer, or an edge and a part."""
_NARROWEST_GAP: Final = 44
_WIDEST_GAP: Final = 150


class _Item:
    """A part in its layer, or the dummy of an edge that passes it."""

    __slots__ = ("above", "below", "layer", "part")

    def __init__(self, layer: int, part: Fragment | None) -> None:
        self.layer = layer
        self.part = part
        self.above: list[_Item] = []
        self.below: list[_Item] = []

    @property
    def is_dummy(self) -> bool:
        return self.part is None

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
    """The best order of several beginnings, each sorted by barycentres until that helps no more."""
    exchanges = sum(len(layer) for layer in layers) <= _MOST_EXCHANGED
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for beginning in range(_BEGINNINGS if exchanges and fewest else 1):
        if beginning == 1:
            _depth_first(layers)
        elif beginning:
            _shuffle(layers, beginning)
        for sweep in range(_SWEEPS):
            if fewest == 0:
                break
            downwards = sweep % 2 == 0
            for layer in layers[1:] if downwards else reversed(layers[:-1]):
                _sort(layer, layers, downwards)
            count = _exchanged(layers) if exchanges else _crossings(layers)
            if count < fewest:
                best, fewest = [list(layer) for layer in layers], count
    for layer, order in zip(layers, best, strict=True):
        layer[:] = order


def _shuffle(layers: list[list[_Item]], number: int) -> None:
    """Another order: as by chance, and the same each time."""
    for layer in layers:
        places = {id(item): (at + 1) * 7_919 * number % 10_007 for at, item in enumerate(layer)}
        layer.sort(key=lambda item, places=places: places[id(item)])  # type: ignore[misc]


def _depth_first(layers: list[list[_Item]]) -> None:
    """Each item beside what it leads to, so that a way through the graph stays together."""
    numbers: dict[int, int] = {}
    waiting = [item for layer in reversed(layers) for item in reversed(layer) if not item.above]
    while waiting:
        item = waiting.pop()
        if id(item) not in numbers:
            numbers[id(item)] = len(numbers)
            waiting.extend(reversed(item.below))
    for layer in layers:
        layer.sort(key=lambda item: numbers[id(item)])


def _exchanged(layers: list[list[_Item]]) -> int:
    """Exchange neighbours while that leaves fewer crossings; gives how many there are then."""
    count = _crossings(layers)
    for _ in range(_ROUNDS):
        before = count
        at = {id(item): number for layer in layers for number, item in enumerate(layer)}
        for layer in layers:
            for place in range(len(layer) - 1):
                one, other = layer[place], layer[place + 1]
                gained = _between(one, other, at) - _between(other, one, at)
                if gained > 0:
                    layer[place], layer[place + 1] = other, one
                    at[id(one)], at[id(other)] = place + 1, place
                    count -= gained
        if count in (0, before):
            break
    return count


def _between(left: _Item, right: _Item, at: dict[int, int]) -> int:
    """How often edges of two items of a layer cross, if they stand in this order."""
    return sum(
        at[id(one)] > at[id(other)]
        for ours, theirs in ((left.above, right.above), (left.below, right.below))
        for one in ours
        for other in theirs
    )


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
    ports = _ports(chains, starts, axes)
    wires = [
        _edge(link, chain, touched, starts, ends, axes)
        for link, chain, touched in zip(links, chains, ports, strict=True)
    ]
    return Fragment(main=ends[-1] if ends else 0, cross=cross, axis=cross // 2, wires=wires, inside=inside)


def _whole(layers: list[list[_Item]]) -> dict[int, int]:
    """The axis of each item, none of it to the left of the corner."""
    axes = straight_places(layers, _distance)
    left = min((axes[id(item)] - item.before for layer in layers for item in layer), default=0)
    return {key: place - left for key, place in axes.items()}


def _gap(layer: list[_Item], axes: dict[int, int]) -> int:
    """The room below a layer: more where edges go far to the side."""
    far = max((abs(axes[id(item)] - axes[id(each)]) for item in layer for each in item.below), default=0)
    return max(_NARROWEST_GAP, min(_WIDEST_GAP, _NARROWEST_GAP + far // 8))


def _edge(
    link: Link, chain: list[_Item], ports: tuple[Port, Port], starts: list[int], ends: list[int], axes: Axes
) -> Wire:
    source, target = ports
    places: list[Place] = [source.place, (ends[chain[0].layer], source.cross)]
    for item in chain[1:-1]:
        places += [(starts[item.layer], axes[id(item)]), (ends[item.layer], axes[id(item)])]
    places += [(starts[chain[-1].layer], target.cross), target.place]
    return Wire(source.box, target.box, link.kind, straightened(places))


# -- where edges touch parts -------------------------------------------------------------------------------------------


def _ports(chains: list[list[_Item]], starts: list[int], axes: Axes) -> list[tuple[Port, Port]]:
    """Where each edge begins and ends. The edges at one side of a part are spread over it, in the order of what they
    lead to, each as near as it can be to a straight line."""
    found = [
        [_port(chain[0], starts, axes, leaves=True), _port(chain[-1], starts, axes, leaves=False)] for chain in chains
    ]
    wishes = [_wishes(chain, ports, axes) for chain, ports in zip(chains, found, strict=True)]
    for end in (0, 1):
        sides: dict[int, list[int]] = {}
        for number, chain in enumerate(chains):
            sides.setdefault(id(chain[-end]), []).append(number)
        for numbers in sides.values():
            numbers.sort(key=lambda number: (axes[id(chains[number][1 - 3 * end])], number))
            port = found[numbers[0]][end]
            for number, cross in zip(numbers, _spread([wishes[each][end] for each in numbers], port), strict=True):
                found[number][end] = port._replace(cross=cross)
    return [(source, target) for source, target in found]


def _wishes(chain: list[_Item], ports: list[Port], axes: Axes) -> tuple[int, int]:
    """Where an edge would begin and end, were it alone."""
    source, target = ports
    if len(chain) > 2:
        return _within(axes[id(chain[1])], source), _within(axes[id(chain[-2])], target)
    low = max(source.cross - source.room, target.cross - target.room)
    high = min(source.cross + source.room, target.cross + target.room)
    if low <= high:  # one line reaches both
        both = max(low, min(high, (source.cross + target.cross) // 2))
        return both, both
    return _within(target.cross, source), _within(source.cross, target)


def _within(cross: int, port: Port) -> int:
    return max(port.cross - port.room, min(port.cross + port.room, cross))


def _spread(wishes: list[int], port: Port) -> list[int]:
    """The wishes in order, with a gap between each two as far as there is room."""
    gap = min(PORT_GAP, 2 * port.room // max(1, len(wishes) - 1))
    found: list[int] = []
    for wish in wishes:
        found.append(max(wish, found[-1] + gap) if found else wish)
    last = port.cross + port.room
    for at in range(len(found) - 1, -1, -1):
        found[at] = min(found[at], last)
        last = found[at] - gap
    return found


def _port(item: _Item, starts: list[int], axes: Axes, *, leaves: bool) -> Port:
    """The point at which the edges of a part meet it, with the room beside it: none unless it is at the part's end."""
    if item.part is None:
        raise AssertionError("an edge begins and ends at a part")
    port = item.part.exit if leaves else item.part.entry
    if port is None:
        raise AssertionError("a part of a graph has an entry and an exit")
    if port.main != (item.part.main if leaves else 0):
        port = port._replace(room=0)
    return port.moved(starts[item.layer], axes[id(item)] - item.before)

"""How a chart's states lie in each other, by their positions, which are in document order."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from holdfast.programs.machine.charts.chart import Chart, ChartTransition

ROOT: Final = 0
_KEPT: Final = 128


class PlacedTransition(NamedTuple):
    """A transition of a state; ``order`` is its place among all."""

    source: int
    order: int
    transition: ChartTransition
    targets: tuple[int, ...]


class Structure:
    """A chart with its relations worked out."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.states = chart.states
        self.positions = {state.id: position for position, state in enumerate(chart.states)}
        self.children: list[list[int]] = [[] for _ in chart.states]
        self.histories: list[list[int]] = [[] for _ in chart.states]
        self.ancestors: list[tuple[int, ...]] = []  # nearest first, the root last
        self._last = list(range(len(chart.states)))  # the last descendant
        for position, state in enumerate(chart.states):
            above = () if state.parent < 0 else (state.parent, *self.ancestors[state.parent])
            self.ancestors.append(above)
            for each in above:
                self._last[each] = position
            if state.parent >= 0:
                kin = self.histories if self.is_history(position) else self.children
                kin[state.parent].append(position)
        self.transitions = self._placed()
        self.initials = [self._initial(position) for position in range(len(chart.states))]

    def _placed(self) -> list[list[PlacedTransition]]:
        found: list[list[PlacedTransition]] = []
        order = 0
        for position, state in enumerate(self.states):
            found.append([])
            for transition in state.transitions:
                found[-1].append(PlacedTransition(position, order, transition, self.of(transition.targets)))
                order += 1
        return found

    def _initial(self, position: int) -> PlacedTransition | None:
        """How a state with children is entered by default: as it says, or by its first child."""
        if not self.is_compound(position) and position != ROOT:
            return None
        transition = self.states[position].initial
        if transition is None:
            return PlacedTransition(position, -1, ChartTransition(), (self.children[position][0],))
        return PlacedTransition(position, -1, transition, self.of(transition.targets))

    def of(self, ids: tuple[str, ...]) -> tuple[int, ...]:
        """The positions of ids."""
        return tuple(self.positions[id] for id in ids)

    def is_history(self, position: int) -> bool:
        """Whether it is a history."""
        return self.states[position].kind in ("shallow", "deep")

    def is_compound(self, position: int) -> bool:
        """Whether exactly one child is active with it."""
        return self.states[position].kind == "state" and bool(self.children[position])

    def is_atomic(self, position: int) -> bool:
        """Whether it has no children that could be active."""
        return not self.children[position]

    def is_descendant(self, position: int, of: int) -> bool:
        """Whether a state lies within another, at any depth."""
        return of < position <= self._last[of]


_structures: OrderedDict[int, Structure] = OrderedDict()


def structure_of(chart: Chart) -> Structure:
    """A chart's structure, kept for charts that were used lately. The kept one holds its chart, so the id stays its."""
    found = _structures.get(id(chart))
    if found is None:
        found = _structures[id(chart)] = Structure(chart)
        if len(_structures) > _KEPT:
            _structures.popitem(last=False)
    return found

"""Which transitions are taken, which states are left and which entered: the sets of the W3C algorithm (appendix D).

Functions of a structure, the active states and the histories alone; only conditions are asked of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from holdfast.programs.machine.charts.chart import Block
from holdfast.programs.machine.charts.structure import ROOT, PlacedTransition, Structure

Condition = Callable[[PlacedTransition], bool]
Histories = Mapping[int, tuple[int, ...]]


def matches(descriptors: Iterable[str], event: str) -> bool:
    """Whether an event's name is one of the descriptors, or begins with one at a dot."""
    for descriptor in descriptors:
        prefix = descriptor.removesuffix("*").removesuffix(".")
        if not prefix or event == prefix or event.startswith(f"{prefix}."):
            return True
    return False


def enabled(
    structure: Structure, active: set[int], histories: Histories, event: str | None, holds: Condition
) -> list[PlacedTransition]:
    """The transitions that an event enables, or None for no event, without those that others preempt."""
    found: dict[int, PlacedTransition] = {}
    for atomic in sorted(position for position in active if structure.is_atomic(position)):
        chosen = _chosen(structure, atomic, event, holds)
        if chosen is not None:
            found.setdefault(chosen.order, chosen)
    return _without_conflicts(structure, active, histories, list(found.values()))


def _chosen(structure: Structure, atomic: int, event: str | None, holds: Condition) -> PlacedTransition | None:
    for source in (atomic, *structure.ancestors[atomic]):
        for placed in structure.transitions[source]:
            events = placed.transition.events
            if (matches(events, event) if event is not None else not events) and holds(placed):
                return placed
    return None


def _without_conflicts(
    structure: Structure, active: set[int], histories: Histories, found: list[PlacedTransition]
) -> list[PlacedTransition]:
    """Of two that leave the same state, the one whose source lies deeper, or else the first."""
    kept: list[tuple[PlacedTransition, set[int]]] = []
    for placed in found:
        leaves = exits(structure, active, histories, placed)
        rivals = [each for each in kept if each[1] & leaves]
        if all(structure.is_descendant(placed.source, rival.source) for rival, _ in rivals):
            kept = [each for each in kept if each not in rivals]
            kept.append((placed, leaves))
    return [placed for placed, _ in kept]


def exits(structure: Structure, active: set[int], histories: Histories, placed: PlacedTransition) -> set[int]:
    """The active states that a transition leaves."""
    domain = _domain(structure, histories, placed)
    if domain is None:
        return set()
    return {position for position in active if structure.is_descendant(position, domain)}


def _domain(structure: Structure, histories: Histories, placed: PlacedTransition) -> int | None:
    """The innermost state that stays active and holds all that is left and entered."""
    targets = _effective(structure, histories, placed.targets)
    if not targets:
        return None
    source = placed.source
    if placed.transition.internal and structure.is_compound(source) and _inside(structure, targets, source):
        return source
    return next(
        above
        for above in structure.ancestors[source]
        if (structure.is_compound(above) or above == ROOT) and _inside(structure, targets, above)
    )


def _inside(structure: Structure, positions: Iterable[int], outer: int) -> bool:
    return all(structure.is_descendant(position, outer) for position in positions)


def _effective(structure: Structure, histories: Histories, targets: Iterable[int]) -> list[int]:
    """Targets with histories replaced by what they stand for."""
    found: list[int] = []
    for target in targets:
        if not structure.is_history(target):
            found.append(target)
        elif target in histories:
            found.extend(histories[target])
        else:
            found.extend(_effective(structure, histories, structure.transitions[target][0].targets))
    return found


class EntrySet(NamedTuple):
    """What is entered; of it, what is entered by default; and content of histories by their parents."""

    states: set[int]
    by_default: set[int]
    history_content: dict[int, Block]


def entries(structure: Structure, histories: Histories, taken: Iterable[PlacedTransition]) -> EntrySet:
    """The states that transitions enter."""
    entry = _Entry(structure, histories)
    for placed in taken:
        for target in placed.targets:
            entry.descend(target)
        domain = ROOT if placed.source == ROOT else _domain(structure, histories, placed)
        for target in _effective(structure, histories, placed.targets):
            entry.ascend(target, domain)
    return entry.found


class _Entry:
    def __init__(self, structure: Structure, histories: Histories) -> None:
        self._structure = structure
        self._histories = histories
        self.found = EntrySet(set(), set(), {})

    def descend(self, position: int) -> None:
        """Enter a state and what must be active in it."""
        structure = self._structure
        if structure.is_history(position):
            self._history(position)
            return
        self.found.states.add(position)
        initial = structure.initials[position]
        if initial is not None:
            self.found.by_default.add(position)
            self._all(initial.targets, position)
        elif structure.states[position].kind == "parallel":
            self._regions(position)

    def _history(self, position: int) -> None:
        parent = self._structure.states[position].parent
        kept = self._histories.get(position)
        if kept is None:
            (default,) = self._structure.transitions[position]
            self.found.history_content[parent] = default.transition.content
            kept = default.targets
        self._all(kept, parent)

    def _all(self, targets: tuple[int, ...], within: int) -> None:
        for target in targets:
            self.descend(target)
        for target in targets:
            self.ascend(target, within)

    def _regions(self, position: int) -> None:
        for child in self._structure.children[position]:
            if not any(child == each or self._structure.is_descendant(each, child) for each in self.found.states):
                self.descend(child)

    def ascend(self, position: int, within: int | None) -> None:
        """Enter the ancestors of a state up to one that is active already, and their other regions."""
        for above in self._structure.ancestors[position]:
            if above in (within, ROOT):
                return
            self.found.states.add(above)
            if self._structure.states[above].kind == "parallel":
                self._regions(above)

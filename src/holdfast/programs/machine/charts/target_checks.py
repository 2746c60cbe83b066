"""Checks that every target of a chart is a state that can be entered, and that several can be entered together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from holdfast.programs.definition.compiler.faults import nearest
from holdfast.programs.machine.charts.chart import ChartState, ChartTransition
from holdfast.programs.machine.charts.findings import ChartFindings


def check_targets(states: Sequence[ChartState], findings: ChartFindings) -> None:
    """Note every target that is wrong."""
    check = _Check(states, findings)
    for position, state in enumerate(states):
        if state.initial is not None:
            check.inside(state.initial, position, f"the initial state of {state.id!r}")
        if state.kind in ("shallow", "deep"):
            check.history(position)
        else:
            for transition in state.transitions:
                check.targets(transition)


class _Check:
    def __init__(self, states: Sequence[ChartState], findings: ChartFindings) -> None:
        self._states = states
        self._findings = findings
        self._positions = {state.id: position for position, state in reversed(list(enumerate(states)))}

    def targets(self, transition: ChartTransition) -> list[int]:
        """The positions of a transition's targets that exist."""
        found: list[int] = []
        for target in transition.targets:
            if target in self._positions and not target.startswith("#"):
                found.append(self._positions[target])
            else:
                known = [id for id in self._positions if not id.startswith("#")]
                self._wrong(transition, f"there is no state {target!r}{nearest(target, known)}")
        for one, other in combinations(found, 2):
            if not self._together(one, other):
                names = f"{self._states[one].id!r} and {self._states[other].id!r}"
                self._wrong(
                    transition,
                    f"{names} cannot be entered together: name states in different children of one <parallel>",
                )
        return found

    def inside(self, transition: ChartTransition, position: int, what: str) -> None:
        """Check targets that must be inside a state."""
        if not transition.targets:
            self._wrong(transition, f"{what} is empty: name a state in it")
        for target in self.targets(transition):
            if position not in self._ancestors(target):
                self._wrong(transition, f"{what} must be inside it: {self._states[target].id!r} is not")

    def history(self, position: int) -> None:
        """Check a history: one transition, to states in its parent; of a shallow one, to children."""
        state = self._states[position]
        if len(state.transitions) != 1:
            self._findings.place(state.line, 1, "<history> holds one <transition>: what is entered the first time")
        for transition in state.transitions:
            self.inside(transition, state.parent, f"the default of history {state.id!r}")
            for target in (self._positions[id] for id in transition.targets if id in self._positions):
                if self._states[target].kind in ("shallow", "deep"):
                    self._wrong(transition, "a history's default is a state, not a history")
                elif state.kind == "shallow" and self._states[target].parent != state.parent:
                    message = "a shallow history's default should be a child of its parent: say type='deep'"
                    self._findings.note(transition.line, message)

    def _ancestors(self, position: int) -> list[int]:
        found = []
        while (position := self._states[position].parent) >= 0:
            found.append(position)
        return found

    def _together(self, one: int, other: int) -> bool:
        above = [other, *self._ancestors(other)]
        if one in above or other in self._ancestors(one):
            return False  # the outer one would be entered with another child than the inner one
        nearest_common = next(each for each in self._ancestors(one) if each in above)
        return self._states[nearest_common].kind == "parallel"

    def _wrong(self, transition: ChartTransition, message: str) -> None:
        self._findings.place(transition.line, 1, message)

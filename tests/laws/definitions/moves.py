"""Plays a case whose runs move at random to another version, which is the same definition under other names.

The law of moves: nothing that can be seen from outside depends on it. What the reference does, the run still does.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.errors import EngineError
from holdfast.journal.events import REVISION
from holdfast.kernel.arrivals import Arrival, SignalArrived
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.compiler import accepted
from holdfast.programs.definition.interpreter.program import DefinitionProgram
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.migration.revision import write_revision
from holdfast.programs.definition.walks import all_nodes, map_nodes
from tests.laws.definitions.world import Broken, Player, World

OFTEN: Final = 0.5
_ALLOWED: Final = ("it is being cancelled", "it has ended, and is undoing what it did")


def renamed(routine: Routine, *, keep_names: bool) -> m.Accepted:
    """The next version: the same nodes, under other names where no expression reads them by name."""
    old = routine.definition
    names = {node.name: _next(node.name) for node in all_nodes(old.steps)}
    if keep_names:
        names = {}
    for name in routine.nodes_read:
        names.pop(name, None)
    steps = map_nodes(old.steps, lambda node: _renamed(node, names))
    migrate = {str(old.version): {"steps": names}}
    return accepted(msgspec.structs.replace(old, version=old.version + 1, steps=steps, migrate=migrate))


def _next(name: str) -> str:
    stem, _, number = name.partition("_v")
    return f"{stem}_v{int(number or 1) + 1}"


def _renamed(node: m.Node, names: dict[str, str]) -> m.Node:
    def of(name: str) -> str:
        return names.get(name, name)

    verb = node.verb
    if isinstance(verb, m.CompensateVerb):
        verb = m.CompensateVerb(node=of(verb.node))
    needs, after = tuple(map(of, node.needs)), tuple(map(of, node.after))
    return msgspec.structs.replace(node, name=of(node.name), verb=verb, needs=needs, after=after)


class MovingPlayer(Player):
    """A run that is asked to move before some of its turns."""

    world: MovingWorld

    def advance(self, *arrivals: Arrival) -> None:
        source, program = self.world.source, self.run.execution.program
        assert isinstance(program, DefinitionProgram)
        asked = bool(self.run.journal) and not self.run.ended and not self.parked and source.random() < OFTEN
        if asked:
            to = renamed(program.routine, keep_names=source.random() < 0.3)
            arrivals = (*arrivals, SignalArrived(REVISION, write_revision(to)))
        super().advance(*arrivals)
        if asked and not self.parked:
            self._check_move()

    def _check_move(self) -> None:
        program: Any = self.run.execution.program
        try:
            last = program.revisions[-1]
        except (EngineError, IndexError):
            raise Broken(f"D5: {self.key} has not taken its revision up") from None
        if [reason for reason in last.reasons if reason not in _ALLOWED]:
            raise Broken(f"D5: {self.key} does not move to the same definition: {last.reasons}")
        self.world.moves += not last.reasons


class MovingWorld(World):
    """A case whose runs move."""

    player = MovingPlayer
    moves = 0

"""Verbs whose branches run beside each other: fork, and pick, where the first wins.

A branch of a fork sees the state at the fork and its own writes. When enough have succeeded, the others are cancelled,
awaited and undone; then the writes of those that succeeded are published, in the order of their names. Where a loser
cannot be undone, the node fails.
"""

from __future__ import annotations

from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Line, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import DONE, Erred, NodeOutcome, Succeeded
from holdfast.programs.definition.model import ForkVerb, PickVerb


class Forks(Behaviour):
    """Branches, joined when all or enough of them have succeeded."""

    def begin(self, engine: Interpreter, visit: Visit, verb: ForkVerb) -> None:
        visit.memo.update(writes={}, failed=0, gave={})
        scope = visit.within.scope
        for branch in verb.branches:
            engine.open_line(visit, branch.name, branch.do, scope.branch())
        if not verb.branches:
            engine.succeed(visit)

    def line_over(self, engine: Interpreter, visit: Visit, verb: ForkVerb, line: Line, outcome: NodeOutcome) -> None:
        memo = visit.memo
        if isinstance(outcome, Succeeded):
            if verb.gives is not None:
                memo["gave"][line.key] = engine.context.fill_in(line, verb.gives)
            memo["writes"][line.key] = [[list(path), value] for path, value in line.scope.writes()]
            if len(memo["writes"]) == _wanted(verb):
                names = [branch.name for branch in verb.branches]
                visit.lost = [name for name in names if name not in memo["writes"] and name not in visit.lines]
                engine.close(visit, DONE)
            return
        memo["failed"] += 1
        if not isinstance(outcome, Erred) or len(verb.branches) - memo["failed"] < _wanted(verb):
            engine.close(visit, outcome)

    def tolerates(self, visit: Visit, verb: ForkVerb) -> bool:
        failed: int = visit.memo["failed"]
        return len(verb.branches) - failed > _wanted(verb)

    def all_gone(self, engine: Interpreter, visit: Visit, verb: ForkVerb, outcome: NodeOutcome) -> None:
        if isinstance(outcome, Succeeded):
            scope = visit.within.scope
            for name in sorted(visit.memo["writes"]):
                for path, value in visit.memo["writes"][name]:
                    scope.write(tuple(path), value)
            if verb.gives is not None:
                outcome = Succeeded(visit.memo["gave"])
        engine.over(visit, outcome)


def _wanted(verb: ForkVerb) -> int:
    return len(verb.branches) if verb.join is None else verb.join


class Picks(Behaviour):
    """Several waits. The first that is over decides, and what it wrote is published; the others are cancelled, awaited
    and undone before it goes on."""

    def begin(self, engine: Interpreter, visit: Visit, verb: PickVerb) -> None:
        scope = visit.within.scope
        for option in verb.options:
            engine.open_line(visit, option.trigger.name, (option.trigger, *option.do), scope.branch())

    def passed(self, engine: Interpreter, visit: Visit, verb: PickVerb, line: Line, outcome: Succeeded) -> None:
        if line.at != 1 or "winner" in visit.memo:
            return
        if outcome.skipped:  # its condition was false: it is no option
            engine.drop_line(line)
            return
        visit.memo.update(winner=line.key, names=line.names)
        for path, value in line.scope.writes():
            visit.within.scope.write(path, value)
        line.over = True  # what it does then begins when the others are gone
        del visit.lines[line.key]
        visit.lost, others = list(visit.lines), list(visit.lines.values())
        for other in others:
            engine.drop_line(other)
        if not others:
            self._go_on(engine, visit, verb)

    def line_dropped(self, engine: Interpreter, visit: Visit, verb: PickVerb, line: Line) -> None:
        if visit.lines:
            return
        if "winner" not in visit.memo:  # no option was left
            engine.succeed(visit)
        elif deeds := engine.deeds.given_up(visit):
            engine.undo(visit, deeds)
        else:
            self.undone(engine, visit, verb)

    def undone(self, engine: Interpreter, visit: Visit, verb: PickVerb) -> None:
        if (error := engine.undo_error(visit)) is None:
            self._go_on(engine, visit, verb)
        else:
            engine.fail(visit, error)

    def _go_on(self, engine: Interpreter, visit: Visit, verb: PickVerb) -> None:
        """Do what the winner says."""
        names, visit.lost = visit.memo.pop("names"), []
        (option,) = [option for option in verb.options if option.trigger.name == visit.memo["winner"]]
        line = engine.open_line(visit, option.trigger.name, (option.trigger, *option.do), names=names)
        line.at = 1

    def line_over(self, engine: Interpreter, visit: Visit, verb: PickVerb, line: Line, outcome: NodeOutcome) -> None:
        engine.close(visit, outcome)

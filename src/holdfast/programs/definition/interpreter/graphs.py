"""The verb that runs nodes by their dependencies.

A node begins when every one of its ``needs`` has succeeded or was skipped, and every one of its ``after`` is over or
will never begin. It sees the state at the graph's beginning and the writes of all that it depends on. A failure blocks
what needs it; the rest finishes, then the graph fails. Writes are published when it is over, in the order of the graph.
"""

from __future__ import annotations

from typing import Final

from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Line, Scope, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import Erred, Finished, NodeError, NodeOutcome, Succeeded
from holdfast.programs.definition.model import GraphVerb, Node
from holdfast.programs.definition.walks import ancestors, in_order

_MET: Final = frozenset({"success", "skipped"})
_UNMET: Final = frozenset({"failed", "blocked"})


class Graphs(Behaviour):
    """Nodes, begun as their dependencies allow."""

    def begin(self, engine: Interpreter, visit: Visit, verb: GraphVerb) -> None:
        visit.memo.update(states={}, writes={}, error=None)
        self._go_on(engine, visit, verb)

    def _go_on(self, engine: Interpreter, visit: Visit, verb: GraphVerb) -> None:
        states = visit.memo["states"]
        names = {node.name for node in verb.nodes}
        for node in in_order(verb):
            if node.name in states:
                continue
            if any(states.get(name) in _UNMET for name in node.needs):
                states[node.name] = "blocked"
            elif _is_ready(node, states, names):
                states[node.name] = "running"
                engine.open_line(visit, node.name, (node,), self._scope(engine, visit, verb, node))
        if visit.lines:
            return
        self._publish(visit.within.scope, visit, names, verb)
        error = visit.memo["error"]
        if error is None:
            engine.succeed(visit, dict(states))
        else:
            engine.fail(visit, NodeError(*error))

    def _scope(self, engine: Interpreter, visit: Visit, verb: GraphVerb, node: Node) -> Scope:
        scope = visit.within.scope.branch()
        self._publish(scope, visit, ancestors(node, verb), verb)
        return scope.branch()  # what it got from others is not its own write

    def _publish(self, scope: Scope, visit: Visit, names: set[str], verb: GraphVerb) -> None:
        for node in in_order(verb):
            if node.name in names:
                for path, value in visit.memo["writes"].get(node.name, ()):
                    scope.write(tuple(path), value)

    def line_over(self, engine: Interpreter, visit: Visit, verb: GraphVerb, line: Line, outcome: NodeOutcome) -> None:
        memo = visit.memo
        if isinstance(outcome, Finished):
            engine.close(visit, outcome)
            return
        if isinstance(outcome, Succeeded):
            memo["states"][line.key] = engine.marks[str(line.key)].state
            memo["writes"][line.key] = [[list(path), value] for path, value in line.scope.writes()]
        elif isinstance(outcome, Erred):
            memo["states"][line.key] = "failed"
            if memo["error"] is None:
                error = outcome.error
                memo["error"] = [getattr(error, name) for name in error.__struct_fields__]
        self._go_on(engine, visit, verb)


def _is_ready(node: Node, states: dict[str, str], names: set[str]) -> bool:
    needed = all(name not in names or states.get(name) in _MET for name in node.needs)
    return needed and all(name not in names or states.get(name, "running") != "running" for name in node.after)

"""The verb that repeats: over items, some times, while a condition holds or until it does; one or several at once.

``memo`` has ``items`` (where it goes over some), ``count`` (None where nobody knows), ``next`` (the iteration to begin)
and ``out``, what the iterations gave.
"""

from __future__ import annotations

from typing import Any

from holdfast.expressions.engine import CannotEvaluate
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Line, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import Erred, NodeError, NodeOutcome, Succeeded
from holdfast.programs.definition.model import RepeatVerb


class Loops(Behaviour):
    """Iterations of a list of nodes."""

    def begin(self, engine: Interpreter, visit: Visit, verb: RepeatVerb) -> None:
        memo = visit.memo
        memo["items"] = memo["count"] = None
        if verb.over is not None:
            memo["items"] = _items(engine.context.fill(visit, verb.over))
            memo["count"] = len(memo["items"])
        elif verb.times is not None:
            memo["count"] = _times(engine.context.fill(visit, verb.times))
        memo["next"] = 0
        memo["out"] = []
        self._go_on(engine, visit, verb)

    def _go_on(self, engine: Interpreter, visit: Visit, verb: RepeatVerb) -> None:
        """Begin as many iterations as may run now; be over where none is left."""
        memo, most = visit.memo, verb.at_once or 1
        while len(visit.lines) < most and self._has_next(engine, visit, verb):
            at = memo["next"]
            memo["next"] += 1
            if verb.gives is not None or verb.keep_errors:  # else a checkpoint would grow with every iteration
                memo["out"].append(None)
            names = {verb.index: at}
            if memo["items"] is not None:
                names[verb.item] = memo["items"][at]
            scope = visit.within.scope.branch() if verb.at_once else None
            engine.open_line(visit, at, verb.do, scope, names)
        if not visit.lines and visit.closing is None and visit.phase == "body":
            engine.succeed(visit, None if verb.gives is None and not verb.keep_errors else memo["out"])

    def _has_next(self, engine: Interpreter, visit: Visit, verb: RepeatVerb) -> bool:
        memo = visit.memo
        at: int = memo["next"]
        if memo.get("enough"):
            return False
        if memo["count"] is not None:
            return at < int(memo["count"])
        if verb.while_ is not None and not engine.context.holds(visit, verb.while_, **{verb.index: at}):
            return False
        if verb.most is not None and at >= verb.most:
            text = f"{visit.node.name} has not come to its end after {verb.most} iterations"
            engine.fail(visit, NodeError("business", text, "REPEATED_TOO_OFTEN"))
            return False
        return True

    def line_over(self, engine: Interpreter, visit: Visit, verb: RepeatVerb, line: Line, outcome: NodeOutcome) -> None:
        if isinstance(outcome, Erred) and verb.keep_errors:
            self._keep(visit, line, {"error": outcome.error.shown()})
        elif isinstance(outcome, Succeeded):
            if verb.gives is not None or verb.keep_errors:
                value = engine.context.fill_in(line, verb.gives)
                self._keep(visit, line, {"value": value} if verb.keep_errors else value)
            if verb.until is not None and engine.context.holds_in(line, verb.until):
                visit.memo["enough"] = True
        else:
            engine.close(visit, outcome)
            return
        self._go_on(engine, visit, verb)

    def tolerates(self, visit: Visit, verb: RepeatVerb) -> bool:
        return verb.keep_errors

    def _keep(self, visit: Visit, line: Line, value: Any) -> None:
        visit.memo["out"][line.key] = value


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return [{"key": key, "value": value[key]} for key in sorted(value)]
    raise CannotEvaluate(f"`over` is a list or a map, not {value!r:.60}")


def _times(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise CannotEvaluate(f"`times` is a whole number, not {value!r:.60}")

"""What a verb does, as the interpreter asks for it. One object serves all visits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import EngineError
from holdfast.journal.payload import Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.programs.definition.interpreter.frames import Line, Visit
from holdfast.programs.definition.interpreter.outcomes import NodeOutcome, Succeeded

if TYPE_CHECKING:
    from holdfast.programs.definition.interpreter.interpreter import Interpreter


class Behaviour:
    """The usual verb. All of it but ``begin`` has a default. Each may raise CannotEvaluate, which fails the node."""

    def begin(self, engine: Interpreter, visit: Visit, verb: Any) -> None:
        """Start it."""
        raise NotImplementedError

    def settled(self, engine: Interpreter, visit: Visit, verb: Any, outcome: Outcome | None) -> None:
        """Its promise is settled."""
        raise EngineError(f"node {visit.node.name} waits for no promise")

    def line_over(self, engine: Interpreter, visit: Visit, verb: Any, line: Line, outcome: NodeOutcome) -> None:
        """One of its lines is over, and was not cancelled. As a rule the verb is over then, in the same way."""
        engine.over(visit, outcome)

    def tolerates(self, visit: Visit, verb: Any) -> bool:
        """Whether it goes on when one more of its lines fails."""
        return False

    def line_dropped(self, engine: Interpreter, visit: Visit, verb: Any, line: Line) -> None:
        """A line that the verb itself cancelled is gone."""

    def passed(self, engine: Interpreter, visit: Visit, verb: Any, line: Line, outcome: Succeeded) -> None:
        """A node of one of its lines has succeeded."""

    def all_gone(self, engine: Interpreter, visit: Visit, verb: Any, outcome: NodeOutcome) -> None:
        """It was closed with this outcome, and nothing of it is left."""
        engine.over(visit, outcome)

    def undone(self, engine: Interpreter, visit: Visit, verb: Any) -> None:
        """What it wanted to be undone is undone."""
        raise EngineError(f"node {visit.node.name} undoes nothing")

    def is_awaited(self, engine: Interpreter, visit: Visit, verb: Any) -> bool:
        """Whether its call is stopped and awaited when the visit is closed, and not given up at once."""
        return False

    def succeeded_late(self, engine: Interpreter, visit: Visit, verb: Any, promise: PromiseId, result: Payload) -> None:
        """Its call, which was awaited only to be undone, has succeeded."""

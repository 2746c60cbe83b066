"""Verbs that wait for nothing themselves: set, switch, a bare block, check, end, raise."""

from __future__ import annotations

from typing import Any

from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.frames import Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.outcomes import Finished, NodeError
from holdfast.programs.definition.model import BlockVerb, CheckVerb, EndVerb, RaiseVerb, SetVerb, SwitchVerb
from holdfast.tasks.forms import problems


class Sets(Behaviour):
    """All values are had before the first is written."""

    def begin(self, engine: Interpreter, visit: Visit, verb: SetVerb) -> None:
        found = [(path, engine.context.fill(visit, value)) for path, value in verb.values]
        for path, value in found:
            engine.context.write(visit, path, value)
        engine.succeed(visit)


class Switches(Behaviour):
    """The first case whose condition holds."""

    def begin(self, engine: Interpreter, visit: Visit, verb: SwitchVerb) -> None:
        for case in verb.cases:
            if case.when is None or engine.context.holds(visit, case.when):
                engine.open_line(visit, "", case.do)
                return
        engine.succeed(visit)


class Blocks(Behaviour):
    """Nodes as one."""

    def begin(self, engine: Interpreter, visit: Visit, verb: BlockVerb) -> None:
        names = {name: engine.context.fill(visit, value) for name, value in verb.let.items()}
        engine.open_line(visit, "", verb.do, names=names)


class Checks(Behaviour):
    """A value that must fit a schema."""

    def begin(self, engine: Interpreter, visit: Visit, verb: CheckVerb) -> None:
        found = problems(verb.schema, engine.context.fill(visit, verb.value))
        if not found:
            engine.succeed(visit)
            return
        text = "; ".join(f"{place or '/'}: {problem}" for place, problem in found)
        details = {"problems": [{"at": place, "problem": problem} for place, problem in found]}
        engine.fail(visit, NodeError("business", text, "MISFIT", node=visit.node.name, details=details))


class Ends(Behaviour):
    """The run is over, whatever is around the node."""

    def begin(self, engine: Interpreter, visit: Visit, verb: EndVerb) -> None:
        engine.over(visit, Finished(engine.context.fill(visit, verb.result)))


class Raises(Behaviour):
    """An error of the author's own."""

    def begin(self, engine: Interpreter, visit: Visit, verb: RaiseVerb) -> None:
        code, message = engine.context.fill(visit, verb.code), engine.context.fill(visit, verb.message)
        details: Any = engine.context.fill(visit, verb.details)
        text = str(message or code)
        engine.fail(visit, NodeError("business", text, str(code), node=visit.node.name, details=details))

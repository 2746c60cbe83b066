"""How visits are closed, from within or from outside.

Everything inside is cancelled; a call that may have begun is stopped and awaited, where it must be. When nothing of it
is left, what was done in it and is lost is undone, and then it is over. Errors that only the author can mend are raised
before anything is closed, unless something around takes care of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import InvalidDefinition
from holdfast.journal.payload import Outcome
from holdfast.journal.promise import PromiseId
from holdfast.programs.cleanup import CleanupWait
from holdfast.programs.definition.interpreter.deeds import Deeds
from holdfast.programs.definition.interpreter.frames import Deed, Line, Visit
from holdfast.programs.definition.interpreter.outcomes import DROPPED, Dropped, Erred, NodeError, NodeOutcome, Succeeded
from holdfast.programs.definition.model import Node, RunVerb

if TYPE_CHECKING:
    from holdfast.programs.definition.interpreter.interpreter import Interpreter


class Closer:
    """Closes the visits of one run. ``deeds`` are what it has done and can undo; ``later`` has something done soon."""

    def __init__(self, engine: Interpreter, later: Callable[..., None]) -> None:
        self.cleanup = CleanupWait()
        self.fails = False  # an error has come up that ends the run
        self.bounds_cleanup = False  # not in older editions
        self.deeds = Deeds(engine.scribe, self._wait_for_undo, self._undone)
        self._engine = engine
        self._later = later

    # -- closing -------------------------------------------------------------------------------------------------------

    def close(self, visit: Visit, outcome: NodeOutcome) -> None:
        """Cancel all that is in a visit, and when that is gone and undone, be over with this outcome.

        What a visit does that is cancelled itself is undone by whoever cancelled it.
        """
        if visit.phase == "over":
            return
        if type(outcome) is Dropped:
            self._engine.give_up_deadline(visit)
        if visit.closing is not None:
            if type(outcome) is Dropped or (visit.expired and type(visit.closing) is not Dropped):
                visit.closing = outcome
            return
        self.park_unless_caught(visit, outcome)
        self.fails = self.fails or (isinstance(outcome, Erred) and not self._may_survive(visit))
        visit.closing = outcome
        visit.lost.extend(visit.lines)
        if visit.undoing is None and visit.promise is not None:
            self._let_go(visit, visit.promise)
        for line in list(visit.lines.values()):
            self.drop_line(line)
        self.close_if_gone(visit)

    def drop_line(self, line: Line) -> None:
        """Cancel a line, wherever it is."""
        if line.over:
            return
        if line.pause is not None:
            self._engine.abandon(line.pause)
            line.pause = None
        if line.visit is None:
            self._engine.line_over(line, DROPPED)
        else:
            self.close(line.visit, DROPPED)

    def _let_go(self, visit: Visit, promise: PromiseId) -> None:
        """A visit is closed while it waits. A call that may have begun is stopped and awaited, where it must be."""
        engine, verb = self._engine, visit.node.verb
        awaited = visit.phase == "body" and engine.verbs[type(verb)].is_awaited(engine, visit, verb)
        if awaited and promise not in engine.fresh:
            engine.scribe.stop(promise)
        else:
            engine.forget(visit)

    def close_if_gone(self, visit: Visit) -> None:
        """Be over with a visit that is closed, where nothing of it is left and all is undone."""
        if visit.phase == "over" or visit.closing is None or visit.lines or visit.promise is not None:
            return
        if type(visit.closing) is not Dropped and (deeds := self.deeds.given_up(visit)):
            self.undo(visit, deeds)
            return
        outcome, visit.closing = visit.closing, None
        if type(outcome) is not Dropped:
            error = self.undo_error(visit)  # one that fails anyway keeps its own error
            outcome = Erred(error.at(visit.node.name)) if error is not None and type(outcome) is Succeeded else outcome
        engine, verb = self._engine, visit.node.verb
        if visit.line is None:
            engine.root_over(outcome)
        elif visit.phase == "handler":
            engine.leave(visit, outcome)
        else:
            engine.verbs[type(verb)].all_gone(engine, visit, verb, outcome)

    # -- the last children of a run ------------------------------------------------------------------------------------

    def leave_settled(self, _: Visit, outcome: Outcome | None) -> None:
        """The word has come, or the time is over."""
        self.cleanup.is_over = True

    def leaves_children(self) -> bool:
        """Bound the wait of a run that ends for its children; where it is over, close the visits that waited for them.
        Gives whether there are such."""
        engine, cleanup = self._engine, self.cleanup
        is_ending = self.fails or engine.root.closing is not None
        visits = self._with_children() if is_ending and self.bounds_cleanup else []
        if visits and not cleanup.promises and not cleanup.is_over:
            cleanup.begin(engine.scribe, engine.routine.definition.cleanup_timeout)
            engine.waiting.update(dict.fromkeys(cleanup.promises, ("leave", engine.root)))
        if cleanup.promises and (cleanup.is_over or not visits):
            for promise in cleanup.promises:
                engine.waiting.pop(promise, None)
            cleanup.end(engine.scribe)
        if not visits or not cleanup.is_over:
            return False
        children = [visit.promise for visit in visits if visit.promise is not None]
        cleanup.leave(children)
        for visit, promise in zip(visits, children, strict=True):
            engine.waiting.pop(promise)
            visit.promise = None
            self._later(self.close_if_gone, visit)
        return True

    def _with_children(self) -> list[Visit]:
        """The visits that are closed, and wait for the ends of their children."""
        visits = [place for what, place in self._engine.waiting.values() if what == "call" and isinstance(place, Visit)]
        return [visit for visit in visits if visit.closing is not None and isinstance(visit.node.verb, RunVerb)]

    def _may_survive(self, visit: Visit) -> bool:
        """Whether the run may go on after an error of this visit: something takes care of it, or tries it again."""
        line, verbs = visit.line, self._engine.verbs
        if visit.phase != "handler" and _minds_errors(visit.node):
            return True
        while line is not None and line.owner.line is not None:
            owner, verb = line.owner, line.owner.node.verb
            if owner.closing is not None:
                return True
            if owner.phase != "handler" and (_minds_errors(owner.node) or verbs[type(verb)].tolerates(owner, verb)):
                return True
            line = owner.line
        return False

    # -- undoing -------------------------------------------------------------------------------------------------------

    def undo(self, visit: Visit, deeds: list[Deed]) -> None:
        """Undo these on behalf of a visit, which is told when it is done."""
        self.deeds.undo(visit, deeds)

    def undo_error(self, visit: Visit) -> NodeError | None:
        """What went wrong when something was undone on behalf of a visit."""
        failures = visit.memo.pop("not_undone", ())
        return NodeError("transport", f"not all could be undone: {'; '.join(failures)}", "UNDO") if failures else None

    def _wait_for_undo(self, visit: Visit, promise: PromiseId) -> None:
        visit.promise = promise
        self._engine.waiting[promise] = ("undo", visit)

    def undo_settled(self, visit: Visit, outcome: Outcome | None) -> None:
        """One of what is undone on behalf of a visit is, or cannot be."""
        visit.promise = None
        self.deeds.settled(visit, outcome)

    def _undone(self, visit: Visit) -> None:
        if visit.closing is not None:  # it was cancelled meanwhile
            self.close_if_gone(visit)
        elif visit.line is not None:
            self._engine.act(visit, "undone")

    # -- errors that only the author can mend --------------------------------------------------------------------------

    def park_unless_caught(self, visit: Visit, outcome: NodeOutcome) -> None:
        """Raise InvalidDefinition where nothing takes care of an error that parks: before anything else is done."""
        if not isinstance(outcome, Erred) or not outcome.error.parks or self._is_caught(visit):
            return
        error = outcome.error.at(visit.node.name)
        raise InvalidDefinition(
            f"node {error.node}: {error.message}. Nothing is undone: mend the definition, migrate the run to "
            "it, and resume it; or cancel it."
        )

    def _is_caught(self, visit: Visit) -> bool:
        """Whether something around a visit takes care of its error."""
        if visit.phase != "handler" and visit.node.on.failure is not None:
            return True
        line = visit.line
        while line is not None:
            owner = line.owner
            if owner.closing is not None:  # it is cancelled, and nobody asks how it ended
                return True
            if owner.phase != "handler":
                verb = owner.node.verb
                if owner.node.on.failure is not None or self._engine.verbs[type(verb)].tolerates(owner, verb):
                    return True
            line = owner.line
        return False


def _minds_errors(node: Node) -> bool:
    return node.on.failure is not None or node.on.timeout is not None or node.retry is not None

"""The interpreter's heart: how visits of nodes begin and are over. How they are closed is in ``closer.py``.

===========  ==================================  =========================================================
phase        what happens                        what comes next
===========  ==================================  =========================================================
body         the verb succeeds                   ``on.success``, else the next node
body         the verb fails, tries are left      resting, for the retry's delay
body         the verb fails                      ``on.timeout`` or ``on.failure``, else outwards
resting      the delay is over                   body, from its beginning
handler      the handler's line is over          the next node; its own error goes outwards
body         the deadline comes                  everything inside is cancelled, then a failure: a time-out
any          it is cancelled from outside        everything inside is cancelled, then outwards
===========  ==================================  =========================================================

Whatever a node does comes from its verb (``verbs.py`` has the table). Nothing recurses along a line: what comes next is
put on the agenda, so that a loop may have any number of iterations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.attribution import decider_of
from holdfast.journal.payload import Err, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Scribe
from holdfast.programs.definition.interpreter.behaviour import Behaviour
from holdfast.programs.definition.interpreter.closer import Closer
from holdfast.programs.definition.interpreter.context import ExecutionContext
from holdfast.programs.definition.interpreter.frames import Line, LineKey, Scope, Visit
from holdfast.programs.definition.interpreter.marks import NodeMark, kept_end, mark_end
from holdfast.programs.definition.interpreter.outcomes import (
    DONE,
    DROPPED,
    Dropped,
    Erred,
    NodeError,
    NodeOutcome,
    Succeeded,
    error_of,
    expression_error,
)
from holdfast.programs.definition.interpreter.routine import Routine, delay_of
from holdfast.programs.definition.model import Nodes

TURN_LIMIT: Final = 1_000
"""How many nodes are visited without a wait. Then the run pauses for one turn: others must have theirs, too."""


class Interpreter:
    """One run of a definition: where it stands, and how it goes on."""

    def __init__(
        self,
        routine: Routine,
        verbs: Mapping[type, Behaviour],
        scribe: Scribe,
        context: ExecutionContext,
    ) -> None:
        self.routine = routine
        self.verbs = verbs
        self.scribe = scribe
        self.context = context
        self.closer = Closer(self, self._later)
        self.deeds = self.closer.deeds
        self.close = self.closer.close
        self.drop_line = self.closer.drop_line
        self.undo = self.closer.undo
        self.undo_error = self.closer.undo_error
        self._undo_settled = self.closer.undo_settled
        self._leave_settled = self.closer.leave_settled
        self.outcome: NodeOutcome | None = None
        self.waiting: dict[PromiseId, tuple[str, Visit | Line]] = {}
        self.aside: dict[str, list[Any]] = {}  # signals that no wait has matched yet, each with its sender
        self.marks: dict[str, NodeMark] = {}
        self.secrets: set[str | bytes | int | float] = set()
        self.settling: PromiseId | None = None  # what the verb that acts now was waiting for
        self.root = Visit(routine.root, None)
        self.scope = Scope({})  # of the first line, and so of the run
        self.fresh: set[PromiseId] = set()  # calls since the last arrival: nobody can have begun them
        self._agenda: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._count = 0

    # -- from outside --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start at the first node."""
        definition = self.routine.definition
        state = {name: schema["default"] for name, schema in definition.state.items() if "default" in schema}
        self.context.note_start()
        self.scope = Scope(self.routine.fit_state(state))
        line = self.root.lines[""] = Line(definition.steps, self.root, "", self.scope, {})
        self._later(self._set_reference, line)
        self._later(self.proceed, line)

    def _set_reference(self, line: Line) -> None:
        try:
            self.context.set_first_reference(line)
        except CannotEvaluate as error:
            raise InvalidDefinition(f"the business reference cannot be had: {error}") from None

    def settle(self, promise: PromiseId, outcome: Outcome | None) -> None:
        """A promise is settled. One that nobody waits for any more changes nothing."""
        self._count = 0
        self.fresh.clear()
        self.context.turns += 1
        found = self.waiting.pop(promise, None)
        if found is not None:
            what, place = found
            self._later(getattr(self, f"_{what}_settled"), place, outcome)

    def cancel(self) -> None:
        """The run is cancelled. What is being undone is not interrupted, and of a run that has done nothing yet nothing
        is done."""
        self._count = 0
        self.fresh.clear()
        if self.is_fresh:
            self._agenda.clear()
        if self.outcome is None:
            self._later(self.close, self.root, DROPPED)

    def go(self) -> None:
        """Go on until everything waits. Raises InvalidDefinition where only the author can mend what went wrong."""
        agenda = self._agenda
        while agenda or self.closer.leaves_children():
            act, arguments = agenda.popleft()
            act(*arguments)

    def _later(self, act: Callable[..., None], *arguments: Any) -> None:
        self._agenda.append((act, arguments))

    # -- lines ---------------------------------------------------------------------------------------------------------

    def open_line(
        self,
        visit: Visit,
        key: LineKey,
        nodes: Nodes,
        scope: Scope | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> Line:
        """Begin a list of nodes inside a visit."""
        above = visit.within
        line = Line(nodes, visit, key, scope or above.scope, {**above.names, **(names or {})})
        visit.lines[key] = line
        self._later(self.proceed, line)
        return line

    def proceed(self, line: Line) -> None:
        """Visit the next node of a line, or be over with it."""
        if line.over or line.visit is not None or line.pause is not None:
            return
        if line.at == len(line.nodes):
            self.line_over(line, DONE)
        elif self._count >= TURN_LIMIT:
            line.pause = self.scribe.timer(0)
            self.waiting[line.pause] = ("pause", line)
        else:
            self._count += 1
            visit = line.visit = Visit(line.nodes[line.at], line, lines={}, memo={}, lost=[])
            visit.entered = self.deeds.made
            self._enter(visit)

    def _pause_settled(self, line: Line, outcome: Outcome | None) -> None:
        line.pause = None
        self.proceed(line)

    def line_over(self, line: Line, outcome: NodeOutcome) -> None:
        line.over = True
        visit = line.owner
        visit.lines.pop(line.key, None)
        if visit.closing is not None:
            self.closer.close_if_gone(visit)
        elif visit.phase == "handler":
            self._handler_over(visit, outcome)
        elif visit.line is None:
            self.root_over(outcome)
        elif type(outcome) is Dropped:
            self.act(visit, "line_dropped", line)
        else:
            self.act(visit, "line_over", line, outcome)

    # -- visits --------------------------------------------------------------------------------------------------------

    def _enter(self, visit: Visit) -> None:
        node = visit.node
        self.marks.setdefault(node.name, NodeMark("")).begin()
        try:
            if node.when is not None and not self.context.holds(visit, node.when):
                self.leave(visit, Succeeded(None, skipped=True))
                return
            self._set_deadline(visit)
        except CannotEvaluate as error:
            self.over(visit, Erred(expression_error(error, node)))
            return
        self._begin(visit)

    def _begin(self, visit: Visit) -> None:
        visit.begun = self.deeds.made
        self.act(visit, "begin")

    def _set_deadline(self, visit: Visit) -> None:
        timeout, context, ends = visit.node.timeout, self.context, list[int]()
        if timeout is not None and timeout.whole is not None:
            ends.append(context.span(visit, timeout.whole))
        if timeout is not None and timeout.at is not None:
            ends.append(context.until(visit, timeout.at))
        if not ends:
            return
        visit.deadline = self.scribe.timer(min(ends))
        self.waiting[visit.deadline] = ("deadline", visit)

    def give_up_deadline(self, visit: Visit) -> None:
        if visit.deadline is not None:
            self.abandon(visit.deadline)
            visit.deadline = None

    def act(self, visit: Visit, act: str, *arguments: Any) -> None:
        """Let the verb act. Where an expression of it fails, the node fails."""
        verb = visit.node.verb
        try:
            getattr(self.verbs[type(verb)], act)(self, visit, verb, *arguments)
        except CannotEvaluate as error:
            self.close(visit, Erred(expression_error(error, visit.node)))

    def call(self, visit: Visit, promise: PromiseId) -> None:
        """The visit waits for this promise."""
        visit.promise = promise
        self.waiting[promise] = ("call", visit)
        self.fresh.add(promise)

    def forget(self, visit: Visit) -> None:
        """The visit no longer waits for its promise."""
        if visit.promise is not None:
            self.abandon(visit.promise)
            visit.promise = None

    def _call_settled(self, visit: Visit, outcome: Outcome | None) -> None:
        promise, visit.promise = visit.promise, None
        self.settling = promise
        if "token" in self.routine.names_read and promise is not None:
            self.context.bind(visit, token=self.context.token(promise))
        if visit.closing is None:
            self.act(visit, "settled", outcome)
            return
        if isinstance(outcome, Ok) and promise is not None:
            verb = visit.node.verb
            self.verbs[type(verb)].succeeded_late(self, visit, verb, promise, outcome.value)
        self.closer.close_if_gone(visit)

    def _deadline_settled(self, visit: Visit, outcome: Outcome | None) -> None:
        visit.deadline = None
        if visit.phase in ("body", "resting"):
            visit.expired = True
            text = f"{visit.node.name} took longer than its time-out"
            self.close(visit, Erred(NodeError("timeout", text, "TIMEOUT", node=visit.node.name)))

    def abandon(self, promise: PromiseId) -> None:
        self.waiting.pop(promise, None)
        self.scribe.abandon(promise)

    def over(self, visit: Visit, outcome: NodeOutcome) -> None:
        """The body of a visit is over; nothing of it is left."""
        self.closer.park_unless_caught(visit, outcome)
        if type(outcome) is Succeeded:
            self._succeeded(visit, outcome)
        elif type(outcome) is Erred:
            self._erred(visit, outcome.error.at(visit.node.name))
        else:
            self.leave(visit, outcome)

    def _succeeded(self, visit: Visit, outcome: Succeeded) -> None:
        node = visit.node
        if node.into is not None:
            try:
                self.context.write(visit, node.into, outcome.value)
            except CannotEvaluate as error:
                self.over(visit, Erred(NodeError("consistency", str(error), "STATE", node=node.name)))
                return
        self._handle(visit, node.on.success, outcome)

    def _erred(self, visit: Visit, error: NodeError) -> None:
        if not visit.expired and self._retries(visit, error):
            return
        handlers = visit.node.on
        handler = handlers.failure
        if error.kind == "timeout" and handlers.timeout is not None:
            handler = handlers.timeout
        self._handle(visit, handler, Erred(error))

    def _handle(self, visit: Visit, nodes: Nodes | None, outcome: NodeOutcome) -> None:
        """Do what the handler says, or nothing where it has no nodes; without one go on with the outcome itself."""
        self.give_up_deadline(visit)
        if nodes is None:
            self.leave(visit, outcome)
            return
        visit.error = outcome
        visit.phase = "handler"
        names = {"error": outcome.error.shown()} if isinstance(outcome, Erred) else {}
        kind = "success" if isinstance(outcome, Succeeded) else "failure"
        if kind == "failure" and nodes is visit.node.on.timeout:
            kind = "timeout"
        self.open_line(visit, f"on.{kind}", nodes, names=names)

    def _handler_over(self, visit: Visit, outcome: NodeOutcome) -> None:
        if type(outcome) is not Succeeded:
            self.leave(visit, outcome)
            return
        handled = visit.error
        failed = isinstance(handled, Erred)
        value = handled.value if isinstance(handled, Succeeded) else None
        self.leave(visit, Succeeded(value, skipped=failed), handled.error if isinstance(handled, Erred) else None)

    def _retries(self, visit: Visit, error: NodeError) -> bool:
        """Whether the visit rests and begins again. Calls are tried again by the kernel, which needs no node for it."""
        policy = self.routine.retry(visit.node)
        if policy is None or self.routine.is_tried_by_kernel(visit.node.verb):
            return False
        if visit.attempt >= policy.max or (policy.on and error.kind not in policy.on) or not error.may_be_retried:
            return False
        delay = delay_of(policy, visit.attempt, self.scribe)
        visit.attempt += 1
        visit.phase = "resting"
        visit.memo, visit.lost = {}, []
        self.marks[visit.node.name].state = "retrying"
        visit.promise = self.scribe.timer(delay)
        self.waiting[visit.promise] = ("rest", visit)
        return True

    def _rest_settled(self, visit: Visit, outcome: Outcome | None) -> None:
        visit.promise = None
        visit.phase = "body"
        self.marks[visit.node.name].state = "running"
        self._begin(visit)

    def leave(self, visit: Visit, outcome: NodeOutcome, handled: NodeError | None = None) -> None:
        """A visit is over for good: tell its line."""
        visit.phase = "over"
        node, line = visit.node, visit.within
        mark = self.marks[node.name]
        mark_end(mark, outcome, handled)
        if node.name in self.routine.nodes_read:
            self.context.kept[node.name] = kept_end(mark, outcome, handled, visit.memo.get("by"))
        line.visit = None
        if type(outcome) is Dropped and "not_undone" in visit.memo:  # whoever cancelled it must know
            line.owner.memo.setdefault("not_undone", []).extend(visit.memo["not_undone"])
        if type(outcome) is Succeeded:
            line.at += 1
            self._later(self.proceed, line)
            owner = line.owner
            if owner.phase == "body":
                verb = owner.node.verb
                self.verbs[type(verb)].passed(self, owner, verb, line, outcome if handled is None else DONE)
        else:
            self.line_over(line, outcome)

    # -- what verbs need -----------------------------------------------------------------------------------------------

    def succeed(self, visit: Visit, value: Any = None) -> None:
        """The verb went well."""
        self.over(visit, Succeeded(value))

    def fail(self, visit: Visit, error: NodeError) -> None:
        """The verb failed; what is left of it is cancelled first."""
        self.close(visit, Erred(error.at(visit.node.name)))

    def result_of(self, visit: Visit, outcome: Outcome | None) -> tuple[bool, Any]:
        """Whether a call went well, and its value. Where it did not, the visit fails."""
        self.note_decider(visit, decider_of(outcome))
        if isinstance(outcome, Err):
            self.fail(visit, error_of(outcome.failure))
            return False, None
        return True, self.routine.read(outcome.value) if isinstance(outcome, Ok) else None

    def note_decider(self, visit: Visit, who: str | None) -> None:
        """A person answered, sent or approved what a visit waited for. Kept where an expression may read it."""
        if who is not None and visit.node.name in self.routine.nodes_read:
            visit.memo["by"] = who

    # -- the end -------------------------------------------------------------------------------------------------------

    def root_over(self, outcome: NodeOutcome) -> None:
        self.root.phase = "over"
        self.outcome = outcome
        if isinstance(outcome, Erred | Dropped) and self.deeds.done:
            self.deeds.undo(self.root, self.deeds.done)

    @property
    def is_fresh(self) -> bool:
        """Whether no node was visited yet."""
        return bool(self._agenda) and not self.marks

    @property
    def is_over(self) -> bool:
        """Whether the run has ended, and all that had to be undone is undone."""
        return self.outcome is not None and self.root.undoing is None and self.root.promise is None

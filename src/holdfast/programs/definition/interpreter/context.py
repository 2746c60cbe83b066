"""The execution context: what expressions of a run see, and what they write.

The roots are ``start`` (the start payload), ``state`` and ``local`` (of the line's scope), ``run`` (the run itself),
``nodes`` (what became of earlier nodes), ``now`` (a recorded time), and the names that the line has bound: ``item``,
``index``, ``payload``, ``result``, ``error``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.events import Inherited
from holdfast.journal.promise import PromiseId
from holdfast.kernel.program import Scribe
from holdfast.programs.definition.interpreter.frames import REFERENCE, Line, Visit
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.interpreter.templates import storable
from holdfast.programs.definition.model import Path, Span, Value
from holdfast.programs.definition.spans import read_moment, span_of
from holdfast.runs.birth import id_in


class ExecutionContext:
    """What one run knows. Everything of it that is no argument is part of its checkpoint."""

    def __init__(
        self,
        routine: Routine,
        scribe: Scribe,
        tenant: str,
        id: str,
        start: Any,
        edition: int,
        inherited: Sequence[Inherited] = (),
    ) -> None:
        self.routine = routine
        self.start = start
        self.edition = edition
        self.started_at: str | None = None
        self.kept: dict[str, dict[str, Any]] = {}  # the root ``nodes``, as far as expressions read it
        self.turns = 0
        self._scribe = scribe
        self.tenant = tenant
        self._id = id
        self._inherited = inherited

    @property
    def id(self) -> str:
        """The run's own id; in what a fork has from another run, the id of that run."""
        part = self._part()
        return self._id if part is None else id_in(part.key)

    def token(self, promise: PromiseId) -> str:
        """The token of a wait, by the run that began it."""
        part = self._part()
        return str(promise if part is None else PromiseId(part.root, promise.path))

    def _part(self) -> Inherited | None:
        if not self._inherited:
            return None
        version = self._scribe.version
        return next((part for part in self._inherited if version < part.until), None)

    def note_start(self) -> None:
        """Record when the run began, where an expression asks for it."""
        if self.routine.reads_start_time:
            self.started_at = _time(self._scribe.now()).isoformat().replace("+00:00", "Z")

    def fill(self, visit: Visit, value: Value, **names: Any) -> Any:
        """A value with its expressions filled in. Raises CannotEvaluate."""
        return self.fill_in(visit.within, value, visit, **names)

    def fill_in(self, line: Line, value: Value, visit: Visit | None = None, **names: Any) -> Any:
        """The same as the last expression of a line would see it. Raises CannotEvaluate."""
        fill, reads = self.routine.templates.of(value)
        return fill(self._variables(line, visit, reads, names)) if reads else fill({})

    def holds(self, visit: Visit, condition: str, **names: Any) -> bool:
        """Whether a condition is true. Raises CannotEvaluate."""
        return self.holds_in(visit.within, condition, visit, **names)

    def holds_in(self, line: Line, condition: str, visit: Visit | None = None, **names: Any) -> bool:
        """Whether a condition is true at the end of a line. Raises CannotEvaluate."""
        formula = self.routine.templates.formula(condition)
        return formula.holds(self._variables(line, visit, formula.roots, names))

    def facts(self, visit: Visit, conditions: Iterable[str], names: Mapping[str, Any]) -> dict[str, Any]:
        """What these conditions read beside ``payload``, as it is now. They are evaluated later, and elsewhere."""
        reads = {read for text in conditions for read in self.routine.templates.formula(text).reads}
        variables = self._variables(visit.within, visit, {read[0] for read in reads}, names)
        found: dict[str, Any] = {}
        for root, *members in sorted(reads):
            if root != "payload" and root in variables:
                _copy(storable(variables[root]), found, [root, *members])
        return found

    def span(self, visit: Visit, span: Span, **names: Any) -> int:
        """A duration in microseconds; an expression may give a text, a duration or a number of seconds."""
        if isinstance(span, int):
            return span
        try:
            return span_of(self.fill(visit, span, **names))
        except ValueError as error:
            raise CannotEvaluate(str(error)) from None

    def until(self, visit: Visit, value: Value) -> int:
        """How long it is until a time, in microseconds; nothing where it is past."""
        try:
            time = read_moment(self.fill(visit, value))
        except ValueError as error:
            raise CannotEvaluate(str(error)) from None
        return max(0, round(time.timestamp() * 1e6) - self._scribe.now())

    def _variables(
        self, line: Line, visit: Visit | None, reads: Iterable[str], names: Mapping[str, Any]
    ) -> dict[str, Any]:
        scope = line.scope
        found: dict[str, Any] = {"start": self.start, "state": scope.state, "local": scope.local, **line.names, **names}
        for root in reads:
            if root == "run":
                found["run"] = self._run(line, visit or line.owner)
            elif root == "nodes":
                found["nodes"] = self.kept
            elif root == "now":
                found["now"] = _time(self._scribe.now())
        return found

    def _run(self, line: Line, visit: Visit) -> dict[str, Any]:
        definition, names = self.routine.definition, line.names
        return {
            "name": definition.name,
            "version": definition.version,
            "id": self.id,
            "tenant": self.tenant,
            "reference": line.scope.reference,
            "node": visit.node.name,
            "path": ".".join(map(str, visit.path())),
            "task": names.get("task"),
            "signal": names.get("signal"),
            "token": names.get("token"),
            "turn": self.turns,
            "startedAt": self.started_at,
        }

    def write(self, visit: Visit, path: Path, value: Any) -> None:
        """Write to state, to what an iteration has of its own, or the business reference. Raises CannotEvaluate."""
        scope = visit.within.scope
        scope.write(path, _reference(value) if path == REFERENCE else self.routine.fit(path, value))

    def set_first_reference(self, line: Line) -> None:
        """The business reference that the definition declares. Raises CannotEvaluate."""
        value = self.routine.definition.reference
        if value is not None:
            line.scope.write(REFERENCE, _reference(self.fill_in(line, value)))

    def bind(self, visit: Visit, **names: Any) -> None:
        """Let later expressions of the same line find these."""
        visit.within.names.update({name: value for name, value in names.items() if name in self.routine.names_read})


def _copy(value: Any, into: dict[str, Any], path: list[Any]) -> None:
    """Copy what stands at a path, with the maps around it; all of it where the path leaves maps."""
    name, *rest = path
    if not rest or not isinstance(value, dict) or not isinstance(rest[0], str):
        into[name] = value
    elif rest[0] in value:
        _copy(value[rest[0]], into.setdefault(name, {}), rest)
    else:
        into.setdefault(name, {})


def _reference(value: Any) -> str | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, str | int)):
        raise CannotEvaluate(f"a business reference is a text, not {value!r:.60}")
    return None if value is None else str(value)[:200]


def _time(microseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)

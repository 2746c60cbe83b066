"""A checkpoint of an interpreter: its visits and lines as data, by the names of nodes and never by their positions.

So a run can be restored with another version of its definition, as long as the nodes that it stands at are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal.cbor import canonical
from holdfast.journal.promise import PromiseId
from holdfast.programs.definition.interpreter.frames import Deed, Line, Scope, Visit
from holdfast.programs.definition.interpreter.interpreter import Interpreter
from holdfast.programs.definition.interpreter.marks import NodeMark
from holdfast.programs.definition.interpreter.outcomes import NodeOutcome
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.model import GraphVerb

FORMAT: Final = "definition checkpoint/3"


def write_snapshot(engine: Interpreter, revised: dict[str, Any]) -> bytes:
    """All that an interpreter is between two turns. ``revised`` is what became of revisions of its definition."""
    return canonical(_dump(engine) | revised)


def snapshot_of(engine: Interpreter) -> dict[str, Any]:
    """The same as plain data, which shares nothing with the interpreter."""
    return load_snapshot(write_snapshot(engine, {}))


def _dump(engine: Interpreter) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "digest": engine.routine.digest,
        "start": engine.context.start,
        "scope": engine.scope.dump(),
        "started_at": engine.context.started_at,
        "outcome": msgspec.to_builtins(engine.outcome),
        "deeds": [_deed(deed) for deed in engine.deeds.done],
        "deeds_made": engine.deeds.made,
        "undo_failures": engine.deeds.failures,
        "aside": {name: values for name, values in engine.aside.items() if values},
        "marks": {name: msgspec.to_builtins(mark) for name, mark in engine.marks.items()},
        "kept": engine.context.kept,
        "turns": engine.context.turns,
        "root": _visit(engine.root),
    } | _cleanup(engine)


def _cleanup(engine: Interpreter) -> dict[str, Any]:
    """How far the run is in waiting for its last children; nothing of one that does not end."""
    wait, fails = engine.closer.cleanup, engine.closer.fails
    if not (wait.promises or wait.left or wait.is_over or fails):
        return {}
    places = ([_position(promise) for promise in some] for some in (wait.promises, wait.left))
    return {"cleanup": [*places, wait.is_over, fails]}


def _visit(visit: Visit) -> list[Any]:
    return [
        visit.node.name,
        visit.phase,
        visit.attempt,
        _position(visit.promise),
        _position(visit.deadline),
        _kind_of_wait(visit),
        msgspec.to_builtins(visit.closing),
        visit.expired,
        [_line(line) for line in visit.lines.values()],
        visit.memo,
        None if visit.undoing is None else [_deed(deed) for deed in visit.undoing],
        msgspec.to_builtins(visit.error),
        visit.entered,
        visit.begun,
        visit.lost,
    ]


def _kind_of_wait(visit: Visit) -> str:
    if visit.undoing is not None:
        return "undo"
    return "rest" if visit.phase == "resting" else "call"


def _line(line: Line) -> list[Any]:
    node = line.nodes[line.at].name
    scope = None if _shares(line) else line.scope.dump()
    visit = None if line.visit is None else _visit(line.visit)
    return [line.key, node, scope, line.names, _position(line.pause), visit]


def _shares(line: Line) -> bool:
    above = line.owner.line
    return above is None or above.scope is line.scope


def _deed(deed: Deed) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in msgspec.structs.astuple(deed)]


def _position(promise: PromiseId | None) -> int | None:
    return None if promise is None else promise.path[-1]


def load_snapshot(data: bytes) -> dict[str, Any]:
    """A checkpoint as plain data. Raises ValueError where it is none."""
    try:
        found = cbor2.loads(data)
        if found["format"] == FORMAT:
            return dict(found)
    except (cbor2.CBORError, KeyError, TypeError) as error:
        raise ValueError(f"it cannot be read ({type(error).__name__}: {error})") from error
    raise ValueError("it belongs to another version of Holdfast")


def read_snapshot(engine: Interpreter, run: PromiseId, found: Mapping[str, Any]) -> None:
    """Fill a new interpreter. Raises ValueError where it is no checkpoint of this definition."""
    try:
        if found["digest"] != engine.routine.digest:
            raise ValueError("it belongs to another definition")
        _Reader(engine, run).read(found)
    except (cbor2.CBORError, KeyError, TypeError, IndexError, msgspec.ValidationError) as error:
        raise ValueError(f"it cannot be read ({type(error).__name__}: {error})") from error


class _Reader:
    def __init__(self, engine: Interpreter, run: PromiseId) -> None:
        self._engine = engine
        self._routine: Routine = engine.routine
        self._run = run

    def read(self, found: Mapping[str, Any]) -> None:
        engine = self._engine
        engine.context.start = found["start"]
        engine.scope = Scope.load(found["scope"])
        engine.context.started_at = found["started_at"]
        engine.outcome = _outcome(found["outcome"])
        engine.deeds.done = [_read_deed(deed) for deed in found["deeds"]]
        engine.deeds.made = found["deeds_made"]
        engine.deeds.failures = found["undo_failures"]
        engine.aside = found["aside"]
        engine.marks = {name: msgspec.convert(mark, NodeMark) for name, mark in found["marks"].items()}
        engine.context.kept = found["kept"]
        engine.context.turns = found["turns"]
        engine.root = self._visit(found["root"], None)
        self._cleanup(*found.get("cleanup", ([], [], False, False)))
        engine.waiting = dict(sorted(engine.waiting.items(), key=lambda item: item[0].path))

    def _cleanup(self, promises: list[int], left: list[int], is_over: bool, fails: bool) -> None:
        engine, wait = self._engine, self._engine.closer.cleanup
        wait.promises, wait.left = ([self._run.child(each) for each in some] for some in (promises, left))
        wait.is_over, engine.closer.fails = is_over, fails
        engine.waiting.update(dict.fromkeys(wait.promises, ("leave", engine.root)))

    def _visit(self, data: list[Any], line: Line | None) -> Visit:
        name, phase, attempt, promise, deadline, wait, closing, expired, lines, memo, undoing, error, *more = data
        node = self._routine.root if line is None else self._routine.places[name].node
        visit = Visit(
            node,
            line,
            phase,
            attempt,
            self._promise(promise),
            self._promise(deadline),
            _outcome(closing),
            expired,
            {},
            memo,
            None if undoing is None else [_read_deed(deed) for deed in undoing],
            _outcome(error),
            *more,
        )
        if visit.promise is not None:
            self._engine.waiting[visit.promise] = (wait, visit)
        if visit.deadline is not None:
            self._engine.waiting[visit.deadline] = ("deadline", visit)
        for each in lines:
            inner = self._line(each, visit)
            visit.lines[inner.key] = inner
        return visit

    def _line(self, data: list[Any], owner: Visit) -> Line:
        key, name, scope, names, pause, visit = data
        place = self._routine.places[name]
        nodes, at = (place.nodes, place.at)
        if isinstance(owner.node.verb, GraphVerb) and owner.phase != "handler":
            nodes, at = (place.node,), 0
        line = Line(nodes, owner, key, self._scope(scope, owner), names, at, None, self._promise(pause))
        if line.pause is not None:
            self._engine.waiting[line.pause] = ("pause", line)
        if visit is not None:
            line.visit = self._visit(visit, line)
        return line

    def _scope(self, data: Any, owner: Visit) -> Scope:
        if data is not None:
            return Scope.load(data)
        return self._engine.scope if owner.line is None else owner.line.scope

    def _promise(self, position: int | None) -> PromiseId | None:
        return None if position is None else self._run.child(position)


def _outcome(data: Any) -> NodeOutcome | None:
    return None if data is None else msgspec.convert(data, NodeOutcome)


def _read_deed(data: list[Any]) -> Deed:
    return msgspec.convert(data, Deed)

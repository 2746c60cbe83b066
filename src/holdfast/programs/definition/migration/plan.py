"""Whether a run can move to another version of its definition, and where it stands then.

A run stands at visits of nodes. It can move where every one of them has a successor that waits for the same thing, in
the same surroundings. Then its checkpoint, with the names of the newer version, is a checkpoint of that version.

=====================================  ================================================================
a visit of                             moves where its successor
=====================================  ================================================================
a call, a wait, a task, a child        calls, awaits or asks the same; an open task has the same form
a sleep                                sleeps; the timer that runs stays as it is
a repeat                               goes over the same kind of thing, with the same names
a fork, a pick                         has the same branches, and the same join
a graph                                has all nodes that have begun, and needs nothing new for them
a switch, a bare block                 is one, or is gone; it may be put around or taken away
=====================================  ================================================================

Everything that is in the way is said at once. ``RULES`` is the number of these rules. A run that has moved by them
moves so in every replay: a change of them needs a new number, beside the old rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from holdfast.expressions.engine import CannotEvaluate
from holdfast.journal.payload import CBOR
from holdfast.programs.definition.interpreter.frames import Scope
from holdfast.programs.definition.interpreter.routine import ROOT, Routine
from holdfast.programs.definition.migration.obstacles import Obstacles
from holdfast.programs.definition.migration.rules import MoveRules, rules_for
from holdfast.programs.definition.model import (
    BlockVerb,
    CallVerb,
    ForkVerb,
    GraphVerb,
    Node,
    PickVerb,
    SwitchVerb,
    TransportVerb,
    lists_of,
)

RULES: Final = 1

Verdict = Literal["safe", "mapped", "blocked"]


class MovePlan(msgspec.Struct, frozen=True):
    """What would become of a run. ``snapshot`` is None where it is blocked; ``reasons`` say why."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    snapshot: dict[str, Any] | None = None


def plan_move(old: Routine, new: Routine, snapshot: dict[str, Any], edition: int) -> MovePlan:
    """Move a run that stands as the snapshot says. The snapshot itself is not changed."""
    return _Mover(old, new, rules_for(new.definition, old.definition.version), edition).plan(snapshot)


def plan_start(new: Routine, start: Any, edition: int) -> MovePlan:
    """Move a run that has not begun: it begins with the newer version."""
    obstacles = Obstacles(new.definition.version)
    obstacles.check_start(new.definition.start, new.fit_start(start, edition))
    return MovePlan("blocked", tuple(obstacles.found)) if obstacles.found else MovePlan("safe")


class _Mover:
    """One move. A visit and a line are the lists of a checkpoint (``interpreter/snapshot.py``)."""

    def __init__(self, old: Routine, new: Routine, rules: MoveRules, edition: int) -> None:
        self._edition = edition
        self._old = old
        self._new = new
        self._rules = rules
        self._mapped = False
        self._deeds_made = 0
        self._start: Any = None
        self._entered: dict[str, Any] = {}  # marks of the blocks that the run is put into
        self._obstacles = Obstacles(new.definition.version)

    def plan(self, found: dict[str, Any]) -> MovePlan:
        self._deeds_made, self._start = found["deeds_made"], found["start"]
        start = self._new.fit_start(found["start"], self._edition)
        self._obstacles.check_start(self._new.definition.start, start)
        self._obstacles.check_standing(found)
        self._obstacles.check_reads(self._old, self._new, found, self._rules)
        moved = {
            **found,
            "digest": self._new.digest,
            "start": start,
            "scope": self._scope(found["scope"]),
            "deeds": [self._deed(deed) for deed in found["deeds"]],
            "kept": {self._named(name): value for name, value in found["kept"].items()},
            "root": self._visit(found["root"], ROOT),
        }
        marks = {self._named(name): mark for name, mark in found["marks"].items()}
        moved["marks"] = {name: mark for name, mark in marks.items() if name in self._new.places} | self._entered
        if self._obstacles.found:
            return MovePlan("blocked", tuple(self._obstacles.found))
        return MovePlan("mapped" if self._mapped or self._rules.values else "safe", (), moved)

    # -- names, deeds and state ----------------------------------------------------------------------------------------

    def _named(self, name: str) -> str:
        return self._rules.successor(name)

    def _successor(self, name: str) -> str | None:
        new = self._named(name)
        self._mapped = self._mapped or new != name
        return new if new in self._new.places else None

    def _deed(self, deed: list[Any]) -> list[Any]:
        number, path, node, *rest = deed
        return [number, self._path(path), self._named(node), *rest]

    def _path(self, path: list[str | int]) -> list[str | int]:
        """The way to a node by the newer names. A branch of a fork keeps its own, whatever nodes are called."""
        found: list[str | int] = []
        is_branch = False
        for part in path:
            found.append(part if is_branch or isinstance(part, int) else self._named(part))
            place = None if is_branch or isinstance(part, int) else self._old.places.get(part)
            is_branch = place is not None and isinstance(place.node.verb, ForkVerb)
        return found

    def _scope(self, data: Any) -> Any:
        """The state as the newer version has it: its defaults, what ``set`` says, everything by its schemas."""
        if data is None:
            return None
        scope = Scope.load([dict(data[0]), *data[1:]])
        before = {"start": self._start, "state": data[0], "local": data[1]}
        for name, schema in self._new.definition.state.items():
            if "default" in schema:
                scope.state.setdefault(name, schema["default"])
        try:
            for path, value in self._rules.values:
                fill, _ = self._new.templates.of(value)
                scope.write(path, fill(before))
            for name, value in scope.state.items():
                scope.state[name] = self._new.fit(("state", name), value)
        except CannotEvaluate as error:
            self._obstacles.add(f"its state does not fit: {error}")
        return [scope.state, *scope.dump()[1:4], data[4]]  # what a move writes is no write of a branch

    # -- visits and lines ----------------------------------------------------------------------------------------------

    def _visit(self, data: list[Any], name: str) -> list[Any]:
        old = self._old.root if data[0] == ROOT else self._old.places[data[0]].node
        new = self._new.root if name == ROOT else self._new.places[name].node
        moved = list(data)
        moved[0] = name
        self._obstacles.check_visit(data, old, new, self._old.definition, self._new.definition, self._rules)
        if not _is_limited(new):
            moved[4] = None  # its time-out is gone
        lines = [self._line(line, data, old, new) for line in data[8]]
        moved[8] = [line for line in lines if line is not None]
        if isinstance(old.verb, PickVerb | GraphVerb):
            moved[9] = _renamed(data[9], self._rules)
            moved[14] = [self._named(key) if isinstance(key, str) else key for key in data[14]]
        elif data[3] is not None and data[5] == "call" and isinstance(old.verb, CallVerb | TransportVerb):
            moved[9] = self._call_memo(data[9], old, new)
        if data[10] is not None:
            moved[10] = [self._deed(deed) for deed in data[10]]
        return moved

    def _call_memo(self, memo: Mapping[str, Any], old: Node, new: Node) -> dict[str, Any]:
        """What a call under way remembers, so that it is undone as the newer version says."""
        found = dict(memo)
        if new.undo is not None and "input" not in found:
            if new.undo.inherits:
                self._obstacles.undoable_later(old.name)
            found.update(input=b"", codec=CBOR)  # nothing reads it: the undo says with what it is called
        elif new.undo is None and old.undo is not None:
            found["undo_gone"] = True
        return found

    def _line(self, data: list[Any], owner: list[Any], old: Node, new: Node) -> list[Any] | None:
        """A line with its place in the newer version; None where there is none, for a reason that was noted."""
        key, name, scope, names, pause, inner = data
        target = self._successor(name)
        if target is None and inner is not None and _is_plain(self._old.places[name].node) and _is_dissolvable(inner):
            within = inner[8][0]  # the block around it is gone
            return self._line([key, within[1], scope, within[3], within[4], within[5]], owner, old, new)
        if target is None:
            self._obstacles.missing(name, self._new.places)
            return None
        around = self._between(new.name, target)
        if around is None or not self._is_in_place(new, around[0] if around else target, key, owner[1] == "handler"):
            self._obstacles.misplaced(name, target, old.name)
            return None
        entered = [] if owner[1] == "handler" else [new]
        for node in [*entered, *(self._new.places[each].node for each in around)]:
            self._obstacles.check_names(node, names)
        visit = None if inner is None else self._visit(inner, target)
        line = [key if not around else "", target, None if around else self._scope(scope), names, pause, visit]
        begun = self._deeds_made if inner is None else inner[12]
        for block in reversed(around):
            self._entered[block] = ["running", 1, ""]
            visit = [block, "body", 1, None, None, "call", None, False, [line], {}, None, None, begun, begun, []]
            line = ["", block, None, names, None, visit]
        line[0], line[2] = self._line_key(key, old, owner), self._scope(scope)
        return line

    def _line_key(self, key: Any, old: Node, owner: list[Any]) -> Any:
        keyed_by_node = isinstance(old.verb, PickVerb | GraphVerb) and owner[1] != "handler"
        return self._named(key) if keyed_by_node else key

    def _between(self, owner: str, target: str) -> list[str] | None:
        """The blocks between a node and one inside it, outer ones first; None where it is not inside, or may not be
        put into them."""
        around: list[str] = []
        at = target
        while (at := self._new.places[at].inside) != owner:
            if at == ROOT:
                return None
            node = self._new.places[at].node
            self._mapped = True
            if not _is_plain(node) or _is_limited(node):
                self._obstacles.add(
                    f"{target} is inside {at} now, which a run cannot be put into while it is under way"
                )
            around.insert(0, at)
        return around if self._is_body(around, target) else None

    def _is_body(self, around: list[str], target: str) -> bool:
        """Whether each is among the nodes of the one before, and not in a handler of it."""
        for outer, inner in itertools.pairwise([*around, target]):
            lists = lists_of(self._new.places[outer].node)
            if not any(inner in {node.name for node in nodes} for label, nodes in lists if not label.startswith("on.")):
                return False
        return True

    def _is_in_place(self, owner: Node, name: str, key: Any, is_handler: bool) -> bool:
        """Whether a node stands in the list of its owner that a line of this key goes through."""
        label = ""
        if is_handler or isinstance(owner.verb, ForkVerb):
            label = key
        elif isinstance(owner.verb, PickVerb):
            label = self._named(key)
        lists = [nodes for found, nodes in lists_of(owner) if found == label]
        return any(node.name == name for nodes in lists for node in nodes)


def _is_plain(node: Node) -> bool:
    """Whether it is a block that remembers nothing, so that a run can be put into it or taken out of it."""
    return isinstance(node.verb, SwitchVerb | BlockVerb)


def _is_limited(node: Node) -> bool:
    """Whether a visit of it has a time-out of its own."""
    return node.timeout is not None and (node.timeout.whole is not None or node.timeout.at is not None)


def _is_dissolvable(visit: list[Any]) -> bool:
    """Whether a visit of a plain block does nothing but to hold its one line."""
    phase, deadline, closing, lines, undoing = visit[1], visit[4], visit[6], visit[8], visit[10]
    return phase == "body" and deadline is None and closing is None and undoing is None and len(lines) == 1


def _renamed(memo: Mapping[str, Any], rules: MoveRules) -> dict[str, Any]:
    """What a pick or a graph remembers, by the newer names."""
    found = dict(memo)
    if "winner" in found:
        found["winner"] = rules.successor(found["winner"])
    for part in ("states", "writes"):
        if part in found:
            found[part] = {rules.successor(name): value for name, value in found[part].items()}
    return found

"""What a newer version reads of a run's past, and the older one has not kept.

``result``, ``payload`` and the like are kept for a line of nodes only where some expression of the definition reads
them. Where a newer version reads one that was had before the move, there is nothing to read. What is had after the move
is kept as the newer version says. So a name is lacking at a node if the past had it, and no node since the move has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from holdfast.programs.definition import model as m
from holdfast.programs.definition.interpreter.routine import INPUT, ROOT, Routine, texts_in
from holdfast.programs.definition.migration.rules import MoveRules
from holdfast.programs.definition.walks import names_had_after

_OF_RUN: Final = frozenset({"task", "signal", "token"})
"""The names of a line that expressions read as members of ``run``."""
_KEPT_IF_READ: Final = frozenset({"result", "payload", *_OF_RUN})

Reads = dict[str, str]
"""Names that are read and lacking, each with a node that reads it."""


def unkept(old: Routine, new: Routine, rules: MoveRules, root: list[Any]) -> Reads:
    """The names that the newer version reads and that this run does not have; ``root`` is of its checkpoint."""
    lacking = (new.names_read - old.names_read) & _KEPT_IF_READ
    if not lacking:
        return {}
    search = _Search(old, new, rules, lacking)
    search.visit(root, frozenset())
    return search.found


class _Search:
    """One search through the visits and lines of a checkpoint (``interpreter/snapshot.py``)."""

    def __init__(self, old: Routine, new: Routine, rules: MoveRules, lacking: frozenset[str]) -> None:
        self.found: Reads = {}
        self._old = old
        self._new = new
        self._rules = rules
        self._lacking = lacking

    def visit(self, data: list[Any], lost: frozenset[str]) -> None:
        """Search in what is under way inside a visit; ``lost`` is what its own line had, and was not kept."""
        old = self._old.root if data[0] == ROOT else self._old.places[data[0]].node
        is_handler = data[1] == "handler"
        if is_handler and any(line[0] == "on.success" for line in data[8]):
            lost |= self._lacking & names_had_after(old)
        for _, name, _, names, _, inner in data[8]:
            place = self._old.places[name]
            in_graph = isinstance(old.verb, m.GraphVerb) and not is_handler
            before = () if in_graph else place.nodes[: place.at]
            had = (self._lacking & _had_by_any(before)) | lost
            self._line(name, inner, had - names.keys(), owner=self._rules.successor(data[0]))
        if isinstance(old.verb, m.PickVerb) and "names" in data[9]:
            self._option(data[9], lost | (self._lacking & names_had_after(self._old.places[data[9]["winner"]].node)))

    def _line(self, name: str, inner: list[Any] | None, lost: frozenset[str], owner: str) -> None:
        place = self._new.places.get(self._rules.successor(name))
        if inner is not None:
            self.visit(inner, lost)
        if place is None or not lost:  # one that has no place is said elsewhere
            return
        following = place.nodes[place.at + 1 :]
        if isinstance(self._node(place.inside).verb, m.GraphVerb):
            following = ()
        if inner is None:
            self._read((place.node, *following), lost)
        else:
            self._read_under_way(place.node, inner, lost)
            self._read(following, lost - names_had_after(place.node))
        inside = place.inside
        while inside not in (owner, ROOT):  # blocks that it is put into
            outer = self._new.places[inside]
            self._read(outer.nodes[outer.at + 1 :], lost)
            inside = outer.inside

    def _option(self, memo: Mapping[str, Any], lost: frozenset[str]) -> None:
        """The option of a pick that has won, and whose nodes are not begun."""
        place = self._new.places.get(self._rules.successor(memo["winner"]))
        verb = None if place is None else self._node(place.inside).verb
        for option in verb.options if isinstance(verb, m.PickVerb) else ():
            if place is not None and option.trigger.name == place.node.name:
                self._read(option.do, lost - memo["names"].keys())

    def _node(self, name: str) -> m.Node:
        return self._new.root if name == ROOT else self._new.places[name].node

    # -- what nodes of the newer version read --------------------------------------------------------------------------

    def _read_under_way(self, node: m.Node, visit: list[Any], lost: frozenset[str]) -> None:
        """What is still to be evaluated of a node that was begun."""
        if visit[1] == "handler":
            return
        again = node.retry is not None and not self._new.is_tried_by_kernel(node.verb)
        if again or visit[1] == "resting":
            self._read((node,), lost)
            return
        match node.verb:
            case m.RepeatVerb() as verb:  # further iterations
                self._note(node, self._names(texts_in(_loop(verb))) & lost - _had_by_any(verb.do))
                self._read(verb.do, lost)
            case m.GraphVerb() as verb:
                begun = {self._rules.successor(name) for name in visit[9].get("states", ())}
                for each in verb.nodes:
                    self._read((each,) if each.name not in begun else (), lost)
            case _:
                pass
        self._read_handlers(node, lost)

    def _read(self, nodes: m.Nodes, lost: frozenset[str]) -> None:
        """What nodes that are not begun read of this, one after the other."""
        for node in nodes:
            if not lost:
                return
            self._note(node, self._own(node) & lost)
            for label, inner in m.lists_of(node):
                if not label.startswith("on."):
                    self._read(inner, lost)
            self._read_handlers(node, lost)
            lost -= names_had_after(node)

    def _read_handlers(self, node: m.Node, lost: frozenset[str]) -> None:
        for label, inner in m.lists_of(node):
            if label.startswith("on."):
                self._read(inner, lost - names_had_after(node) if label == "on.success" else lost)

    def _own(self, node: m.Node) -> frozenset[str]:
        """The names that a node's own expressions read of those before it. Some are given with what is evaluated."""
        verb, undo = node.verb, node.undo
        found = frozenset() if undo is None else self._names(texts_in(undo)) - {"result"}
        plain = replace(node, undo=None)
        if isinstance(verb, m.WaitVerb) and verb.match is not None:
            plain = replace(plain, verb=replace(verb, match=None))
            found |= self._names((verb.match,)) - {"payload", "signal", "token"}
        elif isinstance(verb, m.RepeatVerb):
            plain = replace(plain, verb=replace(verb, until=None, gives=None))
            found |= self._names(texts_in(_loop(verb))) - _had_by_any(verb.do)
        elif isinstance(verb, m.TaskVerb):
            declared = self._new.definition.tasks[verb.task]
            found |= self._names(texts_in(replace(declared, check=()))) - {"task", INPUT}
            found |= self._names(check.when for check in declared.check) - {"payload", "task", INPUT}
        return found | self._names(texts_in(plain))

    def _names(self, texts: Iterable[str]) -> frozenset[str]:
        reads = [read for text in texts for read in self._new.templates.formula(text).reads]
        names = {read[0] for read in reads}
        for read in reads:
            if read[0] == "run":
                names |= _OF_RUN & {read[1]} if len(read) > 1 else _OF_RUN
        return frozenset(names)

    def _note(self, node: m.Node, names: Iterable[str]) -> None:
        for name in names:
            self.found.setdefault(name, node.name)


def _loop(verb: m.RepeatVerb) -> m.RepeatVerb:
    """A repeat with what is evaluated for every iteration alone."""
    return replace(verb, over=None, times=None, do=())


def _had_by_any(nodes: m.Nodes) -> frozenset[str]:
    return frozenset().union(*(names_had_after(node) for node in nodes))

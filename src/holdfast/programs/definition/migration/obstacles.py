"""What keeps a run from moving to another version, in words for whoever wants to move it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.programs.definition.compiler.faults import nearest
from holdfast.programs.definition.interpreter.routine import Routine
from holdfast.programs.definition.migration.past import unkept
from holdfast.programs.definition.migration.rules import MoveRules
from holdfast.programs.definition.model import (
    BlockVerb,
    CallVerb,
    ContinueVerb,
    Definition,
    ForkVerb,
    GraphVerb,
    Node,
    PickVerb,
    RepeatVerb,
    RunVerb,
    Schema,
    SendVerb,
    TaskVerb,
    TransportVerb,
    WaitVerb,
)
from holdfast.tasks.forms import problems

_DONE = ("success", "skipped")


class Obstacles:
    """All that was found to be in the way of one run."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.found: list[str] = []

    def add(self, reason: str) -> None:
        """Note a reason, once."""
        if reason not in self.found:
            self.found.append(reason)

    def missing(self, name: str, known: Collection[str]) -> None:
        """The run stands at a node that the newer version does not have."""
        self.add(
            f"it stands at {name}, which version {self._version} does not have{nearest(name, known)} "
            f"(name its successor under migrate: steps:)"
        )

    def misplaced(self, name: str, target: str, owner: str) -> None:
        """The node is not where a run could go on with it."""
        self.add(f"{name} was inside {owner or 'the definition'}, and {target} is elsewhere in version {self._version}")

    def undoable_later(self, name: str) -> None:
        """A call is under way that the newer version undoes, with arguments of which nothing was kept."""
        self.add(
            f"{name} is under way, and version {self._version} undoes it with its arguments, which the present version "
            "has not kept (say `with` what it is undone, or move the run when it is over)"
        )

    def check_names(self, block: Node, names: Collection[str]) -> None:
        """A block has bound all of its names when it was entered."""
        let = block.verb.let if isinstance(block.verb, BlockVerb) else {}
        for name in sorted(let.keys() - set(names)):
            has = f"has the name {name} in version {self._version}"
            self.add(f"{block.name} is under way, and {has}, which the run never got")

    # -- the whole run -------------------------------------------------------------------------------------------------

    def check_start(self, schema: Schema, start: Any) -> None:
        """What the run was started with fits the newer version."""
        for place, problem in problems(schema, start) if schema else []:
            self.add(f"what it was started with does not fit: {place or '/'}: {problem}")

    def check_standing(self, found: Mapping[str, Any]) -> None:
        """The run is under way, and neither ends nor is cancelled."""
        if found["outcome"] is not None:
            self.add("it has ended, and is undoing what it did")
        elif found["root"][6] is not None:
            self.add("it is being cancelled")

    def check_reads(self, old: Routine, new: Routine, found: Mapping[str, Any], rules: MoveRules) -> None:
        """What the newer version reads of the past was kept by the older one."""
        over = {rules.successor(name) for name, mark in found["marks"].items() if mark[0] != "running" or mark[1] > 1}
        kept = {rules.successor(name) for name in old.nodes_read}
        for name in sorted((new.nodes_read & over) - kept):
            self.add(f"version {self._version} reads nodes.{name}, of which the present version has kept nothing")
        for name, node in sorted(unkept(old, new, rules, found["root"]).items()):
            read = f"run.{name}" if name in ("signal", "task", "token") else name
            self.add(
                f"{node} reads {read} in version {self._version}, as it was before the move, and the present version "
                "has not kept it (let it read state, and set that under migrate: set:)"
            )
        if new.reads_start_time and not old.reads_start_time:
            self.add(f"version {self._version} reads run.startedAt, which the present version has not recorded")

    # -- one visit -----------------------------------------------------------------------------------------------------

    def check_visit(
        self, visit: list[Any], old: Node, new: Node, before: Definition, after: Definition, rules: MoveRules
    ) -> None:
        """A visit of one node can go on as a visit of the other."""
        if type(old.verb) is not type(new.verb):
            kinds = [_kind(node) for node in (old, new)]
            self.add(f"{old.name} is a {kinds[0]}, and {new.name} a {kinds[1]} in version {self._version}")
        elif visit[1] != "handler":
            self._check_block(visit, old, new, rules)
            waits = visit[3] is not None and visit[5] == "call"
            if waits and (difference := _other_wait(old, new, before, after)):
                self.add(f"{old.name} waits for {difference[0]}, and {new.name} for {difference[1]}")

    def _check_block(self, visit: list[Any], old: Node, new: Node, rules: MoveRules) -> None:
        match old.verb, new.verb:
            case RepeatVerb() as one, RepeatVerb() as other:
                if _kind_of_loop(one) != _kind_of_loop(other):
                    self.add(f"{old.name} is under way, and repeats in another way in version {self._version}")
            case ForkVerb() as one, ForkVerb() as other:
                names = [{branch.name for branch in verb.branches} for verb in (one, other)]
                if names[0] != names[1] or one.join != other.join:
                    self.add(f"{old.name} is under way, and has other branches or another join")
                if (one.gives is None) != (other.gives is None):
                    self.add(f"{old.name} is under way, and its branches give values in one version alone")
            case PickVerb() as one, PickVerb() as other:
                names = [{rules.successor(each.trigger.name) for each in one.options}]
                names.append({each.trigger.name for each in other.options})
                if names[0] != names[1]:
                    self.add(f"{old.name} is under way, and has other options")
            case GraphVerb(), GraphVerb() as other:
                self._check_graph(visit[9].get("states", {}), old, other, rules)
            case _:
                pass

    def _check_graph(self, states: Mapping[str, str], old: Node, graph: GraphVerb, rules: MoveRules) -> None:
        nodes = {node.name: node for node in graph.nodes}
        met = {rules.successor(name) for name, state in states.items() if state in _DONE}
        for before, state in states.items():
            name = rules.successor(before)
            if name not in nodes:
                self.add(f"{name} of the graph {old.name} has begun, and is not in version {self._version}")
                continue
            unmet = [need for need in nodes[name].needs if need in nodes and need not in met]
            if unmet and state != "blocked":
                self.add(f"{name} has begun, and needs {', '.join(unmet)} in version {self._version}")


def _kind(node: Node) -> str:
    return type(node.verb).__name__.removesuffix("Verb").lower()


def _kind_of_loop(verb: RepeatVerb) -> tuple[Any, ...]:
    goes = tuple(each is None for each in (verb.over, verb.times, verb.while_, verb.until))
    return (*goes, verb.item, verb.index, verb.at_once is None, verb.keep_errors, verb.gives is None)


def _other_wait(old: Node, new: Node, before: Definition, after: Definition) -> tuple[str, str] | None:
    """What two nodes of one kind wait for, where it differs."""
    if isinstance(old.verb, TaskVerb) and isinstance(new.verb, TaskVerb):
        one, other = before.tasks[old.verb.task], after.tasks[new.verb.task]
        same = (one.form, one.check) == (other.form, other.check)
        return None if same else (f"the task {old.verb.task}", "an answer of another form")
    found = _awaited(old), _awaited(new)
    return None if found[0] == found[1] else found


def _awaited(node: Node) -> str:
    match node.verb:
        case CallVerb(kind=kind, name=name):
            return f"the {kind} {name}"
        case TransportVerb(verb=verb):
            return f"a call by {verb}"
        case WaitVerb(signal=signal, key=key):
            return f"the signal {signal}" + ("" if key is None else f" with the key {key}")
        case RunVerb(workflow=workflow) | ContinueVerb(workflow=workflow):
            return f"a run of {workflow}"
        case SendVerb(signal=signal):
            return f"the sending of {signal}"
        case _:
            return "nothing that could differ"

"""The expressions of a definition: each is checked over what it can see, and replaced by its normal text.

What is known of values comes from the schemas of the definition alone, never from installed code: the normal text is
part of the canonical form, and must be the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.languages import Language, formula
from holdfast.expressions.reads import shape_at
from holdfast.expressions.shapes import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    MAP,
    NULL,
    STRING,
    TIMESTAMP,
    ValueShape,
    joined,
    list_of,
    map_of,
    shape_of,
)
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.checks.inputs import TaskUse, check_given, input_of, seen_by_all
from holdfast.programs.definition.compiler.checks.near_misses import near_miss
from holdfast.programs.definition.compiler.checks.places import REFERENCE, WANTED, misfits, place_of, type_name
from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.definition.interpreter.routine import INPUT
from holdfast.programs.definition.walks import CONDITIONS, all_nodes, members_of_state, names_had_after
from holdfast.tasks.fields import answerable

Roots = Mapping[str, ValueShape]
P = TypeVar("P", bound=m.Part)

RUN: Final = map_of(
    {
        "id": STRING,
        "name": STRING,
        "node": STRING,
        "path": STRING,
        "reference": DYN,
        "signal": DYN,
        "startedAt": STRING,
        "task": DYN,
        "tenant": STRING,
        "token": DYN,
        "turn": INT,
        "version": INT,
    }
)
"""The members of the root ``run``."""

_NODE: Final = map_of({"state": STRING, "result": DYN, "error": DYN, "by": DYN})


class TypedValue(NamedTuple):
    """A value with its expressions in their normal text, and what is known of it."""

    value: Any
    shape: ValueShape


def check_expressions(definition: m.Definition, faults: FaultList) -> m.Definition:
    """The definition with its expressions in their normal text."""
    forms = {name: shape_of(task.form) for name, task in definition.tasks.items()}
    declared = {"start": definition.start, "state": {"properties": definition.state, "additionalProperties": True}}
    checks = _Expressions(faults, definition.language, forms, declared)
    if definition.language != "cel":
        for name, task in definition.tasks.items():
            if task.check:
                faults.add(("tasks", name, "check"), "only a definition in CEL checks an answer beyond its form")
    roots = _roots(definition)
    begun = roots if definition.language != "cel" else {name: roots[name] for name in roots if name not in _HAD}
    reference = checks.reference(definition.reference, roots, ("reference",), "")
    steps = checks.nodes(definition.steps, begun)  # first: a task sees what those see that ask it
    tasks = {name: checks.declared(name, task, roots) for name, task in definition.tasks.items()}
    return msgspec.structs.replace(definition, reference=reference, tasks=tasks, steps=steps)


def _roots(definition: m.Definition) -> Roots:
    """What every expression sees."""
    state: dict[str, ValueShape] = dict.fromkeys(sorted(members_of_state(definition)), DYN)
    state.update({name: shape_of(schema) for name, schema in definition.state.items()})
    return {
        "start": shape_of(definition.start) if definition.start else DYN,
        "state": map_of(state),
        "local": DYN,
        "run": RUN,
        "nodes": map_of({node.name: _NODE for node in all_nodes(definition.steps)}),
        "now": TIMESTAMP,
        "payload": DYN,
        "result": DYN,
    }


class _Expressions:
    """``forms`` is what is known of the answers to each task, ``declared`` the schemas of roots."""

    def __init__(
        self,
        faults: FaultList,
        language: Language,
        forms: Mapping[str, ValueShape],
        declared: Mapping[str, m.Schema] | None = None,
    ) -> None:
        self._faults = faults
        self._language = language
        self._forms = forms
        self._declared = declared or {}
        self._asked: dict[str, list[TaskUse]] = {}
        self._reads: set[tuple[str, ...]] = set()  # by the expressions so far

    def nodes(self, nodes: m.Nodes, roots: Roots) -> m.Nodes:
        """A list of nodes. Each sees what was had by those before it."""
        found = []
        for node in nodes:
            found.append(self._node(node, roots))
            roots = _after((node,), roots)
        return tuple(found)

    def _node(self, node: m.Node, roots: Roots) -> m.Node:
        place = self._faults.places.get(node.name, ())
        found = self._part(node, roots, place, node.name)
        on = found.on
        if isinstance(node.verb, m.TaskVerb):
            given = self._elsewhere().value(node.verb.arguments, roots, (), "").shape
            self._asked.setdefault(node.verb.task, []).append(TaskUse(node.name, roots, given))
        if found.into is not None:
            self._keep(found.into, self._result(found.verb), roots, (*place, "as"), node.name)
        caught = {**roots, "error": DYN}
        return msgspec.structs.replace(
            found,
            verb=self._verb(found.verb, roots),
            on=m.Handlers(
                success=None if on.success is None else self.nodes(on.success, _after((node,), roots)),
                failure=None if on.failure is None else self.nodes(on.failure, caught),
                timeout=None if on.timeout is None else self.nodes(on.timeout, caught),
            ),
        )

    def _result(self, verb: m.Verb) -> ValueShape:
        """What is known of a verb's result without the code that it calls."""
        match verb:
            case m.TaskVerb(task=task):
                return self._forms.get(task, DYN)
            case m.RepeatVerb():
                return list_of()
            case m.GraphVerb():
                return MAP
            case m.ContinueVerb():
                return STRING
            case _:
                return DYN

    def _verb(self, verb: m.Verb, roots: Roots) -> m.Verb:
        """The verb with the nodes inside it; its own expressions are done already."""
        replace = msgspec.structs.replace
        match verb:
            case m.SwitchVerb(cases=cases):
                return replace(verb, cases=tuple(replace(case, do=self.nodes(case.do, roots)) for case in cases))
            case m.RepeatVerb(do=do):
                return replace(verb, do=self.nodes(do, self._inside(verb, roots)))
            case m.ForkVerb(branches=branches):
                inner = tuple(replace(branch, do=self.nodes(branch.do, roots)) for branch in branches)
                return replace(verb, branches=inner)
            case m.PickVerb(options=options):
                return replace(verb, options=tuple(self._option(option, roots) for option in options))
            case m.GraphVerb(nodes=nodes):
                return replace(verb, nodes=tuple(self._node(node, roots) for node in nodes))
            case m.BlockVerb(do=do, let=let):
                return replace(verb, do=self.nodes(do, {**roots, **dict.fromkeys(let, DYN)}))
            case _:
                return verb

    def _option(self, option: m.Option, roots: Roots) -> m.Option:
        trigger, *do = self.nodes((option.trigger, *option.do), roots)
        return m.Option(trigger=trigger, do=tuple(do))

    def _inside(self, verb: m.RepeatVerb, roots: Roots) -> Roots:
        """What expressions inside a repeat see."""
        if verb.over is None:
            return {**roots, verb.index: INT}
        over = self._elsewhere().value(verb.over, roots, (), "").shape
        item = DYN
        if over.kind == "list":
            item = over.contained
        elif over.kind == "map":
            item = map_of({"key": STRING, "value": DYN if over.members else over.contained})
        return {**roots, verb.item: item, verb.index: INT}

    def _elsewhere(self) -> _Expressions:
        """For values whose faults are found where they stand."""
        return _Expressions(FaultList(), self._language, {})

    def declared(self, name: str, task: m.TaskDeclaration, roots: Roots) -> m.TaskDeclaration:
        """A task's declaration. It sees what all nodes see that ask it, and what they give it as ``input``."""
        asked = self._asked.get(name, [])
        shared = seen_by_all([use.roots for use in asked] or [roots])
        self._reads.clear()
        found = self.task(task, {**roots, **shared, INPUT: input_of(asked)}, ("tasks", name))
        if self._language == "cel":
            check_given(name, found, self._reads, asked, self._faults)
        return found

    def task(self, task: m.TaskDeclaration, roots: Roots, trail: Trail) -> m.TaskDeclaration:
        checks = task.check
        answered = {**roots, "payload": shape_of(answerable(task.form))}
        found = self._part(msgspec.structs.replace(task, check=()), roots, trail, "")
        return msgspec.structs.replace(
            found,
            check=tuple(self._part(check, answered, (*trail, "check", at), "") for at, check in enumerate(checks)),
        )

    def _part(self, part: P, roots: Roots, trail: Trail, node: str) -> P:
        """A part with its own expressions, without those of nodes inside it."""
        if isinstance(part, m.SetVerb):
            return msgspec.structs.replace(part, values=self._set(part, roots, trail, node))
        changes: dict[str, Any] = {}
        own = self._own_roots(part, roots)
        plain = _PLAIN | _PLAIN_OF.get(type(part), frozenset())
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if not isinstance(value, m.Node) and name not in plain:
                place = (*trail, *place_of(part, name))
                found = self._member(name, value, own.get(name, roots), place, node)
                self._need(WANTED.get((type(part), name)), found.shape, place, node, value)
                changes[name] = found.value
        return msgspec.structs.replace(part, **changes)

    def _own_roots(self, part: m.Part, roots: Roots) -> Mapping[str, Roots]:
        """What those members of a part see that see more than the part itself."""
        match part:
            case m.RepeatVerb(do=do):
                inside = self._inside(part, roots)
                ended = _after(do, inside)
                return {"while_": inside, "until": ended, "gives": ended}
            case m.ForkVerb(branches=branches):
                return {"gives": _after([node for branch in branches for node in branch.do], roots)}
            case m.WaitVerb():
                return {"match": {**roots, "payload": DYN}}
            case m.Node():
                return {"undo": {**roots, "result": DYN}}
            case _:
                return {}

    def _need(self, kinds: frozenset[str] | None, shape: ValueShape, trail: Trail, node: str, value: Any) -> None:
        if kinds is None or value is None or shape.kind in (*kinds, "dyn", "optional"):
            return
        names = " or ".join(sorted(type_name(ValueShape(kind)) for kind in kinds))  # type: ignore[arg-type]
        self._faults.add(trail, f"a value of type {names} is needed here, and this is one of {type_name(shape)}", node)

    def _keep(self, path: m.Path, shape: ValueShape, roots: Roots, trail: Trail, node: str) -> None:
        """What is written must be able to fit the schema of its place."""
        if path[0] == "state":
            for misfit in misfits(shape, shape_at(roots, path), ".".join(path)):
                wanted, given = type_name(misfit.wanted), type_name(misfit.given)
                self._faults.add(trail, f"{misfit.place} is of type {wanted}, and this is of type {given}", node)

    def _set(self, verb: m.SetVerb, roots: Roots, trail: Trail, node: str) -> tuple[tuple[m.Path, m.Value], ...]:
        found = []
        for path, value in verb.values:
            place = (*trail, "set", ".".join(path))
            if path[0] == "reference":
                found.append((path, self.reference(value, roots, place, node)))
            else:
                typed = self.value(value, roots, place, node)
                self._keep(path, typed.shape, roots, place, node)
                found.append((path, typed.value))
        return tuple(found)

    def reference(self, value: Any, roots: Roots, trail: Trail, node: str) -> Any:
        """The value of a business reference."""
        found = self.value(value, roots, trail, node)
        self._need(REFERENCE, found.shape, trail, node, value)
        return found.value

    def _member(self, name: str, value: Any, roots: Roots, trail: Trail, node: str) -> TypedValue:
        if name in CONDITIONS:
            return TypedValue(None, NULL) if value is None else self._text(value, roots, trail, node, BOOL)
        if isinstance(value, m.Part):
            return TypedValue(self._part(value, roots, trail[:-1] if name == "verb" else trail, node), DYN)
        if isinstance(value, tuple):
            items = tuple(
                item if isinstance(item, m.Node) else self._member("", item, roots, (*trail, at), node).value
                for at, item in enumerate(value)
            )
            return TypedValue(items, list_of())
        if type(value) is int and name in _SPANS:  # a duration, in microseconds
            return TypedValue(value, DURATION)
        return self.value(value, roots, trail, node)

    def value(self, value: Any, roots: Roots, trail: Trail, node: str) -> TypedValue:
        """A value with its expressions in their normal text."""
        if isinstance(value, str):
            if not value.startswith("=") or value.startswith("=="):
                return TypedValue(value, STRING)
            text, shape = self._text(value[1:], roots, trail, node, None)
            return TypedValue(f"={text}", shape)
        if isinstance(value, Mapping):
            members = {name: self.value(item, roots, (*trail, name), node) for name, item in value.items()}
            shape = map_of({name: item.shape for name, item in members.items()})
            return TypedValue({name: item.value for name, item in members.items()}, shape)
        if isinstance(value, list):
            items = [self.value(item, roots, (*trail, at), node) for at, item in enumerate(value)]
            shapes = [item.shape for item in items]
            return TypedValue([item.value for item in items], list_of(reduce(joined, shapes) if shapes else DYN))
        return TypedValue(value, _SCALARS.get(type(value), DYN))

    def _text(self, text: str, roots: Roots, trail: Trail, node: str, wanted: ValueShape | None) -> TypedValue:
        try:
            found = formula(self._language, text, roots, wanted)
        except InvalidExpression as error:
            for fault in error.faults:
                where = f" (column {fault.column})" if fault.column > 1 else ""
                self._faults.add(trail, f"in `{_quoted(text)}`{where}: {fault.what}{_hint(text, fault.what)}", node)
            return TypedValue(text, DYN)
        self._reads |= found.reads
        if any(read[:2] == ("error", "attempts") for read in found.reads):
            what = "an error does not say how often its node was tried. A member of your own is read as"
            self._faults.add(trail, f"in `{_quoted(text)}`: {what} `error.details.attempts`", node)
        if self._language == "cel":
            self._check_members(text, found.reads, trail, node)
        return TypedValue(found.text, found.shape)

    def _check_members(self, text: str, reads: Iterable[tuple[str, ...]], trail: Trail, node: str) -> None:
        for root, *names in sorted(reads):
            missed = near_miss(self._declared.get(root), names)
            if missed is not None:
                place = ".".join((root, *missed.inside))
                self._faults.add(
                    trail,
                    f"in `{_quoted(text)}`: {place} declares no {missed.name!r}: did you mean {missed.declared!r}? If "
                    "both may be there, declare both, or say additionalProperties: true",
                    node,
                )


_LONGEST_QUOTE: Final = 160
_SCALARS: Final = {bool: BOOL, int: INT, float: DOUBLE, type(None): NULL}
_SPANS: Final = frozenset({"span", "whole", "attempt", "due", "expire", "first", "cap", ""})

_PLAIN: Final = frozenset({"name", "retry", "on", "needs", "after", "description", "signal", "task", "kind", "schema"})
"""The members that never are expressions."""

_PLAIN_OF: Final = {m.Node: frozenset({"title", "into"}), m.CrossCheck: frozenset({"say", "at"})}

_HAD: Final = frozenset({"payload", "result"})
"""The roots that an expression sees where a node before it had them."""


def _after(nodes: Iterable[m.Node], roots: Roots) -> Roots:
    """What is seen behind these nodes of a line."""
    had = {name for node in nodes for name in names_had_after(node) & _HAD}
    return {**roots, **dict.fromkeys(had, DYN)} if had - roots.keys() else roots


def _quoted(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


_GIVERS: Final = {"payload": "task or wait", "result": "call"}


def _hint(text: str, what: str) -> str:
    """What the author may have meant. YAML cuts an unquoted expression at a comma or a brace inside ``{…}``."""
    for name, giver in _GIVERS.items():
        if what.startswith(f"there is no variable `{name}`"):
            return f": no {giver} stands before it, in its list or in one around it. Keep the value by `as`"
    opened = sum(text.count(sign) for sign in "([{")
    closed = sum(text.count(sign) for sign in ")]}")
    return '. If it was cut at a comma inside {…}, quote it: "=…"' if opened != closed else ""

"""Finds out before anything runs which types an expression's parts have, what can never fit, and widens its numbers.

Where an int meets a double, in arithmetic, comparisons, the branches of a condition or the items of a list, the int is
put into ``double(…)``; ``1`` becomes ``1.0``. CEL itself has no operators for the two together. Where nothing is known
of a value (``dyn``) everything may fit. All faults are found in one pass, each with its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Final

from holdfast.expressions.engine import Fault
from holdfast.expressions.functions import GLOBALS, METHODS, NAMESPACES, TYPES, Overload
from holdfast.expressions.operators import ARITHMETIC, NUMBERS, ORDERED, TypedTree, arithmetic, level, leveled, widened
from holdfast.expressions.sentences import misfit, nearest, plain_text, quoted
from holdfast.expressions.shapes import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    TYPE,
    UINT,
    ValueShape,
    could_be,
    could_equal,
    joined,
    list_of,
    map_of,
    optional_of,
)  # fmt: skip
from holdfast.expressions.syntax import (
    MACROS,
    Application,
    Comprehension,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    ListItem,
    MapDisplay,
    MapItem,
    Operation,
    Prefix,
    Presence,
    Selection,
    Spot,
    Subscript,
    Tree,
    Variable,
    start_of,
)  # fmt: skip

_CONSTANTS: Final[Mapping[str, ValueShape]] = {
    "null": NULL, "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES,
}  # fmt: skip


class Checker:
    """Checks expressions over roots with these shapes. ``faults`` gathers what is wrong with all of them."""

    def __init__(self, roots: Mapping[str, ValueShape]) -> None:
        self.faults: list[Fault] = []
        self._roots = roots

    def check(self, tree: Tree, wanted: ValueShape | None = None) -> TypedTree:
        """The checked tree; where a value is ``wanted``, what can never be one is a fault."""
        found = self._check(tree, dict(self._roots))
        if wanted is None:
            return found
        found, _ = level(found, TypedTree(found.tree, wanted))
        if not could_be(found.shape, wanted):
            self._fault(
                start_of(tree),
                f"{wanted.with_article} is needed here, but {quoted(tree)} is {found.shape.with_article}",
            )
        return found

    def _fault(self, at: Spot, what: str) -> None:
        self.faults.append(Fault(at.line, at.column, what))

    def _check(self, tree: Tree, scope: Mapping[str, ValueShape]) -> TypedTree:
        match tree:
            case Constant(kind):
                return TypedTree(tree, _CONSTANTS[kind])
            case Variable():
                return TypedTree(tree, self._variable(tree, scope))
            case Selection(operand, member, optional):
                inner = self._check(operand, scope)
                shape = self._member(inner.shape, member, operand, tree.at)
                is_optional = optional and shape.kind != "optional"
                return TypedTree(
                    dataclasses.replace(tree, operand=inner.tree), optional_of(shape) if is_optional else shape
                )
            case Presence(operand, member):
                inner = self._check(operand, scope)
                self._member(inner.shape, member, operand, tree.at)
                return TypedTree(dataclasses.replace(tree, operand=inner.tree), BOOL)
            case Subscript():
                return self._subscript(tree, scope)
            case Application():
                return self._application(tree, scope)
            case Comprehension():
                return self._comprehension(tree, scope)
            case Prefix():
                return self._prefix(tree, scope)
            case Operation():
                return self._operation(tree, scope)
            case Junction(operator, parts):
                checked = tuple(self._condition(part, scope, f"`{operator}`") for part in parts)
                return TypedTree(dataclasses.replace(tree, parts=checked), BOOL)
            case Conditional():
                return self._conditional(tree, scope)
            case ListDisplay():
                return self._list(tree, scope)
            case MapDisplay():
                return self._map(tree, scope)

    def _variable(self, tree: Variable, scope: Mapping[str, ValueShape]) -> ValueShape:
        known = self._roots if tree.absolute else scope
        if tree.name in known:
            return known[tree.name]
        if tree.name in TYPES:
            return TYPE
        if tree.name == "google":  # google.protobuf.Timestamp is a type
            return DYN
        homes = [f"{root}.{tree.name}" for root, shape in self._roots.items() if tree.name in shape.members]
        hint = f": did you mean `{homes[0]}`?" if homes else nearest(tree.name, known)
        self._fault(tree.at, f"there is no variable `{tree.name}`{hint}")
        return DYN

    def _member(self, shape: ValueShape, member: str, operand: Tree, at: Spot) -> ValueShape:
        if shape.kind == "optional":
            inner = self._member(shape.contained, member, operand, at)
            return inner if inner.kind == "optional" else optional_of(inner)
        if shape.kind not in ("dyn", "map"):
            hint = ": write `[0]`, or a macro such as `.map(x, …)`" if shape.kind == "list" else ""
            self._fault(at, f"{quoted(operand)} is {shape.with_article} and has no member `{member}`{hint}")
            return DYN
        if member in shape.members:
            return shape.members[member]
        if shape.closed:
            self._fault(at, f"there is no `{member}` in {plain_text(operand)}{nearest(member, shape.members)}")
        return shape.contained

    def _subscript(self, tree: Subscript, scope: Mapping[str, ValueShape]) -> TypedTree:
        operand, index = self._check(tree.operand, scope), self._check(tree.index, scope)
        made = dataclasses.replace(tree, operand=operand.tree, index=index.tree)
        shape = operand.shape.contained if operand.shape.kind == "optional" else operand.shape
        found = DYN
        if shape.kind not in ("dyn", "map", "list"):
            self._fault(tree.at, f"{quoted(tree.operand)} is {shape.with_article} and has no items")
        elif shape.kind == "list":
            self._fit(index.shape, NUMBERS, tree.index, "an index of a list must be an int")
            found = shape.contained
        elif isinstance(tree.index, Constant) and isinstance(tree.index.value, str):
            found = self._member(shape, tree.index.value, tree.operand, start_of(tree.index))
        elif shape.kind == "map":
            self._fit(index.shape, {"string", "int", "uint", "bool"}, tree.index, "a key must be a string")
            found = DYN if shape.members else shape.contained
        is_optional = (tree.optional or operand.shape.kind == "optional") and found.kind != "optional"
        return TypedTree(made, optional_of(found) if is_optional else found)

    def _fit(self, shape: ValueShape, kinds: Iterable[str], tree: Tree, why: str) -> None:
        if shape.kind != "dyn" and shape.kind not in kinds:
            self._fault(start_of(tree), f"{why}, but {quoted(tree)} is {shape.with_article}")

    def _condition(self, tree: Tree, scope: Mapping[str, ValueShape], place: str) -> Tree:
        found = self._check(tree, scope)
        self._fit(found.shape, {"bool"}, tree, f"{place} takes conditions")
        return found.tree

    def _application(self, tree: Application, scope: Mapping[str, ValueShape]) -> TypedTree:
        arguments = [self._check(argument, scope) for argument in tree.arguments]
        made = dataclasses.replace(tree, arguments=tuple(argument.tree for argument in arguments))
        if isinstance(tree.target, Variable) and tree.target.name in NAMESPACES:
            space = tree.target.name  # a variable of that name has no such methods: CEL looks for the function first
            if space not in scope or tree.function in NAMESPACES[space]:
                return self._in_namespace(tree, space, arguments)
        if tree.target is not None:
            target = self._check(tree.target, scope)
            made, arguments = dataclasses.replace(made, target=target.tree), [target, *arguments]
            if tree.function == "join" and target.shape.kind == "list":
                self._check_joined(target.shape, tree.target)
        known = GLOBALS if tree.target is None else METHODS
        if tree.function not in known:
            self._unknown_function(tree)
            return TypedTree(made, DYN)
        overload = self._overload(tree, known[tree.function], [argument.shape for argument in arguments])
        return _given(made, overload, arguments)

    def _check_joined(self, shape: ValueShape, tree: Tree) -> None:
        if shape.contained.kind not in ("string", "dyn"):
            what = f"join() needs a list of strings, but {quoted(tree)} is {shape.with_article}"
            self._fault(start_of(tree), what)

    def _in_namespace(self, tree: Application, space: str, arguments: list[TypedTree]) -> TypedTree:
        """A function that is called by the name of its namespace, as ``math.abs(x)``."""
        known = NAMESPACES[space]
        if tree.function in known:
            overload = self._overload(tree, known[tree.function], [argument.shape for argument in arguments])
        else:
            overload = None
            self._fault(tree.at, f"there is no function `{space}.{tree.function}`{nearest(tree.function, known)}")
        chooses = tree.function in ("greatest", "least")
        if chooses and {"double"} < {each.shape.kind for each in arguments} <= NUMBERS:
            arguments = [leveled(each, DOUBLE) for each in arguments]
        made = dataclasses.replace(tree, arguments=tuple(argument.tree for argument in arguments))
        shapes = [argument.shape for argument in arguments]
        if space == "optional":
            return TypedTree(made, optional_of(shapes[0] if shapes else DYN))
        if overload is None or not chooses:
            return TypedTree(made, DYN if overload is None else overload.gives)
        return TypedTree(made, shapes[0].contained if shapes[0].kind == "list" else reduce(joined, shapes))

    def _unknown_function(self, tree: Application) -> None:
        known = {*METHODS, *MACROS} if tree.target is not None else {*GLOBALS, "has"}
        other = GLOBALS if tree.target is not None else METHODS
        if tree.function in other:
            way = f"{tree.function}(…)" if tree.target is not None else f"….{tree.function}(…)"
            hint = f": write `{way}`"
        elif tree.function in known:
            hint = " with as many arguments"
        else:
            hint = nearest(tree.function, known)
        self._fault(tree.at, f"there is no function `{tree.function}`{hint}")

    def _overload(
        self, tree: Application, overloads: tuple[Overload, ...], shapes: list[ValueShape]
    ) -> Overload | None:
        for overload in overloads:
            takes = overload.takes
            if overload.endless:
                takes += takes[-1:] * (len(shapes) - len(takes))
            if len(takes) == len(shapes) and all(map(_takes, takes, shapes)):
                return overload
        is_method = tree.target is not None and not _is_namespace(tree.target)
        given = ", ".join(map(str, shapes[1:] if is_method else shapes)) or "nothing"
        owner = f" of {shapes[0].with_article}" if is_method else ""
        self._fault(tree.at, f"`{tree.function}()`{owner} cannot take {given}")
        return None

    def _comprehension(self, tree: Comprehension, scope: Mapping[str, ValueShape]) -> TypedTree:
        over = self._check(tree.over, scope)
        is_optional = tree.macro in ("optMap", "optFlatMap")
        kinds = {"optional"} if is_optional else {"list", "map"}
        wanted = "an optional value" if is_optional else "a list or a map"
        self._fit(over.shape, kinds, tree.over, f"{tree.macro}() needs {wanted}")
        item = STRING if over.shape.kind == "map" else over.shape.contained
        inner = {**scope, tree.variable: item}
        *conditions, last = tree.parts
        parts = [self._condition(part, inner, f"{tree.macro}()") for part in conditions]
        if tree.macro in ("map", "optMap", "optFlatMap"):
            body = self._check(last, inner)
        else:
            body = TypedTree(self._condition(last, inner, f"{tree.macro}()"), BOOL)
        made = dataclasses.replace(tree, over=over.tree, parts=(*parts, body.tree))
        match tree.macro:
            case "map":
                return TypedTree(made, list_of(body.shape))
            case "filter":
                return TypedTree(made, list_of(item))
            case "optMap":
                return TypedTree(made, optional_of(body.shape))
            case "optFlatMap":
                return TypedTree(made, body.shape)
        return TypedTree(made, BOOL)

    def _prefix(self, tree: Prefix, scope: Mapping[str, ValueShape]) -> TypedTree:
        if tree.operator == "!":
            operand = self._condition(tree.operand, scope, "`!`")
            return TypedTree(dataclasses.replace(tree, operand=operand), BOOL)
        inner = self._check(tree.operand, scope)
        self._fit(inner.shape, {"int", "double"}, tree.operand, "`-` takes a number")
        return TypedTree(dataclasses.replace(tree, operand=inner.tree), inner.shape)

    def _operation(self, tree: Operation, scope: Mapping[str, ValueShape]) -> TypedTree:
        left, right = self._check(tree.left, scope), self._check(tree.right, scope)
        if tree.operator == "in":
            return self._membership(tree, left, right)
        left, right = level(left, right)
        made = dataclasses.replace(tree, left=left.tree, right=right.tree)
        kinds = left.shape.kind, right.shape.kind
        if tree.operator in ARITHMETIC:
            found = arithmetic(tree.operator, left.shape, right.shape)
            if found is not None:
                return TypedTree(made, found)
        elif tree.operator in ("==", "!="):
            if could_equal(left.shape, right.shape):
                return TypedTree(made, BOOL)
        elif (kinds[0] == kinds[1] or "dyn" in kinds) and ORDERED.issuperset(set(kinds) - {"dyn"}):
            return TypedTree(made, BOOL)
        self._fault(tree.at, misfit(tree, left.shape, right.shape))
        return TypedTree(made, DYN if tree.operator in ARITHMETIC else BOOL)

    def _membership(self, tree: Operation, left: TypedTree, right: TypedTree) -> TypedTree:
        self._fit(
            right.shape,
            {"list", "map"},
            tree.right,
            "`in` looks into lists and maps" + (" (texts: `a.contains(b)`)" if right.shape.kind == "string" else ""),
        )
        if right.shape.kind == "list":
            item = TypedTree(left.tree, left.shape)
            leveled, whole = level(TypedTree(ListDisplay((ListItem(item.tree),)), list_of(item.shape)), right)
            assert isinstance(leveled.tree, ListDisplay)
            left, right = TypedTree(leveled.tree.items[0].value, leveled.shape.contained), whole
            if not could_equal(left.shape, right.shape.contained):
                self._fault(tree.at, f"{left.shape.with_article} is never in {right.shape.with_article}")
        elif right.shape.kind == "map":
            self._fit(left.shape, {"string", "int", "uint", "bool"}, tree.left, "keys of a map are strings")
        return TypedTree(dataclasses.replace(tree, left=left.tree, right=right.tree), BOOL)

    def _conditional(self, tree: Conditional, scope: Mapping[str, ValueShape]) -> TypedTree:
        condition = self._condition(tree.condition, scope, "`?`")
        yes, no = level(self._check(tree.yes, scope), self._check(tree.no, scope))
        made = dataclasses.replace(tree, condition=condition, yes=yes.tree, no=no.tree)
        return TypedTree(made, joined(yes.shape, no.shape))

    def _list(self, tree: ListDisplay, scope: Mapping[str, ValueShape]) -> TypedTree:
        items = [(self._check(item.value, scope), item.optional) for item in tree.items]
        shapes = [found.shape.contained if optional else found.shape for found, optional in items]
        mixes = {"double"} < {shape.kind for shape in shapes} <= NUMBERS
        widen = mixes and not any(optional for _, optional in items)
        values = [widened(found.tree) if widen and found.shape.kind != "double" else found.tree for found, _ in items]
        made = dataclasses.replace(
            tree, items=tuple(ListItem(value, optional) for value, (_, optional) in zip(values, items, strict=True))
        )
        if widen:
            return TypedTree(made, list_of(DOUBLE))
        inner = shapes[0] if shapes else DYN
        for shape in shapes[1:]:
            inner = joined(inner, shape)
        return TypedTree(made, list_of(inner))

    def _map(self, tree: MapDisplay, scope: Mapping[str, ValueShape]) -> TypedTree:
        keys = [self._check(item.key, scope) for item in tree.items]
        for key, item in zip(keys, tree.items, strict=True):
            self._fit(key.shape, {"string", "int", "uint", "bool"}, item.key, "a key must be a string")
        values = [self._check(item.value, scope) for item in tree.items]
        made = dataclasses.replace(
            tree,
            items=tuple(
                MapItem(key.tree, value.tree, item.optional)
                for key, value, item in zip(keys, values, tree.items, strict=True)
            ),
        )
        if any(key.shape.kind != "string" for key in keys):
            return TypedTree(made, DYN)
        members = {
            item.key.value: value.shape.contained if item.optional else value.shape
            for item, value in zip(tree.items, values, strict=True)
            if isinstance(item.key, Constant) and isinstance(item.key.value, str)
        }
        return TypedTree(made, map_of(members, closed=False))


def _is_namespace(target: Tree) -> bool:
    return isinstance(target, Variable) and target.name in NAMESPACES


def _takes(kinds: frozenset[str], shape: ValueShape) -> bool:
    return shape.kind in kinds or "dyn" in kinds or shape.kind == "dyn"


def _given(tree: Application, overload: Overload | None, arguments: list[TypedTree]) -> TypedTree:
    """The shape that a function gives, where it depends on its arguments."""
    if overload is None:
        return TypedTree(tree, DYN)
    first = arguments[0].shape if arguments else DYN
    match tree.function if tree.target is not None else "":
        case "value":
            return TypedTree(tree, first.contained)
        case "or":
            return TypedTree(tree, joined(first, arguments[1].shape))
        case "first" | "last":
            return TypedTree(tree, optional_of(first.contained))
        case "orValue":
            other = leveled(arguments[1], first.contained)
            return TypedTree(dataclasses.replace(tree, arguments=(other.tree,)), joined(first.contained, other.shape))
    return TypedTree(tree, overload.gives)

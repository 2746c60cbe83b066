"""Evaluates an expression by walking its tree: one function for each kind of node that is allowed, and no other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from holdfast.programs.machine.charts.expressions import functions, operators
from holdfast.programs.machine.charts.expressions.dialect import Datamodel, read_expression
from holdfast.programs.machine.charts.expressions.values import (
    Budget,
    ExpressionFault,
    bounded,
    size_of,
    stored,
    weigh,
)

_PYTHON_ERRORS: Final = (
    TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip


@contextmanager
def faults() -> Iterator[None]:
    """What Python raises about the data becomes an ExpressionFault."""
    try:
        yield
    except _PYTHON_ERRORS as error:
        raise ExpressionFault(f"{type(error).__name__}: {error}") from error


class Evaluator:
    """Evaluates in one session: its variables, its system variables, its states, one budget."""

    def __init__(
        self,
        datamodel: Datamodel,
        data: dict[str, Any],
        system: Mapping[str, Any],
        is_active: Callable[[str], bool],
        budget: Budget,
    ) -> None:
        self.datamodel = datamodel
        self.data = data
        self.system = system
        self.budget = budget
        self.ecmascript = datamodel == "ecmascript"
        self.is_script = False
        self._is_active = is_active
        self._locals: list[dict[str, Any]] = []

    def evaluate(self, text: str) -> Any:
        """An expression's value, as a copy. Raises ExpressionFault."""
        tree = read_expression(text, self.datamodel)
        with faults():
            return stored(self.value(tree), self.budget)

    def is_true(self, text: str) -> bool:
        """Whether a condition holds. Raises ExpressionFault."""
        tree = read_expression(text, self.datamodel)
        with faults():
            return self.truth(self.value(tree))

    def truth(self, value: Any) -> bool:
        """Whether a value counts as true."""
        return operators.is_true(value, ecmascript=self.ecmascript)

    def value(self, node: ast.expr) -> Any:
        """A node's value, which may share parts with variables."""
        self.budget.spend()
        act = _NODES.get(type(node))
        if act is None:
            raise ExpressionFault(f"{type(node).__name__} is not part of the expressions that are known here")
        return act(self, node)

    def name(self, node: ast.Name) -> Any:
        """A variable's value."""
        name = node.id
        for scope in reversed(self._locals):
            if name in scope:
                return scope[name]
        if name in self.system:
            return self.system[name]
        if name in self.data:
            return self.data[name]
        raise ExpressionFault(f"there is no variable {name!r}: declare it with <data>")

    def constant(self, node: ast.Constant) -> Any:
        """A number, a text, a boolean or None."""
        return bounded(node.value)

    def attribute(self, node: ast.Attribute) -> Any:
        """A member of a map."""
        if node.attr.startswith("_"):
            raise ExpressionFault(f"names that begin with _ are not reached: {node.attr!r}")
        return functions.member(self.value(node.value), node.attr, ecmascript=self.ecmascript)

    def subscript(self, node: ast.Subscript) -> Any:
        """An item, or a part of a text or list."""
        value = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(None if bound is None else self.value(bound) for bound in bounds))]
        key = self.value(node.slice)
        if self.ecmascript and isinstance(value, dict):
            return value.get(key)
        if self.ecmascript and isinstance(value, (list, str)) and type(key) is int:
            return value[key] if 0 <= key < len(value) else None
        return value[key]

    def binary(self, node: ast.BinOp) -> Any:
        """Two values and an operator."""
        return self.combined(type(node.op), self.value(node.left), self.value(node.right))

    def combined(self, kind: type[ast.operator], left: Any, right: Any) -> Any:
        """The result of a binary operator, paid for by its size."""
        result = operators.combine(kind, left, right, ecmascript=self.ecmascript)
        self.budget.spend(size_of(result))
        return result

    def unary(self, node: ast.UnaryOp) -> Any:
        """An operator before a value."""
        return operators.negate(type(node.op), self.value(node.operand), ecmascript=self.ecmascript)

    def boolean(self, node: ast.BoolOp) -> Any:
        """``and`` and ``or``: the value that decided."""
        value: Any = None
        for operand in node.values:
            value = self.value(operand)
            if self.truth(value) is isinstance(node.op, ast.Or):
                break
        return value

    def comparison(self, node: ast.Compare) -> bool:
        """A chain of comparisons."""
        if self.ecmascript and len(node.ops) > 1:
            raise ExpressionFault("ECMAScript has no chains of comparisons: use &&")
        left = self.value(node.left)
        for kind, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            if isinstance(right, (list, dict)):
                weigh(right, self.budget)
            if not operators.compare(type(kind), left, right, ecmascript=self.ecmascript):
                return False
            left = right
        return True

    def choice(self, node: ast.IfExp) -> Any:
        """One of two values."""
        return self.value(node.body if self.truth(self.value(node.test)) else node.orelse)

    def sequence(self, node: ast.List | ast.Tuple) -> Any:
        """A list. A tuple is one as well: stored data has no other."""
        if self.ecmascript and isinstance(node, ast.Tuple):
            raise ExpressionFault("ECMAScript's comma operator is not known here")
        return bounded([self.value(item) for item in node.elts])

    def mapping(self, node: ast.Dict) -> Any:
        """A map. In ECMAScript a key need not be quoted."""
        return bounded({self._key(key): self.value(item) for key, item in zip(node.keys, node.values, strict=True)})

    def _key(self, node: ast.expr | None) -> str:
        if self.ecmascript and isinstance(node, ast.Name):
            return node.id
        key = None if node is None else self.value(node)
        if not isinstance(key, str):
            raise ExpressionFault("a map's keys must be texts")
        return key

    def text(self, node: ast.JoinedStr) -> str:
        """A text with values in it."""
        parts: list[str] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None or part.conversion not in (-1, ord("s")):
                    raise ExpressionFault("a value in a text takes no format")
                parts.append(functions.text_of(self.value(part.value)))
            else:
                parts.append(self.value(part))
        return functions.joined("", parts)

    def call(self, node: ast.Call) -> Any:
        """A call of one of the known functions and methods."""
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise ExpressionFault("arguments are not spread with *")
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg is not None}
        match node.func:
            case ast.Name(id="In"):
                (state,) = (self.value(argument) for argument in node.args)
                return self._is_active(state)
            case ast.Name(id=name) if name in functions.FUNCTIONS:
                return self._called(name, functions.FUNCTIONS[name], [self.value(each) for each in node.args], named)
            case ast.Attribute(value=owner, attr=name):
                value = self.value(owner)
                function = functions.method(value, name, script=self.is_script, ecmascript=self.ecmascript)
                arguments = [self.value(argument) for argument in node.args]
                if self.is_script:  # what is put into a variable must not be part of another
                    arguments = [stored(argument, self.budget) for argument in arguments]
                result = self._called(name, function, [value, *arguments], named)
                bounded(value)  # it may have grown
                return result
            case ast.Name(id=name):
                raise ExpressionFault(f"there is no function {name!r} here")
        raise ExpressionFault("only functions and methods that have a name are called")

    def _called(self, name: str, function: functions.Function, arguments: list[Any], named: dict[str, Any]) -> Any:
        for argument in arguments:
            if name in functions.DEEP:
                weigh(argument, self.budget)
            else:
                self.budget.spend(size_of(argument))
        result = functions.called(function, arguments, named)
        self.budget.spend(size_of(result))
        return result

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        """A list made from others."""
        found: list[Any] = []
        for _ in self._rows(node.generators):
            found.append(self.value(node.elt))  # each value sees the row's variables
            bounded(found)
        return found

    def map_comprehension(self, node: ast.DictComp) -> Any:
        """A map made from lists."""
        found: dict[str, Any] = {}
        for _ in self._rows(node.generators):
            found[self._key(node.key)] = self.value(node.value)
            bounded(found)
        return found

    def _rows(self, generators: list[ast.comprehension]) -> Iterator[None]:
        if not generators:
            yield
            return
        first, *rest = generators
        items = self.value(first.iter)
        if not isinstance(items, (str, list, dict)):
            raise ExpressionFault(f"a {type(items).__name__} has no items to go through")
        for item in list(items):
            self._locals.append(_unpacked(first.target, item))
            if all(self.truth(self.value(test)) for test in first.ifs):
                yield from self._rows(rest)
            self._locals.pop()


def _unpacked(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, (ast.Tuple, ast.List)):
        names = [each.id for each in target.elts if isinstance(each, ast.Name)]
        if len(names) == len(target.elts) == len(item):
            return dict(zip(names, item, strict=True))
    raise ExpressionFault("the items do not fit the variables that they are given to")


_NODES: Final[dict[type[ast.expr], Callable[[Evaluator, Any], Any]]] = {
    ast.Attribute: Evaluator.attribute,
    ast.BinOp: Evaluator.binary,
    ast.BoolOp: Evaluator.boolean,
    ast.Call: Evaluator.call,
    ast.Compare: Evaluator.comparison,
    ast.Constant: Evaluator.constant,
    ast.Dict: Evaluator.mapping,
    ast.DictComp: Evaluator.map_comprehension,
    ast.GeneratorExp: Evaluator.comprehension,
    ast.IfExp: Evaluator.choice,
    ast.JoinedStr: Evaluator.text,
    ast.List: Evaluator.sequence,
    ast.ListComp: Evaluator.comprehension,
    ast.Name: Evaluator.name,
    ast.Subscript: Evaluator.subscript,
    ast.Tuple: Evaluator.sequence,
    ast.UnaryOp: Evaluator.unary,
}

EXPRESSION_NODES: Final = frozenset(_NODES)
"""Which kinds of nodes an expression may be made of."""

"""Expressions written in Python: ``D.state.score > 0.5`` is the tree of ``state.score > 0.5``.

A term stands for a value that is not there yet. Its members, operators and functions are CEL's, so nothing here
evaluates anything: ``tree_of`` gives the tree, and that has the same normal text as the one that is parsed from CEL.

=====================  ==========================================
in CEL                 in Python
=====================  ==========================================
``state.a.b[0]``       ``D.state.a.b[0]``
``a && b || !c``       ``a & b | ~c``
``x in [1, 2]``        ``x.is_in([1, 2])``
``c ? a : b``          ``when(c, a, b)``
``has(state.x)``       ``has(D.state.x)``
``state.?x``           ``D.state.maybe("x")``
``state.class``        ``D.state.member("class")``
``size(xs)``           ``D.size(xs)``
``s.startsWith("a")``  ``s.startsWith("a")``
``xs.map(x, x + 1)``   ``xs.map(lambda x: x + 1)``
anything               ``D.cel("...")``
=====================  ==========================================
"""

from __future__ import annotations

import datetime
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

from holdfast.expressions.lexer import IDENTIFIER, QUOTABLE
from holdfast.expressions.parser import parse
from holdfast.expressions.printer import unparse
from holdfast.expressions.syntax import (
    MACROS,
    RESERVED,
    WORDS,
    Application,
    Comprehension,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    ListItem,
    Macro,
    MapDisplay,
    MapItem,
    Operation,
    Operator,
    Prefix,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
)
from holdfast.programs.definition.term_source import source_of

_LEAST, _MOST = -(2**63), 2**63 - 1
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_NO_TRUTH: Final = (
    "a term is true or false only when the run gets there: write `&`, `|`, `~` for and, or, not (with brackets around "
    "comparisons), `when(c, a, b)` for if, `x.is_in(xs)` for in, and `(a < b) & (b < c)` for a < b < c"
)


_Function = Callable[["Term"], Any]


class Term:
    """An expression. Every attribute is a member of its value, but for the few methods here."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def __repr__(self) -> str:
        return source_of(self._tree)

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(f"a term has no attribute {name!r}: for a member of that name write member({name!r})")
        return self.member(name)

    def __getitem__(self, index: Operand) -> Term:
        return Term(Subscript(self._tree, tree_of(index)))

    def __call__(self, *arguments: Any) -> Term:
        """Call the function that the last name is: ``D.size(xs)``, ``s.contains("a")``."""
        match self._tree:
            case Variable("has"):
                return has(*arguments)
            case Variable(name, False):
                return Term(Application(name, None, tuple(map(tree_of, arguments))))
            case Selection(target, "optMap" | "optFlatMap" as macro, False) if len(arguments) == 1:
                return Term(target)._looped(macro, arguments[0])
            case Selection(target, member, False) if IDENTIFIER.fullmatch(member) and member not in MACROS:
                return Term(Application(member, target, tuple(map(tree_of, arguments))))
        raise TypeError(f"{self!r} is no function")

    def member(self, name: str) -> Term:
        """The member of this name, whatever the name means in Python."""
        return Term(Selection(self._tree, _member(name)))

    def maybe(self, name: str) -> Term:
        """The member if it is there, as in ``D.state.maybe("x").orValue(0)``."""
        return Term(Selection(self._tree, _member(name), optional=True))

    def maybe_at(self, index: Operand) -> Term:
        """The item at an index or key if it is there."""
        return Term(Subscript(self._tree, tree_of(index), optional=True))

    def is_in(self, values: Operand) -> Term:
        """Whether it is among the items of a list, or the keys of a map."""
        return self._with("in", values)

    def map(self, function: Callable[[Term], Operand], *, where: Callable[[Term], Operand] | None = None) -> Term:
        """A list of what the function gives for each item, or for those for which ``where`` holds."""
        return self._looped("map", function, where)

    def filter(self, function: Callable[[Term], Operand]) -> Term:
        """A list of the items for which the function is true."""
        return self._looped("filter", function)

    def all(self, function: Callable[[Term], Operand]) -> Term:
        """Whether it is true for each item."""
        return self._looped("all", function)

    def exists(self, function: Callable[[Term], Operand]) -> Term:
        """Whether it is true for an item."""
        return self._looped("exists", function)

    def exists_one(self, function: Callable[[Term], Operand]) -> Term:
        """Whether it is true for exactly one item."""
        return self._looped("exists_one", function)

    def _looped(self, macro: Macro, function: _Function, where: _Function | None = None) -> Term:
        name = _parameter(function)
        functions = [function] if where is None else [where, function]
        parts = tuple(tree_of(each(Term(Variable(name)))) for each in functions)
        return Term(Comprehension(macro, self._tree, name, parts))

    def _with(self, operator: str, other: object) -> Term:
        return Term(Operation(cast("Operator", operator), self._tree, tree_of(other)))

    def _after(self, operator: str, other: object) -> Term:
        return Term(Operation(cast("Operator", operator), tree_of(other), self._tree))

    def __eq__(self, other: object) -> Term:  # type: ignore[override]  # a term, to be evaluated later
        return self._with("==", other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return self._with("!=", other)

    __hash__ = None  # type: ignore[assignment]  # two terms are never simply equal

    def __lt__(self, other: Operand) -> Term:
        return self._with("<", other)

    def __le__(self, other: Operand) -> Term:
        return self._with("<=", other)

    def __gt__(self, other: Operand) -> Term:
        return self._with(">", other)

    def __ge__(self, other: Operand) -> Term:
        return self._with(">=", other)

    def __add__(self, other: Operand) -> Term:
        return self._with("+", other)

    def __radd__(self, other: Operand) -> Term:
        return self._after("+", other)

    def __sub__(self, other: Operand) -> Term:
        return self._with("-", other)

    def __rsub__(self, other: Operand) -> Term:
        return self._after("-", other)

    def __mul__(self, other: Operand) -> Term:
        return self._with("*", other)

    def __rmul__(self, other: Operand) -> Term:
        return self._after("*", other)

    def __truediv__(self, other: Operand) -> Term:
        return self._with("/", other)

    def __rtruediv__(self, other: Operand) -> Term:
        return self._after("/", other)

    def __mod__(self, other: Operand) -> Term:
        return self._with("%", other)

    def __rmod__(self, other: Operand) -> Term:
        return self._after("%", other)

    def __and__(self, other: Operand) -> Term:
        return Term(Junction("&&", (self._tree, tree_of(other))))

    def __rand__(self, other: Operand) -> Term:
        return Term(Junction("&&", (tree_of(other), self._tree)))

    def __or__(self, other: Operand) -> Term:
        return Term(Junction("||", (self._tree, tree_of(other))))

    def __ror__(self, other: Operand) -> Term:
        return Term(Junction("||", (tree_of(other), self._tree)))

    def __invert__(self) -> Term:
        return Term(Prefix("!", self._tree))

    def __neg__(self) -> Term:
        return Term(Prefix("-", self._tree))

    def __bool__(self) -> NoReturn:
        raise TypeError(_NO_TRUTH)

    def __contains__(self, item: object) -> NoReturn:
        raise TypeError(_NO_TRUTH)

    def __iter__(self) -> NoReturn:
        raise TypeError("a term's items are not there yet: write `xs.map(lambda x: …)`, or a `repeat` over them")

    def __len__(self) -> NoReturn:
        raise TypeError("a term's size is not known yet: write `xs.size()`")

    def __format__(self, how: str) -> NoReturn:
        raise TypeError("a term's value is not there yet: write `'Claim ' + D.start.claimNo`, not an f-string")


Operand = (
    Term | bool | int | float | str | bytes | None | datetime.datetime | datetime.timedelta | Sequence[Any]
    | Mapping[str, Any]
)  # fmt: skip
"""What can stand in an expression: a term, or a plain value."""


class _Roots:
    """The roots of expressions, and the names that a ``repeat`` binds; as functions, those of CEL."""

    start: Term
    state: Term
    payload: Term
    result: Term
    item: Term
    index: Term
    error: Term
    run: Term
    nodes: Term
    local: Term
    now: Term

    def __getattr__(self, name: str) -> Term:
        if name.startswith("_"):
            raise AttributeError(f"D has no {name!r}: write D.cel({name!r})")
        return Term(Variable(_variable(name)))

    def cel(self, text: str) -> Term:
        """An expression in CEL. Raises InvalidExpression."""
        return Term(parse(text))


D: Final = _Roots()


def has(member: Term) -> Term:
    """Whether a member is there: ``has(D.state.x)``."""
    tree = tree_of(member)
    if not isinstance(tree, Selection) or tree.optional:
        raise TypeError(f"has() takes a member, as has(D.state.x), not {source_of(tree)}")
    return Term(Presence(tree.operand, tree.member))


def when(condition: Operand, yes: Operand, no: Operand) -> Term:
    """One value or another."""
    return Term(Conditional(tree_of(condition), tree_of(yes), tree_of(no)))


def value(plain: Operand) -> Term:
    """A plain value as a term, where Python would otherwise compute with it: ``value(2) < D.state.x``."""
    return Term(tree_of(plain))


def cel_of(operand: Operand) -> str:
    """The normal text, in CEL, of a term or a plain value."""
    return unparse(tree_of(operand))


def tree_of(operand: object) -> Tree:
    """The tree of a term or a plain value. Raises TypeError or ValueError for what CEL cannot say."""
    match operand:
        case Term():
            return operand._tree
        case None | bool():
            return Constant("null" if operand is None else "bool", operand)
        case int():
            if not _LEAST <= operand <= _MOST:
                raise ValueError("an integer has more than 64 bits")
            return Constant("int", int(operand))
        case float():
            if math.isnan(operand):
                raise ValueError("CEL cannot write NaN")
            return Constant("double", float(operand))
        case str():
            operand.encode()
            return Constant("string", str.__str__(operand))
        case bytes():
            return Constant("bytes", operand)
    return _composed(operand)


def _composed(operand: object) -> Tree:
    match operand:
        case list() | tuple():
            return ListDisplay(tuple(ListItem(tree_of(item)) for item in operand))
        case Mapping():
            return MapDisplay(tuple(MapItem(tree_of(key), tree_of(item)) for key, item in operand.items()))
        case datetime.timedelta():
            count, rest = divmod(operand // _MICROSECOND, 1_000_000)
            text = f"{count}s" if rest == 0 else f"{operand // _MICROSECOND}us"
            return Application("duration", None, (Constant("string", text),))
        case datetime.datetime():
            if operand.tzinfo is None:
                raise ValueError("a time needs a zone: write datetime(…, tzinfo=UTC)")
            text = operand.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
            return Application("timestamp", None, (Constant("string", text),))
    raise TypeError(f"CEL has no values of type {type(operand).__name__}: write a plain value or a term, as D.state.x")


def _member(name: str) -> str:
    if not IDENTIFIER.fullmatch(name) and not QUOTABLE.fullmatch(name):
        raise ValueError(f"no member can be named {name!r}: write [{name!r}]")
    return name


def _variable(name: str) -> str:
    if not IDENTIFIER.fullmatch(name) or name in RESERVED | WORDS or name.startswith("__"):
        raise ValueError(f"no variable of CEL can be named {name!r}")
    return name


def _parameter(function: Callable[..., Any]) -> str:
    """The name that a lambda gives to the item: CEL's variable has the same."""
    if not callable(function):
        raise TypeError("write a lambda with one parameter, as `xs.map(lambda x: x + 1)`")
    names = list(inspect.signature(function).parameters)
    if len(names) != 1:
        raise TypeError("write a lambda with one parameter, as `xs.map(lambda x: x + 1)`")
    return _variable(names[0])

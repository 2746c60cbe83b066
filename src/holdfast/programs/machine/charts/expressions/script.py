"""Assignments to locations, and scripts: the few statements that are known, run over the session's variables.

A loop's variable and whatever else is assigned to holds a copy of the value, as ``<assign>`` does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from holdfast.programs.machine.charts.expressions.dialect import read_expression, read_script
from holdfast.programs.machine.charts.expressions.evaluator import Evaluator, faults
from holdfast.programs.machine.charts.expressions.values import ExpressionFault, bounded, is_xml, stored


class _Break(Exception):  # signals of control flow within this module
    pass


class _Continue(Exception):
    pass


def assign(evaluator: Evaluator, location: str, value: Any) -> None:
    """Put a value at a location, such as ``x``, ``x.name`` or ``x[0]``, where ``x`` is declared.

    Raises ExpressionFault, and then nothing has changed.
    """
    if evaluator.datamodel == "null":
        raise ExpressionFault("the null data model has no variables: say datamodel='python'")
    target = read_expression(location, evaluator.datamodel)
    with _kept_sound(evaluator, _root(target)), faults():
        _put(evaluator, target, value, declared=True)


def declare(evaluator: Evaluator, name: str, value: Any) -> None:
    """Put a value into a variable, which need not be declared. Raises ExpressionFault where it is no name for one."""
    with faults():
        target = read_expression(name, evaluator.datamodel)
        if not isinstance(target, ast.Name):
            raise ExpressionFault(f"{name!r} is no name of a variable")
        _put(evaluator, target, value, declared=False)


def run_script(evaluator: Evaluator, text: str) -> None:
    """Run a script. Raises ExpressionFault, and then it has changed nothing."""
    body = read_script(text, evaluator.datamodel)
    evaluator.is_script = True
    try:
        with _kept_sound(evaluator, *evaluator.data), faults():
            _block(evaluator, body)
    except (_Break, _Continue):
        raise ExpressionFault("break and continue stand only in a loop") from None
    finally:
        evaluator.is_script = False


@contextmanager
def _kept_sound(evaluator: Evaluator, *names: str) -> Iterator[None]:
    """Change variables as a whole or not at all: a value that cannot be stored must not stay in one."""
    data, budget = evaluator.data, evaluator.budget
    known = set(data)
    before = {name: stored(data[name], budget) for name in names if name in data}
    try:
        yield
        for name in sorted(data.keys() - known | before.keys()):  # the first fault must not depend on hashes
            stored(data[name], budget)
    except ExpressionFault:
        for name in data.keys() - known:
            del data[name]
        data.update(before)
        raise


def _root(target: ast.expr) -> str:
    """The variable of a location, if it has one."""
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def _put(evaluator: Evaluator, target: ast.expr, value: Any, *, declared: bool) -> None:
    value = stored(value, evaluator.budget)
    match target:
        case ast.Name(id=name):
            if name.startswith("_"):
                raise ExpressionFault(f"{name!r} is the system's: nothing is assigned to it")
            if declared and name not in evaluator.data:
                raise ExpressionFault(f"there is no variable {name!r}: declare it with <data>")
            evaluator.data[name] = value
        case ast.Attribute(attr=name):
            if name.startswith("_"):
                raise ExpressionFault(f"names that begin with _ are not reached: {name!r}")
            owner = _owner(evaluator, target)
            if not isinstance(owner, dict) or is_xml(owner):
                raise ExpressionFault(f"a {type(owner).__name__} has no members to assign to")
            owner[name] = value
            bounded(owner)
        case ast.Subscript(slice=place) if not isinstance(place, ast.Slice):
            owner = _owner(evaluator, target)
            key = evaluator.value(place)
            if isinstance(owner, dict) and not isinstance(key, str):
                raise ExpressionFault("a map's keys must be texts")
            owner[key] = value
            bounded(owner)
        case _:
            raise ExpressionFault("nothing can be assigned to this: give a variable, a member or an item")


def _owner(evaluator: Evaluator, target: ast.Attribute | ast.Subscript) -> Any:
    name = _root(target)
    if not name or name.startswith("_"):
        raise ExpressionFault("only what is in a variable of the chart can be changed")
    return evaluator.value(target.value)


def _block(evaluator: Evaluator, body: Sequence[ast.stmt]) -> None:
    for statement in body:
        evaluator.budget.spend()
        act = _STATEMENTS.get(type(statement))
        if act is None:
            raise ExpressionFault(f"{type(statement).__name__} is not part of the scripts that are known here")
        act(evaluator, statement)


def _assignment(evaluator: Evaluator, statement: ast.Assign) -> None:
    value = evaluator.value(statement.value)
    for target in statement.targets:
        _spread(evaluator, target, value)


def _spread(evaluator: Evaluator, target: ast.expr, value: Any) -> None:
    if not isinstance(target, (ast.Tuple, ast.List)):
        _put(evaluator, target, value, declared=False)
        return
    for each, item in zip(target.elts, stored(value, evaluator.budget), strict=True):
        _spread(evaluator, each, item)


def _augmented(evaluator: Evaluator, statement: ast.AugAssign) -> None:
    old = evaluator.value(statement.target)
    new = evaluator.combined(type(statement.op), old, evaluator.value(statement.value))
    _put(evaluator, statement.target, new, declared=True)


def _conditional(evaluator: Evaluator, statement: ast.If) -> None:
    holds = evaluator.truth(evaluator.value(statement.test))
    _block(evaluator, statement.body if holds else statement.orelse)


def _for(evaluator: Evaluator, statement: ast.For) -> None:
    items = evaluator.value(statement.iter)
    if not isinstance(items, (str, list, dict)):
        raise ExpressionFault(f"a {type(items).__name__} has no items to go through")
    for item in list(items):
        _spread(evaluator, statement.target, item)
        try:
            _block(evaluator, statement.body)
        except _Break:
            return
        except _Continue:
            continue
    _block(evaluator, statement.orelse)


def _while(evaluator: Evaluator, statement: ast.While) -> None:
    while evaluator.truth(evaluator.value(statement.test)):
        evaluator.budget.spend()
        try:
            _block(evaluator, statement.body)
        except _Break:
            return
        except _Continue:
            continue
    _block(evaluator, statement.orelse)


def _expression(evaluator: Evaluator, statement: ast.Expr) -> None:
    evaluator.value(statement.value)


def _signal(signal: type[Exception] | None) -> Callable[[Evaluator, ast.stmt], None]:
    def act(*_: object) -> None:
        if signal is not None:
            raise signal

    return act


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[Evaluator, Any], None]]] = {
    ast.Assign: _assignment,
    ast.AugAssign: _augmented,
    ast.Break: _signal(_Break),
    ast.Continue: _signal(_Continue),
    ast.Expr: _expression,
    ast.For: _for,
    ast.If: _conditional,
    ast.Pass: _signal(None),
    ast.While: _while,
}

SCRIPT_NODES: Final = frozenset(_STATEMENTS)
"""Which kinds of statements a script may be made of."""

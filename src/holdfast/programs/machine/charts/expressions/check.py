"""Says before a chart runs which of its expressions can never have a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.programs.machine.charts.expressions.dialect import Datamodel, read_expression, read_script
from holdfast.programs.machine.charts.expressions.evaluator import EXPRESSION_NODES
from holdfast.programs.machine.charts.expressions.functions import FUNCTIONS, METHODS
from holdfast.programs.machine.charts.expressions.script import SCRIPT_NODES
from holdfast.programs.machine.charts.expressions.values import ExpressionFault

_INSIDE: Final = (ast.FormattedValue, ast.Slice)


def expression_fault(text: str, datamodel: Datamodel) -> str:
    """What is wrong with an expression, or nothing."""
    return _fault(lambda: (read_expression(text, datamodel),))


def script_fault(text: str, datamodel: Datamodel) -> str:
    """What is wrong with a script, or nothing."""
    return _fault(lambda: read_script(text, datamodel))


def _fault(read: Callable[[], Iterable[ast.AST]]) -> str:
    try:
        trees = list(read())
    except ExpressionFault as fault:
        return str(fault)
    return next((wrong for tree in trees for node in ast.walk(tree) if (wrong := _unknown(node))), "")


def _unknown(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name not in FUNCTIONS and name != "In":
            return f"there is no function {name!r} here"
        case ast.Call(func=ast.Attribute(attr=name)) if name not in METHODS:
            return f"there is no method {name!r} here"
        case ast.Call(func=ast.Name() | ast.Attribute()) | ast.Name() | ast.Constant():
            return ""
        case ast.stmt() if type(node) not in SCRIPT_NODES:
            return f"{type(node).__name__} is not part of the scripts that are known here"
        case ast.expr() if type(node) not in EXPRESSION_NODES and not isinstance(node, _INSIDE):
            return f"{type(node).__name__} is not part of the expressions that are known here"
    return ""

"""Reads the texts of the three data models as Python's syntax tree.

ECMAScript is read as far as Python can express it: its operators are rewritten, and whatever is left must be Python's
syntax too. ``!`` becomes ``~``, which binds as tightly, and ``===`` becomes ``is``; the operators know what they mean.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from functools import lru_cache
from typing import Final, Literal

from holdfast.programs.machine.charts.expressions.values import ExpressionFault

Datamodel = Literal["python", "null", "ecmascript"]

EXPRESSION_LIMIT: Final = 4_096
SCRIPT_LIMIT: Final = 32_768
TREE_LIMIT: Final = 100
_TOO_DEEP: Final = f"it is nested more than {TREE_LIMIT} levels deep"

_ECMASCRIPT: Final = {
    "===": " is ",
    "!==": " is not ",
    "&&": " and ",
    "||": " or ",
    "!": "~",
    "true": "True",
    "false": "False",
    "null": "None",
    "undefined": "None",
}
_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:\\[\s\S]|[^'\\])*+'?|"(?:\\[\s\S]|[^"\\])*+"?)|===|!==|!=|&&|\|\||!|(?<![\w.$])(?:true|false|null|undefined)\b"""
)
_COUNTING: Final = re.compile(r"\+\+|--")
_NULL: Final = re.compile(r"\s*In\(\s*+(?P<quote>['\"]?)(?P<id>[^'\"()]++)(?P=quote)\s*\)\s*")


@lru_cache(maxsize=4096)
def read_expression(text: str, datamodel: Datamodel) -> ast.expr:
    """The tree of an expression. Raises ExpressionFault."""
    text = text.strip()
    if datamodel == "null":
        return _null(text)
    if datamodel == "ecmascript":
        text = _rewritten(text)
    if not text:
        raise ExpressionFault("the expression is empty")
    module = _tree(f"({text}\n)", EXPRESSION_LIMIT)
    match module.body:
        case [ast.Expr(value=value)]:
            return value
    raise ExpressionFault(f"{text!r} is no single expression")


@lru_cache(maxsize=512)
def read_script(text: str, datamodel: Datamodel) -> tuple[ast.stmt, ...]:
    """The statements of a script. Raises ExpressionFault."""
    if datamodel == "null":
        raise ExpressionFault("the null data model has no scripts: say datamodel='python'")
    text = text.expandtabs()
    if datamodel == "ecmascript":
        text = re.sub(r";[ \t]*$", "", _rewritten(text), flags=re.MULTILINE)
    try:
        return tuple(_tree(textwrap.dedent(text), SCRIPT_LIMIT).body)
    except ExpressionFault:
        first, _, rest = text.partition("\n")
        if not rest.strip() or not first.strip():
            raise
    # the first line stands behind the tag, and says nothing about how far the others are indented
    return tuple(_tree(f"{first.strip()}\n{textwrap.dedent(rest)}", SCRIPT_LIMIT).body)


def _tree(text: str, limit: int) -> ast.Module:
    if len(text) > limit:
        raise ExpressionFault(f"the text has more than {limit:,} characters")
    try:
        with warnings.catch_warnings():  # of odd escapes, which are the author's
            warnings.simplefilter("ignore")
            return _shallow(ast.parse(text))
    except SyntaxError as error:
        raise ExpressionFault(f"it cannot be read: {error.msg}") from None
    except ValueError as error:
        raise ExpressionFault(f"it cannot be read: {error}") from None
    except (RecursionError, MemoryError):
        raise ExpressionFault(_TOO_DEEP) from None


def _shallow(module: ast.Module) -> ast.Module:
    """Refuses a tree whose evaluation could reach the stack's end: where that is depends on the caller."""
    level: list[ast.AST] = [module]
    for _ in range(TREE_LIMIT):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionFault(_TOO_DEEP)
    return module


def _rewritten(text: str) -> str:
    text = _TOKEN.sub(_python, text)
    if _COUNTING.search(_TOKEN.sub("", text)):
        raise ExpressionFault("++ and -- are not known here: write x + 1")
    return text


def _python(found: re.Match[str]) -> str:
    return found[0] if found["text"] else _ECMASCRIPT.get(found[0], found[0])


def _null(text: str) -> ast.expr:
    found = _NULL.fullmatch(text)
    if found is None:
        raise ExpressionFault(f"the null data model has only In('a state'), not {text!r}: say datamodel='python'")
    return ast.Call(ast.Name("In", ast.Load()), [ast.Constant(found["id"].strip())], [])

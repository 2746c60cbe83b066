"""What the checker says of expressions: quotations, and what does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from holdfast.expressions.operators import ARITHMETIC
from holdfast.expressions.printer import unparse
from holdfast.expressions.shapes import ValueShape
from holdfast.expressions.syntax import Operation, Selection, Tree, Variable

_LONGEST_QUOTE: Final = 60


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that says which name may have been meant."""
    found = difflib.get_close_matches(name, sorted(known), 1)
    return f": did you mean `{found[0]}`?" if found else ""


def misfit(tree: Operation, left: ValueShape, right: ValueShape) -> str:
    if tree.operator == "+" and "string" in (left.kind, right.kind):
        return (
            f"`+` cannot join {left.with_article} and {right.with_article}: write `string(…)` around what is no string"
        )
    if tree.operator == "%" and "double" in (left.kind, right.kind):
        return "`%` takes integers, and there is a double: write `int(…)` around it"
    if tree.operator in ("==", "!="):
        return f"{left.with_article} never equals {right.with_article}"
    verb = "compare" if tree.operator not in ARITHMETIC else "take"
    return f"`{tree.operator}` cannot {verb} {left.with_article} and {right.with_article}"


def quoted(tree: Tree) -> str:
    text = unparse(tree)
    return f"`{text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + '…'}`"


def plain_text(tree: Tree) -> str:
    """A plain path as it is, anything else in quotes."""
    return unparse(tree) if isinstance(tree, Variable | Selection) else quoted(tree)

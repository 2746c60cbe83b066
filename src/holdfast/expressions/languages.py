"""The languages of expressions, behind one shape: whoever evaluates a definition does not know which one it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from holdfast.expressions.expression import Expression
from holdfast.expressions.reads import Read
from holdfast.expressions.shapes import ValueShape

Language = Literal["cel", "jq"]


class Formula(Protocol):
    """An expression of any language."""

    @property
    def text(self) -> str:
        """Its normal text. A formula made of it is the same."""
        ...

    @property
    def shape(self) -> ValueShape:
        """What is known of its value."""
        ...

    @property
    def reads(self) -> frozenset[Read]:
        """What it reads: each root with the members that it selects."""
        ...

    @property
    def roots(self) -> frozenset[str]:
        """The variables that it reads."""
        ...

    @property
    def functions(self) -> frozenset[str]:
        """The functions that it calls."""
        ...

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value. Raises CannotEvaluate."""
        ...

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Whether it is true. Raises CannotEvaluate."""
        ...


def formula(
    language: Language,
    text: str,
    roots: Mapping[str, ValueShape],
    wanted: ValueShape | None = None,
    *,
    lazily: bool = False,
) -> Formula:
    """An expression of this language over these roots. Raises InvalidExpression.

    jq has no types beforehand: there ``roots`` are only names, with those of the members of ``state`` among them.
    """
    if language == "jq":
        from holdfast.expressions.jq.expression import JqExpression  # few definitions are written in it

        return JqExpression(text, {*roots, *roots["state"].members}, lazily=lazily)
    return Expression(text, roots, wanted, lazily=lazily)

"""What a chart's data is made of, how much of it there may be, and what evaluating may cost.

Data is None, booleans, whole numbers below 2^64, finite floats, texts, lists, and maps of texts. A value is copied when
it is stored, so two variables never share a list: a stored configuration could not tell that they did.
"""

from __future__ import annotations

import math
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.journal import cbor

INTEGER_LIMIT: Final = 1 << 64
TEXT_LIMIT: Final = 65_536
ITEM_LIMIT: Final = 10_000
DEPTH_LIMIT: Final = 50

XML: Final = "$xml"
"""The only key of a map that holds an XML element: its name, its attributes, its children."""


class ExpressionFault(Exception):
    """An expression cannot be read, or has no value. A chart hears of it as the event ``error.execution``."""


class Budget:
    """What is left of the work that one step may do. Raises InvalidDefinition when nothing is."""

    def __init__(self, cost: int) -> None:
        self._cost = cost
        self._left = cost

    def spend(self, cost: int = 1) -> None:
        """Pay for so many operations."""
        self._left -= cost
        if self._left < 0:
            raise InvalidDefinition(
                f"one event cost the chart more than {self._cost:,} operations: look for a loop in a script or foreach "
                "that does not end, or raise the limit on cost"
            )


def bounded(value: Any) -> Any:
    """The result of an operation, if it is plain data within the limits. Its items are not looked at."""
    kind = type(value)
    if kind is int and not -INTEGER_LIMIT < value < INTEGER_LIMIT:
        raise ExpressionFault("the whole number has more than 64 bits")
    if kind is float and not math.isfinite(value):
        raise ExpressionFault("the number is not finite")
    if kind is str and len(value) > TEXT_LIMIT:
        raise ExpressionFault(f"the text has more than {TEXT_LIMIT:,} characters")
    if kind in (list, dict) and len(value) > ITEM_LIMIT:
        raise ExpressionFault(f"there are more than {ITEM_LIMIT:,} items")
    if value is not None and kind not in (bool, int, float, str, list, dict):
        raise ExpressionFault(f"a {kind.__name__} is no data")
    return value


def stored(value: Any, budget: Budget, depth: int = DEPTH_LIMIT) -> Any:
    """A copy to keep: shares nothing, and its maps are in the order in which a stored one is read back."""
    budget.spend(size_of(value) if isinstance(value, str) else 1)
    if isinstance(value, tuple):
        value = list(value)
    bounded(value)
    if not depth:
        raise ExpressionFault(f"the value is nested more than {DEPTH_LIMIT} levels deep")
    if isinstance(value, list):
        return [stored(item, budget, depth - 1) for item in value]
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise ExpressionFault("a map's keys must be texts")
        return {key: stored(value[key], budget, depth - 1) for key in sorted(value, key=_canonical)}
    if isinstance(value, str):
        _canonical(value)
    return value


def _canonical(text: str) -> bytes:
    try:
        return cbor.text(text)
    except cbor.Unfit:
        raise ExpressionFault("the text holds half of a character") from None


def size_of(value: Any) -> int:
    """What a value costs that is made or looked at, without its items' own size."""
    if isinstance(value, str):
        return 1 + len(value) // 64
    return len(value) if isinstance(value, (list, dict)) else 1


def weigh(value: Any, budget: Budget) -> None:
    """Pay for all that is in a value."""
    budget.spend(size_of(value))
    if isinstance(value, list):
        for item in value:
            weigh(item, budget)
    elif isinstance(value, dict):
        for item in value.values():
            weigh(item, budget)


def is_xml(value: Any) -> bool:
    """Whether a map stands for an XML element."""
    return isinstance(value, dict) and len(value) == 1 and XML in value

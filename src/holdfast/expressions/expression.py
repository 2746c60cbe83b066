"""An expression over declared variables: checked when it is made, evaluated any number of times.

It is deterministic. There is no clock, nothing is read but the variables that are given, and the limits on loops are
counts, not times. Times and durations are ``datetime`` and ``timedelta``, cut off below the microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from holdfast.expressions.engine import CannotEvaluate, compiled
from holdfast.expressions.tokens import TOKEN

Type = Literal[
    "bool", "bytes", "double", "duration", "dyn", "int", "list", "map", "null", "string", "timestamp", "type", "uint"
]

LONGEST_LIST: Final = 2_000
"""How many items a list or map has at most: `map` and `filter` cost the square of it, 60 ms for this many."""

Read = tuple[str, ...]


class Expression:
    """An expression in CEL over ``roots``: each variable with its type. Raises InvalidExpression with every fault."""

    def __init__(self, text: str, roots: Mapping[str, Type], *, longest_list: int = LONGEST_LIST) -> None:
        self.text: Final = text
        self._longest_list = longest_list
        self._program = compiled(text, roots)
        self.reads: Final[frozenset[Read]] = frozenset(_reads(text, roots))
        """What it reads: each root with the members that its text selects, as ``("state", "total")``."""

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    @property
    def roots(self) -> frozenset[str]:
        """The variables that it reads."""
        return frozenset(read[0] for read in self.reads)

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value over these variables; those that it does not read may be missing. Raises CannotEvaluate."""
        given = {name: variables[name] for name in self.roots if name in variables}
        for value in given.values():
            self._measure(value)
        return self._program.execute(given)

    def _measure(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Mapping | list | tuple):
                if len(item) > self._longest_list:
                    raise CannotEvaluate(f"a list or map has {len(item)} items, and the limit is {self._longest_list}")
                waiting.extend(item.values() if isinstance(item, Mapping) else item)


def _reads(text: str, roots: Mapping[str, Type]) -> Iterator[Read]:
    """From the text alone, so a variable that a loop binds under the name of a root counts as that root."""
    tokens = [(match.lastgroup, match[0]) for match in TOKEN.finditer(text) if match.lastgroup != "skip"]
    for index, (kind, word) in enumerate(tokens):
        called = tokens[index + 1 : index + 2] == [("mark", "(")]
        selected = index > 0 and tokens[index - 1] == ("mark", ".") and _is_value(tokens[: index - 1])
        if kind == "word" and word in roots and not called and not selected:
            yield (word, *_members(tokens[index + 1 :]))


def _is_value(before: Sequence[tuple[str | None, str]]) -> bool:
    """Whether what stands before a dot is a value, so that the name behind it is one of its members."""
    return bool(before) and (before[-1][0] != "mark" or before[-1][1] in (")", "]", "}", "?"))


def _members(after: Sequence[tuple[str | None, str]]) -> Iterator[str]:
    index = 0
    while after[index : index + 1] == [("mark", ".")] and after[index + 1 : index + 2]:
        kind, word = after[index + 1]
        if kind != "word" or after[index + 2 : index + 3] == [("mark", "(")]:
            return
        yield word
        index += 2

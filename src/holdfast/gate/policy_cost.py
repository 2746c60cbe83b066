"""Tells before a rule is evaluated how much work it may be: CEL cannot be interrupted, and the worker waits for it.

The work is counted in looks at items, from the rule's text and the facts at hand: the most that it may come to, were no
loop left before its end. What counts was measured: CEL copies a value with all that it holds where it is selected,
looped over or added to; ``map`` and ``filter`` copy all that they have so far for each item that they add; a pattern is
compiled each time that it is used. A look takes 30 to 90 ns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

from holdfast.gate.policy_expressions import MACROS, Expression, Fact, Token
from holdfast.gate.policy_facts import value_of
from holdfast.gate.proposals import Proposal, RunFacts

MOST: Final = 1_500_000
"""How many looks a rule may take: 50 ms would hardly do for more, were all of them quick.

It is not less, because most rules are done long before they have taken all, and because each of three hundred maps of
ten members may be compared with each.
"""

LARGE: Final = 65_536
"""No item is shorter than a byte: a request of so few holds too little to take long without a loop."""

HANDING: Final = 30
"""Looks for each item that is handed to CEL."""

USING: Final = 4
"""Items that are compared, or searched, in one look."""

LETTERS: Final = 256
"""Letters of a text that count as one item."""

PATTERN: Final = 150
"""Looks for compiling a pattern that stands in the rule."""

LETTER_CLASS: Final = 3_000
"""Looks for each ``\\w`` in such a pattern, as often as it is repeated: it is all letters of all languages."""

OTHER_PATTERN: Final = 5_000
"""Looks for compiling any other pattern, for each item that it weighs."""

_LETTER_CLASSES: Final = re.compile(r"\\[wWpP]")
_REPEATED: Final = re.compile(r"(\d+),?\}")
_COSTLY: Final = {"matches": 40, "duration": 400}
"""How many times longer than comparing a text these take over it."""


class Reckoning:
    """What rules may take over the facts of one action."""

    def __init__(self, proposal: Proposal, run: RunFacts) -> None:
        self._proposal, self._run = proposal, run
        self._large = len(proposal.request) > LARGE
        self._known: dict[Fact, _Known] = {}

    def total(self, expressions: Iterable[Expression]) -> int:
        """Looks for all expressions, with the facts that they share handed over once."""
        reckoned = [expression for expression in expressions if expression.loops or self._large]
        shared = {fact for expression in reckoned for fact in expression.facts}
        looks = HANDING * sum(self._fact(fact).weight for fact in shared)
        for expression in reckoned:
            if looks > MOST:
                break
            looks += _Reading(expression.tokens, {fact.variable: self._fact(fact) for fact in expression.facts}).looks
        return looks

    def too_much(self, expression: Expression) -> str | None:
        """Why the expression must not be evaluated; None where it may be."""
        looks = self.total([expression])
        if looks <= MOST:
            return None
        return f"it would have to look at items {looks:,} times, and {MOST:,} are the most"

    def _fact(self, fact: Fact) -> _Known:
        found = self._known.get(fact)
        if found is None:
            found = self._known[fact] = _Known([value_of(fact, self._proposal, self._run)])
        return found


class _Value(Protocol):
    """What is known of a value: how many items a loop over it has, and how many it holds, itself and all within."""

    @property
    def length(self) -> int: ...
    @property
    def weight(self) -> int: ...
    def item(self) -> _Value: ...
    def member(self, name: str | None) -> _Value: ...


class _Known:
    """One of some values that are at hand."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    @cached_property
    def length(self) -> int:
        return max((len(value) for value in self._values if isinstance(value, _HOLDING)), default=0)

    @cached_property
    def weight(self) -> int:
        return max(map(_weight, self._values), default=1)

    def item(self) -> _Known:
        if len(self._values) == 1 and self.weight == self.length + 1 and type(self._values[0]) is list:
            return _SIMPLE  # each item weighs 1, and need not be asked
        return _Known([item for value in self._values if isinstance(value, _HOLDING) for item in value])

    def member(self, name: str | None) -> _Known:
        """One that is selected by its name, or by whatever is computed."""
        if name is not None:
            return _Known([value[name] for value in self._values if isinstance(value, dict) and name in value])
        return _Known([item for value in self._values if isinstance(value, _HOLDING) for item in _held(value)])


class _Made:
    """A list or map that the rule makes."""

    def __init__(self, length: int, inner: _Value) -> None:
        self.length = length
        self.weight = 1 + length * inner.weight
        self._inner = inner

    def item(self) -> _Value:
        return self._inner

    def member(self, name: str | None) -> _Value:
        return self._inner


class _Either:
    """One of some values, or up to ``times`` of them added."""

    def __init__(self, values: Sequence[_Value], times: int = 1) -> None:
        self._values = values
        self.length = times * max((value.length for value in values), default=0)
        self.weight = 1 + times * (max((value.weight for value in values), default=1) - 1)

    def item(self) -> _Value:
        return _Either([value.item() for value in self._values])

    def member(self, name: str | None) -> _Value:
        return _Either([value.member(name) for value in self._values])


_SIMPLE: Final = _Known([None])
_HOLDING: Final = (list, tuple, dict)
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset({")", "]", "}", ""})
_END: Final = Token("", "", 0)


class _Reading:
    """One reading of an expression, from left to right. The body of a loop is read once, and counts for all items."""

    def __init__(self, tokens: Sequence[Token], known: dict[str, _Value]) -> None:
        self.looks = 0
        self._tokens = tokens
        self._known = known
        self._next = 0
        self._times = 1  # how often is done what is being read
        self._operands()

    def _look(self, looks: int) -> None:
        self.looks += self._times * looks

    def _use(self, value: _Value, times: int = 1) -> None:
        self._look(1 + times * value.weight // USING)

    def _at(self) -> Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _END

    def _take(self) -> Token:
        token = self._at()
        self._next += 1
        return token

    def _operands(self) -> tuple[_Value, int]:
        """Read up to a closing mark, and it: what may come of it, and how many parts there are between commas."""
        found: list[_Value] = []
        parts = added = most = 1
        while self._at().text not in _CLOSING:
            token = self._take()
            if token.text == "+":
                added += 1
                most = max(most, added)
            elif token.text == "in" or (token.kind == "mark" and token.text not in _OPENING):
                added = 1
                parts += token.text in ",:"
            else:
                value = self._operand(token)
                self._use(value)
                self._look((added - 1) * value.weight)
                found.append(value)
        self._take()
        return (found[0] if len(found) == 1 else _Either(found, most)), parts if found else 0

    def _operand(self, token: Token) -> _Value:
        value = self._first(token)
        while True:
            match self._at().text:
                case ".":
                    self._take()
                    name = self._take().text
                    value = self._called(name, value) if self._at().text == "(" else self._copied(value.member(name))
                case "[":
                    self._take()
                    self._operands()
                    value = self._copied(value.member(None))
                case _:
                    return value

    def _first(self, token: Token) -> _Value:
        if token.text in _OPENING:
            inner, parts = self._operands()
            return inner if token.text == "(" else _Made(parts, inner)
        if self._at().text == "(" and token.kind == "word":
            self._take()
            inner, _ = self._operands()
            self._use(inner, _COSTLY.get(token.text, 1))
            return inner
        return self._known.get(token.text) or _Known([token.text])

    def _copied(self, value: _Value) -> _Value:
        self._look(value.weight)
        return value

    def _called(self, name: str, value: _Value) -> _Value:
        """What a method gives; the next token opens its arguments."""
        self._take()
        if name in MACROS:
            return self._looped(name, value)
        first = self._at()
        given, _ = self._operands()
        self._use(value, _COSTLY.get(name, 1))
        if name == "matches":
            alone = first.kind in ("string", "raw") and self._tokens[self._next - 2] is first
            self._look(_pattern(first.text) if alone else OTHER_PATTERN * given.weight)
        return _SIMPLE

    def _looped(self, macro: str, value: _Value) -> _Value:
        length, times, known = value.length, self._times, self._known
        self._look(value.weight)
        self._known = {**known, self._take().text: value.item()}
        self._times *= length
        self._look(1)
        inner, _ = self._operands()
        self._times, self._known = times, known
        if macro not in ("map", "filter"):
            return _SIMPLE
        made = _Made(length, inner) if macro == "map" else value
        self._look(length * made.weight)
        return made


def _weight(value: Any) -> int:
    """How many items a value holds, itself and all within; where they are too many anyway, at least how many."""
    weight, rest = 1, [value]
    for each in rest:  # it grows while it is read
        kind = type(each)
        if kind in _NUMBERS:
            continue
        if kind is str or kind is bytes:
            weight += len(each) // LETTERS
        elif isinstance(each, _HOLDING):
            weight += len(each)
            if weight > MOST // HANDING:
                break
            rest += _held(each)
    return weight


def _held(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _pattern(text: str) -> int:
    """Looks for compiling a pattern that stands in the rule."""
    repeated = 1
    for number in _REPEATED.findall(text):
        repeated *= max(1, int(number))
    return PATTERN + repeated * (1 + LETTER_CLASS * len(_LETTER_CLASSES.findall(text)))

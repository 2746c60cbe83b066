"""Estimates before a policy is evaluated whether it is sure to be quick, because CEL cannot be interrupted.

The estimate decides where the rules are evaluated, never whether they are: rules that may be slow go to a process that
can be ended. So the estimate may be far too high. A unit is at most about a microsecond. Measurements of CEL showed
three costs: it copies a value with all its content wherever it is passed, selected or looped over; ``map`` and
``filter`` copy their result so far for each item; and a pattern is compiled each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.expressions.tokens import tokens_of
from holdfast.gate.policy.expressions import MACROS, Fact

QUICK: Final = 15_000
"""Units that are sure to take less than 50 ms, even on a slow machine."""

LETTERS: Final = 16
"""How many letters of a text cost as much as one item."""

_COPYING: Final = frozenset({"map", "filter"})
_COSTLY: Final = frozenset({"matches", "duration", "timestamp", "string", "bytes"})
_CLASS: Final = re.compile(r"\\[a-zA-Z]")
_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_ENDLESS: Final = 10 * QUICK


class RuleLoad(NamedTuple):
    """The cost of one rule: ``words`` for each unit of its facts, to the ``power`` of the loops in it."""

    words: int
    power: int
    facts: frozenset[Fact]


def load_of(text: str, facts: Iterable[Fact]) -> RuleLoad:
    """The load of an expression."""
    tokens = list(tokens_of(text))
    words, power = 0, 1
    for index, (kind, word) in enumerate(tokens):
        if kind == "mark":
            continue
        words += 1 + len(word) // LETTERS
        if kind == "word" and index + 1 < len(tokens) and tokens[index + 1][1] == "(":
            power += 2 if word in _COPYING else word in MACROS
            words += 8 if word in _COSTLY else 0
            words += _pattern(tokens[index + 2 : index + 4]) if word == "matches" else 0
    return RuleLoad(words, power, frozenset(facts))


def _pattern(tokens: Sequence[tuple[str, str]]) -> int:
    """The cost of compiling a pattern: a letter class is all letters of all languages, for each repetition."""
    if len(tokens) < 2 or tokens[0][0] not in ("string", "raw") or tokens[1][1] != ")":
        return _ENDLESS  # the pattern is computed, so it may be anything
    pattern, times = tokens[0][1], 1
    for least, most in _COUNT.findall(pattern):
        times = min(times * max(int(least[:6]), int(most[:6] or 0), 1), _ENDLESS)
    return 150 + times * (len(pattern) + 200 * len(_CLASS.findall(pattern)))


def is_quick(loads: Iterable[RuleLoad], weights: Mapping[Fact, int]) -> bool:
    """Whether all rules together are sure to be quick over facts of these weights."""
    units = 0
    for load in loads:
        weight = 1 + sum(weights[fact] for fact in load.facts)
        if load.power > 1:
            weight = (weight + load.words) ** load.power  # a loop may run over values of the rule itself, too
        units += load.words * weight
        if units > QUICK:
            return False
    return True


def weigh(value: Any, most: int = QUICK) -> int:
    """How many items a value has, itself and all items in it; it stops counting above ``most``."""
    count, waiting = 0, [value]
    while waiting and count <= most:
        item = waiting.pop()
        count += 1
        if isinstance(item, str | bytes):
            count += len(item) // LETTERS
        elif isinstance(item, Mapping):
            count += len(item)
            waiting.extend(item.values() if len(item) <= most else ())
        elif isinstance(item, list | tuple):
            count += len(item) if len(item) > most else 0
            waiting.extend(item if len(item) <= most else ())
    return count

"""Tells before a policy is evaluated whether it is sure to be quick: CEL cannot be interrupted where it runs.

The answer decides where the rules are evaluated, never whether they are: what is not sure to be quick goes to a process
that can be ended. So it may be far too careful. A unit is about a microsecond at most. It was measured that CEL copies
a value with all that it holds wherever it is handed over, selected or looped over, that ``map`` and ``filter`` copy all
that they have so far for each item, and that a pattern is compiled each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.expressions.tokens import tokens_of
from holdfast.gate.policy.expressions import MACROS, Fact

QUICK: Final = 15_000
"""Units that are sure to take less than 50 ms, on a slow machine, too."""

LETTERS: Final = 16
"""Letters of a text that weigh as much as one item."""

_COPYING: Final = frozenset({"map", "filter"})
_COSTLY: Final = frozenset({"matches", "duration", "timestamp", "string", "bytes"})
_CLASS: Final = re.compile(r"\\[a-zA-Z]")
_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_ENDLESS: Final = 10 * QUICK


class RuleLoad(NamedTuple):
    """What one rule may cost: ``words`` for each unit that it asks for, to the ``power`` of the loops in it."""

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
    """What compiling a pattern may cost: a letter class is all letters of all languages, as often as it is repeated."""
    if len(tokens) < 2 or tokens[0][0] not in ("string", "raw") or tokens[1][1] != ")":
        return _ENDLESS  # it is computed, and may be anything
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
            weight = (weight + load.words) ** load.power  # what the rule makes itself may be looped over, too
        units += load.words * weight
        if units > QUICK:
            return False
    return True


def weigh(value: Any, most: int = QUICK) -> int:
    """How many items a value holds, itself and all within; it stops counting where there are more than ``most``."""
    found, waiting = 0, [value]
    while waiting and found <= most:
        item = waiting.pop()
        found += 1
        if isinstance(item, str | bytes):
            found += len(item) // LETTERS
        elif isinstance(item, Mapping):
            found += len(item)
            waiting.extend(item.values() if len(item) <= most else ())
        elif isinstance(item, list | tuple):
            found += len(item) if len(item) > most else 0
            waiting.extend(item if len(item) <= most else ())
    return found

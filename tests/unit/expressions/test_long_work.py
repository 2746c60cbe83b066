"""How long an expression takes is bounded: what may take long is evaluated where it can be ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidDefinition
from holdfast.expressions.engine import CannotEvaluate
from holdfast.expressions.expression import Expression
from holdfast.expressions.extents import foresee
from holdfast.expressions.shapes import DYN
from holdfast.expressions.turns import in_turn

ROOTS: Final = {"a": DYN}
MOST_SECONDS: Final = 0.6
"""Processor time of one evaluation in this process: six times what is foreseen at most, for slow machines."""


def sized(size: int) -> dict[str, Any]:
    """Variables with lists, maps and texts of this size: those that are slow to compare and to search."""
    items = min(size, 1_990)
    text = "a" * size * 300
    return {
        "a": {
            "n": list(range(items)),
            "o": {str(number): number for number in range(items)},
            "maps": [{"y": number % 2} for number in range(items)],
            "deep": [[number] * 20 for number in range(min(items, 400))],
            "words": ["ab" * 8 + str(number) for number in range(items)],
            "s": text,
            "same": text + "",
            "part": "a" * size * 150 + "b",
            "wide": "ü" * size * 150,
            "pattern": "(a|b)*a" + "(a|b)" * size + "c",
            "classes": r"\pL?" * size,
            "span": "1s" * size * 150,
        }
    }


CONDITIONS: Final = [
    "a.s.contains(a.part)",
    "(a.s + a.s).contains(a.part + a.part)",
    "a.wide.contains(a.part)",
    "a.s.matches(a.pattern)",
    "a.s.matches(a.classes)",
    r"a.s.matches('(a?){500}b')",
    r"a.s.matches('(\\pL?){200}1')",
    r"'ab'.matches('\\pL+[^a]?')",
    "a.s == a.same",
    "a.n == a.n + [1]",
    "a.deep != a.deep",
    "a.o == a.o",
    "-1 in a.n",
    "{'y': 3} in a.maps",
    "'ab' in a.words",
    "size(a.wide) < 0",
    "size(a.s + a.same) < 0",
    "duration(a.span) < duration('1s')",
    "double(a.s) > 0.0",
    "size(a.n.map(z, z)) < 0",
    "size(a.n.filter(z, true)) < 0",
    "a.o.map(z, a.o[z]) == [0]",
    "a.n.exists(z, z in a.words)",
    "a.words.exists(z, a.s.contains(z))",
    "a.words.exists(z, a.s < a.same + z)",
    "a.s.indexOf(a.part) > 0",
    "a.wide.indexOf(a.wide + 'b') > 0",
    "a.s.lastIndexOf(a.part) > 0",
    "a.s.replace(a.part, 'x') == ''",
    "size(a.s.replace('a', a.span)) < 0",
    "size(a.s.replace('', a.part)) < 0",
    "size(a.wide.replace(a.words[0], a.part)) < 0",
    "size(a.s.split('')) < 0",
    "size(a.wide.split(a.part)) < 0",
    "size(a.words.join(a.s)) < 0",
    "size(a.s.split('').join(a.span)) < 0",
    "size(a.pattern.format(a.n)) < 0",
    "'%s'.format([a.deep]) == ''",
    "'%.1000f %.1000f'.format([1.0e300, 1.0e300]) == ''",
    "strings.quote(a.wide).upperAscii().reverse().trim() == ''",
    "a.wide.substring(1).charAt(size(a.wide) - 2) == ''",
    "base64.encode(bytes(a.wide)) == ''",
    "math.greatest(a.n) < 0",
]


def repeated(condition: str) -> str:
    return f"a.n.exists_one(x, {condition})"


def seconds_of(work: Callable[[], Any]) -> float:
    """The processor time that it takes this process."""
    began = time.process_time()
    with suppress(CannotEvaluate, InvalidDefinition):
        work()
    return time.process_time() - began


def sizes() -> Iterator[int]:
    size = 4
    while size <= 2_048:
        yield size
        size *= 2


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("shape", [str, repeated])
def test_no_size_of_its_values_makes_an_expression_hold_up_the_process(
    condition: str, shape: Callable[[str], str]
) -> None:
    """The sizes double until what is foreseen is evaluated elsewhere, and that one is evaluated, too."""
    expression = Expression(shape(condition), ROOTS)
    for size in sizes():
        variables = sized(size)
        assert seconds_of(lambda variables=variables: expression.evaluate(variables)) < MOST_SECONDS, size  # type: ignore[misc]
        if not foresee(expression.tree, variables).is_slight:
            return


WHOLE: Final = st.recursive(
    st.sampled_from(CONDITIONS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} || {two[1]})"),
        inner.map(lambda one: f"a.n.exists_one(x, {one})"),
        inner.map(lambda one: f"size(a.words.filter(x, {one})) < 0"),
        inner.map(lambda one: f"({one} ? a.s : a.wide).contains(a.part)"),
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(text=WHOLE, size=st.sampled_from([8, 30, 90, 300, 900]))
def test_what_is_foreseen_to_be_short_is_short(text: str, size: int) -> None:
    """Also where such conditions stand within each other."""
    expression, variables = Expression(text, ROOTS), sized(size)
    assume(foresee(expression.tree, variables).is_slight)
    assert seconds_of(lambda: expression.evaluate_by_engine(variables)) < MOST_SECONDS, text


LONG: Final = "a.n.all(x, !a.s.contains(a.part))"


def test_what_takes_too_long_is_cut_off() -> None:
    """Of a definition nothing may catch it: the run is parked. What a server evaluates between requests just fails."""
    variables = sized(1_990)
    with pytest.raises(InvalidDefinition, match="takes too long, or too much memory"):
        Expression(LONG, ROOTS).evaluate(variables)
    with pytest.raises(CannotEvaluate, match="it takes too long, or too much memory"):
        Expression(LONG, ROOTS, at_once=True).evaluate(variables)


@pytest.mark.long
def test_a_loop_goes_on_while_it_waits_for_an_expression() -> None:
    """What may be heavy is done in a thread; what is done in a moment is done at once."""

    async def main() -> None:
        long = Expression(LONG, ROOTS, at_once=True)
        assert await in_turn(long.evaluate, sized(4)) is True
        waiting = asyncio.create_task(in_turn(long.evaluate, variables))
        turns = 0
        while not waiting.done():
            began = time.thread_time()
            await asyncio.sleep(0)
            assert time.thread_time() - began < MOST_SECONDS
            turns += 1
        assert turns > 100
        with pytest.raises(CannotEvaluate, match="too long"):
            await waiting

    variables = sized(1_990)
    asyncio.run(main())

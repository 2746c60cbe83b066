"""Expressions for whoever needs them: checked with positions, evaluated over a mapping, and what they read."""

from __future__ import annotations

import datetime
import enum
import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.expressions.engine import DEEPEST_VALUE, MOST_ITERATIONS, CannotEvaluate, InvalidExpression
from holdfast.expressions.expression import LONGEST_LIST, Expression

ROOTS: Any = {"state": "dyn", "start": "map", "n": "int", "s": "string", "at": "timestamp", "wait": "duration"}


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("1 +", 1, 4, "mismatched input"),
        ("true &&\n  foo", 2, 3, "undeclared reference to 'foo'"),
        ("n == 'a'", 1, 3, "no matching overload"),
        ("n.startsWith('a')", 1, 13, "no matching overload"),
        ("now()", 1, 4, "undeclared reference to 'now'"),
        ("", 1, 1, "empty"),
        ("+".join(["1"] * 100), 1, 1, "32 levels"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, line: int, column: int, what: str) -> None:
    """Syntax, names and types: each from 1, before anything is evaluated."""
    with pytest.raises(InvalidExpression) as raised:
        Expression(text, ROOTS)
    assert any((fault.line, fault.column) == (line, column) and what in fault.what for fault in raised.value.faults), (
        raised.value.faults
    )


def test_all_faults_come_at_once() -> None:
    """Nobody mends them one by one."""
    with pytest.raises(InvalidExpression) as raised:
        Expression("foo && bar", ROOTS)
    assert [fault.column for fault in raised.value.faults] == [1, 8]


NOON = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
VARIABLES = {"state": {"total": 2, "name": "πέντε", "items": (1, 2)}, "n": 3, "s": "x", "at": NOON}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("size(state.name)", 5),
        ("state.items.map(i, i * n)", [3, 6]),
        ("at + duration('90m')", NOON + datetime.timedelta(minutes=90)),
        ("at - timestamp('2026-05-01T11:00:00Z')", datetime.timedelta(hours=1)),
        ("b'a' + b'b'", b"ab"),
        ("{'a': [1.5, null, true]}", {"a": [1.5, None, True]}),
        ("has(state.total) && !has(state.missing)", True),
        ("at.getHours('Europe/Berlin')", 14),
        ("state.?missing.orValue(7)", 7),
    ],
)
def test_values_are_pythons_own(text: str, value: Any) -> None:
    """Lists, maps, bytes, times and durations come back as what Python calls so."""
    found = Expression(text, ROOTS).evaluate(VARIABLES)
    assert (found, type(found)) == (value, type(value))


class Colour(enum.StrEnum):
    RED = "red"


def test_an_enumerations_member_is_its_value() -> None:
    """What is recorded as a text is a text here, too."""
    assert Expression("s == 'red'", ROOTS).evaluate({"s": Colour.RED}) is True


def _deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("text", "variables", "why"),
    [
        ("state.x", {"state": {}}, "there is no 'x'"),
        ("1 / n", {"n": 0}, "division by zero"),
        ("n + 1", {"n": 2**63 - 1}, "integer overflow"),
        ("state", {"state": 2**64}, "64 bits"),
        ("state", {"state": object()}, "no values of type object"),
        ("state", {"state": {1.5: 1}}, "keys of type float"),
        ("state", {"state": "\ud800"}, "half of a character"),
        ("state", {"state": [1] * (LONGEST_LIST + 1)}, "the limit is 2000"),
        ("state", {"state": _deep(DEEPEST_VALUE + 2)}, "64 levels"),
        ("state.all(a, state.all(b, true))", {"state": [1] * 100}, "loops too often"),
        ("state", {}, "state"),
    ],
)
def test_what_has_no_value_says_why(text: str, variables: dict[str, Any], why: str) -> None:
    """It is one kind of error, whatever went wrong."""
    with pytest.raises(CannotEvaluate, match=why):
        Expression(text, ROOTS).evaluate(variables)


def test_a_value_that_nests_without_end_does_not_end_the_process() -> None:
    """The library alone would crash it; also in a thread, whose stack is smaller."""
    found: list[str] = []

    def evaluate() -> None:
        try:
            Expression("size(state)", ROOTS, longest_list=10).evaluate({"state": _deep(50_000)})
        except CannotEvaluate as error:
            found.append(str(error))

    thread = threading.Thread(target=evaluate)
    thread.start()
    thread.join()
    assert found == ["a value nests more than 64 levels deep"]


def test_loops_are_counted_not_timed() -> None:
    """The limit is the same on every machine."""
    loop = Expression("state.all(i, i >= 0)", ROOTS, longest_list=20_000)
    assert loop.evaluate({"state": [0] * MOST_ITERATIONS}) is True
    with pytest.raises(CannotEvaluate, match="loops too often"):
        loop.evaluate({"state": [0] * (MOST_ITERATIONS + 1)})


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("state.a.b + n", {("state", "a", "b"), ("n",)}),
        ("state.items.map(i, i.state)", {("state", "items")}),
        ("state['a'] == 's'", {("state",)}),
        ("has(start.claim) // n", {("start", "claim")}),
        ("s.startsWith('state.a')", {("s",)}),
        ("true", set()),
    ],
)
def test_what_an_expression_reads_is_known(text: str, reads: set[tuple[str, ...]]) -> None:
    """Roots with the members that are selected; texts and comments are no variables."""
    expression = Expression(text, ROOTS)
    assert expression.reads == reads
    assert expression.roots == {read[0] for read in reads}


# -- the law: a plain evaluator gives the same -------------------------------------------------------------------------

NAMES = ("a", "b", "c")
_LEAST, _MOST = -(2**63), 2**63 - 1
Tree = tuple[Any, ...]

_numbers: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.just("int"), st.integers(0, 9) | st.just(2**62)) | st.tuples(st.just("name"), st.sampled_from(NAMES)),
    lambda inner: st.tuples(st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
    max_leaves=5,
)
_conditions: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), _numbers, _numbers)
    | st.tuples(st.sampled_from(["all", "exists", "exists_one"]), st.lists(st.integers(-2, 2), max_size=4), _numbers),
    lambda inner: (
        st.tuples(st.sampled_from(["&&", "||"]), inner, inner)
        | st.tuples(st.just("!"), inner)
        | st.tuples(st.just("?"), inner, inner, inner)
    ),
    max_leaves=4,
)


def _text(tree: Tree) -> str:
    match tree:
        case ("int", value):
            return str(value)
        case ("name", name):
            return str(name)
        case ("!", part):
            return f"!({_text(part)})"
        case ("?", part, yes, no):
            return f"(({_text(part)}) ? ({_text(yes)}) : ({_text(no)}))"
        case ("all" | "exists" | "exists_one" as macro, items, limit):
            return f"{items}.{macro}(i, 6 / i > {_text(limit)})"
        case (sign, left, right):
            return f"({_text(left)} {sign} {_text(right)})"
    raise AssertionError(tree)


def _reference(tree: Tree, names: dict[str, int]) -> Any:
    """The value, or None where there is none."""
    match tree:
        case ("int", value):
            return value
        case ("name", name):
            return names[name]
        case ("!", part):
            value = _reference(part, names)
            return None if value is None else not value
        case ("?", part, yes, no):
            value = _reference(part, names)
            return None if value is None else _reference(yes if value else no, names)
        case ("&&" | "||" as sign, left, right):
            return _logic(sign, [_reference(left, names), _reference(right, names)])
        case ("all" | "exists" as macro, items, limit):
            found = [_above(item, _reference(limit, names)) for item in items]
            return _logic("&&" if macro == "all" else "||", found)
        case ("exists_one", items, limit):
            found = [_above(item, _reference(limit, names)) for item in items]
            return None if None in found else found.count(True) == 1
        case (sign, left, right):
            return _arithmetic(sign, _reference(left, names), _reference(right, names))
    raise AssertionError(tree)


def _above(item: int, limit: int | None) -> bool | None:
    return None if item == 0 or limit is None else math.trunc(6 / item) > limit


def _logic(sign: str, parts: list[bool | None]) -> bool | None:
    """An error counts only where the other parts do not decide."""
    decides = sign == "||"
    if decides in parts:
        return decides
    return None if None in parts else not decides


def _arithmetic(sign: str, left: int | None, right: int | None) -> Any:
    if left is None or right is None:
        return None
    if sign in ("/", "%"):
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        value = quotient if sign == "/" else left - right * quotient
        return value if _LEAST <= value <= _MOST else None
    if sign in ("+", "-", "*"):
        value = {"+": left + right, "-": left - right, "*": left * right}[sign]
        return value if _LEAST <= value <= _MOST else None
    return {
        "==": left == right, "!=": left != right, "<": left < right,
        "<=": left <= right, ">": left > right, ">=": left >= right,
    }[sign]  # fmt: skip


@given(_conditions, st.tuples(*[st.integers(-5, 5) | st.sampled_from([_LEAST, _MOST])] * 3))
def test_an_expression_means_what_a_plain_evaluator_says(tree: Tree, values: tuple[int, ...]) -> None:
    """Over random expressions: whole numbers of 64 bits, division towards zero, errors that logic may absorb."""
    names = dict(zip(NAMES, values, strict=True))
    expression = Expression(_text(tree), dict.fromkeys(NAMES, "int"))
    try:
        found = expression.evaluate(names)
    except CannotEvaluate:
        found = None
    assert found == _reference(tree, names)

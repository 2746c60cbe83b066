"""Shortcuts: what Python evaluates without the engine is what the engine gives, errors included."""

from __future__ import annotations

import datetime
import enum
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from holdfast.expressions.engine import CannotEvaluate, InvalidExpression, MissingMember, compiled
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import DOUBLE, DYN, INT, STRING, list_of, map_of
from holdfast.expressions.shortcut import NotSimple, shortcut_of
from holdfast.expressions.syntax import (
    Application,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    ListItem,
    Operation,
    Prefix,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
    parts_of,
)
from tests.tables import table
from tests.unit.expressions.corpus import same

lawful = settings(
    deadline=None, print_blob=True, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
"""Many random expressions can never fit, and are rejected."""

DYNAMIC = {"state": DYN, "item": DYN}
TYPED = {
    "state": map_of({"a": INT, "b": DOUBLE, "c": STRING, "d": list_of(DOUBLE), "e": DYN}, closed=False),
    "item": INT,
}


class Colour(enum.StrEnum):
    RED = "red"


NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**53 + 1]),
    st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.0, float("nan"), float("inf"), -float("inf"), 2.0**53, 1e300]),
)
SCALARS = st.one_of(
    NUMBERS,
    st.booleans(),
    st.none(),
    st.sampled_from(["", "a", "b", "πέντε", "😀", "\uffff", "\ud800", b"a", Colour.RED]),
)
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
ODD = st.sampled_from([NOON, object(), {1: 2}, {True: 1}, {1.5: 1}, (1, 2)])
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
values: st.SearchStrategy[Any] = st.recursive(
    SCALARS | ODD, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)
variables = st.fixed_dictionaries(
    {}, optional={"state": st.dictionaries(KEYS, values, max_size=5) | values, "item": values}
)

paths: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from([Variable("state"), Variable("item")]),
    lambda inner: st.one_of(
        st.builds(Selection, inner, KEYS),
        st.builds(Subscript, inner, KEYS.map(lambda key: Constant("string", key))),
        st.builds(Subscript, inner, st.integers(-1, 2).map(lambda index: Constant("int", index))),
    ),
    max_leaves=1,
)
constants: st.SearchStrategy[Tree] = st.one_of(
    st.sampled_from([0, 1, -1, 2, 2**63 - 1, -(2**63)]).map(lambda value: Constant("int", value)),
    st.sampled_from([0.0, 1.0, 2.5]).map(lambda value: Constant("double", value)),
    st.sampled_from(["", "a", "b"]).map(lambda value: Constant("string", value)),
    st.booleans().map(lambda value: Constant("bool", value)),
    st.just(Constant("null", None)),
)
SIGNS = ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in")


def _simple(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    items = st.lists(st.builds(ListItem, inner), max_size=3).map(lambda found: ListDisplay(tuple(found)))
    return st.one_of(
        st.builds(Operation, st.sampled_from(SIGNS), inner, inner),
        st.builds(Operation, st.just("in"), inner, items),
        st.builds(Junction, st.sampled_from(["&&", "||"]), st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Conditional, inner, inner, inner),
        st.builds(Prefix, st.sampled_from("-!"), inner),
        st.builds(Presence, paths, KEYS),
        st.builds(Application, st.sampled_from(["size", "double", "string"]), st.none(), inner.map(lambda one: (one,))),
        st.builds(
            Application, st.sampled_from(["contains", "startsWith", "endsWith"]), inner, inner.map(lambda one: (one,))
        ),
        st.builds(
            Application,
            st.just("orValue"),
            st.builds(Selection, paths, KEYS, st.just(True)),
            constants.map(lambda one: (one,)),
        ),
        items,
    )


simple = st.recursive(constants | paths | paths, _simple, max_leaves=5)


def _outcome(evaluate: Any, given: dict[str, Any]) -> Any:
    try:
        return evaluate(given)
    except CannotEvaluate as error:
        return error


def _without_place(error: CannotEvaluate) -> str:
    return error.name if isinstance(error, MissingMember) else str(error)


def _agree(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, CannotEvaluate):
        return isinstance(found, CannotEvaluate) and _without_place(found) == _without_place(wanted)
    if type(found) is type(wanted) is float and found == 0:
        return math.copysign(1, found) == math.copysign(1, wanted)
    return same(found, wanted)


REFUSED = ("64 bits", "half of a character", "CEL has no values of type", "keys of type", "Non-CEL value type")


def _is_not_needed(error: Any, tree: Tree) -> bool:
    """Whether the engine refuses a value that may stand in a part that does not matter."""
    branches = isinstance(tree, Conditional | Junction) or any(
        isinstance(part, Conditional | Junction) for part in _parts(tree)
    )
    return branches and isinstance(error, CannotEvaluate) and any(words in str(error) for words in REFUSED)


def _parts(tree: Tree) -> Iterator[Tree]:
    for part in parts_of(tree):
        yield part
        yield from _parts(part)


@lawful
@given(simple | paths, variables, st.sampled_from([DYNAMIC, TYPED]))
def test_a_shortcut_is_the_engine(tree: Tree, given: dict[str, Any], roots: dict[str, Any]) -> None:
    """Over random expressions and values: the same value of the same type, or the same error."""
    try:
        expression = Expression(tree, roots)
    except InvalidExpression:
        reject()
    found = _outcome(expression.evaluate, given)
    wanted = _outcome(expression.evaluate_by_engine, given)
    assert _agree(found, wanted) or _is_not_needed(wanted, expression.tree), (expression, found, wanted)


@lawful
@given(simple)
def test_the_kept_text_is_kept_where_nothing_is_known(tree: Tree) -> None:
    """What was widened by what the schemas say is not changed again, with them or without."""
    try:
        expression = Expression(tree, TYPED)
    except InvalidExpression:
        reject()
    assert Expression(expression.text, TYPED).text == expression.text
    assert Expression(expression.text, DYNAMIC).text == expression.text


@lawful
@given(simple, variables)
def test_what_the_bare_engine_says_is_what_comes(tree: Tree, given: dict[str, Any]) -> None:
    """Leaving out what is not read changes no value: the engine over all of the variables gives the same."""
    try:
        expression = Expression(tree, DYNAMIC)
    except InvalidExpression:
        reject()
    program = compiled(expression.text, {"state": "dyn", "item": "dyn"})
    wanted = _outcome(program.execute, given)
    if isinstance(wanted, CannotEvaluate):
        return
    assert same(_outcome(expression.evaluate, given), wanted)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("state.a", 1),
        ("state.d[1]", 2.0),
        ("item", 4),
        ("'x'", "x"),
        ("state.a < 10", True),
        ("state.b + state.a == 1.5 && state.c != ''", True),
        ("!(state.a > 1 || item == 4)", False),
        ("has(state.e)", False),
        ("size(state.d) * 2", 4),
        ("state.c in ['x', 'y']", True),
        ("item > 3 ? 'Claim ' + string(item) : 'none'", "Claim 4"),
        ("[state.c]", ["x"]),
        ("state.?e.orValue(0) == 0 && state.?b.orValue(1) == 0.5", True),
        ("state.c.startsWith('x') && !state.c.contains('y')", True),
    ],
)
def test_what_is_simple_needs_no_engine(text: str, value: Any) -> None:
    """It is answered by the shortcut itself."""
    expression = Expression(text, TYPED, lazily=True)
    shortcut = shortcut_of(expression.tree, TYPED)
    assert shortcut is not None
    found = shortcut({"state": {"a": 1, "b": 0.5, "c": "x", "d": [1, 2]}, "item": 4})
    assert repr(found) == repr(value)
    assert expression._program is None


@table("value", [1, 1.0, True, None, "1", -7, 2**63 - 1, -(2**63), 2**63, 2**64, math.nan, [1], {}, (1,)])
@table(
    "text",
    [
        "item", "state.d[-1]", "state.d[0]", "state.d[1]", "item == 1", "item == 1.0", "item != 1", "item in [1, 2]",
        "item in [1.0]", "item == true", "item == null", "item == item", "item < 2", "item < 2.0", "item <= item",
        "item + 1", "item - 1", "item * 2", "item / 2", "item % 2", "item / 0", "-item", "!item", "item && true",
        "item ? 1 : 2", "double(item)", "string(item)", "size(item)", "item + ''", "has(item.x)", "[item]",
        "item.?x.orValue(0)", "item.startsWith('1')",
    ],
)  # fmt: skip
def test_at_the_edges_a_shortcut_is_the_engine(text: str, value: Any) -> None:
    """Types that Python takes for one another, and numbers at the end of their range."""
    expression, given = Expression(text, DYNAMIC), {"item": value, "state": {"d": [value]}}
    found, wanted = (_outcome(way, given) for way in (expression.evaluate, expression.evaluate_by_engine))
    assert _agree(found, wanted), (found, wanted)


def test_an_error_beside_what_decides_is_left_to_the_engine() -> None:
    """`a || true` is true even where `a` is an error: only the engine knows that of all."""
    expression = Expression("state.missing == 1 || true", DYNAMIC)
    shortcut = shortcut_of(expression.tree, DYNAMIC)
    assert shortcut is not None
    with pytest.raises(NotSimple):
        shortcut({"state": {}})
    assert expression.evaluate({"state": {}}) is True


def test_a_result_is_a_copy() -> None:
    """Who changes it changes no state."""
    state = {"d": [1.0, {"x": []}]}
    Expression("state.d", DYNAMIC).evaluate({"state": state})[1]["x"].append(1)
    assert state == {"d": [1.0, {"x": []}]}


@pytest.mark.parametrize(("text", "limit"), [("state.e.f", 2e-6), ("state.a < 10", 5e-6)])
def test_a_shortcut_is_quick(text: str, limit: float) -> None:
    """The best of many tries, with room for a slow machine."""
    expression = Expression(text, TYPED)
    given = {"state": {"a": 1, "e": {"f": "x"}}}
    best = math.inf
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(200):
            expression.evaluate(given)
        best = min(best, (time.perf_counter() - started) / 200)
    assert best < limit * 3

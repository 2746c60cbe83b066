"""Expressions: checked with positions, evaluated over a mapping, and the variables that they read."""

from __future__ import annotations

import datetime
import enum
import math
import re
import threading
import time
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.expressions.engine import DEEPEST_VALUE, MOST_ITERATIONS, CannotEvaluate, InvalidExpression, compiled
from holdfast.expressions.expression import LONGEST_LIST, Expression
from holdfast.expressions.reads import LONGEST_VALUE
from holdfast.expressions.shapes import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    MAP,
    STRING,
    TIMESTAMP,
    ShapeKind,
    ValueShape,
    list_of,
    map_of,
)  # fmt: skip
from tests.unit.expressions.corpus import cases, needs_cases, same, types_of, variables_of

lawful = settings(deadline=None, print_blob=True)

ROOTS = {"state": DYN, "start": MAP, "n": INT, "s": STRING, "at": TIMESTAMP, "wait": DURATION}


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("1 +", 1, 4, "expected a value"),
        ("true &&\n  foo", 2, 3, "there is no variable `foo`"),
        ("n == 'a'", 1, 3, "an int never equals a string"),
        ("n.startsWith('a')", 1, 3, "`startsWith()` of an int cannot take string"),
        ("now()", 1, 1, "there is no function `now`"),
        ("s == ''\n ? 1 : 'a'", 2, 2, "write `dyn(…)` around one"),
        ("( {'a': 1}  == {'a': 1.0} )", 1, 13, "no matching overload"),
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
    """All faults at once, so that they can be corrected together."""
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
    """Lists, maps, bytes, times and durations come back as Python's own types."""
    found = Expression(text, ROOTS).evaluate(VARIABLES)
    assert (found, type(found)) == (value, type(value))


class Colour(enum.StrEnum):
    RED = "red"


def test_an_enumerations_member_is_its_value() -> None:
    """A value that is recorded as a text is a text here, too."""
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
        ("state.map(i, i)", {"state": [1] * (LONGEST_LIST + 1)}, "the limit is 2000"),
        ("state.a.map(i, i)", {"state": {"a": [{"b": [1] * (LONGEST_LIST + 1)}]}}, "the limit is 2000"),
        ("[1].all(i, i in state.a)", {"state": {"a": [1] * (LONGEST_LIST + 1)}}, "the limit is 2000"),
        ("state.a == state.a", {"state": {"a": [1] * (LONGEST_VALUE + 1)}}, "the limit is 100000"),
        ("state.x.y", {"state": {"x": 1}}, "a member is selected of a value that is no map"),
        ("state.x ? 1 : 2", {"state": {"x": 1}}, "the condition before `\\?` is not true or false"),
        ("state.x.all(i, true)", {"state": {"x": 1}}, "runs over a value that is no list or map"),
        ("state", {"state": _deep(DEEPEST_VALUE + 2)}, "64 levels"),
        ("state.all(a, state.all(b, true))", {"state": [1] * 100}, "loops too often"),
        ("state", {}, "there is no value of 'state' here"),
    ],
)
def test_what_has_no_value_says_why(text: str, variables: dict[str, Any], why: str) -> None:
    """Every fault of an evaluation is the same kind of error."""
    with pytest.raises(CannotEvaluate, match=why):
        Expression(text, ROOTS).evaluate(variables)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("state.a.x", "there is no 'x' in state.a "),
        ("state.a.x + 1 == 2", "there is no 'x' in state.a "),
        ("state.rows[1].x", "there is no 'x' in state.rows[1] "),
        ("state.a.b.c.d", "there is no 'c' in state.a.b "),
        ("state.y == 1 && state.a.z == 1", "there is no 'y' in state "),
        ("state.rows.all(r, r.x == 1)", "there is no 'x' (guard"),
        ("{'a': 1}[s]", "there is no 'q' (guard"),
    ],
)
def test_what_is_missing_is_named_with_its_place(text: str, what: str) -> None:
    """Where the text leads there."""
    variables = {"state": {"a": {"b": {}}, "rows": [{}, {}]}, "s": "q"}
    with pytest.raises(CannotEvaluate, match=re.escape(what)):
        Expression(text, ROOTS).evaluate(variables)


def test_a_value_that_nests_without_end_does_not_end_the_process() -> None:
    """The library alone would crash the process. This holds in a thread, too, whose stack is smaller."""
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
        ("state['a'] == 's'", {("state", "a")}),
        ("state[s].b", {("state",), ("s",)}),
        ("state.items[0].price", {("state", "items")}),
        ("state.?a.?b.orValue(n)", {("state", "a", "b"), ("n",)}),
        ("state.items.map(state, state.a + .state.b)", {("state", "items"), ("state", "b")}),
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


def test_what_is_not_read_is_not_looked_at() -> None:
    """A large list beside what is asked for costs nothing, and a value that CEL has not is no error there."""
    state = {"n": 2, "large": [0] * 1_000_000, "odd": object(), "s": "abc"}
    for text in ("state.n + 1 == 3", "state.large[7] == 0", "state.s.startsWith('a')", "has(state.odd)"):
        expression = Expression(text, ROOTS)
        started = time.thread_time()
        assert expression.evaluate({"state": state}) is True
        assert time.thread_time() - started < 0.1


@pytest.mark.parametrize(
    "text",
    [
        "has(state.a) && has(state.a.b)",
        "has(state.a.b) && has(state.a) && has(state.a.b.c)",
        "has(state.a) && state.a.b.c == 1",
        "has(state.a.b) && size(state.a) == 1",
        "has(state.rows[1].x) && state.rows[1].x == 2 && size(state.rows[0]) == 0",
        "state.rows[1].x == 2 && size(state.rows) == 2",
    ],
)
def test_what_is_taken_of_the_variables_is_enough(text: str) -> None:
    """However presence, parts and wholes of one value are mixed."""
    state = {"a": {"b": {"c": 1}}, "rows": [[], {"x": 2}]}
    assert Expression(text, ROOTS).evaluate_by_engine({"state": state}) is True


def test_a_loop_over_a_million_items_is_refused_at_once() -> None:
    """Before anything is converted."""
    loop = Expression("state.large.exists(i, i > 0)", ROOTS)
    state = {"large": [0] * 1_000_000}
    started = time.thread_time()
    with pytest.raises(CannotEvaluate, match="has 1000000 items, and the limit is 2000"):
        loop.evaluate({"state": state})
    assert time.thread_time() - started < 0.1


def test_what_is_wanted_is_held_to() -> None:
    """A condition is a bool; an int where a double is wanted is widened; what is not known may fit."""
    roots = {"state": map_of({"n": INT, "xs": list_of(INT), "any": DYN})}
    with pytest.raises(InvalidExpression, match=r"1:1: a bool is needed here, but `state\.n` is an int"):
        Expression("state.n", roots, BOOL)
    with pytest.raises(InvalidExpression, match="a list of string is needed here"):
        Expression("state.xs", roots, list_of(STRING))
    assert Expression("state.n", roots, DOUBLE).text == "double(state.n)"
    assert Expression("[1, state.n]", roots, list_of(DOUBLE)).text == "[1.0, double(state.n)]"
    assert Expression("state.any", roots, BOOL).evaluate({"state": {"any": True}}) is True


def test_numbers_are_what_the_shapes_say() -> None:
    """JSON writes a double as `1` and may write an int as `1.0`; neither makes an expression fail."""
    roots = {"state": map_of({"total": DOUBLE, "n": INT, "rows": list_of(map_of({"price": DOUBLE}))})}
    variables = {"state": {"total": 1, "n": 2.0, "rows": [{"price": 3}]}}
    for text, value in (
        ("state.total", 1.0),
        ("state.total + 0.5", 1.5),
        ("state.n", 2),
        ("state.n % 2", 0),
        ("state.rows[0].price / 2", 1.5),
        ("state.rows", [{"price": 3.0}]),
        ("state.rows.map(r, r.price * state.n)", [6.0]),
    ):
        expression = Expression(text, roots)
        for found in (expression.evaluate(variables), expression.evaluate_by_engine(variables)):
            assert repr(found) == repr(value)


def test_a_normal_text_is_its_own() -> None:
    """What is kept can be read again, and gives the same."""
    roots = {"state": map_of({"n": INT, "x": DOUBLE})}
    once = Expression("(state.n+1)*state.x", roots)
    again = Expression(once.text, roots, lazily=True)
    assert (again.text, again.tree) == (once.text, once.tree)
    assert again.evaluate({"state": {"n": 1, "x": 1.5}}) == once.evaluate({"state": {"n": 1, "x": 1.5}}) == 3.0


DOTTED = {
    "fields/qualified_identifier_resolution/qualified_ident",
    "fields/qualified_identifier_resolution/map_field_select",
    "fields/qualified_identifier_resolution/ident_with_longest_prefix_check",
    "namespace/qualified/self_eval_qualified_lookup",
}
"""Cases with variables that have dots in their names, which nothing here has."""


@needs_cases
def test_what_the_engine_takes_is_taken_and_means_the_same() -> None:
    """Over CEL's own cases: the checker refuses nothing that has a value, and shortcuts and widening change none."""
    compared, refused = 0, set()
    for case in cases():
        try:
            program = compiled(case["expr"], types_of(case), check=not case["disable_check"])
            variables = variables_of(case)
            wanted = program.execute(variables)
        except (CannotEvaluate, InvalidExpression, NotImplementedError):
            continue
        if case["disable_check"]:
            continue
        try:
            roots = {name: ValueShape(cast("ShapeKind", kind)) for name, kind in types_of(case).items()}
            found = Expression(case["expr"], roots).evaluate(variables)
        except InvalidExpression:
            refused.add(case["id"])
            continue
        assert same(found, wanted) or repr(found) == repr(wanted), case["id"]
        compared += 1
    assert compared > 800
    assert refused == DOTTED


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
        if quotient > _MOST:  # of the least integer by -1: CEL refuses its rest, too
            return None
        return quotient if sign == "/" else left - right * quotient
    if sign in ("+", "-", "*"):
        value = {"+": left + right, "-": left - right, "*": left * right}[sign]
        return value if _LEAST <= value <= _MOST else None
    return {
        "==": left == right, "!=": left != right, "<": left < right,
        "<=": left <= right, ">": left > right, ">=": left >= right,
    }[sign]  # fmt: skip


@lawful
@given(_conditions, st.tuples(*[st.integers(-5, 5) | st.sampled_from([_LEAST, _MOST])] * 3))
def test_an_expression_means_what_a_plain_evaluator_says(tree: Tree, values: tuple[int, ...]) -> None:
    """Over random expressions: whole numbers of 64 bits, division towards zero, errors that logic may absorb."""
    names = dict(zip(NAMES, values, strict=True))
    expression = Expression(_text(tree), dict.fromkeys(NAMES, INT))
    try:
        found = expression.evaluate(names)
    except CannotEvaluate:
        found = None
    assert found == _reference(tree, names)

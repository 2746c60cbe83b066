"""The checker: what can never fit is found with its place, and an int that meets a double is widened."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.expression import Expression
from holdfast.expressions.shapes import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ValueShape,
    list_of,
    map_of,
    shape_of,
)

lawful = settings(deadline=None, print_blob=True)

LINE = map_of({"price": DOUBLE, "count": INT})
ROOTS = {
    "start": shape_of({"type": "object", "properties": {"claimNo": {"type": "string"}}}),
    "state": map_of(
        {"n": INT, "score": DOUBLE, "name": STRING, "ok": BOOL, "lines": list_of(LINE), "xs": list_of(INT),
         "ds": list_of(DOUBLE), "any": DYN}
    ),
    "item": DYN,
    "now": TIMESTAMP,
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("state.scor > 1", (1, 7), "there is no `scor` in state: did you mean `score`?"),
        ("state['scor'] > 1", (1, 7), "there is no `scor` in state: did you mean `score`?"),
        ("has(state.lins)", (1, 1), "there is no `lins` in state: did you mean `lines`?"),
        ("state.?lins", (1, 8), "there is no `lins` in state: did you mean `lines`?"),
        ("state.lines[0].prise", (1, 16), "there is no `prise` in `state.lines[0]`: did you mean `price`?"),
        ("state.lines.all(l, l.cout > 1)", (1, 22), "there is no `cout` in l: did you mean `count`?"),
        ("stat.n", (1, 1), "there is no variable `stat`: did you mean `state`?"),
        ("score > 1", (1, 1), "there is no variable `score`: did you mean `state.score`?"),
        ("state.name + 1", (1, 12), "`+` cannot join a string and an int: write `string(…)` around what is no string"),
        ("state.name - 1", (1, 12), "`-` cannot take a string and an int"),
        ("state.n % 2.0", (1, 9), "`%` takes integers, and there is a double: write `int(…)` around it"),
        ("state.name < 1", (1, 12), "`<` cannot compare a string and an int"),
        ("state.name == 1", (1, 12), "a string never equals an int"),
        ("state.n && state.ok", (1, 1), "`&&` takes conditions, but `state.n` is an int"),
        ("state.ok ||\n state.name", (2, 2), "`||` takes conditions, but `state.name` is a string"),
        ("state.n ? 1 : 2", (1, 1), "`?` takes conditions, but `state.n` is an int"),
        ("!state.n", (1, 2), "`!` takes conditions, but `state.n` is an int"),
        ("-state.name", (1, 2), "`-` takes a number, but `state.name` is a string"),
        ("state.xs.filter(x, x)", (1, 20), "filter() takes conditions, but `x` is an int"),
        ("state.n.map(x, x)", (1, 1), "map() needs a list or a map, but `state.n` is an int"),
        ("state.name.contans('a')", (1, 12), "there is no function `contans`: did you mean `contains`?"),
        ("contains(state.name, 'a')", (1, 1), "there is no function `contains`: write `….contains(…)`"),
        ("state.n.string()", (1, 9), "there is no function `string`: write `string(…)`"),
        ("state.name.startsWith(1)", (1, 12), "`startsWith()` of a string cannot take int"),
        ("size(state.n)", (1, 1), "`size()` cannot take int"),
        ("state.xs['a']", (1, 10), 'an index of a list must be an int, but `"a"` is a string'),
        ("state.name[0]", (1, 11), "`state.name` is a string and has no items"),
        ("state.name.x", (1, 12), "`state.name` is a string and has no member `x`"),
        ("'a' in state.name", (1, 8), "`in` looks into lists and maps (texts: `a.contains(b)`), but"),
        ("'a' in state.xs", (1, 5), "a string is never in a list of int"),
        ("now > 'today'", (1, 5), "`>` cannot compare a timestamp and a string"),
        ("1 + 1u", (1, 3), "`+` cannot take an int and a uint"),
    ],
)
def test_what_can_never_fit_is_a_fault(text: str, place: tuple[int, int], what: str) -> None:
    """With its line and column, and the nearest right name."""
    with pytest.raises(InvalidExpression) as raised:
        Expression(text, ROOTS)
    (fault,) = raised.value.faults
    assert (fault.line, fault.column) == place
    assert what in fault.what


def test_all_faults_come_at_once_in_the_order_of_the_text() -> None:
    """One fault hides no other."""
    with pytest.raises(InvalidExpression) as raised:
        Expression("state.lines.map(l, l.prise + l.count) == foo.bar && state.scor", ROOTS)
    assert [(fault.column, fault.what.split("`")[1]) for fault in raised.value.faults] == [
        (22, "prise"), (42, "foo"), (59, "scor"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "start.filedBy == 'x'", "item.a.b + 1", "state.any ? 1 : 2", "state.any.all(x, x.y > 1)", "state.any - now",
        "state.name == null", "state.any.size()", "item in state.xs", "state.xs[item]", "state.any.anything()[0]",
    ],
)  # fmt: skip
def test_what_is_not_known_may_fit(text: str) -> None:
    """An open object may have any member, and `dyn` may be anything; only a function must be there."""
    if "anything" in text:
        with pytest.raises(InvalidExpression, match="there is no function `anything`"):
            Expression(text, ROOTS)
    else:
        Expression(text, ROOTS)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("state.lines.map(l, l.price * l.count)", list_of(DOUBLE)),
        ("state.lines.filter(l, l.count > 1)", list_of(LINE)),
        ("state.lines[0].count", INT),
        ("state.ok ? state.n : 0.5", DOUBLE),
        ("state.ok ? state.n : state.name", DYN),
        ("[state.n, 1]", list_of(INT)),
        ("now - now < duration('1h')", BOOL),
        ("state.?score.orValue(0)", DOUBLE),
        ("state.any * 1.5", DOUBLE),
        ("{'a': state.n}.a", INT),
        ("size(state.name)", INT),
        ("dyn(state.n)", DYN),
    ],
)
def test_what_comes_of_an_expression_is_known(text: str, shape: Any) -> None:
    """As far as its parts are."""
    assert Expression(text, ROOTS).shape == shape


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("state.n + 1", "state.n + 1"),
        ("state.score + 1", "state.score + 1.0"),
        ("state.n * state.score", "double(state.n) * state.score"),
        ("1 < state.score", "1.0 < state.score"),
        ("state.score == state.n", "state.score == double(state.n)"),
        ("state.ok ? 1 : state.score", "state.ok ? 1.0 : state.score"),
        ("(state.ok ? 1 : state.n) + 0.5", "(state.ok ? 1.0 : double(state.n)) + 0.5"),
        ("[1, state.n, 2.5]", "[1.0, double(state.n), 2.5]"),
        ("[[1], [state.n]] == [[2.5]]", "[[1.0], [double(state.n)]] == [[2.5]]"),
        ("state.n in state.ds", "double(state.n) in state.ds"),
        ("state.score in [1, 2]", "state.score in [1.0, 2.0]"),
        ("state.score in state.xs", "state.score in state.xs"),
        ("[1] + state.ds", "[1.0] + state.ds"),
        ("state.ds.exists(d, d > state.n)", "state.ds.exists(d, d > double(state.n))"),
        ("item + 1 > 0.5", "double(item + 1) > 0.5"),
        ("item + 1", "item + 1"),
        ("1u + 0.5", "1.0 + 0.5"),
    ],
)
def test_an_int_that_meets_a_double_is_widened(text: str, kept: str) -> None:
    """In the text that is kept; and that text is not changed again."""
    expression = Expression(text, ROOTS)
    assert expression.text == kept
    assert Expression(kept, ROOTS).text == kept


# -- the law: widened expressions are Python's arithmetic --------------------------------------------------------------

VALUES = {"i": 3, "j": -7, "x": 2.5, "y": -0.75}
NUMBERS = {"state": map_of({"i": INT, "j": INT, "x": DOUBLE, "y": DOUBLE})}
COMPUTED = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARED = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt}


class Known(NamedTuple):
    """An expression's text, and what it is worth in Python."""

    text: str
    value: Any


def _level(*parts: Known) -> list[Any]:
    """Their values as doubles if any of them is one."""
    mixed = any(isinstance(part.value, float) for part in parts)
    return [float(part.value) if mixed else part.value for part in parts]


def _computed(sign: str, left: Known, right: Known) -> Known:
    return Known(f"({left.text} {sign} {right.text})", COMPUTED[sign](*_level(left, right)))


def _divided(left: Known, right: Known) -> Known:
    one, other = _level(left, right)
    if other == 0:
        return left
    value = one / other if isinstance(one, float) else abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
    return Known(f"({left.text} / {right.text})", value)


def _compared(sign: str, left: Known, right: Known) -> Known:
    return Known(f"({left.text} {sign} {right.text})", COMPARED[sign](*_level(left, right)))


def _chosen(condition: Known, yes: Known, no: Known) -> Known:
    values = _level(yes, no)
    return Known(f"({condition.text} ? {yes.text} : {no.text})", values[0] if condition.value else values[1])


def _within(item: Known, items: list[Known]) -> Known:
    return Known(f"({item.text} in [{', '.join(part.text for part in items)}])", item.value in [p.value for p in items])


def _same_lists(one: list[Known], other: list[Known]) -> Known:
    texts = [f"[{', '.join(part.text for part in items)}]" for items in (one, other)]
    return Known(" == ".join(texts), [part.value for part in one] == [part.value for part in other])


def _numbers_within(inner: st.SearchStrategy[Known]) -> st.SearchStrategy[Known]:
    conditions = st.builds(_compared, st.sampled_from(sorted(COMPARED)), inner, inner) | st.builds(
        _within, inner, st.lists(inner, min_size=1, max_size=3)
    )
    return st.one_of(
        st.builds(_computed, st.sampled_from(sorted(COMPUTED)), inner, inner),
        st.builds(_divided, inner, inner),
        st.builds(_chosen, conditions, inner, inner),
        inner.map(lambda part: Known(f"-({part.text})", -part.value)),
    )


numbers = st.recursive(
    st.sampled_from([Known(f"state.{name}", value) for name, value in VALUES.items()])
    | st.integers(0, 9).map(lambda value: Known(str(value), value))
    | st.sampled_from([0.5, 1.0, 2.25]).map(lambda value: Known(str(value), value)),
    _numbers_within,
    max_leaves=8,
)


@lawful
@given(numbers)
def test_widened_arithmetic_is_pythons(known: Known) -> None:
    """No overload is ever missing, and the result has the value and the type that it has in Python."""
    expression = Expression(known.text, NUMBERS)
    for found in (expression.evaluate({"state": VALUES}), expression.evaluate_by_engine({"state": VALUES})):
        assert (type(found), found) == (type(known.value), known.value)


@lawful
@given(st.lists(numbers, max_size=3), st.lists(numbers, max_size=3))
def test_lists_of_numbers_are_compared_as_pythons(one: list[Known], other: list[Known]) -> None:
    """Whichever of them are doubles."""
    known = _same_lists(one, other)
    assert Expression(known.text, NUMBERS).evaluate({"state": VALUES}) is known.value


FUNCTIONS = {
    "state.name.charAt(0)": STRING,
    "state.name.indexOf('a', state.n) + 1": INT,
    "state.name.split(',')": list_of(STRING),
    "state.name.split(',').map(s, s.trim().upperAscii())": list_of(STRING),
    "state.name.split(',').join('-').replace('a', 'b', 1)": STRING,
    "'%s of %d'.format([state.name, state.n])": STRING,
    "strings.quote(state.name)": STRING,
    "base64.decode(base64.encode(bytes(state.name)))": BYTES,
    "math.abs(state.n)": INT,
    "math.sign(state.score)": DOUBLE,
    "math.round(state.score)": DOUBLE,
    "math.sqrt(state.n)": DOUBLE,
    "math.isNaN(state.score)": BOOL,
    "math.bitShiftLeft(state.n, 2)": INT,
    "math.greatest(state.n, 1, state.n)": INT,
    "math.greatest(state.n, 1, state.score)": DOUBLE,
    "math.least(state.ds)": DOUBLE,
    "math.greatest(state.any, 1)": DYN,
}


@pytest.mark.parametrize(("text", "shape"), FUNCTIONS.items(), ids=FUNCTIONS)
def test_functions_of_texts_numbers_and_encodings_have_types(text: str, shape: ValueShape) -> None:
    assert Expression(text, ROOTS).shape == shape


def test_an_int_beside_a_double_is_widened_where_the_greatest_is_chosen() -> None:
    found = Expression("math.greatest(state.n, 1, state.score)", ROOTS)
    assert found.text == "math.greatest(double(state.n), 1.0, state.score)"
    assert found.evaluate({"state": {"n": 2, "score": 1.5}}) == 2.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("math.abss(state.n)", "there is no function `math.abss`: did you mean `abs`?"),
        ("math.ceil(state.n)", "`ceil()` cannot take int"),
        ("math.greatest(state.name)", "`greatest()` cannot take string"),
        ("math.greatest()", "`greatest()` cannot take nothing"),
        ("base64.encode(state.name)", "`encode()` cannot take string"),
        ("state.xs.join(',')", "join() needs a list of strings, but `state.xs` is a list of int"),
        ("state.name.split(1)", "`split()` of a string cannot take int"),
        ("state.name.indexof('a')", "there is no function `indexof`: did you mean `indexOf`?"),
        ("greatest(1, 2)", "there is no function `greatest`"),
        ("state.n.format([1])", "`format()` of an int cannot take list of int"),
    ],
)
def test_functions_that_cannot_take_what_they_are_given_are_refused(text: str, what: str) -> None:
    with pytest.raises(InvalidExpression) as caught:
        Expression(text, ROOTS)
    assert what in str(caught.value)


def test_a_name_that_is_bound_is_no_namespace() -> None:
    roots = {**ROOTS, "math": map_of({"abs": INT})}
    assert Expression("math.abs + 1", roots).shape == INT
    assert Expression("math.abs(-2) + math.abs", roots).evaluate({"math": {"abs": 3}}) == 5

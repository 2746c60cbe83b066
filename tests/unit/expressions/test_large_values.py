"""What an expression makes is bounded: by its value alone, and without holding up the process that evaluates it."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidDefinition
from holdfast.expressions import evaluator
from holdfast.expressions.engine import CannotEvaluate, MissingMember
from holdfast.expressions.expression import Expression
from holdfast.expressions.extents import LARGEST_HERE, LARGEST_VALUE, foresee, measure
from holdfast.expressions.shapes import DURATION, DYN, TIMESTAMP, ValueShape
from tests.scope import one_stays


def value(text: str, shapes: dict[str, ValueShape] | None = None, **variables: Any) -> Any:
    roots = dict.fromkeys(variables, DYN) | (shapes or {})
    return Expression(text, roots).evaluate(variables)


def longest_pause(work: threading.Thread) -> float:
    """How long this thread did not run while another worked."""
    worst, before = 0.0, time.perf_counter()
    work.start()
    while work.is_alive():
        time.sleep(0.005)
        now = time.perf_counter()
        worst, before = max(worst, now - before), now
    return worst


@pytest.mark.parametrize(
    "text",
    one_stays(
        [
            '["xxxxxxxx"]' + ".map(s, s + s + s + s)" * 25,
            "[[1]]" + ".map(s, s + s + s + s)" * 25,
            "a.map(x, a).map(y, a).map(z, a)",
            "a.map(x, [a, a, a, a, a, a, a, a])",
        ]
    ),
)
def test_a_bomb_holds_up_nobody_and_cannot_be_caught(text: str) -> None:
    """It takes the process of large values, which ends; a thread beside it goes on all the time."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            value(text, a=list(range(2000)))
        except InvalidDefinition as error:
            failures.append(error)

    pause = longest_pause(threading.Thread(target=work))
    assert [type(each) for each in failures] == [InvalidDefinition]
    assert "too long, or too much memory" in str(failures[0])
    assert pause < 1.0
    assert value('"a" + "b"') == "ab"


def test_a_value_over_the_limit_is_an_error_and_one_below_it_is_made() -> None:
    """The limit is of the value, in characters and items: the same everywhere, and as much as can be recorded."""
    text = "x" * 8_000_000
    assert value("a + a + a + a", a=text) == text * 4
    with pytest.raises(CannotEvaluate, match="more than 67,108,864 characters and items"):
        value("a + a + a + a + a + a + a + a + a", a=text)
    assert value("size(a + a + a + a + a + a + a + a + a)", a=text) == 72_000_000
    assert value("size(a + a + a + a + a + a + a + a + a) > 3 || b.c", a=text, b={}) is True


def test_what_is_evaluated_elsewhere_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of all kinds go there and come back; errors are those of this process."""
    now = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
    variables = {"a": {"n": 1, "d": 1.5, "t": "ü", "l": [None, True, b"x"]}, "now": now}
    times = {"now": TIMESTAMP, "span": DURATION}
    texts = ("[a, now, a.n, a.d]", "[now + span]", "[a.t + a.t, string(now)]", "{'x': [a.l, 1u, span]}")
    here = [value(text, times, **variables, span=timedelta(seconds=2)) for text in texts]
    monkeypatch.setattr("holdfast.expressions.extents.LARGEST_HERE", -1)
    asked: list[str] = []
    process = evaluator._process.ask
    monkeypatch.setattr(evaluator._process, "ask", lambda question: asked.append(question[0]) or process(question))
    there = [value(text, times, **variables, span=timedelta(seconds=2)) for text in texts]
    assert there == here
    assert [list(map(type, each)) if isinstance(each, list) else None for each in there] == [
        list(map(type, each)) if isinstance(each, list) else None for each in here
    ]
    assert len(asked) >= len(texts)
    with pytest.raises(MissingMember, match="there is no 'x' in a"):
        value("[a.x, {'y': 1}]", **variables)
    with pytest.raises(CannotEvaluate, match="division by zero"):
        value("[1 / (a.n - 1), {'y': 1}]", **variables)


ATOMS = st.sampled_from(
    ["a", "b", "a.x", '"lit"', "[a, b]", "{'k': a}", "a.l[0]", "a[a.k].x", "a[a.k].l[0]", "a.m[a.m.size() - 1].x"]
)
TEXTS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"[{two[0]}, {two[1]}]"),
        st.tuples(inner, inner).map(lambda two: f"(true ? {two[0]} : dyn({two[1]}))"),
        inner.map(lambda one: f"a.l.map(i, {one})"),
        inner.map(lambda one: f"a[a.k].l.map(i, {one})"),
        inner.map(lambda one: f"a.l.map(i, [i, {one}])"),
        inner.map(lambda one: f"[{one}].filter(i, true)"),
        inner.map(lambda one: f"([{one}] + a.l)"),
        inner.map(lambda one: f"optional.of({one}).orValue(dyn(1))"),
        inner.map(lambda one: f"dyn({one}).split('')"),
        inner.map(lambda one: f"dyn({one}).replace('', b)"),
        inner.map(lambda one: f"dyn({one}).replace('t', a.x).replace(b, 'twice')"),
        inner.map(lambda one: f"dyn({one}).join(b)"),
        inner.map(lambda one: f"'%s and %s'.format([{one}, 2.5])"),
        inner.map(lambda one: f"'%.1000f%b%x'.format([1.0e300, 4, {one}])"),
        inner.map(lambda one: f"strings.quote(dyn({one}) + '\\n')"),
        inner.map(lambda one: f"base64.encode(bytes(dyn({one})))"),
        inner.map(lambda one: f"dyn({one}).upperAscii().reverse()"),
    ),
    max_leaves=6,
)


def test_what_a_computed_step_leads_to_is_foreseen() -> None:
    """An empty list at the place that the other steps name hides no full one: ``a[a.k].l`` is not ``a.l``."""
    large = {"l": list(range(2000)), "s": "x" * 100_000}
    variables = {"a": {"l": [], "s": "", "k": "large", "large": large}}
    text = "a[a.k].l.map(i, a[a.k].s + 'x')"
    with pytest.raises(CannotEvaluate, match="limit"):
        value(text, **variables)
    with pytest.raises(CannotEvaluate, match="may make values"):
        Expression(f"{text}.size()", {"a": DYN}, at_once=True).evaluate(variables)


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, size=st.integers(0, 5))
def test_the_estimate_is_never_too_low(text: str, size: int) -> None:
    """No value is larger than was foreseen, whatever it is made of."""
    large = {"x": "t" * size * 90, "l": ["u" * size * 9] * size * 2}
    more = {"k": "large", "large": large, "m": [{"x": ""}, large]}
    variables = {"a": {"x": "t" * size * 7, "l": ["u" * size] * size, **more}, "b": "w" * size}
    expression = Expression(text, {"a": DYN, "b": DYN})
    try:
        found = expression.evaluate_by_engine(variables)
    except CannotEvaluate:
        return
    read = sum(measure(each) for each in variables.values())
    assert measure(found) <= max(foresee(expression.tree, variables).largest, read), text


def test_usual_expressions_stay_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process is asked for them."""
    monkeypatch.setattr(evaluator._process, "ask", lambda _: pytest.fail("it was asked"))
    lines = [{"price": 2.5, "name": f"line {number}"} for number in range(1000)]
    assert value("lines.map(l, l.price * 2.0)", lines=lines)[0] == 5.0
    assert len(value("lines.map(l, {'p': l.price, 'n': l.name + '!'})", lines=lines)) == 1000
    assert value('a + "!"', a="x" * (LARGEST_HERE // 2)).endswith("!")
    assert LARGEST_VALUE == 64 * 1024 * 1024
    assert json.dumps(value("{'a': [1, 'b']}")) == '{"a": [1, "b"]}'


def test_what_a_server_evaluates_between_requests_makes_no_large_value() -> None:
    """It is refused by the estimate, in no time; what is usual there has its value."""
    bomb = Expression('["xxxxxxxx"]' + ".map(s, s + s + s + s)" * 25, {}, at_once=True)
    began = time.thread_time()
    with pytest.raises(CannotEvaluate, match="may make values of more than 8,388,608 characters"):
        bomb.evaluate({})
    assert time.thread_time() - began < 0.5
    payload = {"lines": [{"n": number} for number in range(50_000)]}
    whole = Expression("{'order': payload}", {"payload": DYN}, at_once=True)
    assert whole.evaluate({"payload": payload}) == {"order": payload}

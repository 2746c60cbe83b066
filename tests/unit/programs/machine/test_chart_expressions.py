"""Expressions of charts: a small part of Python, with no way out of it and no way to grow without bound."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidDefinition
from holdfast.programs.machine.charts.expressions.check import expression_fault, script_fault
from holdfast.programs.machine.charts.expressions.dialect import Datamodel
from holdfast.programs.machine.charts.expressions.evaluator import Evaluator
from holdfast.programs.machine.charts.expressions.script import assign, run_script
from holdfast.programs.machine.charts.expressions.values import Budget, ExpressionFault


def _evaluator(datamodel: Datamodel = "python", cost: int = 200_000) -> Evaluator:
    data: dict[str, Any] = {
        "n": 7,
        "text": "order",
        "items": [3, 1, 2],
        "order": {"lines": [{"cents": 5}, {"cents": 6}]},
        "none": None,
    }
    return Evaluator(
        datamodel, data, {"_event": {"name": "e", "data": None}}, lambda state: state == "on", Budget(cost)
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n + 1", 8),
        ("-n // 2 * 2 ** 3", -32),
        ("n if n > 3 else 0", 7),
        ("1 < n <= 7 and not none", True),
        ("none or text", "order"),
        ("order.lines[1].cents", 6),
        ("order['lines'][0:1]", [{"cents": 5}]),
        ("[line.cents for line in order.lines if line.cents > 5]", [6]),
        ("{key: len(item) for key, item in order.items()}", {"lines": 2}),
        ("sum(line.cents for line in order.lines)", 11),
        ("sorted(items, reverse=True)", [3, 2, 1]),
        ("f'{text}-{n}'", "order-7"),
        ("' '.join(['a', 'b']).upper()", "A B"),
        ("(1, 2)", [1, 2]),
        ("In('on') and not In('off')", True),
        ("_event.name", "e"),
        ("text is not None and none is None", True),
    ],
)
def test_an_expression_of_python_has_its_value(text: str, value: Any) -> None:
    assert _evaluator().evaluate(text) == value
    assert expression_fault(text, "python") == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n === 7 && !none", True),
        ("!n === false", True),
        ("n !== 7 || text == 'order'", True),
        ("'n is ' + n", "n is 7"),
        ("7 / 2 + 8 / 2", 7.5),
        ("-7 % 4", -3),
        ("items.length + items[0]", 6),
        ("items[9] === undefined", True),
        ("order.nothing === undefined", True),
        ("{lines: [true, null]}", {"lines": [True, None]}),
        ("'!== true'", "!== true"),
        ("'n \\\n&& n' + 'x'", "n && nx"),
    ],
)
def test_a_simple_expression_of_ecmascript_has_its_value_there(text: str, value: Any) -> None:
    assert _evaluator("ecmascript").evaluate(text) == value


@pytest.mark.parametrize(
    "text",
    ["text == 5", "items === items", "1 < n < 9", "++n", "n | 1", "text.replace('o', 'a')", "items + items", "(n, 1)"],
)
def test_an_expression_that_would_mean_something_else_in_ecmascript_is_refused(text: str) -> None:
    with pytest.raises(ExpressionFault):
        _evaluator("ecmascript").evaluate(text)


@pytest.mark.parametrize(
    "text",
    [
        "().__class__",
        "text.__class__.__mro__",
        "text._hidden",
        "__import__('os')",
        "open('/etc/passwd')",
        "eval('1')",
        "getattr(text, 'upper')",
        "'{0.__class__}'.format(n)",
        "'%1000000000d' % n",
        "(lambda: 1)()",
        "[].append(1)",
        "(x := 1)",
        "items[0](1)",
        "{1: 2}",
        "{1, 2}",
        "b'bytes'",
        "1j",
        "...",
        "max(items, key=len)",
        "f'{n:>1000000000}'",
    ],
)
def test_nothing_outside_of_the_data_is_reached(text: str) -> None:
    with pytest.raises(ExpressionFault):
        _evaluator().evaluate(text)


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 9 ** 9",
        "1 << 10 ** 9",
        "'a' * 10 ** 9",
        "[0] * 10 ** 9",
        "range(10 ** 9)",
        "round(n, -10 ** 9)",
        "2 ** 64",
        "1e308 * 10",
        "float('nan')",
        "('a' * 60000).replace('a', 'b' * 60000)",
        "('a' * 60000).join(['b', 'c', 'd'])",
        "'\\ud800'",
        "+".join(["n"] * 2000),
        "-" * 400 + "n",
        "(" * 150 + "n" + ")" * 150 + "+1" * 100,
        "n" * 5000,
        "\0",
        "",
    ],
)
def test_what_would_grow_too_large_is_refused_at_once(text: str) -> None:
    with pytest.raises(ExpressionFault):
        _evaluator().evaluate(text)


@pytest.mark.parametrize(
    "script",
    [
        "while True:\n    pass",
        "for a in range(10000):\n    for b in range(10000):\n        n = b",
        "x = [a for a in range(9999) for b in range(9999) if False]",
        "x = str([['a' * 1000] * 10000] * 10000)",
        "x = ['a' * 60000 for a in range(9999)]",
        "x = [[text] * 10000] * 10000 == [[text] * 10000] * 10000",
    ],
)
def test_a_script_that_does_not_end_costs_too_much(script: str) -> None:
    with pytest.raises(InvalidDefinition, match="more than 200,000 operations"):
        run_script(_evaluator(), script)


def test_a_script_changes_variables_and_makes_new_ones() -> None:
    evaluator = _evaluator()
    run_script(
        evaluator,
        """
        total = 0
        for line in order.lines:
            if line.cents == 5:
                continue
            total += line.cents
        items.append(total)
        order['seen'], first = True, items[0]
        while total > 4:
            total -= 1
            if total == 5: break
        """,
    )
    data = evaluator.data
    assert (data["total"], data["items"], data["order"]["seen"], data["first"]) == (5, [3, 1, 2, 6], True, 3)


@pytest.mark.parametrize(
    "script",
    [
        "import os",
        "def f():\n    pass",
        "class A:\n    pass",
        "with n:\n    pass",
        "del n",
        "break",
        "_event = 1",
        "n = ",
    ],
)
def test_other_statements_are_refused_before_and_while_they_run(script: str) -> None:
    with pytest.raises(ExpressionFault):
        run_script(_evaluator(), script)
    assert script_fault(script, "python") != "" or script in ("break", "_event = 1")


@pytest.mark.parametrize(
    "script", ["n = 8\nmissing + 1", "items.append(1)\nnew = 1\norder.update([[1, 2]])", "n = 1\nitems.pop(99)"]
)
def test_a_script_that_fails_changes_nothing(script: str) -> None:
    evaluator = _evaluator()
    with pytest.raises(ExpressionFault):
        run_script(evaluator, script)
    assert evaluator.data == _evaluator().data


def test_two_variables_never_share_a_list() -> None:
    evaluator = _evaluator()
    run_script(evaluator, "other = items\nitems.append(order.lines)\norder.lines.append(1)")
    assert evaluator.data["other"] == [3, 1, 2]
    assert evaluator.data["items"][-1] == [{"cents": 5}, {"cents": 6}]


@pytest.mark.parametrize("location", ["n", "order.lines", "order['new']", "items[0]", "order.lines[1].cents"])
def test_a_value_is_assigned_to_a_location(location: str) -> None:
    evaluator = _evaluator()
    assign(evaluator, location, [1])
    assert evaluator.evaluate(location) == [1]


@pytest.mark.parametrize(
    "location",
    ["new", "new.member", "_event", "_event.data", "text.member", "items[9]", "n + 1", "items[0:1]", "order._x"],
)
def test_nothing_is_assigned_where_there_is_no_variable(location: str) -> None:
    evaluator = _evaluator()
    with pytest.raises(ExpressionFault):
        assign(evaluator, location, 1)
    assert evaluator.data == _evaluator().data


def test_a_value_cannot_be_nested_without_end() -> None:
    evaluator = _evaluator()
    with pytest.raises(ExpressionFault, match="nested more than 50"):
        for _ in range(100):
            assign(evaluator, "order.inner", evaluator.evaluate("order"))
    assert evaluator.evaluate("order.lines[0].cents") == 5


def test_the_null_data_model_knows_only_in() -> None:
    evaluator = _evaluator("null")
    assert evaluator.is_true("In('on')")
    assert not evaluator.is_true(" In( off ) ")
    for text in ("n == 7", "True", "In('on') and In('on')"):
        with pytest.raises(ExpressionFault, match="null data model"):
            evaluator.is_true(text)
    with pytest.raises(ExpressionFault, match="null data model"):
        run_script(evaluator, "n = 1")


def test_a_fault_is_found_before_an_expression_is_evaluated() -> None:
    assert "no function 'open'" in expression_fault("n + open('x')", "python")
    assert "no method 'format'" in expression_fault("text.format()", "python")
    assert "Lambda" in expression_fault("lambda: 1", "python")
    assert "cannot be read" in expression_fault("1 = 1", "python")

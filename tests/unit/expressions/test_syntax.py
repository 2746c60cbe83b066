"""Parser and printer: one tree for one meaning, one text for one tree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from holdfast.expressions.engine import CannotEvaluate, InvalidExpression, compiled
from holdfast.expressions.parser import LONGEST_EXPRESSION, parse
from holdfast.expressions.printer import unparse
from holdfast.expressions.syntax import Junction, Operation, Selection, Spot, Tree, Variable
from tests.unit.expressions.corpus import cases, needs_cases, same, types_of, variables_of
from tests.unit.expressions.trees import trees

lawful = settings(deadline=None, print_blob=True)

LEAST = 1_000


@lawful
@given(trees)
def test_a_text_says_the_tree_it_was_made_of(tree: Tree) -> None:
    """Nothing is lost in the text, and the text of that is the same text."""
    text = unparse(tree)
    assert parse(text) == tree
    assert unparse(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("((a+b))*c", "(a + b) * c"),
        ("(a*b)+c", "a * b + c"),
        ("a-(b-c)", "a - (b - c)"),
        ("a && (b && c) && d", "a && b && c && d"),
        ("(a || b) && c", "(a || b) && c"),
        ("(a && b) || c", "a && b || c"),
        ("a ? (b ? c : d) : (e ? f : g)", "a ? (b ? c : d) : e ? f : g"),
        ("!(a)", "!a"),
        ("!!a", "a"),
        ("---a", "-a"),
        ("-(1)", "-(1)"),
        ("-(1.a)", "-(1.a)"),
        ("- 0x10", "-16"),
        ("1E3 + .5", "1000.0 + 0.5"),
        ("007u", "7u"),
        ("'it\\'s \"so\"'", '"it\'s \\"so\\""'),
        (r"r'\d'", r'"\\d"'),
        ("'''a\nb'''", '"a\\nb"'),
        ("'\\x41\\u00e9\\303'", '"AéÃ"'),
        ("b'\\xff\\303é'", 'b"\\xff\\xc3\\xc3\\xa9"'),
        ("a . b [ 0 ] . ? c [ ? d ]", "a.b[0].?c[?d]"),
        ("a.`b` == a.`odd key`", "a.b == a.`odd key`"),
        ("{ 'a' : [1,2,], }", '{"a": [1, 2]}'),
        ("[,]", "[]"),
        ("has( a.b )", "has(a.b)"),
        ("xs.map(x,x>1,x*2)", "xs.map(x, x > 1, x * 2)"),
        (".a.b", ".a.b"),
        ("a // why\n + 1", "a + 1"),
        ("1e999", "1e999"),
    ],
)
def test_there_is_one_spelling(text: str, normal: str) -> None:
    """Brackets that say nothing go, and literals are written one way."""
    assert unparse(parse(text)) == normal


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        ("", 1, 1, "it is empty"),
        ("1 +", 1, 4, "expected a value, but the expression ends"),
        ("state.a = 1", 1, 9, "to compare, write `==`"),
        ("a & b", 1, 3, "write `&&`"),
        ("true\n && foo bar", 2, 9, "expected the end, but here stands `bar`"),
        ("'''\n\n''' x", 3, 5, "here stands `x`"),
        ("f(1,)", 1, 5, "expected another argument"),
        ("xs.map(1, 2)", 1, 8, "takes a plain name first"),
        ("has(x)", 1, 5, "has() takes a member"),
        ("'abc", 1, 1, "a text is not closed"),
        ("'\\z'", 1, 1, "an escape that CEL does not know"),
        ("'\\ud800'", 1, 1, "is no character"),
        ("b'\\u00e9'", 1, 1, "bytes have no characters"),
        ("x ? 1", 1, 6, "expected `:`"),
        ("T{a: 1}", 1, 2, "messages are not supported"),
        ("if", 1, 1, "reserved by CEL"),
        ("x.in", 1, 3, "expected the name of a member"),
        ("9223372036854775808", 1, 1, "more than 64 bits"),
        ("1" * 5_000, 1, 1, "more than 64 bits"),
        ("-1 + " * 40 + "1", 1, 1, "32 levels"),
        ("(" * 10_000, 1, 1, "32 levels"),
        ("[" * 40 + "]" * 40, 1, 1, "32 levels"),
        ("a" * (LONGEST_EXPRESSION + 1), 1, 1, "the limit is 20000"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, line: int, column: int, what: str) -> None:
    """Lines and columns count from 1, as an editor's."""
    with pytest.raises(InvalidExpression) as raised:
        parse(text)
    ((found_line, found_column, said),) = raised.value.faults
    assert (found_line, found_column) == (line, column)
    assert what in said


def test_each_part_knows_its_place() -> None:
    """An operation stands where its operator does, a member where its name does."""
    tree = parse("state.total\n  < 10")
    assert isinstance(tree, Operation)
    assert isinstance(tree.left, Selection)
    assert (tree.at, tree.left.at, tree.left.operand.at, tree.right.at) == (
        Spot(2, 3), Spot(1, 7), Spot(1, 1), Spot(2, 5),
    )  # fmt: skip


def test_junctions_are_flat_however_they_are_made() -> None:
    """`a && b && c` is one thing, and thousands of parts are no depth."""
    a, b, c = Variable("a"), Variable("b"), Variable("c")
    assert Junction("&&", (a, Junction("&&", (b, c)))) == parse("a && b && c")
    assert len(getattr(parse("&&".join(["a"] * 3_000)), "parts", ())) == 3_000


def _outcome(text: str, case: dict[str, Any]) -> Any:
    program = compiled(text, types_of(case), check=not case["disable_check"])
    try:
        return program.execute(variables_of(case))
    except CannotEvaluate as error:
        return str(error)


@needs_cases
def test_what_the_engine_compiles_is_parsed_and_its_normal_text_means_the_same() -> None:
    """Over CEL's own cases: parsed, printed, parsed again, and evaluated from either text."""
    compared = 0
    for case in cases():
        try:
            wanted = _outcome(case["expr"], case)
        except (InvalidExpression, NotImplementedError):
            continue
        tree = parse(case["expr"])
        found = _outcome(unparse(tree), case)
        assert parse(unparse(tree)) == tree
        assert same(found, wanted) or repr(found) == repr(wanted), case["id"]
        compared += 1
    assert compared > LEAST

"""Expressions written in Python have the same trees, and the same text, as those that are written in CEL."""

from __future__ import annotations

import datetime
import enum
from typing import Any

import pytest
from hypothesis import given, settings

from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.expression import Expression
from holdfast.expressions.parser import parse
from holdfast.expressions.printer import unparse
from holdfast.expressions.shapes import DOUBLE, DYN, map_of
from holdfast.expressions.syntax import Tree
from holdfast.programs.definition.term_source import METHODS, NAMES, source_of
from holdfast.programs.definition.terms import D, Term, cel_of, has, tree_of, value, when
from tests.unit.expressions.trees import trees

lawful = settings(deadline=None, print_blob=True)

WORDS = {"D": D, "has": has, "when": when, "value": value}


class Decision(enum.StrEnum):
    APPROVE = "approve"


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (D.start.items, "start.items"),
        (D.state.score > 0.5, "state.score > 0.5"),
        (D.state.a + 1, "state.a + 1"),
        (1 - D.state.a, "1 - state.a"),
        (D.state.a > 2, "state.a > 2"),
        (value(2) < D.state.a, "2 < state.a"),
        ((D.state.a > 1) & (D.state.b < 2), "state.a > 1 && state.b < 2"),
        (D.item | ~D.state.ok & True, "item || !state.ok && true"),
        (D.state["odd key"], 'state["odd key"]'),
        (D.state.member("class"), "state.class"),
        (D.state.member("odd key"), "state.`odd key`"),
        (D.start.items[0].price * -D.line.count, "start.items[0].price * -line.count"),
        (D.start.items[D.index], "start.items[index]"),
        (D.state.name.contains("a"), 'state.name.contains("a")'),
        (D.state.items.size() >= 2, "state.items.size() >= 2"),
        (D.size(D.state.items), "size(state.items)"),
        ("Claim " + D.string(D.start.no), '"Claim " + string(start.no)'),
        (has(D.state.x), "has(state.x)"),
        (D.has(D.state.x), "has(state.x)"),
        (when(D.state.ok, "yes", None), 'state.ok ? "yes" : null'),
        (D.state.answer.is_in(["a", Decision.APPROVE]), 'state.answer in ["a", "approve"]'),
        (D.start.items.map(lambda line: line.price * 2), "start.items.map(line, line.price * 2)"),
        (D.xs.map(lambda x: x + 1, where=lambda x: x > 1), "xs.map(x, x > 1, x + 1)"),
        (D.xs.filter(lambda x: x.ok).all(lambda y: D.xs.exists(lambda z: z == y)),
         "xs.filter(x, x.ok).all(y, xs.exists(z, z == y))"),
        (D.xs.exists_one(lambda x: x == 1), "xs.exists_one(x, x == 1)"),
        (D.state.maybe("x").orValue(0), "state.?x.orValue(0)"),
        (D.state.maybe_at("x").optMap(lambda v: v + 1), 'state[?"x"].optMap(v, v + 1)'),
        (D.optional.of(1), "optional.of(1)"),
        (D.now + datetime.timedelta(hours=2), 'now + duration("7200s")'),
        (D.now < datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC), 'now < timestamp("2026-05-01T00:00:00Z")'),
        (D.state == {"a": [1, 2.5], "b": D.item}, 'state == {"a": [1, 2.5], "b": item}'),
        (D.cel("state . a+1") * 2, "(state.a + 1) * 2"),
        (-value(1), "-(1)"),
    ],
)  # fmt: skip
def test_a_term_has_the_text_of_its_cel(term: Term, text: str) -> None:
    """And the tree that is parsed from it."""
    assert cel_of(term) == text
    assert tree_of(term) == parse(text)


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(D.state.ok),
        lambda: D.state.a and D.state.b,
        lambda: not D.state.a,
        lambda: "a" in D.state.xs,
        lambda: D.state.a in [1, 2],
        lambda: 1 < D.state.a < 3,
        lambda: 1 if D.state.ok else 2,
    ],
)
def test_pythons_own_logic_is_refused_with_the_remedy(use: Any) -> None:
    """It would decide now, by what nobody knows yet."""
    with pytest.raises(TypeError, match=r"`&`, `\|`, `~` for and, or, not.*`when\(c, a, b\)` for if.*is_in"):
        use()


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (lambda: f"Claim {D.start.no}", "not an f-string"),
        (lambda: list(D.state.xs), "xs.map"),
        (lambda: len(D.state.xs), r"xs\.size\(\)"),
        (lambda: D.state._secret, "member"),
        (lambda: D._x, "D.cel"),
        (lambda: D.loop, "no variable of CEL"),
        (lambda: D.xs.map(lambda loop: loop), "no variable of CEL"),
        (lambda: D.xs.map(lambda a, b: a), "one parameter"),
        (lambda: D.xs.map(1), "one parameter"),
        (lambda: has(D.state["x"]), "has\\(\\) takes a member"),
        (lambda: D.state.x + object(), "no values of type object"),
        (lambda: D.state.x == {1, 2}, "no values of type set"),
        (lambda: D.state.x + 2**63, "more than 64 bits"),
        (lambda: D.state.x + float("nan"), "NaN"),
        (lambda: D.now > datetime.datetime(2026, 1, 1), "needs a zone"),
        (lambda: D.state.member("a`b"), "write \\["),
        (lambda: D.state.x[0](1), "is no function"),
        (lambda: D.cel("1 +"), "expected a value"),
        (lambda: {D.state.x: 1}, "unhashable"),
    ],
)
def test_what_cannot_be_said_is_refused_with_the_remedy(use: Any, remedy: str) -> None:
    """Where it is written, not when it runs."""
    with pytest.raises((TypeError, ValueError, AttributeError), match=remedy):
        use()


def test_a_term_is_checked_like_a_text() -> None:
    """The same faults, the same widening, the same limits."""
    roots = {"state": map_of({"score": DOUBLE}), "item": DYN}
    assert Expression(tree_of(D.state.score > 1), roots).text == "state.score > 1.0"
    with pytest.raises(InvalidExpression, match="did you mean `score`"):
        Expression(tree_of(D.state.scor > 1), roots)
    deep = D.item
    for _ in range(5_000):
        deep = deep + 1
    with pytest.raises(InvalidExpression, match="32 levels"):
        Expression(tree_of(deep), roots)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("state.score > 0.5", "D.state.score > 0.5"),
        ("a > 1 && b < 2 || !c", "(D.a > 1) & (D.b < 2) | ~D.c"),
        ('"Claim " + start.no', '"Claim " + D.start.no'),
        ("2 < state.a", "value(2) < D.state.a"),
        ("(a < b) == c", "(D.a < D.b) == D.c"),
        ("a - (b - c)", "D.a - (D.b - D.c)"),
        ("x in ['a', y]", 'D.x.is_in(["a", D.y])'),
        ("has(state.x) ? state.?y : null", 'when(has(D.state.x), D.state.maybe("y"), None)'),
        ("xs.map(x, x > 1, x + state.n)", "D.xs.map(lambda x: x + D.state.n, where=lambda x: x > 1)"),
        ("xs.map(D, D + state.n)", 'D.cel("xs.map(D, D + state.n)")'),
        ("state.class + state.map", 'D.state.member("class") + D.state.member("map")'),
        ("state['odd key']", 'D.state["odd key"]'),
        ("size(xs) == xs.size()", "D.size(D.xs) == D.xs.size()"),
        ("5u", 'D.cel("5u")'),
        ("[1, 'a']", '[1, "a"]'),
        ("true", "True"),
    ],
)
def test_the_source_of_a_tree_reads_well(text: str, source: str) -> None:
    """As an author would write it."""
    assert source_of(parse(text)) == source
    assert repr(Term(parse(text))) == source


@lawful
@given(trees)
def test_the_source_of_a_tree_builds_it_again(tree: Tree) -> None:
    """For every tree: its source, evaluated, is the same tree, and so has the same text."""
    again = tree_of(eval(source_of(tree), {"__builtins__": {}, **WORDS}))
    assert again == tree
    assert unparse(again) == unparse(tree)


def test_the_source_knows_the_attributes_of_terms() -> None:
    """A member that a method hides is written otherwise; a name that a lambda would hide is not bound."""
    assert {name for name in vars(Term) if not name.startswith("_")} == METHODS
    assert WORDS.keys() == NAMES

"""The page on expressions says what is so: its tables are evaluated, its functions and limits are those of the code."""

from __future__ import annotations

import datetime
import re

import pytest

from holdfast.expressions.engine import DEEPEST_EXPRESSION, DEEPEST_VALUE, MOST_ITERATIONS
from holdfast.expressions.expression import LONGEST_LIST, Expression
from holdfast.expressions.functions import GLOBALS, METHODS, NAMESPACES
from holdfast.expressions.parser import LONGEST_EXPRESSION
from holdfast.expressions.reads import LONGEST_VALUE
from holdfast.expressions.shapes import BOOL, DOUBLE, INT, map_of
from holdfast.expressions.syntax import MACROS
from holdfast.programs.definition.terms import D, cel_of, has, value, when
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "expressions.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)
PYTHON, TYPES = PAGE.split("\n## Types\n")
WORDS = {"D": D, "has": has, "value": value, "when": when, "timedelta": datetime.timedelta}
ROOTS = {"state": map_of({"total": DOUBLE, "count": INT, "ok": BOOL})}


def _rows(text: str) -> list[tuple[str, str]]:
    return [(left.replace("\\|", "|"), right.replace("\\|", "|")) for left, right in ROW.findall(text)]


@pytest.mark.parametrize(("cel", "python"), _rows(PYTHON))
def test_the_python_of_the_page_is_its_cel(cel: str, python: str) -> None:
    """Each row's two sides have one normal text, and the left side is that text."""
    assert cel_of(eval(python, dict(WORDS))) == cel


@pytest.mark.parametrize(("written", "kept"), _rows(TYPES))
def test_the_page_shows_what_is_kept(written: str, kept: str) -> None:
    """Widened as the page says."""
    assert Expression(written, ROOTS).text == kept


def test_every_function_is_on_the_page_and_no_other() -> None:
    """Functions, methods and macros."""
    listed = PAGE.split("\n## Functions and macros\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(?:\w+\.|\"[^\"]*\"\.)?(\w+)\(", listed))
    assert named == {*GLOBALS, *METHODS, *MACROS, *(name for each in NAMESPACES.values() for name in each), "has"}


def test_the_limits_are_on_the_page() -> None:
    """As numbers."""
    limits = (LONGEST_EXPRESSION, DEEPEST_EXPRESSION, LONGEST_LIST, MOST_ITERATIONS, LONGEST_VALUE, DEEPEST_VALUE)
    named = {int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", PAGE.split("\n## Limits\n")[1])}
    assert {*limits} <= named

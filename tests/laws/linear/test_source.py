"""Every pattern and every scanner of the source is measured: no pattern takes more than linear time."""

from __future__ import annotations

import ast

import pytest

from tests.laws.linear.loops import scanners
from tests.laws.linear.patterns import RUNTIME, all_patterns, modules, other_ways, slowness
from tests.laws.linear.scanners import NO_TEXTS, SCANNERS
from tests.scope import one_stays

_CHARACTERS = 16_384

pytestmark = pytest.mark.xdist_group("syntax_trees")  # of all modules, which takes some seconds to read


TAKING_SECONDS = ("expressions/tokens.py", "expressions/lexer.py")
"""Modules with a pattern of many parts, which is tried in many ways."""


@pytest.mark.parametrize("takes_seconds", one_stays([False, True]))
def test_no_pattern_takes_more_than_linear_time(takes_seconds: bool) -> None:
    """Every one in the source, as it is used: tried at each place of a text, or at one."""
    patterns = all_patterns()
    assert len(patterns) > 100
    measured = [each for each in patterns if each.place.startswith(TAKING_SECONDS) == takes_seconds]
    assert measured
    slow = [f"{each.place}: {said}" for each in measured if (said := slowness(each, _CHARACTERS))]
    assert not slow, "\n".join(slow)


def test_every_function_that_goes_through_something_by_an_index_is_in_a_table() -> None:
    """A new scanner is measured, or has a reason not to be."""
    measured = {function for scanner in SCANNERS for function in scanner.covers}
    assert not measured & NO_TEXTS.keys()
    assert sorted(scanners()) == sorted(measured | NO_TEXTS.keys())


def test_no_library_reads_cookies() -> None:
    """The one of Python takes quadratic time on some of its versions: what is sent is read by `console/cookies.py`."""
    used = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "cookies"
    ]
    assert not used


def test_patterns_are_made_in_ways_that_the_search_follows() -> None:
    assert not other_ways()
    places = {each.place.partition(":")[0] for each in all_patterns()}
    assert {module for module, _ in RUNTIME} - {"gate/policy/shape.py"} <= places
    assert {"server/decoder.py", "gate/policy.schema.json", "gate/policy/cases.py", "transports/schemas.py"} <= places

"""Texts of others are read in linear time: no pattern and no scanner is slower, on texts that are made to be slow.

Nothing is measured that takes no time: a text of some thousand characters that is read in 2 ms is read fast enough.
"""

from __future__ import annotations

import ast
import re

import pytest

from tests.laws.linear.growth import faster_than_linear, more_lines_than_linear, slow_when_large
from tests.laws.linear.loops import scanners
from tests.laws.linear.patterns import RUNTIME, Pattern, all_patterns, modules, other_ways, slowness
from tests.laws.linear.scanners import NO_TEXTS, SCANNERS, Scanner

_CHARACTERS = 16_384
_LARGE = 65_536
_SHARES = 2
OF_THE_SOURCE = pytest.mark.xdist_group("syntax trees")  # of all modules, which takes some seconds to read


@OF_THE_SOURCE
@pytest.mark.parametrize("share", range(_SHARES))
def test_no_pattern_takes_more_than_linear_time(share: int) -> None:
    """Every one in the source, as it is used: tried at each place of a text, or at one."""
    patterns = all_patterns()
    assert len(patterns) > 100
    slow = [f"{each.place}: {said}" for each in patterns[share::_SHARES] if (said := slowness(each, _CHARACTERS))]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("scanner", SCANNERS, ids=lambda each: each.name)
def test_no_scanner_takes_more_than_linear_work(scanner: Scanner) -> None:
    """Counted by lines for each two words of its language; by time for each word alone, over longer texts, and for each
    word with a blank, over the longest."""
    attacks = list(scanner.attacks())
    slow = [said for each in attacks if (said := more_lines_than_linear(each, scanner.act, 16))]
    words = [each for each in attacks if each.part in scanner.words]
    slow += [said for each in words if (said := faster_than_linear(each, scanner.act, _CHARACTERS))]
    slow += [said for each in scanner.apart() if (said := slow_when_large(each, scanner.act, _LARGE))]
    assert not slow, "\n".join(slow)


@OF_THE_SOURCE
def test_every_function_that_goes_through_something_by_an_index_is_in_a_table() -> None:
    """A new scanner is measured, or has a reason not to be."""
    measured = {function for scanner in SCANNERS for function in scanner.covers}
    assert not measured & NO_TEXTS.keys()
    assert sorted(scanners()) == sorted(measured | NO_TEXTS.keys())


@OF_THE_SOURCE
def test_no_library_reads_cookies() -> None:
    """The one of Python takes quadratic time on some of its versions: what is sent is read by `console/cookies.py`."""
    used = [
        f"{module.path}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr == "cookies"
    ]
    assert not used


@OF_THE_SOURCE
def test_patterns_are_made_in_ways_that_the_search_follows() -> None:
    assert not other_ways()
    places = {each.place.partition(":")[0] for each in all_patterns()}
    assert {module for module, _ in RUNTIME} - {"gate/policy/shape.py"} <= places
    assert {"server/decoder.py", "gate/policy.schema.json", "gate/policy/cases.py", "transports/schemas.py"} <= places


@pytest.mark.parametrize(
    ("text", "flags", "searches"),
    [
        (rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL, True),
        (r'"""(?:\\"""|[^"]|"(?!""))*"""|"(?:\\.|[^"\\\n])*"|#[^\n]*', 0, True),
        (r"(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|(?P<word>\w+)|(?P<mark>.)", re.DOTALL, True),
        (r"In\(\s*(?P<quote>['\"]?)(?P<id>[^'\"()]+)(?P=quote)\s*\)", 0, False),
        (r"\((.*) == \(\$payload \| event \| \.\[(\".*\")\]\)\)", re.DOTALL, False),
        (r" expecting \{.*\}$", 0, True),
        (r"-----BEGIN KEY-----.*?-----END KEY-----", re.DOTALL, True),
        (r"(a+)+b", 0, False),
        (r"(?:a|b|ab)*c", 0, False),
        (r"\d+x", 0, True),
    ],
)
def test_slow_patterns_are_found(text: str | bytes, flags: int, searches: bool) -> None:
    """Of the shapes that there were, and of those that take for ever."""
    assert slowness(Pattern("here", text, flags, searches), _CHARACTERS) is not None


def test_slow_scanners_are_found() -> None:
    """One that begins anew at each quote, one that copies the rest for each word, and one that counts the lines before
    each word anew, which takes no time in a short text."""

    def again(text: str) -> None:
        for at, sign in enumerate(text):
            if sign == '"':
                end = at + 1
                while end < len(text) and text[end] != "!":
                    end += 1

    def shorten(text: str) -> None:
        while text:
            text = text[1:]

    def place(text: str) -> None:
        for found in re.finditer(r"\w+", text):
            _ = found[0].upper(), text[: found.start()].count("a")

    for read, measure, size in ((again, more_lines_than_linear, 16), (shorten, faster_than_linear, 2**19)):
        scanner = Scanner("slow", read, ("a", '"'))
        assert any(measure(each, scanner.act, size) for each in scanner.attacks())
    scanner = Scanner("slow", place, ("a", '"'))
    assert any(slow_when_large(each, scanner.act, _LARGE) for each in scanner.apart())

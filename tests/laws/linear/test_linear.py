"""Texts of others are read in linear time: no pattern and no scanner is slower, on texts that are made to be slow.

Nothing is measured that takes no time: a text of some thousand characters that is read in 2 ms is read fast enough.
"""

from __future__ import annotations

import re

import pytest

from tests.laws.linear.growth import faster_than_linear, more_lines_than_linear, slow_when_large
from tests.laws.linear.patterns import Pattern, slowness
from tests.laws.linear.scanners import SCANNERS, Scanner
from tests.scope import one_stays

_CHARACTERS = 16_384
_LARGE = 65_536


TAKING_SECONDS = {
    "a definition",
    "a policy",
    "a rule",
    "a script of a chart",
    "an expression in CEL",
    "an expression in jq",
    "an expression of an import, divided",
    "an expression of an import, read",
    "parentheses of CEL",
    "the load of a rule",
    "values of Serverless Workflow",
}
QUICK = [each for each in SCANNERS if each.name not in TAKING_SECONDS]
SLOW = [each for each in SCANNERS if each.name in TAKING_SECONDS]


@pytest.mark.parametrize(
    "scanner",
    one_stays(QUICK + SLOW, len(QUICK)),
    ids=lambda each: each.name,
)
def test_no_scanner_takes_more_than_linear_work(scanner: Scanner) -> None:
    """Counted by lines for each two words of its language; by time for each word alone, over longer texts, and for each
    word with a blank, over the longest."""
    attacks = list(scanner.attacks())
    slow = [said for each in attacks if (said := more_lines_than_linear(each, scanner.act, 16))]
    words = [each for each in attacks if each.part in scanner.words]
    slow += [said for each in words if (said := faster_than_linear(each, scanner.act, _CHARACTERS))]
    slow += [said for each in scanner.apart() if (said := slow_when_large(each, scanner.act, _LARGE))]
    assert not slow, "\n".join(slow)


SLOW_PATTERNS = [
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
]


@pytest.mark.parametrize(
    ("text", "flags", "searches"),
    one_stays(SLOW_PATTERNS),
)
def test_slow_patterns_are_found(text: str | bytes, flags: int, searches: bool) -> None:
    """Of the shapes that there were, and of those that take for ever."""
    assert slowness(Pattern("here", text, flags, searches), _CHARACTERS) is not None


@pytest.mark.long
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

"""The tokens of an expression, for facts about its text that need no evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# A text without an end is one, too: if it were none, each quote in it would be tried, and all of it read each time.
_QUOTED: Final = (
    r"\"\"\"(?:\\.|[^\\\"]|\"(?!\"\"))*+(?:\"\"\")?|'''(?:\\.|[^\\']|'(?!''))*+(?:''')?"
    r"|\"(?:\\.|[^\"\\\n])*+\"?|'(?:\\.|[^'\\\n])*+'?"
)
_RAW: Final = r"\"\"\"(?:[^\"]|\"(?!\"\"))*+(?:\"\"\")?|'''(?:[^']|'(?!''))*+(?:''')?|\"[^\"\n]*+\"?|'[^'\n]*+'?"
TOKEN: Final = re.compile(
    rf"(?P<skip>\s+|//[^\n]*)|(?P<raw>(?:[bB]?[rR]|[rR][bB])(?:{_RAW}))|(?P<string>[bB]?(?:{_QUOTED}))"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?[uU]?)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<mark>&&|\|\||[<>=!]=|.)",
    re.DOTALL,
)


def tokens_of(text: str) -> Iterator[tuple[str, str]]:
    """An expression's tokens, each with its kind: word, string, raw, number, mark."""
    for match in TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield match.lastgroup or "", match[0]


def without_double_parentheses(text: str) -> str:
    """The same expression with one pair of parentheses in place of several around one thing. Unchanged where there are
    none."""
    tokens = list(tokens_of(text))
    partners: dict[int, int] = {}
    open_at: list[int] = []
    for index, token in enumerate(tokens):
        if token == ("mark", "("):
            open_at.append(index)
        elif token == ("mark", ")") and open_at:
            partners[open_at.pop()] = index
    inner = [first for first, last in partners.items() if partners.get(first - 1) == last + 1]
    dropped = {place for first in inner for place in (first, partners[first])}
    if not dropped:
        return text
    return " ".join(word for index, (_, word) in enumerate(tokens) if index not in dropped)

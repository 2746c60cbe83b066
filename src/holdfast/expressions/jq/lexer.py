"""The words of a text in jq: enough to know what it reads and calls, and that its brackets close.

Inside a text, ``\\(…)`` is an expression again. A member is written ``.name``, a variable ``$name``; a name inside
``{…}`` that stands before a colon, a comma or the end is a member of the object and calls nothing.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from holdfast.expressions.engine import Fault, InvalidExpression

Kind = Literal["field", "variable", "word", "key", "string", "number", "format", "mark"]

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN: Final = re.compile(
    rf"""(?P<blank>\s+|\#[^\n]*)
    |(?P<variable>\$(?:{_NAME}::)*{_NAME})
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<field>\.{_NAME})
    |(?P<word>(?:{_NAME}::)*{_NAME})
    |(?P<format>@[A-Za-z0-9_]+)
    |(?P<mark>\.\.|[=!<>]=|\?//=?|//=?|\|=|[-+*/%]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}


class JqToken(NamedTuple):
    """A word of the text, where it begins and how many brackets are around it."""

    kind: Kind
    word: str
    at: int
    depth: int


def lex(text: str) -> list[JqToken]:
    """The words of a text. Raises InvalidExpression where a bracket or a text does not close."""
    lexer = _Lexer(text)
    lexer.read("")
    return _with_keys(lexer.found)


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[str] = []
        self.found: list[JqToken] = []

    def read(self, until: str) -> None:
        """Read to the bracket that closes, or to the end."""
        depth = len(self._open)
        while self._at < len(self._text):
            if self._text[self._at] == '"':
                self._string()
                continue
            match = _TOKEN.match(self._text, self._at)
            assert match is not None  # the last alternative takes any sign
            word, kind, at = match[0], match.lastgroup or "", self._at
            self._at = match.end()
            if kind == "blank":
                continue
            if kind == "mark" and word == until and len(self._open) == depth:
                return
            self._add(kind, word, at)
        if until or self._open:
            raise self._wrong(f"there is no {until or _CLOSING[self._open[-1]]!r} for what was opened")

    def _add(self, kind: str, word: str, at: int) -> None:
        if kind == "mark" and word in _CLOSING.values() and (not self._open or _CLOSING[self._open.pop()] != word):
            raise self._wrong(f"{word!r} closes nothing", at)
        shown = word[1:] if kind in ("field", "variable", "format") else word
        self.found.append(JqToken(kind, shown, at, len(self._open)))  # type: ignore[arg-type]
        if kind == "mark" and word in _CLOSING:
            self._open.append(word)

    def _string(self) -> None:
        begin = self._at
        self._at += 1
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign == '"':
                self._at += 1
                self.found.append(JqToken("string", self._text[begin : self._at], begin, len(self._open)))
                return
            if self._text.startswith("\\(", self._at):
                self._at += 2
                self._open.append("(")
                self.read(")")
                self._open.pop()
            else:
                self._at += 2 if sign == "\\" else 1
        raise self._wrong("a text has no end", begin)

    def _wrong(self, what: str, at: int | None = None) -> InvalidExpression:
        before = self._text[: len(self._text) if at is None else at]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        return InvalidExpression((Fault(line, column, what),))


def _with_keys(tokens: list[JqToken]) -> list[JqToken]:
    """Names of members that an object is made with are keys, and no calls."""
    found: list[JqToken] = []
    brackets: list[str] = []
    for at, token in enumerate(tokens):
        if token.kind == "mark" and token.word in _CLOSING:
            brackets.append(token.word)
        elif token.kind == "mark" and token.word in _CLOSING.values() and brackets:
            brackets.pop()
        in_object = bool(brackets) and brackets[-1] == "{"
        begins = in_object and at > 0 and tokens[at - 1].kind == "mark" and tokens[at - 1].word in ("{", ",")
        found.append(token._replace(kind="key") if token.kind == "word" and begins else token)
    return found

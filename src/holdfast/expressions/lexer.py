"""The words of an expression, each with its place, and the values of its literals."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from holdfast.expressions.engine import Fault, InvalidExpression
from holdfast.expressions.syntax import Constant, Spot

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_QUOTED: Final = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^"\\\n\r])*"',
        rf"'(?:{_ESCAPE}|[^'\\\n\r])*'",
    )
)
_RAW: Final = r'"""[\s\S]*?"""|' + r"'''[\s\S]*?'''|" + r'"[^"\n\r]*"|' + r"'[^'\n\r]*'"
_EXPONENT: Final = r"[eE][+-]?[0-9]+"
_LEXEME: Final = re.compile(
    rf"(?P<skip>[\t\n\f\r ]+|//[^\n]*)"
    rf"|(?P<raw>[bB]?[rR](?:{_RAW}))|(?P<string>[bB]?(?:{_QUOTED}))"
    rf"|(?P<double>[0-9]+\.[0-9]+(?:{_EXPONENT})?|[0-9]+{_EXPONENT}|\.[0-9]+(?:{_EXPONENT})?)"
    rf"|(?P<integer>(?:0x[0-9a-fA-F]+|[0-9]+)[uU]?)"
    rf"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)"
    rf"|(?P<mark>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{{}}])"
)
_ESCAPED: Final = re.compile(_ESCAPE)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WHOLE: Final = re.compile(r"(-?)(?:0x([0-9a-fA-F]+)|([0-9]+))([uU]?)")
_MOST_DIGITS: Final = 1_000
_QUOTES: Final = frozenset("\"'")
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
QUOTABLE: Final = re.compile(r"[A-Za-z0-9_.\-/ ]+")
"""What can stand as a member between backticks."""


class Lexeme(NamedTuple):
    """One word of a text. Kinds: word, quoted, string, raw, integer, double, mark, end."""

    kind: str
    text: str
    at: Spot


def refuse(at: Spot, what: str) -> NoReturn:
    """Say that the text at a place is no expression."""
    raise InvalidExpression((Fault(at.line, at.column, what),))


def lexemes(text: str) -> Iterator[Lexeme]:
    """The words of a text; the last one has the kind ``end``. Raises InvalidExpression."""
    index, line, begun = 0, 1, 0
    while index < len(text):
        at = Spot(line, index - begun + 1)
        match = _LEXEME.match(text, index)
        if match is None:
            refuse(at, _complaint(text, index))
        if match.lastgroup != "skip":
            yield Lexeme(match.lastgroup or "", match[0], at)
        index = match.end()
        if breaks := match[0].count("\n"):
            line, begun = line + breaks, match.start() + match[0].rindex("\n") + 1
    yield Lexeme("end", "", Spot(line, index - begun + 1))


def _complaint(text: str, index: int) -> str:
    sign = text[index]
    if sign in _QUOTES:
        return "a text is not closed, or has an escape that CEL does not know"
    hints = {"=": ": to compare, write `==`", "&": ": write `&&`", "|": ": write `||`", "$": ", and no interpolation"}
    return f"CEL has no sign {sign!r}{hints.get(sign, '')}"


def text_constant(lexeme: Lexeme) -> Constant:
    """The text or the bytes that a lexeme writes."""
    prefix = lexeme.text[: len(lexeme.text) - len(lexeme.text.lstrip("bBrR"))]
    body = lexeme.text[len(prefix) :]
    marks = 3 if body[:3] in ('"""', "'''") else 1
    body = body[marks:-marks]
    is_bytes = bool(prefix) and prefix[0] in "bB"
    if lexeme.kind == "string":
        body = _ESCAPED.sub(lambda match: _unescaped(match[0], lexeme.at, is_bytes), body)
    if not is_bytes:
        return Constant("string", body, lexeme.at)
    # An escape stands for one byte; it was kept apart from the characters as half of a character.
    return Constant("bytes", body.encode("utf-8", "surrogateescape"), lexeme.at)


def _unescaped(escape: str, at: Spot, is_bytes: bool) -> str:
    sign = escape[1]
    if sign in _LETTERS:
        return _LETTERS[sign]
    if sign in "\"'\\?`":
        return sign
    if sign in "uU" and is_bytes:
        refuse(at, f"bytes have no characters, so `{escape}` cannot stand in them")
    code = int(escape[1:], 8) if sign.isdigit() else int(f"0x{escape[2:]}", 0)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        refuse(at, f"`{escape}` is no character")
    return chr(0xDC00 + code) if is_bytes and code >= 0x80 else chr(code)


def number_constant(text: str, at: Spot) -> Constant:
    """The number that a text writes, with its sign."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return Constant("double", float(text), at)
    sign, hexadecimal, digits, unsigned = whole.groups()
    if len(hexadecimal or digits) > _MOST_DIGITS:
        refuse(at, "a number has more than 64 bits")
    value = (int(hexadecimal, 16) if hexadecimal else int(digits)) * (-1 if sign else 1)
    least, most = (0, 2**64) if unsigned else (-(2**63), 2**63)
    if not least <= value < most:
        refuse(at, "a number has more than 64 bits")
    return Constant("uint" if unsigned else "int", value, at)

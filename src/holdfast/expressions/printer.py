"""From a tree to the one text that stands for it.

Brackets only where the tree needs them, texts in double quotes, numbers in decimal, one space around operators. What is
kept and hashed is this text, so its form never changes: a change would change the digest of every definition.
"""

from __future__ import annotations

import math
import re
from typing import Final

from holdfast.expressions.lexer import IDENTIFIER
from holdfast.expressions.syntax import (
    WORDS,
    Application,
    Comprehension,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    MapDisplay,
    Operation,
    Prefix,
    Presence,
    Selection,
    Subscript,
    Tree,
    Variable,
)

_TERNARY, _OR, _AND, _RELATION, _SUM, _PRODUCT, _PREFIX, _MEMBER = range(8)
_SIGNED: Final = frozenset("-0123456789")
_OPERATORS: Final = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
# A fixed list, not what Python calls printable: that differs between its releases.
_UNSEEN: Final = re.compile('[\x00-\x1f"\\\\\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]')
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def unparse(tree: Tree) -> str:
    """The text of a tree: ``parse(unparse(tree)) == tree``."""
    return _text(tree, _TERNARY)


def _text(tree: Tree, level: int) -> str:
    """The text where a place takes only what binds at least as tightly as ``level``."""
    binding, text = _written(tree)
    return text if binding >= level else f"({text})"


def _written(tree: Tree) -> tuple[int, str]:
    match tree:
        case Operation(operator, left, right):
            binding = _OPERATORS.get(operator, _RELATION)
            return binding, f"{_text(left, binding)} {operator} {_text(right, binding + 1)}"
        case Junction(operator, parts):
            binding = _AND if operator == "&&" else _OR
            return binding, f" {operator} ".join(_text(part, binding + 1) for part in parts)
        case Conditional(condition, yes, no):
            return _TERNARY, f"{_text(condition, _OR)} ? {_text(yes, _OR)} : {_text(no, _TERNARY)}"
        case Prefix(operator, operand):
            # `-1` is a number, so what takes a number's negative is written -(1).
            inner = _text(operand, _MEMBER)
            inner = f"({inner})" if inner[0] in _SIGNED else inner
            return _PREFIX, operator + inner
        case _:
            return _MEMBER, _member(tree)


def _member(tree: Tree) -> str:
    match tree:
        case Constant():
            return _constant(tree)
        case Variable(name, absolute):
            return f".{name}" if absolute else name
        case Selection(operand, member, optional):
            return f"{_text(operand, _MEMBER)}.{'?' if optional else ''}{_name(member)}"
        case Presence(operand, member):
            return f"has({_text(operand, _MEMBER)}.{_name(member)})"
        case Subscript(operand, index, optional):
            return f"{_text(operand, _MEMBER)}[{'?' if optional else ''}{unparse(index)}]"
        case Application(function, target, arguments):
            owner = "" if target is None else f"{_text(target, _MEMBER)}."
            return f"{owner}{function}({', '.join(map(unparse, arguments))})"
        case Comprehension(macro, over, variable, parts):
            return f"{_text(over, _MEMBER)}.{macro}({', '.join((variable, *map(unparse, parts)))})"
        case ListDisplay(items):
            return f"[{', '.join(('?' if item.optional else '') + unparse(item.value) for item in items)}]"
        case MapDisplay(entries):
            written = (
                f"{'?' if entry.optional else ''}{unparse(entry.key)}: {unparse(entry.value)}" for entry in entries
            )
            return f"{{{', '.join(written)}}}"
        case _:
            raise AssertionError(tree)


def _name(member: str) -> str:
    return member if IDENTIFIER.fullmatch(member) and member not in WORDS else f"`{member}`"


def _constant(constant: Constant) -> str:
    match constant.value:
        case None:
            return "null"
        case bool(value):
            return "true" if value else "false"
        case int(value):
            return f"{value}u" if constant.kind == "uint" else str(value)
        case float(value):
            return repr(value) if math.isfinite(value) else "1e999" if value > 0 else "-1e999"
        case bytes(value):
            return 'b"' + "".join(map(_byte, value)) + '"'
        case str(value):
            return '"' + _UNSEEN.sub(_escape, value) + '"'


def _escape(match: re.Match[str]) -> str:
    return _SHORT.get(match[0]) or f"\\u{ord(match[0]):04x}"


def _byte(value: int) -> str:
    sign = chr(value)
    return _SHORT.get(sign) or (sign if 0x20 <= value < 0x7F else f"\\x{value:02x}")

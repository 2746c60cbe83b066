"""From a tree back to the Python that builds it: ``D.state.score > 0.5``.

The source needs the names ``D``, ``has``, ``when`` and ``value`` and nothing else. What has no words of its own in
Python is written as ``D.cel("…")``.
"""

from __future__ import annotations

import keyword
import math
from typing import Final

from holdfast.expressions.lexer import IDENTIFIER
from holdfast.expressions.printer import unparse
from holdfast.expressions.syntax import (
    MACROS,
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

NAMES: Final = frozenset({"D", "has", "value", "when"})
METHODS: Final = frozenset({"all", "exists", "exists_one", "filter", "is_in", "map", "maybe", "maybe_at", "member"})
"""The attributes of a term that are no members of its value."""

_ANY, _COMPARISON, _OR, _AND, _SUM, _PRODUCT, _PREFIX, _ATOM = range(8)
_ARITHMETIC: Final = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def source_of(tree: Tree) -> str:
    """The Python source of a tree. What it evaluates to is a term of the same tree, or a plain value that has it."""
    return _Source(frozenset()).operand(tree)


class _Source:
    """``bound`` are the parameters of the lambdas around: names that stand for themselves."""

    def __init__(self, bound: frozenset[str]) -> None:
        self._bound = bound

    def operand(self, tree: Tree, level: int = _ANY) -> str:
        """Where a plain value may stand as well as a term."""
        return self._plain(tree) or self._at(tree, level)

    def _at(self, tree: Tree, level: int) -> str:
        """Where a term must stand; in brackets if it binds less tightly than ``level``."""
        binding, text = self._written(tree)
        return text if binding >= level else f"({text})"

    def _plain(self, tree: Tree) -> str | None:
        """A plain value's source, if it is one."""
        match tree:
            case Constant(kind) if kind != "uint":
                return _literal(tree)
            case ListDisplay(items) if not any(item.optional for item in items):
                return f"[{', '.join(self.operand(item.value) for item in items)}]"
            case MapDisplay(entries):
                keys = [entry.key.value for entry in entries if isinstance(entry.key, Constant)
                        and isinstance(entry.key.value, str)]  # fmt: skip
                if len(set(keys)) < len(entries) or any(entry.optional for entry in entries):
                    return None
                return f"{{{', '.join(f'{self.operand(e.key)}: {self.operand(e.value)}' for e in entries)}}}"
        return None

    def _written(self, tree: Tree) -> tuple[int, str]:
        plain = self._plain(tree)
        if plain is not None:
            return _ATOM, f"value({plain})"
        match tree:
            case Prefix(sign, operand):
                return _PREFIX, f"{'~' if sign == '!' else '-'}{self._at(operand, _PREFIX)}"
            case Junction(sign, parts):
                binding = _AND if sign == "&&" else _OR
                first, *others = parts
                texts = [self._at(first, binding), *(self.operand(part, binding + 1) for part in others)]
                return binding, f" {'&' if sign == '&&' else '|'} ".join(texts)
            case Operation("in", left, right):
                return _ATOM, f"{self._at(left, _ATOM)}.is_in({self.operand(right)})"
            case Operation(sign, left, right):
                return self._operation(sign, left, right)
        return _ATOM, self._atom(tree) or f"D.cel({_text(unparse(tree))})"

    def _operation(self, sign: str, left: Tree, right: Tree) -> tuple[int, str]:
        binding = _ARITHMETIC.get(sign, _COMPARISON)
        # Python compares a < b < c at once, so neither side of a comparison is one.
        tighter = binding + 1
        first = self._at(left, binding if binding != _COMPARISON else tighter)
        if self._reflects(sign, left, right):
            first = self._plain(left) or first
        return binding, f"{first} {sign} {self.operand(right, tighter)}"

    def _reflects(self, sign: str, left: Tree, right: Tree) -> bool:
        """Whether a plain value on the left leaves the operation to the term on the right."""
        if not isinstance(left, Constant) or self._plain(right) is not None:
            return False
        is_number = left.kind in ("int", "double")
        return (sign in ("+", "-", "*", "/") and is_number) or (sign == "+" and left.kind == "string")

    def _atom(self, tree: Tree) -> str | None:
        match tree:
            case Variable(name, absolute):
                return self._variable(name, absolute)
            case Selection(operand, member, optional):
                return self._at(operand, _ATOM) + _member(member, optional)
            case Presence(operand, member):
                return f"has({self._at(operand, _ATOM)}{_member(member, False)})"
            case Subscript(operand, index, optional):
                place = f".maybe_at({self.operand(index)})" if optional else f"[{self.operand(index)}]"
                return self._at(operand, _ATOM) + place
            case Application(function, target, arguments):
                return self._application(function, target, arguments)
            case Comprehension():
                return self._comprehension(tree)
            case Conditional(condition, yes, no):
                return f"when({self.operand(condition)}, {self.operand(yes)}, {self.operand(no)})"
        return None

    def _variable(self, name: str, absolute: bool) -> str | None:
        if absolute:
            return None
        if name in self._bound:
            return name
        return f"D.{name}" if _is_word(name) and name != "cel" else None

    def _application(self, function: str, target: Tree | None, arguments: tuple[Tree, ...]) -> str | None:
        given = ", ".join(map(self.operand, arguments))
        if target is None:
            is_callable = _is_word(function) and function not in ("cel", "has")
            return f"D.{function}({given})" if is_callable else None
        if not _is_word(function) or function in METHODS | MACROS:
            return None
        return f"{self._at(target, _ATOM)}.{function}({given})"

    def _comprehension(self, tree: Comprehension) -> str | None:
        name = tree.variable
        if not _is_parameter(name):
            return None
        inner = _Source(self._bound | {name})
        functions = [f"lambda {name}: {inner.operand(part)}" for part in tree.parts]
        where = f", where={functions[0]}" if len(functions) > 1 else ""
        return f"{self._at(tree.over, _ATOM)}.{tree.macro}({functions[-1]}{where})"


def _is_word(name: str) -> bool:
    """Whether Python can write it behind a dot, and a term does not hide it."""
    return bool(IDENTIFIER.fullmatch(name)) and not keyword.iskeyword(name) and not name.startswith("_")


def _is_parameter(name: str) -> bool:
    return not keyword.iskeyword(name) and name not in NAMES and not name.startswith("__")


def _member(member: str, optional: bool) -> str:
    if optional:
        return f".maybe({_text(member)})"
    return f".{member}" if _is_word(member) and member not in METHODS else f".member({_text(member)})"


def _literal(constant: Constant) -> str:
    if isinstance(constant.value, float) and math.isinf(constant.value):
        return "1e999" if constant.value > 0 else "-1e999"
    return _text(constant.value) if isinstance(constant.value, str) else repr(constant.value)


def _text(text: str) -> str:
    """In double quotes where that needs no escapes."""
    written = repr(text)
    return f'"{written[1:-1]}"' if written[0] == "'" and '"' not in written else written

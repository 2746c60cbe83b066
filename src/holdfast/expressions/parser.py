"""From an expression's text to its tree, by CEL's grammar.

It takes what the engine takes, but no messages (``T{field: 1}``). The limits are counts, so a text is refused here or
nowhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

from holdfast.expressions.engine import DEEPEST_EXPRESSION
from holdfast.expressions.lexer import Lexeme, lexemes, number_constant, refuse, text_constant
from holdfast.expressions.syntax import (
    MACROS,
    RESERVED,
    WORDS,
    Application,
    Comprehension,
    Conditional,
    Constant,
    Junction,
    ListDisplay,
    ListItem,
    Macro,
    MapDisplay,
    MapItem,
    Operation,
    Operator,
    Prefix,
    Presence,
    Selection,
    Spot,
    Subscript,
    Tree,
    Variable,
    depth_of,
)

LONGEST_EXPRESSION: Final = 20_000
"""How many characters the text of an expression has at most."""

_LONGEST_QUOTE: Final = 40
_DEEPEST_BRACKETS: Final = 48
_TOO_DEEP: Final = f"it nests more than {DEEPEST_EXPRESSION} levels deep: split it"
_BINDINGS: Final = (
    {"||": 1, "&&": 2}
    | dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3)
    | {
        "+": 4,
        "-": 4,
        "*": 5,
        "/": 5,
        "%": 5,
    }
)
_Part = TypeVar("_Part")


def parse(text: str) -> Tree:
    """The tree of an expression. Raises InvalidExpression with the place of what is wrong."""
    if len(text) > LONGEST_EXPRESSION:
        refuse(Spot(), f"it has {len(text)} characters, and the limit is {LONGEST_EXPRESSION}: split it")
    if not text.strip():
        refuse(Spot(), "it is empty")
    parser = _Parser(list(lexemes(text)))
    return within_depth(parser.whole())


def within_depth(tree: Tree) -> Tree:
    """The tree, unless it nests too deep. Raises InvalidExpression."""
    if depth_of(tree) > DEEPEST_EXPRESSION:
        refuse(Spot(), _TOO_DEEP)
    return tree


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


class _Parser:
    """Recursive descent: one method for each rule of the grammar, loosest first."""

    def __init__(self, words: list[Lexeme]) -> None:
        self._words = words
        self._index = 0
        self._brackets = 0

    def whole(self) -> Tree:
        tree = self._expression()
        if self._next.kind != "end":
            self._unexpected("the end")
        return tree

    @property
    def _next(self) -> Lexeme:
        return self._words[self._index]

    def _sees(self, *marks: str) -> bool:
        word = self._next
        return word.kind in ("mark", "word") and word.text in marks

    def _take(self) -> Lexeme:
        word = self._words[self._index]
        self._index += word.kind != "end"
        return word

    def _skip(self, mark: str) -> bool:
        found = self._next.kind == "mark" and self._next.text == mark
        self._index += found
        return found

    def _require(self, mark: str) -> Lexeme:
        if not (self._next.kind == "mark" and self._next.text == mark):
            self._unexpected(f"`{mark}`")
        return self._take()

    def _unexpected(self, wanted: str) -> None:
        word = self._next
        found = "the expression ends" if word.kind == "end" else f"here stands `{_short(word.text)}`"
        refuse(word.at, f"expected {wanted}, but {found}")

    def _expression(self) -> Tree:
        self._brackets += 1
        if self._brackets > _DEEPEST_BRACKETS:
            refuse(Spot(), _TOO_DEEP)
        tree = self._chain(1)
        if self._sees("?"):
            at = self._take().at
            yes = self._chain(1)
            self._require(":")
            tree = Conditional(tree, yes, self._expression(), at)
        self._brackets -= 1
        return tree

    def _chain(self, level: int) -> Tree:
        """Operands with operators that bind at least as tightly as ``level`` between them."""
        left = self._prefixed()
        while (binding := self._binding()) >= level:
            word = self._take()
            right = self._chain(binding + 1)
            if word.text in ("&&", "||"):
                left = Junction("||" if word.text == "||" else "&&", (left, right), word.at)
            else:
                left = Operation(cast("Operator", word.text), left, right, word.at)
        return left

    def _binding(self) -> int:
        word = self._next
        return _BINDINGS.get(word.text, 0) if word.kind in ("mark", "word") else 0

    def _prefixed(self) -> Tree:
        """``--x`` and ``!!x`` are ``x``; one ``-`` before a number belongs to it."""
        sign, count = self._next, 0
        if not self._sees("-", "!"):
            return self._postfixed(self._primary())
        while self._sees(sign.text):
            self._take()
            count += 1
        signed = sign.text == "-" and count == 1 and self._is_signed_number()
        operand = self._postfixed(self._number(sign) if signed else self._primary())
        if signed or count % 2 == 0:
            return operand
        return Prefix("-" if sign.text == "-" else "!", operand, sign.at)

    def _is_signed_number(self) -> bool:
        word = self._next
        return word.kind == "double" or (word.kind == "integer" and word.text[-1] not in "uU")

    def _number(self, sign: Lexeme | None) -> Tree:
        word = self._take()
        if sign is None:
            return number_constant(word.text, word.at)
        return number_constant("-" + word.text, sign.at)

    def _postfixed(self, operand: Tree) -> Tree:
        while True:
            if self._sees("."):
                operand = self._member(operand)
            elif self._sees("["):
                at = self._take().at
                optional = self._skip("?")
                operand = Subscript(operand, self._expression(), optional, at)
                self._require("]")
            elif self._sees("{") and isinstance(operand, Variable | Selection):
                refuse(self._next.at, "messages are not supported: write a map, `{'name': value}`")
            else:
                return operand

    def _member(self, operand: Tree) -> Tree:
        self._take()
        optional = self._skip("?")
        word = self._next
        if word.kind not in ("word", "quoted") or word.text in WORDS:
            self._unexpected("the name of a member")
        self._take()
        if word.kind == "quoted":
            return Selection(operand, word.text[1:-1], optional, word.at)
        if optional or not self._sees("("):
            return Selection(operand, word.text, optional, word.at)
        return self._called(word, operand)

    def _called(self, word: Lexeme, target: Tree | None) -> Tree:
        self._require("(")
        arguments = self._sequence(")", self._expression, trailing=False)
        self._require(")")
        if target is None and word.text == "has" and len(arguments) == 1:
            chosen = arguments[0]
            if not isinstance(chosen, Selection) or chosen.optional:
                refuse(chosen.at, "has() takes a member, as `has(state.x)`")
            return Presence(chosen.operand, chosen.member, word.at)
        if target is not None and word.text in MACROS and 2 <= len(arguments) <= 2 + (word.text == "map"):
            bound = arguments[0]
            if not isinstance(bound, Variable) or bound.absolute or bound.name.startswith("__"):
                refuse(bound.at, f"{word.text}() takes a plain name first, as `xs.{word.text}(x, …)`")
            return Comprehension(cast("Macro", word.text), target, bound.name, tuple(arguments[1:]), word.at)
        return Application(word.text, target, tuple(arguments), word.at)

    def _sequence(self, closing: str, part: Callable[[], _Part], *, trailing: bool) -> list[_Part]:
        """Parts with commas between them; a ``trailing`` comma may stand behind the last, even behind none."""
        found: list[_Part] = []
        while not self._sees(closing):
            if trailing and self._skip(","):
                break
            found.append(part())
            if not self._skip(","):
                break
            if trailing and self._sees(closing):
                break
            if self._sees(closing):
                self._unexpected("another argument")
        return found

    def _primary(self) -> Tree:
        word = self._next
        match word.kind:
            case "integer" | "double":
                return self._number(None)
            case "string" | "raw":
                return text_constant(self._take())
            case "word":
                return self._named(absolute=False)
            case "mark" if word.text in "(.[{":
                return self._opened()
        self._unexpected("a value")
        raise AssertionError(word)

    def _opened(self) -> Tree:
        at, mark = self._next.at, self._take().text
        if mark == ".":
            if self._next.kind != "word":
                self._unexpected("a name")
            return self._named(absolute=True)
        if mark == "(":
            tree = self._expression()
            self._require(")")
            return tree
        if mark == "[":
            items = tuple(self._sequence("]", self._item, trailing=True))
            self._require("]")
            return ListDisplay(items, at)
        entries = tuple(self._sequence("}", self._entry, trailing=True))
        self._require("}")
        return MapDisplay(entries, at)

    def _item(self) -> ListItem:
        optional = self._skip("?")
        return ListItem(self._expression(), optional)

    def _entry(self) -> MapItem:
        optional = self._skip("?")
        key = self._expression()
        self._require(":")
        return MapItem(key, self._expression(), optional)

    def _named(self, *, absolute: bool) -> Tree:
        word = self._take()
        match word.text:
            case "true" | "false" if not absolute:
                return Constant("bool", word.text == "true", word.at)
            case "null" if not absolute:
                return Constant("null", None, word.at)
        if word.text in WORDS:
            refuse(word.at, f"`{word.text}` cannot stand here")
        if word.text in RESERVED:
            refuse(word.at, f"`{word.text}` is reserved by CEL: it cannot be a name")
        if self._sees("("):
            return self._called(word, None)
        return Variable(word.text, absolute, word.at)

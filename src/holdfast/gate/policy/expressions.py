"""Reads a rule's CEL expression without running it: it finds its faults, and the facts that it uses.

Passing a fact to CEL costs as much as evaluating a rule over it, and a map is copied with all its content. So an
expression is rewritten over flat variables, one for each fact that it uses: ``action.risk`` becomes ``__action_risk``,
and ``has(action.fields.sum)`` becomes a boolean variable. Where the text does not show the entry (a bare ``action``, an
index that is computed), the whole map stays.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.expressions.engine import CompiledExpression, Fault, InvalidExpression, compiled
from holdfast.expressions.tokens import TOKEN, tokens_of
from holdfast.gate.policy.shape import nearest

MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "action": ("name", "connector", "operation", "target", "fields", "writes", "risk", "cost_estimate"),
    "run": ("tenant", "run", "workspace", "workflow", "attributes", "trigger", "writes"),
    "actor": ("name",),
}
MAPS: Final = (("action", "fields"), ("run", "attributes"))
VARIABLES: Final = (*MEMBERS, "time")
TYPES: Final = frozenset({"int", "uint", "double", "string", "bool", "bytes", "list", "map", "type", "null_type"})
TYPED: Final = {"time": "timestamp"}
"""The variables that are not plain data."""
WORDS: Final = TYPES | {"true", "false", "null", "in"}
FUNCTIONS: Final = frozenset(
    {"has", "size", "int", "uint", "double", "string", "bytes", "bool", "type", "timestamp", "duration", "dyn"}
)
MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
METHODS: Final = MACROS | {
    "size", "contains", "startsWith", "endsWith", "matches", "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth",
    "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds",
}  # fmt: skip

_ENDS: Final = frozenset({"", ")", "&&", "||", "?", ":"})
_BEGINS: Final = frozenset({"", "(", "&&", "||", "?", ":"})


class Fact(NamedTuple):
    """A fact that an expression uses. ``member`` is empty for the whole, ``entry`` is a key of a map.

    ``presence`` is whether only the presence of the entry matters.
    """

    root: str
    member: str = ""
    entry: str | None = None
    presence: bool = False

    @property
    def variable(self) -> str:
        """The flat variable that holds it."""
        if not self.member:
            return self.root
        name = f"__{self.root}_{self.member}"
        if self.entry is not None:
            name += f"_{'has' if self.presence else 'of'}_{self.entry.encode('utf-8', 'surrogatepass').hex()}"
        return name


class RuleExpression(msgspec.Struct, frozen=True):
    """An expression. ``flat`` is the same over flat variables. ``program`` is None where there are faults."""

    text: str
    flat: str
    facts: frozenset[Fact]
    faults: tuple[Fault, ...]
    program: CompiledExpression | None


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def program_of(text: str) -> CompiledExpression:
    """A rule's program, over nested or flat facts. Raises InvalidExpression.

    Its types are not checked: a rule that compares a number with a text is valid and does not hold, and must stay so.
    """
    program = compiled(text, TYPED, check=False)
    words = [word for _, word in tokens_of(text)]
    if "existsOne" not in words:
        return program
    return compiled(" ".join("exists_one" if word == "existsOne" else word for word in words), TYPED, check=False)


def examine(text: str) -> RuleExpression:
    """Read an expression. Faults are in the result, never raised."""
    try:
        program = program_of(text)
    except InvalidExpression as error:
        return RuleExpression(text, "", frozenset(), tuple(_syntax_faults(text, error.faults)), None)
    scan = _Scan(text)
    faults = tuple(scan.faults)
    return RuleExpression(text, scan.flat(), frozenset(scan.facts), faults, None if faults else program)


def _syntax_faults(text: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    for line, column, what in faults:
        problem = (
            f"the expression is not CEL: {_short(what)}"
            if text.strip()
            else "`when` is empty: write an expression, or true"
        )
        yield Fault(line, column, problem)


def _short(what: str) -> str:
    """The parser's message without its list of everything that would be valid there."""
    what = what.removeprefix("Syntax error: ")
    if what.endswith("}"):
        what = what.partition(" expecting {")[0]
    return what.replace("'<EOF>'", "the end").replace("<EOF>", "the end")


class _Scan:
    """One pass over an expression's tokens. The expression has compiled, so its brackets and quotes match."""

    def __init__(self, text: str) -> None:
        self.facts: set[Fact] = set()
        self.faults: list[Fault] = []
        self._text = text
        tokens = ((match.lastgroup or "", match[0], match.start()) for match in TOKEN.finditer(text))
        self._tokens = [_Token(*token) for token in tokens if token[0] != "skip"]
        self._edits: dict[int, tuple[int, str]] = {}  # by first token: the token after the last, and the new text
        self._bound = list(self._bindings())
        for index, token in enumerate(self._tokens):
            if token.kind == "word":
                self._word(index, token.text)

    def flat(self) -> str:
        """The expression over flat variables, without its comments."""
        parts, index = [], 0
        while index < len(self._tokens):
            after, text = self._edits.get(index, (index + 1, self._tokens[index].text))
            parts.append(text)
            index = after
        return " ".join(parts)

    def _at(self, index: int) -> str:
        return self._tokens[index].text if 0 <= index < len(self._tokens) else ""

    def _kind(self, index: int) -> str:
        return self._tokens[index].kind if 0 <= index < len(self._tokens) else ""

    def _fault(self, index: int, what: str) -> None:
        before = self._text[: self._tokens[index].at]
        self.faults.append(Fault(before.count("\n") + 1, len(before) - before.rfind("\n"), what))

    def _bindings(self) -> Iterator[tuple[str, range]]:
        """Each variable that a macro binds, with the range of tokens in which it is bound."""
        for index in range(len(self._tokens)):
            if self._at(index - 1) == "." and self._at(index) in MACROS and self._at(index + 1) == "(":
                name = self._at(index + 2)
                if name in VARIABLES or name in TYPES or name.startswith("__"):
                    self._fault(index + 2, f"`{name}` has a meaning already: give the variable another name")
                yield name, range(index + 2, self._closing(index + 1))

    def _closing(self, index: int) -> int:
        depth = 0
        for place in range(index, len(self._tokens)):
            if self._kind(place) == "mark":
                depth += (self._at(place) in "([{") - (self._at(place) in ")]}")
            if depth == 0:
                return place
        return len(self._tokens)

    def _word(self, index: int, name: str) -> None:
        called = self._at(index + 1) == "("
        if self._at(index - 1) == ".":
            if self._kind(index - 2) in ("", "mark") and self._at(index - 2) not in (")", "]", "}"):
                self._fault(index - 1, f"a name has no dot before it: write `{name}`")
            elif called and name not in METHODS:
                self._fault(index, f"there is no function `{name}` to call on a value{nearest(name, METHODS)}")
        elif called:
            if name not in FUNCTIONS:
                self._fault(index, f"there is no function `{name}`{nearest(name, FUNCTIONS)}")
        elif name == "time":
            self.facts.add(Fact("time"))
        elif name in MEMBERS:
            self._root(index, name)
        elif not (name in WORDS or any(name == bound and index in span for bound, span in self._bound)):
            self._fault(index, f"there is no variable `{name}`{_nearest_variable(name)}")

    def _root(self, index: int, root: str) -> None:
        """``action``, ``run`` or ``actor``: find out which member is used."""
        member, after = self._selected(index + 1)
        if member is None:
            self.facts.add(Fact(root))
        elif member not in MEMBERS[root]:
            self._fault(index + 2, f"`{root}` has no member `{member}`{nearest(member, MEMBERS[root])}")
        elif (root, member) in MAPS:
            self._map(index, after, root, member)
        elif self._in_has(index, after) and root == "actor":
            self.facts.add(Fact(root))  # the starter of the run may not be known
        elif self._in_has(index, after):
            self._edits[index - 2] = (after + 1, "true")  # each other member is always present
        else:
            self._fact(index, after, Fact(root, member))

    def _map(self, index: int, after: int, root: str, member: str) -> None:
        """``action.fields`` or ``run.attributes``: find out which entries are used."""
        entry, end = self._selected(after)
        if entry is not None:
            if self._in_has(index, end):
                self._fact(index - 2, end + 1, Fact(root, member, entry, presence=True))
            else:
                self._fact(index, end, Fact(root, member, entry))
        elif self._at(index - 1) == "in" and self._is_literal(index - 2) and self._at(index - 3) in _BEGINS:
            if self._at(after) in _ENDS:
                self._fact(index - 2, after, Fact(root, member, self._at(index - 2)[1:-1], presence=True))
            else:
                self._fact(index, after, Fact(root, member))
        elif self._in_has(index, after):
            self._edits[index - 2] = (after + 1, "true")
        else:
            self._fact(index, after, Fact(root, member))

    def _fact(self, first: int, after: int, fact: Fact) -> None:
        self.facts.add(fact)
        self._edits[first] = (after, fact.variable)

    def _selected(self, index: int) -> tuple[str | None, int]:
        """The member that ``.name`` or ``["name"]`` at a token selects, and the token after it; None where unknown."""
        if self._at(index) == "." and self._kind(index + 1) == "word" and self._at(index + 2) != "(":
            return self._at(index + 1), index + 2
        if self._at(index) == "[" and self._is_literal(index + 1) and self._at(index + 2) == "]":
            return self._at(index + 1)[1:-1], index + 3
        return None, index

    def _is_literal(self, index: int) -> bool:
        """Whether a token is a text in simple quotes without escapes, so that its value is its text."""
        text = self._at(index)
        plain = self._kind(index) == "string" and text[:1] in "\"'" and "\\" not in text
        return plain and not text.startswith(('"""', "'''"))

    def _in_has(self, index: int, after: int) -> bool:
        return self._at(index - 2) == "has" and self._at(index - 1) == "(" and self._at(after) == ")"


def _nearest_variable(name: str) -> str:
    """A hint at what may have been meant: a variable, or a member without its root."""
    if difflib.get_close_matches(name, VARIABLES, 1):
        return nearest(name, VARIABLES)
    homes = [f"{root}.{name}" for root, members in MEMBERS.items() if name in members]
    return f": did you mean `{homes[0]}`?" if homes else nearest(name, VARIABLES)

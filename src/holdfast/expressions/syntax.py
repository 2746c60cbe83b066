"""An expression as a tree, with the place of each part in its text. ``parser`` makes trees, ``printer`` gives the text.

Trees are values: equal when they say the same, wherever it stands in a text. ``&&`` and ``||`` take any number of
parts, and one directly within another of its kind is the same as one: brackets there mean nothing and are not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

ConstantKind = Literal["null", "bool", "int", "uint", "double", "string", "bytes"]
Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"]
Macro = Literal["all", "exists", "exists_one", "map", "filter", "optMap", "optFlatMap"]

MACROS: Final[frozenset[str]] = frozenset({"all", "exists", "exists_one", "map", "filter", "optMap", "optFlatMap"})
RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
     "namespace", "return", "var", "void", "while"}
)  # fmt: skip
WORDS: Final = frozenset({"in", "true", "false", "null"})


class Spot(NamedTuple):
    """Where something stands in an expression's text, from 1."""

    line: int = 1
    column: int = 1


_START: Final = Spot()


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. An int may be negative; so may a double."""

    kind: ConstantKind
    value: str | bytes | int | float | bool | None
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A root, or a name that a macro or a loop binds. With ``absolute`` (``.x``) no macro can bind it."""

    name: str
    absolute: bool = False
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """``operand.member``, or ``operand.?member``."""

    operand: Tree
    member: str
    optional: bool = False
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Presence:
    """``has(operand.member)``."""

    operand: Tree
    member: str
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subscript:
    """``operand[index]``, or ``operand[?index]``."""

    operand: Tree
    index: Tree
    optional: bool = False
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Application:
    """``function(arguments)``, or ``target.function(arguments)``."""

    function: str
    target: Tree | None
    arguments: tuple[Tree, ...]
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Comprehension:
    """``over.macro(variable, parts)``: the last part is what is computed; ``map`` may have a filter before it."""

    macro: Macro
    over: Tree
    variable: str
    parts: tuple[Tree, ...]
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """``-operand`` or ``!operand``."""

    operator: Literal["-", "!"]
    operand: Tree
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """Two operands and what stands between them; ``at`` is the place of the operator."""

    operator: Operator
    left: Tree
    right: Tree
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Junction:
    """``a && b && c`` or ``a || b || c``: at least two parts, none of them a junction of the same kind."""

    operator: Literal["&&", "||"]
    parts: tuple[Tree, ...]
    at: Spot = field(default=_START, compare=False, repr=False)

    def __post_init__(self) -> None:
        if any(isinstance(part, Junction) and part.operator == self.operator for part in self.parts):
            object.__setattr__(self, "parts", tuple(self._flat()))

    def _flat(self) -> Iterator[Tree]:
        for part in self.parts:
            if isinstance(part, Junction) and part.operator == self.operator:
                yield from part.parts
            else:
                yield part


@dataclass(frozen=True, slots=True)
class Conditional:
    """``condition ? yes : no``."""

    condition: Tree
    yes: Tree
    no: Tree
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ListItem:
    """One item of a list that is written out; an optional one (``?x``) stands there if it has a value."""

    value: Tree
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapItem:
    """One entry of a map that is written out; an optional one (``?k: x``) stands there if it has a value."""

    key: Tree
    value: Tree
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ListDisplay:
    """``[a, b]``."""

    items: tuple[ListItem, ...]
    at: Spot = field(default=_START, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class MapDisplay:
    """``{"a": b}``."""

    items: tuple[MapItem, ...]
    at: Spot = field(default=_START, compare=False, repr=False)


Tree = (
    Constant
    | Variable
    | Selection
    | Presence
    | Subscript
    | Application
    | Comprehension
    | Prefix
    | Operation
    | Junction
    | Conditional
    | ListDisplay
    | MapDisplay
)


def parts_of(tree: Tree) -> tuple[Tree, ...]:
    """The trees directly within one, in the order of the text."""
    match tree:
        case Constant() | Variable():
            return ()
        case Selection(operand) | Presence(operand):
            return (operand,)
        case Prefix(_, operand):
            return (operand,)
        case Subscript(operand, index):
            return (operand, index)
        case Application(_, target, arguments):
            return arguments if target is None else (target, *arguments)
        case Comprehension(_, over, _, parts):
            return (over, *parts)
        case Operation(_, left, right):
            return (left, right)
        case Junction(_, parts):
            return parts
        case Conditional(condition, yes, no):
            return (condition, yes, no)
        case ListDisplay(items):
            return tuple(item.value for item in items)
        case MapDisplay(entries):
            return tuple(part for entry in entries for part in (entry.key, entry.value))


def depth_of(tree: Tree) -> int:
    """How many levels deep it nests; without recursion, for trees of any depth."""
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        part, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting.extend((inner, depth + 1) for inner in parts_of(part))
    return deepest


def start_of(tree: Tree) -> Spot:
    """Where its text begins, brackets aside."""
    return min([tree.at, *map(start_of, parts_of(tree))])

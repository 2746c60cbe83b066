"""Programs as data: each node is something that an author would write with asyncio."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

SIGNALS: Final = ("left", "right")

Ending = Literal["error", "exit", "interrupt", "abort", "stray"]


class Do(msgspec.Struct, frozen=True, tag="do"):
    """A step whose first ``fails`` attempts fail. A key ending with ``!`` cannot be undone, with ``?`` at first not.

    With ``typed`` its result is a struct, and its undo is given the arguments, too.
    """

    key: str
    fails: int = 0
    undoable: bool = True
    typed: bool = False


class Sleep(msgspec.Struct, frozen=True, tag="sleep"):
    seconds: float


class Receive(msgspec.Struct, frozen=True, tag="receive"):
    name: str


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """Receive everything of this name that is there, until a second passes without any."""

    name: str


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """A form that people are asked to fill in, perhaps for so many seconds only."""

    title: str
    seconds: float | None = None


class Child(msgspec.Struct, frozen=True, tag="child"):
    """The tree below as a child workflow."""

    item: Node


class Seq(msgspec.Struct, frozen=True, tag="seq"):
    items: tuple[Node, ...]


class Gather(msgspec.Struct, frozen=True, tag="gather"):
    items: tuple[Node, ...]
    keep_errors: bool = False


class Group(msgspec.Struct, frozen=True, tag="group"):
    """A TaskGroup: one failing member cancels the others."""

    items: tuple[Node, ...]


class Race(msgspec.Struct, frozen=True, tag="race"):
    """The first to end wins, the others are cancelled, and awaited where it is ``tidy``.

    They are tasks, or, with ``futures``, a set of ``shield()`` and ``gather()``.
    """

    items: tuple[Node, ...]
    tidy: bool = True
    futures: bool = False


class AsCompleted(msgspec.Struct, frozen=True, tag="as_completed"):
    """``asyncio.as_completed`` over coroutines of the author's own."""

    items: tuple[Node, ...]


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A join set of which so many results are taken; with None, all at once."""

    items: tuple[Do | Child, ...]
    taken: int | None = None


class Stream(msgspec.Struct, frozen=True, tag="stream"):
    """An async generator with a step in its ``finally``, left after so many values."""

    items: tuple[Node, ...]
    taken: int
    cleanup: Do


class Timeout(msgspec.Struct, frozen=True, tag="timeout"):
    """``asyncio.timeout``, or ``asyncio.wait_for``."""

    seconds: float
    item: Node
    wait_for: bool = False


class Shield(msgspec.Struct, frozen=True, tag="shield"):
    item: Node


class Loose(msgspec.Struct, frozen=True, tag="loose"):
    """A task that nobody awaits."""

    item: Node


class Rescue(msgspec.Struct, frozen=True, tag="rescue"):
    """``except Exception``, then the other; with ``stubborn`` a cancellation is swallowed, too."""

    item: Node
    other: Node
    stubborn: bool = False


class Ensure(msgspec.Struct, frozen=True, tag="ensure"):
    """``finally``, also in a cancellation."""

    item: Node
    cleanup: Node


class Again(msgspec.Struct, frozen=True, tag="again"):
    """``continue_as_new`` with the tree below."""

    item: Node


class Raise(msgspec.Struct, frozen=True, tag="raise"):
    """The body raises: an error, SystemExit, KeyboardInterrupt, another BaseException, a stray CancelledError."""

    what: Ending = "error"


Node = (
    Do
    | Sleep
    | Receive
    | Drain
    | Ask
    | Child
    | Seq
    | Gather
    | Group
    | Race
    | AsCompleted
    | Join
    | Stream
    | Timeout
    | Shield
    | Loose
    | Rescue
    | Ensure
    | Again
    | Raise
)


def parts(node: Node) -> Iterator[tuple[str, Node]]:
    """The nodes directly below, each with the field that it is in."""
    for field in node.__struct_fields__:
        value = getattr(node, field)
        if isinstance(value, msgspec.Struct):
            yield field, value  # type: ignore[misc]  # every struct in a node is a node
        elif isinstance(value, tuple):
            for item in value:
                yield field, item


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    yield node
    for _, part in parts(node):
        yield from walk(part)


def size(node: Node) -> int:
    """How many nodes there are."""
    return sum(1 for _ in walk(node))


def shown(node: Node, indent: str = "  ") -> str:
    """The tree for people, one node on a line."""
    plain = [
        f"{field}={value!r}"
        for field in node.__struct_fields__
        if not isinstance(value := getattr(node, field), (msgspec.Struct, tuple))
    ]
    lines = [f"{indent}{type(node).__name__}({', '.join(plain)})"]
    lines += [shown(part, indent + "    ") for _, part in parts(node)]
    return "\n".join(lines)


def written(node: Node) -> str:
    """The tree as JSON, for the command line."""
    return msgspec.json.encode(node).decode()


def read(text: str) -> Node:
    """A tree from JSON."""
    return msgspec.json.decode(text, type=Node)

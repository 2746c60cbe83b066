"""What is wrong with a definition: all of it at once, each with its place, the node and a remedy."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec

Trail = tuple[str | int, ...]
"""The way to a place in a document: names of members and positions in lists."""

MOST_FAULTS: Final = 100
"""How many faults are told of a definition, or of several together. The others are counted."""


class DefinitionFault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong. ``line`` and ``column`` begin at 1, and are 0 where there is no text.

    ``node`` is the path of the node, such as ``checks.stock.get``. One with ``more`` stands for so many others.
    """

    message: str
    trail: Trail = ()
    node: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    more: int = 0

    def __str__(self) -> str:
        place = f"{self.file or 'definition'}:{self.line}:{self.column}" if self.line else self.file
        node = f"{self.node}: " if self.node else ""
        return f"{place}: {node}{self.message}" if place else f"{node}{self.message}"


class FaultList:
    """Faults as they are found: the first ``MOST_FAULTS`` of them, and how many ``more`` there are."""

    def __init__(self) -> None:
        self.found: list[DefinitionFault] = []
        self.more = 0
        self.places: dict[str, Trail] = {}  # where each node stands in the document
        self.order: dict[str, tuple[str, ...]] = {}  # how the author has ordered what a node has by name
        self._paths: dict[str, str] = {}  # the way to each by names of nodes and branches

    @property
    def count(self) -> int:
        """How many there are, those that are only counted among them."""
        return len(self.found) + self.more

    def place(self, node: str, trail: Trail, path: tuple[str, ...]) -> None:
        """Note where a node stands. A name that stands twice is a fault."""
        if node in self.places:
            self.add(trail, f"two nodes are called {node!r}: rename one, a name is of one node in the definition", node)
        self.places.setdefault(node, trail)
        self._paths.setdefault(node, ".".join(path))

    def at_node(self, node: str, message: str, *inside: str | int) -> None:
        """Note what is wrong at a node, or at a member of it."""
        self.add((*self.places.get(node, ()), *inside), message, node)

    def add(self, trail: Trail, message: str, node: str = "") -> None:
        """Note what is wrong at a place."""
        if len(self.found) >= MOST_FAULTS:
            self.more += 1
            return
        self.found.append(DefinitionFault(message=message, trail=trail, node=self._paths.get(node, node)))

    def unknown(self, trail: Trail, what: str, name: object, known: Collection[str], node: str = "") -> None:
        """Note a name that is not known, and the nearest one that is."""
        self.add(trail, f"there is no {what} {name!r}{self.nearest(name, known)}", node)

    def nearest(self, name: object, known: Iterable[str]) -> str:
        """As the function ``nearest``; nothing, which costs nothing, for a fault that is only counted."""
        return nearest(name, known) if len(self.found) < MOST_FAULTS else ""


def and_more(faults: Sequence[DefinitionFault], more: int = 0) -> list[DefinitionFault]:
    """At most ``MOST_FAULTS`` of these, and one for those that are left out, for ``more`` and for the more of these."""
    told = [each for each in faults if not each.more]
    left = more + sum(each.more for each in faults) + max(0, len(told) - MOST_FAULTS)
    rest = [DefinitionFault(message=f"and {left:,} more", more=left)] if left else []
    return [*told[:MOST_FAULTS], *rest]


def nearest(name: object, known: Iterable[str]) -> str:
    """``: did you mean 'x'?``, or nothing where no known name is near."""
    names = [each for each in known if each]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f": did you mean {close[0]!r}?"
    return f". There are: {', '.join(sorted(names))}" if names and len(names) <= 8 else ""


def shown(value: Any) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"

"""What the exporter's modules share: a task's node taken apart, and what is wrong so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.definition.serverless.exporter.values import NotSayable

Item = tuple[str, dict[str, Any]]
"""A node: its name and its body, in the words of the format."""

OUTER: Final = ("title", "when", "timeout")


class Piece(NamedTuple):
    """A task's node without what is around it: what its kind does, and what belongs to it."""

    name: str
    said_name: str
    trail: Trail
    """Where the task stands in the document that is written."""
    core: list[Item]
    slug: str
    """Of the place that says where its list goes on, if that has jumps."""


class Export:
    """A document that is being made of a definition."""

    def __init__(self) -> None:
        self.faults = FaultList()
        self.functions: dict[str, Any] = {}

    def refuse(self, node: str, message: str) -> None:
        """Note what cannot be said."""
        self.faults.add((), message, node)

    def sayable(self, node: str, write: Callable[[Any], Any], value: Any, usual: Any) -> Any:
        """A part in the document's words; what cannot be said is noted."""
        try:
            return write(value)
        except NotSayable as error:
            self.refuse(node, str(error))
            return usual

    def task(self, node: str, write: Callable[[Any], dict[str, Any]], value: Any) -> dict[str, Any]:
        """The same of what a task does."""
        found: dict[str, Any] = self.sayable(node, write, value, {})
        return found

    def plain(self, name: str, body: dict[str, Any], *known: str) -> dict[str, Any]:
        """The body, where it has no members but these; others are noted."""
        for word in body:
            if word not in (*known, *OUTER):
                what = "handlers" if word == "on" else f"`{word}`"
                self.refuse(name, f"{what} of this node cannot be said in a Serverless Workflow document")
        return body


def items_of(nodes: list[dict[str, Any]]) -> list[Item]:
    return [item for node in nodes for item in node.items()]


def put_value(body: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a node only makes a value the data, and the value."""
    is_put = set(body) <= {"set", *OUTER} and list(body.get("set", ())) == ["local.data"]
    return is_put, body["set"]["local.data"] if is_put else None

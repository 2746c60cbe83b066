"""How single values of a document are read: texts, names, durations, conditions, lists and maps of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown
from holdfast.programs.definition.spans import read_span

NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,99}")
PATH: Final = re.compile(r"(state|local)(\.[A-Za-z_][\w-]*)+|reference")

W = TypeVar("W", bound=str)


class ShapeReader:
    """Reads values, and notes what does not have the shape that its place wants."""

    def __init__(self, faults: FaultList, node: str = "") -> None:
        self.faults = faults
        self.node = node

    def wrong(self, trail: Trail, message: str) -> None:
        """Note what is wrong at a place of the present node."""
        self.faults.add(trail, message, self.node)

    def mapping(self, data: Any, trail: Trail) -> Mapping[str, Any]:
        """A map; an empty one where it is something else."""
        if isinstance(data, Mapping):
            return data
        self.wrong(trail, f"this is a map of names and values, not {shown(data)}")
        return {}

    def words(self, data: Mapping[str, Any], trail: Trail, known: Collection[str]) -> None:
        """Note the members that nobody knows."""
        for name in data:
            if name not in known:
                self.wrong((*trail, name), f"nobody knows the word {name!r} here{self.faults.nearest(name, known)}")

    def items(self, data: Mapping[str, Any], name: str, trail: Trail) -> Iterator[tuple[int, Any]]:
        """The items of a member that is a list, or is left out."""
        found = data.get(name)
        if found is not None and not isinstance(found, list):
            self.wrong((*trail, name), f"this is a list, not {shown(found)}")
            return
        yield from enumerate(found or ())

    def text(self, data: Mapping[str, Any], name: str, trail: Trail) -> str:
        """A member that is a text, or is left out. It is shown as it is, so it cannot be an expression."""
        found = data.get(name, "")
        if not isinstance(found, str):
            self.wrong((*trail, name), f"this is a text, not {shown(found)}")
        elif found.startswith("="):
            self.wrong((*trail, name), f"this is a plain text, and cannot be an expression: {shown(found)}")
        else:
            return found
        return ""

    def name(self, data: Mapping[str, Any], member: str, trail: Trail = ()) -> str:
        """A member that is a name."""
        found = data.get(member)
        if isinstance(found, str) and NAME.fullmatch(found):
            return found
        self.wrong(
            (*trail, member), f"a name has letters, digits and `_ . -`, and begins with a letter, not {shown(found)}"
        )
        return "unnamed"

    def names(self, data: Any, trail: Trail) -> tuple[str, ...]:
        """A list of names, in order; one alone may stand for its list."""
        given = [data] if isinstance(data, str) else [] if data is None else data
        if isinstance(given, list) and all(isinstance(name, str) for name in given):
            return tuple(sorted(set(given)))
        self.wrong(trail, f"this is a list of names, not {shown(data)}")
        return ()

    def choice(self, data: Mapping[str, Any], name: str, trail: Trail, known: tuple[W, ...], usual: W) -> W:
        """A member that is one of a few words."""
        found = data.get(name, usual)
        if found in known:
            return next(word for word in known if word == found)
        self.wrong(
            (*trail, name), f"this is one of {', '.join(known)}, not {shown(found)}{self.faults.nearest(found, known)}"
        )
        return usual

    def condition(self, data: Any, trail: Trail) -> m.ConditionText | None:
        """An expression that is true or false; None where it is left out."""
        if data is None:
            return None
        if isinstance(data, bool):
            return "true" if data else "false"
        if isinstance(data, str) and data.startswith("=") and not data.startswith("=="):
            return data[1:].strip()
        self.wrong(trail, f"a condition is an expression and begins with `=`, unlike {shown(data)}")
        return None

    def span(self, data: Any, trail: Trail) -> m.Span | None:
        """A duration, or an expression for one; None where it is left out."""
        if data is None:
            return None
        if isinstance(data, str) and data.startswith("=") and not data.startswith("=="):
            return data
        try:
            return read_span(data if isinstance(data, str) else shown(data))
        except ValueError as error:
            self.wrong(trail, str(error))
            return None

    def fixed_span(self, data: Any, trail: Trail, usual: int) -> int:
        """A duration that no run changes."""
        found = self.span(data, trail)
        if isinstance(found, str):
            self.wrong(trail, f"this is a fixed duration, such as 2s, and cannot be an expression: {shown(data)}")
        return found if isinstance(found, int) else usual

    def path(self, data: Any, trail: Trail) -> m.Path | None:
        """A place to write to; None where it is left out."""
        if data is None:
            return None
        if isinstance(data, str) and PATH.fullmatch(data):
            return tuple(data.split("."))
        self.wrong(trail, f"values are written to `state.…`, `local.…` or `reference`, not to {shown(data)}")
        return None

    def whole(self, data: Any, trail: Trail, least: int, what: str) -> int | None:
        """A whole number; None where it is left out."""
        if data is None:
            return None
        if type(data) is int and data >= least:
            return data
        self.wrong(trail, f"{what} is a whole number from {least} on, not {shown(data)}")
        return None

"""Where the tasks of a list may go on, before any of them is read: whether a list jumps, and whether it comes to its
end."""

from __future__ import annotations

import itertools
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import Trail

PLAIN: Final = ("continue", "exit", "end")


class ListedCase:
    """A case of a switch, and where it leads."""

    def __init__(self, name: str, said: dict[str, Any]) -> None:
        self.name = name
        self.said = said
        self.has_condition = "when" in said
        self.then = str(said.get("then", "continue"))


class Listed:
    """A task of a list, and where it may go on."""

    def __init__(self, name: str, task: dict[str, Any], trail: Trail) -> None:
        self.name = name
        self.task = task
        self.trail = trail
        self.cases = _cases(task)
        self.stops = "raise" in task or ("for" not in task and not _comes_through(task.get("do")))
        """Whether it never comes to its end, so that nothing of its ``then`` matters."""
        self.then = "continue" if self.stops else str(task.get("then", "continue"))

    @property
    def ways(self) -> list[str]:
        """Where it goes on, in any case."""
        return [self.then, *(case.then for case in self.cases)]

    @property
    def goes_on(self) -> bool:
        """Whether what stands behind it may follow it."""
        if "if" in self.task:
            return True
        if self.stops:
            return False
        if any(not case.has_condition for case in self.cases):
            return any(case.then == "continue" for case in self.cases)
        return "continue" in self.ways


def _cases(task: dict[str, Any]) -> list[ListedCase]:
    return [ListedCase(name, case) for name, case in _pairs(task.get("switch"))]


def _pairs(items: Any) -> list[tuple[str, dict[str, Any]]]:
    """The names and bodies of a list of named things."""
    maps = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    pairs = [pair for item in maps for pair in item.items()]
    return [(str(name), body) for name, body in pairs if isinstance(body, dict)]


def linked(listed: list[Listed]) -> list[Listed]:
    """The tasks, where a jump to the next one is none."""
    for each, following in itertools.pairwise(listed):
        places: list[Listed | ListedCase] = [each, *each.cases]
        for place in places:
            if place.then == following.name:
                place.then = "continue"
    return listed


def has_jumps(listed: list[Listed]) -> bool:
    """Whether a task goes on anywhere but behind itself, or something stands behind one that never goes on."""
    for each in listed[:-1]:
        if not each.goes_on or any(way not in ("continue", "end") for way in each.ways):
            return True
    return bool(listed) and any(way not in PLAIN for way in listed[-1].ways)


def _comes_through(tasks: Any) -> bool:
    """Whether a list of tasks comes to its end, as far as the compiler sees: a loop does."""
    listed = linked([Listed(name, task, ()) for name, task in _pairs(tasks)])
    return not listed or has_jumps(listed) or listed[-1].goes_on or "exit" in listed[-1].ways


def ends(nodes: list[dict[str, dict[str, Any]]]) -> bool:
    """Whether nodes never come to their end: what stands behind them would never be reached."""
    return any(_never_goes_on(body) for node in nodes for body in node.values())


def _never_goes_on(body: dict[str, Any]) -> bool:
    if "when" in body or "on" in body or "repeat" in body:
        return False
    if "switch" in body:
        cases = body["switch"]
        return any("else" in case for case in cases) and all(ends(case.get("do", case.get("else"))) for case in cases)
    return "end" in body or "raise" in body or ends(body.get("do", []))

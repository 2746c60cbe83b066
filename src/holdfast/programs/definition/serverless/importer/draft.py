"""What all parts of an import share: what is wrong so far, names of nodes, and what the document declares for reuse."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown
from holdfast.programs.definition.serverless.importer.values import Reads
from holdfast.programs.definition.serverless.vocabulary import lists_in

Node = dict[str, dict[str, Any]]
"""A node in the words of the format: its name, and its body."""

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
LONGEST_NAME: Final = 80


class ImportDraft:
    """A definition that is being made of a document."""

    def __init__(self, document: Mapping[str, Any], faults: FaultList) -> None:
        self.faults = faults
        self.use: Mapping[str, Any] = document.get("use") or {}
        evaluate = document.get("evaluate") or {}
        self.loose = not (isinstance(evaluate, Mapping) and evaluate.get("mode") == "strict")
        self.output: Mapping[str, Any] = document.get("output") or {}
        self.reads: Reads = set()
        self.exports = False
        self.trails: dict[str, Trail] = {}
        """Where in the document each node comes from."""
        self._said = {*_names(document.get("do")), *_names([self.use.get("functions")])}
        self._slugs: set[str] = set()

    # -- what is wrong -------------------------------------------------------------------------------------------------

    def wrong(self, trail: Trail, message: str) -> None:
        """Note what is not supported, or no valid document."""
        self.faults.add(trail, message)

    def mapping(self, data: Any, trail: Trail) -> dict[str, Any]:
        """A map; an empty one where it is something else."""
        if isinstance(data, dict):
            return data
        if data is not None:
            self.wrong(trail, f"this is a map, not {shown(data)}")
        return {}

    def only(self, data: Mapping[str, Any], known: tuple[str, ...], trail: Trail, what: str) -> None:
        """Note the members that are not supported."""
        for name in data:
            if name not in known:
                self.wrong((*trail, name), f"`{name}` of {what} is not supported")

    # -- names ---------------------------------------------------------------------------------------------------------

    def task_name(self, name: str, trail: Trail) -> str:
        """The name of a task's node: its own where that is possible."""
        return self._taken(_fitting(name), trail, reserved=frozenset())

    def helper_name(self, name: str, trail: Trail) -> str:
        """The name of a node that no task has."""
        return self._taken(name, trail, reserved=self._said)

    def _taken(self, name: str, trail: Trail, reserved: set[str] | frozenset[str]) -> str:
        found, count = name, 1
        while found in self.trails or found in reserved:
            count += 1
            found = f"{name}-{count}"
        self.trails[found] = trail
        return found

    def slug(self, name: str) -> str:
        """A name for ``local`` that jq reads as a member."""
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        found, count = plain, 1
        while found in self._slugs:
            count += 1
            found = f"{plain}_{count}"
        self._slugs.add(found)
        return found

    # -- what is declared for reuse ------------------------------------------------------------------------------------

    def reused(self, kind: str, name: Any, trail: Trail) -> Any:
        """What ``use`` declares under a name, or the value itself where it is no name."""
        if not isinstance(name, str):
            return name
        found = (self.use.get(kind) or {}).get(name)
        if found is None:
            self.faults.unknown(trail, f"entry of use.{kind}", name, tuple(self.use.get(kind) or ()))
        return found


def _fitting(name: str) -> str:
    found = _UNFIT.sub("-", name)[:LONGEST_NAME]
    return found if found[:1].isalpha() or found[:1] == "_" else f"task-{found}"


def _names(tasks: Any) -> list[str]:
    """The names that tasks have, however deep."""
    found = []
    for item in tasks if isinstance(tasks, list) else ():
        for name, task in item.items() if isinstance(item, dict) else ():
            found.append(_fitting(str(name)))
            for _, inner in lists_in(task):
                found += _names(inner)
    return found

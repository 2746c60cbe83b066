"""What a definition says of runs of older versions: that it can be obeyed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.expressions.engine import InvalidExpression
from holdfast.expressions.languages import Language, formula
from holdfast.expressions.shapes import DYN
from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList, Trail
from holdfast.programs.definition.interpreter.templates import expressions_in

_ROOTS: Final = {"start": DYN, "state": DYN, "local": DYN}


def check_migrations(definition: m.Definition, faults: FaultList) -> None:
    """Each names an older version, nodes of this one, and values for its state."""
    paths = dict(_paths(definition.steps, ()))
    for version, said in definition.migrate.items():
        trail: Trail = ("migrate", version)
        if not version.isdecimal() or not 0 < int(version) < definition.version:
            faults.add(trail, f"runs move here from versions 1 to {definition.version - 1}, not from {version!r}")
        if not isinstance(said, Mapping) or set(said) - {"steps", "set"}:
            faults.add(trail, "it has `steps:` (the successors of nodes) and `set:` (values for the state)")
            continue
        for old, new in _members(said, "steps", trail, faults):
            _check_successor(str(new), paths, (*trail, "steps", old), faults)
        for path, value in _members(said, "set", trail, faults):
            _check_value(path, value, (*trail, "set", path), faults, definition.language)


def _members(said: Mapping[str, Any], name: str, trail: Trail, faults: FaultList) -> list[tuple[str, Any]]:
    found = said.get(name) or {}
    if isinstance(found, Mapping):
        return list(found.items())
    faults.add((*trail, name), f"`{name}` is a map")
    return []


def _paths(nodes: m.Nodes, above: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """Every node with the names of those around it."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for node in nodes:
        found.append((node.name, above))
        for _, inner in m.lists_of(node):
            found.extend(_paths(inner, (*above, node.name)))
    return found


def _check_successor(path: str, paths: Mapping[str, tuple[str, ...]], trail: Trail, faults: FaultList) -> None:
    *around, name = path.split(".")
    if name not in paths:
        faults.unknown(trail, "node", name, paths)
    elif stray := [each for each in around if each not in paths[name]]:
        full = ".".join((*paths[name], name))
        faults.add(trail, f"{name} is not inside {stray[0]}: its path is {full}")


def _check_value(path: str, value: Any, trail: Trail, faults: FaultList, language: Language) -> None:
    if not path.startswith("state.") or not all(path.split(".")):
        faults.add(trail, f"a move writes to the state, as in state.total, not to {path!r}")
    for text in expressions_in(value):
        try:
            formula(language, text, _ROOTS)
        except InvalidExpression as error:
            faults.add(trail, f"{error}. What a move writes reads `start` and `state`")

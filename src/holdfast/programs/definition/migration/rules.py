"""What a definition says of runs of an older version.

An example: ``migrate: {2: {steps: {review: route.ask}, set: {state.x: 1}}}``.

``steps`` names the successor of a node, ``set`` writes to state when a run moves; its expressions read ``start`` and
``state`` as they were. A name stands for itself where nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.programs.definition.model import Definition, Path, Value


class MoveRules(msgspec.Struct, frozen=True):
    """How runs of one version move to another."""

    steps: Mapping[str, str] = {}
    values: tuple[tuple[Path, Value], ...] = ()

    def successor(self, name: str) -> str:
        """The name of a node in the newer version."""
        return self.steps.get(name, name)


def rules_for(definition: Definition, version: int) -> MoveRules:
    """What a definition says of runs of that version; nothing where it does not name it."""
    said: Mapping[str, Any] = definition.migrate.get(str(version)) or {}
    steps = {last_name(old): last_name(new) for old, new in (said.get("steps") or {}).items()}
    values = tuple((tuple(path.split(".")), value) for path, value in (said.get("set") or {}).items())
    return MoveRules(steps, values)


def last_name(path: str) -> str:
    """The node that a dotted path leads to. Names are unique in a definition, so it says which."""
    return path.rpartition(".")[2]

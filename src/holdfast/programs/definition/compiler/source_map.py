"""Positions: where each place of a document stands in its text."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.programs.definition.compiler.faults import DefinitionFault, Trail


class SourceMap:
    """Where each place of a document stands in its text."""

    def __init__(self, file: str = "") -> None:
        self.file = file
        self._marks: dict[Trail, tuple[int, int]] = {}

    def put(self, trail: Trail, mark: Any) -> None:
        """Note where a value begins."""
        self._marks.setdefault(trail, (mark.line + 1, mark.column + 1))

    def move(self, trail: Trail, mark: Any) -> None:
        """Note where a value's name begins: that is the place of what has one."""
        self._marks[trail] = (mark.line + 1, mark.column + 1)

    def located(self, fault: DefinitionFault) -> DefinitionFault:
        """The fault with the position of its place, or of the nearest place around it."""
        trail = fault.trail
        while trail and trail not in self._marks:
            trail = trail[:-1]
        line, column = self._marks.get(trail, (1, 1))
        return msgspec.structs.replace(fault, file=self.file, line=line, column=column)

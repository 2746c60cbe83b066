"""An action: performed beside its run once the gate lets it through. What the gate makes of it, the gate says."""

from __future__ import annotations

from typing import ClassVar

from holdfast.journal.secrecy import ACTION
from holdfast.runs.kinds.kind import Kind, Place


class ActionKind(Kind):
    """A step that touches the outside world."""

    name: ClassVar[str] = ACTION
    has_step: ClassVar[bool] = True

    def place(self, queue: str | None) -> Place:
        return Place.GATE

    def is_repeated(self, edition: int) -> bool:
        # An old journal does not tell an undo from another call, and an action may be one.
        return edition == 0

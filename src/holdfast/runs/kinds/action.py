"""An action: performed beside its run once the gate has passed it. The gate's decisions are not made here."""

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
        # An old journal does not mark calls that undo others, and an action may be one.
        return edition == 0

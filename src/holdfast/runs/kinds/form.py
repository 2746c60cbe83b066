"""A form: a question to people. Its task is made with the turn that asks, and the answer settles the call."""

from __future__ import annotations

from typing import ClassVar

from holdfast.journal.forms import FORM
from holdfast.runs.kinds.kind import Kind, Place


class FormKind(Kind):
    """What a workflow asks people."""

    name: ClassVar[str] = FORM

    def place(self, queue: str | None) -> Place:
        return Place.GATE

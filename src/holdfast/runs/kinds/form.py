"""A form: a question to people. The commit of the turn makes its task, and the answer settles the call."""

from __future__ import annotations

from typing import ClassVar

from holdfast.journal.events import InvokeScheduled
from holdfast.journal.forms import FORM
from holdfast.journal.render import question
from holdfast.runs.kinds.kind import Kind, Place, Shown


class FormKind(Kind):
    """A question of a workflow to people."""

    name: ClassVar[str] = FORM

    def place(self, queue: str | None) -> Place:
        return Place.GATE

    def show(self, event: InvokeScheduled) -> Shown:
        return Shown(f"{event.function_name} ({event.kind})", question(event.input))

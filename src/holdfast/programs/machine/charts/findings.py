"""What is wrong with a chart's text: all of it at once, each with its place and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.faults import DefinitionFault, nearest
from holdfast.programs.machine.charts.chart import ChartNote
from holdfast.programs.machine.charts.markup import MarkupElement
from holdfast.programs.machine.charts.vocabulary import WORDS


class ChartFindings:
    """Faults of one file as they are found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[DefinitionFault] = []
        self.notes: list[ChartNote] = []

    @contextmanager
    def within(self, file: str) -> Iterator[None]:
        """Note what is found meanwhile as faults of another file."""
        outer, self.file = self.file, file
        try:
            yield
        finally:
            self.file = outer

    def add(self, element: MarkupElement, message: str) -> None:
        """Note what is wrong at an element."""
        self.place(element.line, element.column, message)

    def place(self, line: int, column: int, message: str) -> None:
        """Note what is wrong at a place."""
        self.found.append(DefinitionFault(message=message, file=self.file, line=line, column=column))

    def note(self, line: int, message: str) -> None:
        """Note what is no fault but looks like a mistake."""
        self.notes.append(ChartNote(line=line, message=message))

    def check(self, element: MarkupElement) -> None:
        """Note attributes and children that an element cannot have, and attributes that it lacks.

        The standard lets a reader pass over unknown attributes, so these are no faults.
        """
        word, tag = WORDS[element.name], f"<{element.name}>"
        for name in element.attributes:
            if name not in word.attributes:
                message = f"{tag} has no attribute {name!r}, which is passed over{nearest(name, word.attributes)}"
                self.note(element.line, message)
        for name in word.required:
            if name not in element.attributes:
                self.add(element, f"{tag} needs the attribute {name!r}")
        for group in word.exclusive:
            given = [name for name in group if name in element.attributes]
            if len(given) > 1:
                self.add(element, f"{tag} has both {' and '.join(given)}: keep one")
        if not word.free:
            self._children(element)

    def _children(self, element: MarkupElement) -> None:
        word = WORDS[element.name]
        for child in element.elements():
            if child.is_chart and child.name not in word.children:
                where = "" if child.name in WORDS else nearest(child.name, word.children)
                self.add(child, f"<{child.name}> cannot stand in <{element.name}>{where or ': move or remove it'}")
        text = element.text().strip()
        if text:
            self.add(element, f"<{element.name}> holds no text: remove {text[:40]!r}")

    def refuse(self) -> None:
        """Raise InvalidDefinition if anything was found."""
        if self.found:
            self.found.sort(key=lambda fault: (fault.file != self.file, fault.file, fault.line, fault.column))
            lines = "\n".join(str(fault) for fault in self.found)
            raise InvalidDefinition(f"the chart cannot be read:\n{lines}", self.found)

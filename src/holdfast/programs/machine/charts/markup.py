"""Reads XML as elements that know their lines, and refuses what could do harm.

A document type declaration is refused: without one there are no entities to expand and nothing outside to fetch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.parsers import expat  # declarations of document types are refused below

import msgspec

from holdfast.programs.machine.charts.expressions.values import XML

NAMESPACE: Final = "http://www.w3.org/2005/07/scxml"
SIZE_LIMIT: Final = 4_000_000
DEPTH_LIMIT: Final = 60


class MarkupFault(Exception):
    """The text is not XML that can be read. ``line`` and ``column`` begin at 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class MarkupElement(msgspec.Struct):
    """An element: its children are elements and texts. ``is_chart`` says that it is SCXML's, or of no namespace."""

    name: str
    namespace: str
    attributes: dict[str, str]
    children: list[MarkupElement | str]
    line: int
    column: int

    @property
    def is_chart(self) -> bool:
        """Whether a chart is made of such elements."""
        return self.namespace in ("", NAMESPACE)

    def elements(self) -> Iterator[MarkupElement]:
        """The children that are elements."""
        return (child for child in self.children if isinstance(child, MarkupElement))

    def text(self) -> str:
        """The texts directly in it."""
        return "".join(child for child in self.children if isinstance(child, str))

    def get(self, name: str, default: str = "") -> str:
        """An attribute."""
        return self.attributes.get(name, default)


class _Reader:
    def __init__(self) -> None:
        self._open: list[MarkupElement] = []
        self.root: MarkupElement | None = None
        self._parser = expat.ParserCreate("utf-8", " ")  # the text was decoded already
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.buffer_text = True

    def read(self, text: str) -> MarkupElement:
        if len(text) > SIZE_LIMIT:
            raise MarkupFault(f"the file has more than {SIZE_LIMIT:,} characters: divide it", 1, 1)
        try:
            self._parser.Parse(text.removeprefix("\ufeff").encode(), True)
        except expat.ExpatError as error:
            raise MarkupFault(
                f"this is not well-formed XML: {expat.ErrorString(error.code)}", error.lineno, error.offset + 1
            ) from None
        except UnicodeEncodeError:
            raise MarkupFault("the text holds half of a character: save the file as UTF-8", 1, 1) from None
        assert self.root is not None  # expat refuses a document without an element
        return self.root

    def _fault(self, message: str) -> MarkupFault:
        return MarkupFault(message, self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)

    def _refuse(self, *_: Any) -> None:
        raise self._fault("a document type declaration is refused: remove <!DOCTYPE …> and write entities out")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) == DEPTH_LIMIT:
            raise self._fault(f"elements are nested more than {DEPTH_LIMIT} levels deep")
        namespace, _, local = name.rpartition(" ")
        element = MarkupElement(
            local,
            namespace,
            {key: value for key, value in attributes.items() if " " not in key},  # others' attributes mean nothing here
            [],
            self._parser.CurrentLineNumber,
            self._parser.CurrentColumnNumber + 1,
        )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        self._open[-1].children.append(text)


def read_markup(text: str) -> MarkupElement:
    """The document's element. Raises MarkupFault."""
    return _Reader().read(text)


def as_data(element: MarkupElement) -> dict[str, Any]:
    """An element as plain data, for the data of an event or a variable."""
    children = [as_data(child) if isinstance(child, MarkupElement) else child for child in element.children]
    return {XML: [element.name, dict(element.attributes), [child for child in children if child]]}

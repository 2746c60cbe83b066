"""Reads YAML as plain data, and remembers the place of each part, so that every problem has its line and column.

It is stricter than YAML: no aliases (a few lines of them can expand to gigabytes), no tags, no key twice, keys are
text, and all text can be encoded as UTF-8, because it goes into the audit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import yaml

from holdfast.gate.policy.place import Path, Problem

DEEPEST: Final = 30
WIDEST: Final = 100
"""The largest number of characters in a number: Python cannot even print one that is too long."""

_TEXT: Final = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:timestamp")
_KINDS: Final = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing"}
_PLAIN: Final = tuple(f"tag:yaml.org,2002:{kind}" for kind in _KINDS)
_ESCAPES: Final = {"x": 4, "u": 6, "U": 10}
_BLANK: Final = " \t\r\n"


class Document:
    """The content of a text. Where it has problems, ``data`` has only the readable part."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self.data: Any = None
        self._text = text
        self._values: dict[Path, yaml.Node] = {}
        self._keys: dict[Path, yaml.Node] = {}
        self._lines = _lines(text)
        self._offsets: dict[Path, tuple[list[int], list[int]]] = {}  # of a text with faults: it may have thousands
        try:
            if self._is_sound():
                loader = yaml.SafeLoader(text)
                node = loader.get_single_node()
                self.data = None if node is None else self._read(node, (), loader)
        except yaml.MarkedYAMLError as error:
            self._complain(error.problem_mark or error.context_mark, _syntax(error))
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            self.problems.append(Problem(line, 1, f"a character that YAML does not allow: {error.reason}"))

    def place(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Where the value at a path, or its key, begins. Where there is none, the place of the part around it."""
        while path and path not in self._values:
            path = path[:-1]
        node = self._keys.get(path, self._values.get(path)) if key else self._values.get(path)
        return (1, 1) if node is None else (node.start_mark.line + 1, node.start_mark.column + 1)

    def place_within(self, path: Path, line: int, column: int) -> tuple[int, int]:
        """The place of a character of a text in the file; ``line`` and ``column`` are within the text, from 1."""
        node = self._values.get(path)
        if not isinstance(node, yaml.ScalarNode):
            return self.place(path)
        if path not in self._offsets:
            raw = self._text[node.start_mark.index : node.end_mark.index]
            self._offsets[path] = _lines(node.value), list(_offsets(raw, node.value, node.style))
        lines, offsets = self._offsets[path]
        wanted = (lines[line - 1] if line <= len(lines) else len(node.value) + 1) + column - 1
        if wanted < len(offsets):
            at = offsets[wanted]
        else:  # the text ends too early: give the place just after its last character
            visible = [offset for offset, char in zip(offsets, node.value, strict=False) if char not in _BLANK]
            at = visible[-1] + 1 if visible else 0
        at += node.start_mark.index
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def report(self, path: Path, what: str, *, key: bool = False) -> None:
        self.problems.append(Problem(*self.place(path, key=key), what))

    def _complain(self, mark: Any, what: str) -> None:
        line, column = (0, 0) if mark is None else (mark.line + 1, mark.column + 1)
        self.problems.append(Problem(line, column, what))

    def _is_sound(self) -> bool:
        """Whether it can be composed within limits: it has no aliases, and is not nested too deeply."""
        depth = 0
        for event in yaml.parse(self._text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                self._complain(event.start_mark, f"`*{event.anchor}` is an alias: write out what it stands for")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                self._complain(event.start_mark, "this is nested too deeply")
                break
        return not self.problems

    def _read(self, node: yaml.Node, path: Path, loader: yaml.SafeLoader) -> Any:
        self._values[path] = node
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path, loader)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self._read(item, (*path, index), loader) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _TEXT:
                return self._written(node)
            if node.tag in _PLAIN:
                return self._plain(node, loader)
        self._complain(
            node.start_mark,
            f"a text that begins with ! is a tag in YAML, here `{node.tag}`: put the text in quotes, like "
            '"!action.writes"',
        )
        return f"{node.tag} {node.value}" if isinstance(node, yaml.ScalarNode) else None

    def _written(self, node: yaml.ScalarNode) -> str:
        text = str(node.value)
        if not _is_encodable(text):
            self._complain(node.start_mark, "a half of a surrogate pair is no character: write the character itself")
        return text

    def _plain(self, node: yaml.ScalarNode, loader: yaml.SafeLoader) -> Any:
        """A number, true, false or nothing. YAML takes some other texts for numbers, and a tag can mark any text so."""
        kind, text = _KINDS[node.tag.rpartition(":")[2]], node.value[:WIDEST]
        if text != node.value:
            self._complain(node.start_mark, f"`{text}…` is too long for {kind}: the limit is {WIDEST} characters")
            return text
        try:
            return loader.construct_object(node)
        except (ValueError, KeyError, OverflowError):
            self._complain(node.start_mark, f"`{text}` is not {kind}: if it is a text, put it in quotes")
            return text

    def _mapping(self, node: yaml.MappingNode, path: Path, loader: yaml.SafeLoader) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _TEXT:
                name = key.value if isinstance(key, yaml.ScalarNode) else "this"
                self._complain(key.start_mark, f'`{name}` is not text: put the key in quotes, like "{name}"')
            elif not _is_encodable(key.value):
                self._written(key)
            elif key.value in mapping:
                self._complain(key.start_mark, f"`{key.value}` is here for the second time: remove one of them")
            else:
                self._keys[*path, key.value] = key
                mapping[key.value] = self._read(value, (*path, key.value), loader)
        return mapping


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _syntax(error: yaml.MarkedYAMLError) -> str:
    why = "; ".join(part for part in (error.context, error.problem) if part)
    return f"this is not YAML: {why} (text with ': ', '#' or a leading '!', '&', '*', '{{' or '[' must be in quotes)"


def _lines(text: str) -> list[int]:
    """Where each line begins."""
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))][:-1]


def _offsets(raw: str, value: str, style: str | None) -> Iterator[int]:
    """For each character of a scalar, its offset in the written text, after quotes, escapes and folds."""
    at = raw.find("\n") + 1 if style in ("|", ">") else 1 if style in ("'", '"') else 0
    for char in value:
        while at < len(raw) and char not in _BLANK and raw[at] in _BLANK:
            at += 1
        if style == '"':
            while raw.startswith("\\\n", at):
                at += 2
                while at < len(raw) and raw[at] in _BLANK:
                    at += 1
        yield at
        if style == "'" and raw.startswith("''", at):
            at += 2
        elif style == '"' and raw.startswith("\\", at):
            at += _ESCAPES.get(raw[at + 1 : at + 2], 2)
        elif char not in _BLANK or (at < len(raw) and raw[at] in _BLANK):
            at += 1

"""The text of a definition, YAML or JSON, as plain data with positions.

The YAML is that of 1.2's core schema: ``on``, ``yes`` and dates are texts. A name may stand once in a map. Anchors may
be used, but not to blow a small text up. Whatever is wrong is a ``DefinitionFault`` with its line and column.

The library's parser is used and its composer is not: that one recurses as deep as a text says, in C where it is fast.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import yaml

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.faults import DefinitionFault, Trail
from holdfast.programs.definition.compiler.plain_data import DEEPEST, LEAST_INTEGER, LONGEST_INTEGER, MOST_INTEGER
from holdfast.programs.definition.compiler.source_map import SourceMap

LARGEST: Final = 2 * 1024 * 1024
MOST_VALUES: Final = 100_000

_Parser: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TRUTHS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_PAIR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
"""One character that JSON writes as two; YAML has another word for it."""
_LONE: Final = re.compile(r"[\ud800-\udfff]")
"""Half of a character, or a byte that is not of UTF-8 as Python reads one."""
_QUOTE: Final = 'must be quoted: "=…"'


def read_source(text: str, file: str = "") -> tuple[Any, SourceMap]:
    """The data of a text, and where it stands. JSON is YAML. Raises InvalidDefinition."""
    if len(text) > LARGEST:
        raise _refused(
            f"the text has {len(text):,} characters, and the limit is {LARGEST:,}: split the definition", file
        )
    if (lone := _LONE.search(text)) is not None:
        line, before = text.count("\n", 0, lone.start()) + 1, text.rfind("\n", 0, lone.start())
        raise _refused("this is no character: the text must be UTF-8", file, line, lone.start() - before)
    marks = SourceMap(file)
    parser = None
    try:
        text = _PAIR.sub(_one_character, text) if text.lstrip().startswith("{") else text
        parser = _Parser(text)
        return _Builder(parser, text, marks).document(), marks
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        lines = text.splitlines() or [""]
        if line > len(lines):  # of a text that breaks off libyaml names the line behind the last
            line, column = len(lines), len(lines[-1]) + 1
        raise _refused(_explained(text, error, line), file, line, column) from None
    except yaml.YAMLError as error:
        raise _refused(str(error).splitlines()[0], file, 1, 1) from None
    finally:
        if parser is not None:
            parser.dispose()


def _one_character(pair: re.Match[str]) -> str:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return f"{pair[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


def _refused(message: str, file: str, line: int = 0, column: int = 0) -> InvalidDefinition:
    fault = DefinitionFault(message=message, file=file, line=line, column=column)
    return InvalidDefinition(str(fault), [fault])


def _explained(text: str, error: yaml.MarkedYAMLError, line: int) -> str:
    """The library's words, with what authors of definitions most often meant."""
    lines = text.splitlines()
    near = lines[line - 1] if 0 < line <= len(lines) else ""
    problem = error.problem or str(error)
    if _QUOTE in problem:
        return problem
    if "\t" in near[: len(near) - len(near.lstrip())]:
        return f"{problem}: indent with spaces, not with a tab"
    if re.search(r"[:{,\[]\s*=", near):
        return f"{problem}. An expression with `: ` in it, or inside {{…}} with `,` `[` `]` `{{` or `}}`, {_QUOTE}"
    return problem


class _Anchored(NamedTuple):
    """A value that aliases stand for: how many values it has, and how deep they are."""

    value: Any
    values: int
    height: int


class _Builder:
    """Plain data out of the parser's events, with limits on how much comes of it and how deep it is."""

    def __init__(self, parser: Any, text: str, marks: SourceMap) -> None:
        self._parser = parser
        self._text = text
        self._marks = marks
        self._count = 0
        self._height = 0  # of the value that was built last: how many levels are in it
        self._anchors: dict[str, _Anchored | None] = {}

    def document(self) -> Any:
        """The one document of the text."""
        self._parser.get_event()  # the beginning of the stream
        event = self._parser.get_event()
        if not isinstance(event, yaml.DocumentStartEvent):
            raise _wrong("the text is empty", event)
        value = self._value(self._parser.get_event(), (), 0)
        self._parser.get_event()  # the end of the document
        event = self._parser.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _wrong("a file has one definition: a second begins here", event)
        return value

    def _value(self, event: Any, trail: Trail, depth: int) -> Any:
        self._add(event, 1, depth)
        self._marks.put(trail, event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        before = self._count
        value = self._built(event, trail, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, self._count - before, self._height)
        return value

    def _built(self, event: Any, trail: Trail, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            self._height = 0
            return _scalar(event)
        if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise _wrong(f"there are no tags here: {event.tag}", event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._list(trail, depth)
        return self._map(event, trail, depth)

    def _list(self, trail: Trail, depth: int) -> list[Any]:
        found: list[Any] = []
        height = 0
        while not isinstance(event := self._parser.get_event(), yaml.SequenceEndEvent):
            found.append(self._value(event, (*trail, len(found)), depth + 1))
            height = max(height, self._height + 1)
        self._height = height
        return found

    def _map(self, start: Any, trail: Trail, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        height = 0
        cut = None
        while not isinstance(key := self._parser.get_event(), yaml.MappingEndEvent):
            if not isinstance(key, yaml.ScalarEvent):
                raise _wrong("a name in a map is a text", key)
            if key.value in found:
                raise _wrong(f"{key.value!r} stands twice in this map", key)
            event = self._parser.get_event()
            if cut is not None and self._is_nothing(key, event):
                raise _wrong(f"the expression before it ends at the comma: one with `,` inside {{…}} {_QUOTE}", key)
            cut = event if start.flow_style and _is_plain_expression(event) else None
            found[key.value] = self._value(event, (*trail, key.value), depth + 1)
            self._marks.move((*trail, key.value), key.start_mark)
            height = max(height, self._height + 1)
        self._height = height
        return found

    def _is_nothing(self, key: Any, event: Any) -> bool:
        """Whether a name in a map has no value at all, not even a colon, as ``y`` in ``{x: =f(1, y}``."""
        is_empty = isinstance(event, yaml.ScalarEvent) and event.value == ""
        return is_empty and ":" not in self._text[key.end_mark.index : event.start_mark.index]

    def _alias(self, event: Any, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise _wrong(f"there is no anchor &{event.anchor} before it", event)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise _wrong(f"*{event.anchor} stands inside &{event.anchor}, so it would never end", event)
        self._add(event, anchored.values, depth + anchored.height)
        self._height = anchored.height
        return anchored.value

    def _add(self, event: Any, count: int, depth: int) -> None:
        self._count += count
        if depth > DEEPEST:
            raise _wrong(f"it has values more than {DEEPEST} deep inside each other", event)
        if self._count > MOST_VALUES:
            raise _wrong(f"it has more than {MOST_VALUES:,} values", event)


def _wrong(problem: str, event: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _is_plain_expression(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value.startswith("=")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise _wrong(f"there are no tags here: {event.tag}", event)
    if event.tag is not None or not event.implicit[0]:  # it is quoted
        return text
    if text in _NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if _INTEGER.fullmatch(text):
        return _integer(event, text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise _wrong(f"{text} is more than a double can hold: quote it if it is a text", event)
        return number
    if _NO_NUMBER.fullmatch(text):
        raise _wrong(f"{text} is no number that JSON has: quote it if it is a text", event)
    return text


def is_text(plain: str) -> bool:
    """Whether it is read as a text without quotes."""
    if plain in _NULLS or plain in _TRUTHS:
        return False
    return not any(pattern.fullmatch(plain) for pattern in (_INTEGER, _FLOAT, _NO_NUMBER))


def _integer(event: Any, text: str) -> int:
    number = int(text, 0 if text[:2] in ("0o", "0x") else 10) if len(text) <= LONGEST_INTEGER else MOST_INTEGER + 1
    if not LEAST_INTEGER <= number <= MOST_INTEGER:
        raise _wrong("a whole number has at most 64 bits: quote it if it is a text", event)
    return number

"""Values and expressions of a definition as a document has them: the inverse of the importer's ``values``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.programs.definition.serverless.importer.values import value_of

_ADDRESS: Final = re.compile(r'@uri "((?:[^"\\]|\\.)*)"', re.DOTALL)
_FILLED: Final = re.compile(r"\\\(\.([A-Za-z_][\w.]*)\)", re.ASCII)


class NotSayable(ValueError):
    """Something of a definition cannot be said in a document. The message says what."""


def said_value(value: Any) -> Any:
    """A value of the format as a document has it. Raises NotSayable."""
    if isinstance(value, str):
        if value.startswith("=") and not value.startswith("=="):
            return f"${{ {value[1:]} }}"
        text = value.removeprefix("=")
        if value_of(text, loose=True) != value:
            raise NotSayable(f"the text {text!r:.60} would be read as an expression")
        return text
    if isinstance(value, Mapping):
        return {name: said_value(item) for name, item in value.items()}
    return [said_value(item) for item in value] if isinstance(value, list) else value


def said_expression(text: str) -> str:
    """An expression of the format. Raises NotSayable where it is none."""
    if not text.startswith("=") or text.startswith("=="):
        raise NotSayable(f"this is no expression: {text!r:.60}")
    return f"${{ {text[1:]} }}"


def said_address(url: Any) -> str:
    """A URL as an endpoint: a template, an expression or itself. Raises NotSayable."""
    if not isinstance(url, str):
        raise NotSayable("a URL is a text")
    if not url.startswith("="):
        if "{" in url:
            raise NotSayable(f"a brace in {url!r:.80} would be read as a place of a template")
        return url
    template = _ADDRESS.fullmatch(url[1:])
    if template is None or "{" in template[1]:
        return said_expression(url)
    text = _FILLED.sub(lambda found: "{" + found[1] + "}", template[1])
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return said_expression(url)


def read_jq(text: str) -> Any:
    """The inverse of ``jq_of``: a value of the format. Raises NotSayable where the text is something else."""
    reader = _JqReader(text)
    try:
        found = reader.value()
    except RecursionError:
        raise NotSayable("an expression is nested too deep") from None
    reader.end()
    return found


def split_jq(text: str, sign: str) -> list[str]:
    """A text divided where a sign stands outside of all brackets and texts."""
    parts, begin, depth, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == '"':
            at = _text_end(text, at)
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text.startswith(sign, at):
            parts.append(text[begin:at])
            at += len(sign)
            begin = at
            continue
        at += 1
    return [*parts, text[begin:]]


def _text_end(text: str, at: int) -> int:
    """The place behind a text. One inside an interpolation of it counts, too."""
    at += 1
    while at < len(text) and text[at] != '"':
        if text.startswith("\\(", at):
            depth, at = 1, at + 2
            while at < len(text) and depth:
                if text[at] == '"':
                    at = _text_end(text, at)
                    continue
                depth += (text[at] == "(") - (text[at] == ")")
                at += 1
        else:
            at += 2 if text[at] == "\\" else 1
    return at + 1


class _JqReader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def value(self) -> Any:
        sign = self._text[self._at : self._at + 1]
        if sign == "(":
            return self._expression()
        if sign == "{":
            return dict(self._items("}", self._member))
        if sign == "[":
            return self._items("]", self.value)
        try:
            found, self._at = json.JSONDecoder().raw_decode(self._text, self._at)
        except ValueError:
            raise NotSayable(f"this expression is not one that an import makes: {self._text!r:.80}") from None
        return f"={found}" if isinstance(found, str) and found.startswith("=") else found

    def end(self) -> None:
        if self._at != len(self._text):
            raise NotSayable(f"this expression is not one that an import makes: {self._text!r:.80}")

    def _expression(self) -> str:
        begin = self._at + 1
        depth, at = 1, begin
        while depth:
            if at >= len(self._text):
                raise NotSayable("an expression is cut off")
            if self._text[at] == '"':
                at = _text_end(self._text, at)
                continue
            depth += (self._text[at] == "(") - (self._text[at] == ")")
            at += 1
        self._at = at
        return f"={self._text[begin : at - 1]}"

    def _items(self, closing: str, read: Any) -> list[Any]:
        found: list[Any] = []
        self._at += 1
        while self._text[self._at : self._at + 1] != closing:
            found.append(read())
            if self._text.startswith(", ", self._at):
                self._at += 2
            elif self._text[self._at : self._at + 1] != closing:
                self.end()
                raise NotSayable("an expression is cut off")
        self._at += 1
        return found

    def _member(self) -> tuple[str, Any]:
        name = self.value()
        if not self._text.startswith(": ", self._at) or not isinstance(name, str):
            self._at = len(self._text) + 1
            self.end()
        self._at += 2
        return name.removeprefix("="), self.value()

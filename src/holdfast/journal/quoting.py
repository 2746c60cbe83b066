"""Values inside texts: how an error may quote them, and the text without them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MASK: Final = "[secret]"
SHORTEST: Final = 4
"""Shorter texts are looked for as whole words alone: inside others they would be found everywhere."""


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Every text inside the secrets, in each form in which an error might quote it.

    None, True and False are left: texts have them for other reasons, and a mask would tell which of them it was.
    """
    for value in values:
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            yield from _texts(value)
        elif isinstance(value, str):
            yield from _quoted(value)
        elif isinstance(value, bytes):
            yield from _shown(value)
            try:
                yield from _quoted(value.decode())
            except UnicodeDecodeError:
                continue
        else:
            yield from (repr(value), str(value))


def _quoted(text: str) -> Iterator[str]:
    """A text as it is, and as it stands between the quotes of ``repr``, of ``ascii``, of JSON and of bytes."""
    yield text
    for show in (repr, ascii):
        yield show(text)[1:-1]
        yield show(f'"{text}')[2:-1]  # beside a double quote an apostrophe is escaped
    for in_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=in_ascii)[1:-1]
    yield from _shown(text.encode("utf-8", "surrogatepass"))


def _shown(data: bytes) -> Iterator[str]:
    yield repr(data)[2:-1]
    yield repr(b'"' + data)[3:-1]


def without(text: str, values: Iterable[Any]) -> str:
    """A text without the values that it quotes: where values are told by type and hash, an error must not tell more."""
    return without_forms(text, forms_of(values), "…")


def forms_of(values: Iterable[Any]) -> set[str]:
    """Every text inside some values, in each form in which another text might quote it."""
    return {form for form in _texts(values) if form}


def without_forms(text: str, forms: Iterable[str], mask: str = MASK) -> str:
    """The text with a mask over every place that a form covers: where two overlap, no rest of either stays."""
    covered: list[list[int]] = []
    for start, end in sorted(span for form in forms for span in _places(text, form)):
        if covered and start < covered[-1][1]:
            covered[-1][1] = max(end, covered[-1][1])
        else:
            covered.append([start, end])
    for start, end in reversed(covered):
        text = f"{text[:start]}{mask}{text[end:]}"
    return text


def _places(text: str, form: str) -> Iterator[tuple[int, int]]:
    if len(form) < SHORTEST:
        for found in re.finditer(rf"(?<!\w){re.escape(form)}(?!\w)", text):
            yield found.span()
        return
    start = text.find(form)
    while start >= 0:
        yield start, start + len(form)
        start = text.find(form, start + 1)

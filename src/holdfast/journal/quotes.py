"""Values inside texts: how an error may quote them, and the text without them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

MASK: Final = "[secret]"
SHORTEST: Final = 4
"""Shorter texts are searched for as whole words only: inside other words they would match everywhere."""


def _texts(values: Iterable[Any]) -> Iterator[str]:
    """Every text inside the values, in each form in which an error might quote it.

    None, True and False are left out: texts contain them for other reasons, and a mask would reveal the value.
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
            yield from _in_bytes(value)
            try:
                yield from _quoted(value.decode())
            except UnicodeDecodeError:
                continue
        else:
            yield from (repr(value), str(value))


def _quoted(text: str) -> Iterator[str]:
    """A text unchanged, and in its forms between the quotes of ``repr``, ``ascii``, JSON and bytes."""
    yield text
    for show in (repr, ascii):
        yield show(text)[1:-1]
        yield show(f'"{text}')[2:-1]  # beside a double quote an apostrophe is escaped
    for in_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=in_ascii)[1:-1]
    yield from _in_bytes(text.encode("utf-8", "surrogatepass"))


def _in_bytes(data: bytes) -> Iterator[str]:
    yield repr(data)[2:-1]
    yield repr(b'"' + data)[3:-1]


def without(text: str, values: Iterable[Any]) -> str:
    """The text without the values that it quotes: for errors about values of which only type and hash are recorded."""
    return without_forms(text, forms_of(values), "…")


def forms_of(values: Iterable[Any]) -> set[str]:
    """Every text inside some values, in each form in which another text might quote it."""
    return {form for form in _texts(values) if form}


def without_forms(text: str, forms: Iterable[str], mask: str = MASK) -> str:
    """The text with a mask over every place that a form covers. Where two overlap, one mask covers both."""
    covered: list[list[int]] = []
    for start, end in sorted(span for form in forms for span in _places(text, form)):
        if covered and start < covered[-1][1]:
            covered[-1][1] = max(end, covered[-1][1])
        else:
            covered.append([start, end])
    if not covered:
        return text
    begins = [0, *(end for _, end in covered)]
    ends = [*(start for start, _ in covered), len(text)]
    return mask.join(text[begin:end] for begin, end in zip(begins, ends, strict=True))


def value_without(value: Any, forms: Collection[str]) -> Any:
    """Plain data whose texts and names quote none of these forms. A number that is one of the longer ones is masked."""
    if isinstance(value, str):
        return without_forms(value, forms)
    if isinstance(value, list):
        return [value_without(item, forms) for item in value]
    if isinstance(value, dict):
        return {value_without(name, forms): value_without(item, forms) for name, item in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = str(value)
        return MASK if len(written) >= SHORTEST and written in forms else value
    return value


def _places(text: str, form: str) -> Iterator[tuple[int, int]]:
    """The places that a form covers. If it overlaps with itself again and again, they are one: to look for each of them
    would take as long as the form for each sign of the text."""
    if len(form) < SHORTEST:
        for match in re.finditer(rf"(?<!\w){re.escape(form)}(?!\w)", text):
            yield match.span()
        return
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        again = text.find(form, start + 1)
        if 0 < again - start <= len(form) // 2:
            step = again - start  # the form repeats itself, so the text may do so, too: no other place is nearer
            tail = form[-step:]
            while text.startswith(tail, end):
                end += step
            again = text.find(form, end - len(form) + 1)
        yield start, end
        start = again

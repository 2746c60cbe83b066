"""Secret arguments: masked wherever a call is shown, and taken out of the texts of errors."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.gate.secret_paths import Path, follow
from holdfast.journal.payload import Failure
from holdfast.journal.secrecy import MASK, Place

SHORTEST: Final = 4
"""Shorter texts are looked for in errors as whole words alone: inside others they would be found everywhere."""


class Shape(NamedTuple):
    """A function's parameters: those that may be given by position, all, and what takes the rest of either kind."""

    positional: Sequence[str]
    all: Collection[str]
    rest: str
    keywords: str


class Secrets:
    """Which arguments, or members of arguments, are secret: ``("token", "fields.password")``.

    ``kinds`` are the arguments' annotations. By them a path is checked, and followed as the values are written: one
    that leads nowhere would hide nothing.
    """

    __slots__ = ("_paths", "names")

    def __init__(
        self, names: Sequence[str], arguments: Sequence[str], action: str, kinds: Mapping[str, Any] | None = None
    ) -> None:
        told = f"action {action}: secret="
        self._paths = [follow(name.split("."), arguments, kinds or {}, told) for name in names]
        self.names: Final = frozenset(name for path in self._paths for name in path[0])  # they are, or hold, a secret

    @property
    def written(self) -> list[str]:
        """The secrets by all names under which they may be written."""
        return [".".join(names) for path in self._paths for names in itertools.product(*path)]

    def __bool__(self) -> bool:
        return bool(self._paths)

    def mask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with every secret replaced; the same where none is there."""
        for path in self._paths:
            arguments = _masked(arguments, path)
        return arguments

    def places(self, shape: Shape, count: int, given: Collection[str]) -> list[Place]:
        """Where the secrets are in a call with ``count`` positional arguments and those ``given`` by name."""
        ways = [names for path in self._paths for names in itertools.product(*path)]
        return [place for first, *members in ways for place in _of_call(first, members, shape, count, given)]

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        """A failure without the secrets that its texts may quote."""
        forms = self._forms(arguments)
        return Failure(failure.type, without_forms(failure.message, forms), without_forms(failure.trace, forms))

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        """Another text that may quote them, without them."""
        return without_forms(text, self._forms(arguments))

    def _forms(self, arguments: Mapping[str, Any]) -> set[str]:
        return {form for path in self._paths for form in forms_of(_dig(arguments, path))}


def _of_call(
    first: str, members: Sequence[str], shape: Shape, count: int, given: Collection[str]
) -> Iterator[tuple[int | str, ...]]:
    """Where an argument, or a member of it, is in a call."""
    if first == shape.keywords:
        if members:
            yield (1, *members)
        else:
            yield from ((1, name) for name in given if name not in shape.all)
    elif first == shape.rest:
        for index in range(len(shape.positional), count):
            yield (0, index, *members)
    elif first in given:
        yield (1, first, *members)
    elif first in shape.positional[:count]:
        yield (0, shape.positional.index(first), *members)


def _masked(value: Any, path: Path) -> Any:
    if not path:
        return MASK
    if isinstance(value, Mapping):
        return {**value, **{name: _masked(value[name], path[1:]) for name in path[0] if name in value}}
    if isinstance(value, list):
        return [_masked(item, path) for item in value]
    return None if value is None else MASK  # it has no members: who can tell that it is not the secret itself


def _dig(value: Any, path: Path) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, Mapping):
        for name in path[0]:
            if name in value:
                yield from _dig(value[name], path[1:])
    elif isinstance(value, list):
        for item in value:
            yield from _dig(item, path)
    elif value is not None:
        yield value


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

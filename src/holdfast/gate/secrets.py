"""Secret arguments: masked wherever a call is shown, and taken out of the texts of errors."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.gate.secret_paths import Path, follow
from holdfast.journal.payload import Failure

MASK: Final = "[secret]"
SHORTEST: Final = 4
"""Shorter texts are looked for in errors as whole words alone: inside others they would be found everywhere."""


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

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        """A failure without the secrets that its texts may quote."""
        forms = self._forms(arguments)
        return Failure(failure.type, _without(failure.message, forms), _without(failure.trace, forms))

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        """Another text that may quote them, without them."""
        return _without(text, self._forms(arguments))

    def _forms(self, arguments: Mapping[str, Any]) -> set[str]:
        return {form for path in self._paths for form in _texts(_dig(arguments, path)) if form}


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
    return _without(text, {form for form in _texts(values) if form}, "…")


def _without(text: str, forms: Iterable[str], mask: str = MASK) -> str:
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

"""Secret arguments: masked wherever a call is shown, and taken out of the texts of errors."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import re
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import InvalidDefinition
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
        self._paths = [_written(name.split("."), arguments, kinds or {}, told) for name in names]
        self.names: Final = frozenset(path[0] for path in self._paths)  # the arguments that are, or hold, a secret

    @property
    def written(self) -> list[str]:
        """The secrets by the names under which they are written."""
        return [".".join(path) for path in self._paths]

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


def _written(path: list[str], arguments: Sequence[str], kinds: Mapping[str, Any], told: str) -> tuple[str, ...]:
    """A path in plain data. Raises InvalidDefinition where there is no such argument or member, or it has no name."""
    first, *members = path
    if "*" in members:
        raise InvalidDefinition(f"{told} names members one by one, and knows no patterns: name all of {first!r}")
    if first not in arguments:
        known = ", ".join(arguments) or "none"
        raise InvalidDefinition(f"{told} names {first!r}, which is no argument (its arguments: {known})")
    written, here = [first], [kinds.get(first, Any)]
    for member in members:
        names, here = _member(member, [kind for each in here for kind in _plain_kinds(each)], told)
        written.append(names)
    return tuple(written)


def _member(name: str, kinds: list[Any], told: str) -> tuple[str, list[Any]]:
    """Under which name a member is written, and its own kinds."""
    structs = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    if not structs:
        return name, [get_type_hints(kind).get(name, Any) for kind in kinds if dataclasses.is_dataclass(kind)]
    for struct in structs:
        if struct.__struct_config__.array_like:
            raise InvalidDefinition(
                f"{told} names a member of {struct.__name__}, which is written without names: name all of it"
            )
    found = [
        field
        for struct in structs
        for field in msgspec.structs.fields(struct)
        if name in (field.name, field.encode_name)
    ]
    if not found:
        known = ", ".join(field.name for field in msgspec.structs.fields(structs[0])) or "none"
        raise InvalidDefinition(
            f"{told} names {name!r}, which is no member of {structs[0].__name__} (its members: {known})"
        )
    if len({field.encode_name for field in found}) > 1:
        raise InvalidDefinition(f"{told} names {name!r}, which is written under more than one name: name all of it")
    return found[0].encode_name, [field.type for field in found]


def _plain_kinds(kind: Any) -> Iterator[Any]:
    """The kinds behind an annotation: of a union, of a list's items, without what is said about them."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _plain_kinds(get_args(kind)[0])
    elif origin in (Union, types.UnionType, list, tuple, set, frozenset, collections.abc.Sequence):
        for part in get_args(kind):
            yield from _plain_kinds(part)
    elif origin is not None:
        yield origin
    else:
        yield kind


def _masked(value: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return MASK
    if isinstance(value, Mapping):
        return {**value, path[0]: _masked(value[path[0]], path[1:])} if path[0] in value else value
    if isinstance(value, list):
        return [_masked(item, path) for item in value]
    return None if value is None else MASK  # it has no members: who can tell that it is not the secret itself


def _dig(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _dig(value[path[0]], path[1:])
    elif isinstance(value, list):
        for item in value:
            yield from _dig(item, path)


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

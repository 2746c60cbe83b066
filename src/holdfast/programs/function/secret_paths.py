"""Paths to secrets inside arguments, checked against the annotations and translated to the names in written values.

A struct may write its members by other names, or without any. A path to nothing would hide nothing, so it is refused
where the annotations show that. Where they show nothing, the path is used unchanged.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from holdfast.errors import InvalidFunction

Path = tuple[tuple[str, ...], ...]
"""For each member on the path, all names under which it may be written."""


def follow(path: list[str], arguments: Sequence[str], kinds: Mapping[str, Any], what: str) -> Path:
    """A path in plain data. Raises InvalidFunction where there is no such argument or member, or it has no name."""
    first, *members = path
    if first not in arguments:
        names = ", ".join(arguments) or "none"
        raise InvalidFunction(f"{what} names {first!r}, which is no argument (its arguments: {names})")
    if "*" in members:
        raise InvalidFunction(f"{what} names members one by one, and knows no patterns: name all of {first!r}")
    written: list[tuple[str, ...]] = [(first,)]
    present = [kinds.get(first, Any)]
    for member in members:
        aliases, present = _member(member, [kind for each in present for kind in _plain(each)], what)
        written.append(aliases)
    return tuple(written)


def _member(name: str, kinds: list[Any], what: str) -> tuple[tuple[str, ...], list[Any]]:
    """The names under which a member may be written, and its own kinds."""
    names: dict[str, None] = {name: None}
    further: list[Any] = []
    listed: list[str] = []
    is_open = not kinds
    for kind in kinds:
        members = _members(kind, what)
        if members is None:  # anything may be in it
            is_open = True
            further += _values(kind)
            continue
        listed += [own for own, _, _ in members]
        for own, written, inner in members:
            if name in (own, written):
                names[written] = None
                further.append(inner)
    if listed and not is_open and not further:
        raise InvalidFunction(f"{what} names {name!r}, which is no member there (the members: {', '.join(listed)})")
    return tuple(names), further


def _members(kind: Any, what: str) -> list[tuple[str, str, Any]] | None:
    """A class's members: the name, the name under which it is written, the kind. None where it has no fixed ones."""
    if _is_nameless(kind):
        raise InvalidFunction(
            f"{what} names a member of {kind.__name__}, which is written without names: name all of it"
        )
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [(field.name, field.encode_name, field.type) for field in msgspec.structs.fields(kind)]
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return [(field.name, field.name, hints.get(field.name, Any)) for field in dataclasses.fields(kind)]
    if is_typeddict(kind):
        return [(name, name, hint) for name, hint in _hints(kind).items()]
    return None


def _is_nameless(kind: Any) -> bool:
    """Whether it is written as a list: some structs are, and named tuples."""
    if not isinstance(kind, type):
        return False
    if issubclass(kind, msgspec.Struct):
        return bool(kind.__struct_config__.array_like)
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except Exception:  # a name that only the type checker sees
        return {}


def _values(kind: Any) -> tuple[Any, ...]:
    """The kinds of a mapping's values."""
    origin = get_origin(kind)
    is_mapping = isinstance(origin, type) and issubclass(origin, collections.abc.Mapping)
    return get_args(kind)[1:2] if is_mapping else ()


def _plain(kind: Any) -> Iterator[Any]:
    """The kinds behind an annotation: of a union, of a list's items, without metadata."""
    origin = get_origin(kind)
    if (supertype := getattr(kind, "__supertype__", None)) is not None:
        yield from _plain(supertype)
    elif isinstance(kind, TypeVar):
        yield from _plain(kind.__bound__ or Any)
    elif origin is Annotated:
        yield from _plain(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(kind):
            if part is not type(None):
                yield from _plain(part)
    elif not isinstance(origin, type) or issubclass(origin, collections.abc.Mapping):
        yield kind
    elif issubclass(origin, collections.abc.Iterable):
        for part in get_args(kind):
            if part is not ...:
                yield from _plain(part)
    else:
        yield origin  # a generic class

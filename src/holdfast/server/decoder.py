"""Reading queries and bodies into the types that a route names. All that is wrong is said at once.

msgspec reads and judges. It stops at the first fault, so a request that does not fit is judged once more, member by
member, to name every fault; of very many, the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import inspect as mi

from holdfast.errors import MalformedRequest

T = TypeVar("T", bound=msgspec.Struct)

_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
"""A text without an end is one, too: if it were none, each quote in it would be tried, and all of it read each time."""

_DECODERS: Final[dict[type[msgspec.Struct], msgspec.json.Decoder[Any]]] = {}

MOST_FAULTS: Final = 100
"""So many faults of a request are told. All of them could make an answer twenty times as large as what was sent."""
_LONGEST_NAME: Final = 200

Fault = tuple[str, str]
"""A place, such as ``body/attributes/tier``, and what is wrong there."""


def read_query(pairs: Sequence[tuple[str, str]], kind: type[T]) -> T:
    """The query's parameters. One that is a list may be repeated. Raises MalformedRequest."""
    if not pairs:
        return _decoder(kind).decode(b"{}") if not _requires(kind) else _read({}, kind, "query", [], strict=False)
    lists = {field.encode_name for field in _fields(kind) if _is_list(field.type)}
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, value in pairs:
        if name in lists:
            values.setdefault(name, []).append(value)
        elif name in values:
            faults.append((f"query/{name:.{_LONGEST_NAME}}", "it is given twice"))
        else:
            values[name] = value
    return _read(values, kind, "query", faults, strict=False)


def read_body(data: bytes, kind: type[T], depth: int) -> T:
    """The body, which is JSON. Raises MalformedRequest."""
    check_depth(data, depth)
    try:
        try:
            return _decoder(kind).decode(data or b"{}")
        except msgspec.ValidationError:
            values = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MalformedRequest(f"the body is not JSON: {error}", [("body", str(error))]) from error
    return _read(values, kind, "body", [], strict=True)


def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder of this type, made once."""
    found = _DECODERS.get(kind)
    if found is None:
        found = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return found


def check_depth(data: bytes, limit: int) -> None:
    """Refuse a body that is nested deeper. Bodies with few brackets, which are nearly all, cost nothing."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return
    depth = 0
    for found in _BRACKETS.finditer(data):
        sign = found[0][0]
        if sign in b"[{":
            depth += 1
            if depth > limit:
                raise MalformedRequest(
                    f"the body is nested deeper than {limit}", [("body", f"it is nested deeper than {limit}")]
                )
        elif sign in b"]}":
            depth -= 1


def _read(values: Any, kind: type[T], place: str, faults: list[Fault], *, strict: bool) -> T:
    if not faults:
        try:
            return msgspec.convert(values, kind, strict=strict)
        except msgspec.ValidationError:
            pass
    every = chain(faults, _faults(values, kind, place, strict=strict))
    faults = list(islice(every, MOST_FAULTS))
    if next(every, None) is not None:
        faults.append((place, f"there are more faults than these {MOST_FAULTS}"))
    text = "; ".join(f"{where}: {what}" for where, what in faults)
    raise MalformedRequest(f"the request is not what this route takes. {text}", faults)


def _faults(values: Any, kind: type[msgspec.Struct], place: str, *, strict: bool) -> Iterator[Fault]:
    """Every fault of an object, one by one."""
    if not isinstance(values, dict):
        yield place, f"it must be an object, not {_shown(values)}"
        return
    hints = get_type_hints(kind, include_extras=True)
    fields = {field.encode_name: field for field in _fields(kind)}
    for name in values:
        if name not in fields:
            yield (
                f"{place}/{name:.{_LONGEST_NAME}}",
                f"it is not known here: {', '.join(fields) or 'nothing'} can be given",
            )
    for name, field in fields.items():
        if name not in values:
            if field.required:
                yield f"{place}/{name}", "it is missing"
            continue
        inner = field.type
        if isinstance(inner, mi.StructType) and isinstance(values[name], dict):
            yield from _faults(values[name], inner.cls, f"{place}/{name}", strict=strict)
            continue
        try:
            msgspec.convert(values[name], hints[field.name], strict=strict)
        except msgspec.ValidationError as error:
            yield _fault(f"{place}/{name}", str(error))


def _fault(place: str, text: str) -> Fault:
    """msgspec says the place at the end of its message."""
    what, found, inner = text.rpartition(" - at `$")
    if not found or not inner.endswith("`"):
        return place, text
    inner = re.sub(r"\[(\d+|\.\.\.)\]", r"/\1", inner.removesuffix("`")).replace(".", "/")
    return place + inner, what


def _shown(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


@cache
def _requires(kind: type[msgspec.Struct]) -> bool:
    """Whether something must be given."""
    return any(field.required for field in _fields(kind))


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[mi.Field, ...]:
    found = mi.type_info(kind)
    assert isinstance(found, mi.StructType)
    return found.fields


def _is_list(kind: mi.Type) -> bool:
    if isinstance(kind, mi.Metadata):
        return _is_list(kind.type)
    if isinstance(kind, mi.UnionType):
        return any(_is_list(each) for each in kind.types)
    return isinstance(kind, mi.ListType | mi.VarTupleType)

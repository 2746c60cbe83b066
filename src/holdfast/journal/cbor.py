"""Canonical CBOR of the few plain types that journals are made of, written faster than the general library can.

The bytes are those of cbor2's canonical mode (RFC 8949 §4.2); a law test compares the two. Only exact ``int``, ``str``,
``bytes``, ``bool``, ``None``, ``list``, ``tuple`` and ``dict`` of texts are written here; the rest is the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import cbor2

_SHORT: Final = 64
_FEW: Final = 16
_LARGEST: Final = (1 << 64) - 1
_BYTES: Final = [bytes((number,)) for number in range(256)]
_INTEGERS: Final = _BYTES[:24]
_ARRAYS: Final = _BYTES[0x80 : 0x80 + 24]
_DATA: Final = _BYTES[0x40 : 0x40 + 24]


DEEPEST: Final = 400
"""How many levels of lists and maps the library reads. A deeper value could be written but never read."""


class Unfit(Exception):
    """The value holds something that only the general library can write."""


class TooDeep(ValueError):
    """The value is nested deeper than it could be read back."""

    def __init__(self) -> None:
        super().__init__(f"it is nested more than {DEEPEST} levels deep, or holds itself, and could never be read back")


class NotCanonical(ValueError):
    """The bytes are not the canonical form of any plain data."""


def write(value: object, levels: int = DEEPEST) -> bytes:
    """The value's canonical bytes, of at most so many ``levels``. Raises Unfit or TooDeep."""
    scalar = SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value)
    parts: list[bytes] = []
    _write(value, parts, levels)
    return b"".join(parts)


def _write(value: object, parts: list[bytes], levels: int) -> None:
    """Write a list or a map."""
    kind = type(value)
    if not levels and kind in (list, tuple, dict):
        raise TooDeep
    if kind is list or kind is tuple:
        items: list[object] = value  # type: ignore[assignment]  # narrowed by its exact type
        parts.append(array(len(items)))
        for item in items:
            scalar = SCALARS.get(type(item))
            if scalar is not None:
                parts.append(scalar(item))
            else:
                _write(item, parts, levels - 1)
    elif kind is not dict:
        raise Unfit
    elif value:
        _write_map(value, parts, levels)  # type: ignore[arg-type]
    else:
        parts.append(b"\xa0")


def _write_map(value: dict[object, object], parts: list[bytes], levels: int) -> None:
    """A map of texts: the canonical order is that of its keys' bytes, which begin with their length."""
    names = tuple(value)
    parts.append(map_head(len(names)))
    for written, name in _usual_order(names) if len(names) <= _FEW else _order(names):
        parts.append(written)
        item = value[name]
        scalar = SCALARS.get(type(item))
        if scalar is not None:
            parts.append(scalar(item))
        else:
            _write(item, parts, levels - 1)


def _order(names: tuple[object, ...]) -> list[tuple[bytes, str]]:
    """The names of a map in canonical order, each with its bytes."""
    keys: list[tuple[bytes, str]] = []
    for name in names:
        if type(name) is not str:
            raise Unfit
        keys.append((text(name), name))
    keys.sort()
    return keys


_usual_order = lru_cache(maxsize=1024)(_order)
"""Cached: small maps are mostly values of a few types, and have the same names in the same order."""


def integer(number: int) -> bytes:
    """A whole number."""
    if 0 <= number < 24:
        return _INTEGERS[number]
    return _head(0, number) if number >= 0 else _head(0x20, -1 - number)


def canonical(value: object, levels: int = DEEPEST) -> bytes:
    """Any plain data as canonical CBOR, by the fast writer or, for types that it does not know, by the library.

    Raises TooDeep and the library's errors.
    """
    try:
        return write(value, levels)
    except (Unfit, RecursionError):  # the library needs less of the stack
        return readable(cbor2.dumps(value, canonical=True), levels)


def readable(data: bytes, levels: int = DEEPEST) -> bytes:
    """Bytes that the library wrote, if they can be read. Raises TooDeep."""
    if len(data) > levels:  # each level is a byte or more
        try:
            cbor2.loads(data, max_depth=levels)
        except (cbor2.CBORDecodeError, RecursionError) as error:
            raise TooDeep from error
    return data


def read(data: bytes, levels: int = DEEPEST) -> object:
    """The plain data of canonical bytes: None, truth values, numbers, texts, bytes, lists, and maps of such.

    Raises NotCanonical for everything that does not encode to the same bytes again: numbers and lengths in a longer
    form than they need, floats that fit into a shorter one, members out of order or twice, indefinite lengths, tags
    (but those of large whole numbers), ``undefined`` and other simple values, bytes after the end.
    """
    value = parse(data, levels)
    try:
        written = write(value, levels)
    except TooDeep as error:
        raise NotCanonical(str(error)) from error
    except (Unfit, RecursionError):
        _require_plain(value)
        written = cbor2.dumps(value, canonical=True)
    if written != data:
        raise NotCanonical("they are not in canonical form: written again, the same data gives other bytes")
    return value


def parse(data: bytes, levels: int = DEEPEST) -> object:
    """What the bytes begin with, in whatever form. Raises NotCanonical for what is no CBOR, and for tags.

    For those who write the value again, and refuse it unless they get the same bytes; all others ``read``.
    """
    try:
        value: object = cbor2.loads(data, max_depth=levels, semantic_decoders=_TAGS)
    except Exception as error:  # whatever the bytes make the library do
        raise NotCanonical(f"they are no CBOR of plain data: {error}") from error
    return value


class _Tags(dict[int, Callable[[object, bool], object]]):
    """Every tag is refused but those of large whole numbers. A few bytes of shared references could otherwise stand for
    more data than fits anywhere, and a tag could run code of the library that nobody asked for."""

    def __missing__(self, tag: int) -> Callable[[object, bool], object]:
        if tag in (2, 3):
            raise KeyError(tag)
        return self._refuse

    def _refuse(self, *_: object) -> object:
        raise NotCanonical("they hold a tag")


_TAGS: Final = _Tags()
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})


def _require_plain(value: object) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is list:
            waiting += item  # type: ignore[arg-type]  # narrowed by its exact type
        elif kind is dict:
            items: dict[object, object] = item  # type: ignore[assignment]
            waiting += [*items.keys(), *items.values()]
        elif kind not in _PLAIN:
            raise NotCanonical(f"they hold a {kind.__name__}, which is no plain data")


def array(count: int) -> bytes:
    """The head of an array of so many items."""
    return _ARRAYS[count] if count < 24 else _head(0x80, count)


def map_head(count: int) -> bytes:
    """The head of a map of so many members."""
    return _head(0xA0, count)


def data(value: bytes) -> bytes:
    """A string of bytes."""
    size = len(value)
    return (_DATA[size] if size < 24 else _head(0x40, size)) + value


def text(value: str) -> bytes:
    """A text."""
    return _short_text(value) if len(value) < _SHORT else _text(value)


def _text(value: str) -> bytes:
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:  # a lone surrogate
        raise Unfit from error
    return _head(0x60, len(encoded)) + encoded


_short_text = lru_cache(maxsize=4096)(_text)
"""Cached: short texts are mostly names, and names repeat."""


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return _BYTES[major | number]
    if number < 0x100:
        return _BYTES[major | 24] + _BYTES[number]
    if number < 0x10000:
        return _BYTES[major | 25] + number.to_bytes(2)
    if number < 0x100000000:
        return _BYTES[major | 26] + number.to_bytes(4)
    if number <= _LARGEST:
        return _BYTES[major | 27] + number.to_bytes(8)
    raise Unfit


def _nothing(_: object) -> bytes:
    return b"\xf6"


def _truth(value: object) -> bytes:
    return b"\xf5" if value else b"\xf4"


SCALARS: Final[dict[type, Callable[[Any], bytes]]] = {
    int: integer,
    str: text,
    bytes: data,
    bool: _truth,
    type(None): _nothing,
}
"""The writers of exact types that hold no other values. They raise Unfit."""

"""Writing canonical CBOR of the few plain types that journals are made of, faster than the general library can.

The bytes are those of cbor2's canonical mode (RFC 8949 §4.2); a law test holds the two together. Whatever is not an
exact ``int``, ``str``, ``bytes``, ``bool``, ``None``, ``list``, ``tuple`` or empty ``dict`` is left to the library.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SHORT: Final = 64
_LARGEST: Final = (1 << 64) - 1
_INTEGERS: Final = [bytes((number,)) for number in range(24)]
_ARRAYS: Final = [bytes((0x80 | number,)) for number in range(24)]


class Unfit(Exception):
    """The value holds something that only the general library can write."""


def write(value: object) -> bytes:
    """The value's canonical bytes. Raises Unfit."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: object, parts: list[bytes]) -> None:
    kind = type(value)
    if kind is list or kind is tuple:
        items: list[object] = value  # type: ignore[assignment]  # narrowed by its exact type
        count = len(items)
        parts.append(array(count))
        for item in items:
            _write(item, parts)
    elif kind is int:
        parts.append(integer(value))  # type: ignore[arg-type]
    elif kind is str:
        words: str = value  # type: ignore[assignment]
        parts.append(text(words))
    elif kind is bytes:
        parts.append(data(value))  # type: ignore[arg-type]
    elif value is None:
        parts.append(b"\xf6")
    elif kind is bool:
        parts.append(b"\xf5" if value else b"\xf4")
    elif kind is dict and not value:
        parts.append(b"\xa0")
    else:
        raise Unfit


def integer(number: int) -> bytes:
    """A whole number."""
    if 0 <= number < 24:
        return _INTEGERS[number]
    return _head(0, number) if number >= 0 else _head(0x20, -1 - number)


def array(count: int) -> bytes:
    """The head of an array of so many items."""
    return _ARRAYS[count] if count < 24 else _head(0x80, count)


def data(value: bytes) -> bytes:
    """A string of bytes."""
    return _head(0x40, len(value)) + value


def text(words: str) -> bytes:
    """A text."""
    return _short_text(words) if len(words) < _SHORT else _text(words)


def _text(words: str) -> bytes:
    try:
        encoded = words.encode()
    except UnicodeEncodeError as error:  # a lone surrogate
        raise Unfit from error
    return _head(0x60, len(encoded)) + encoded


_short_text = lru_cache(maxsize=4096)(_text)
"""Names come again and again."""


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes((major | number,))
    if number < 0x100:
        return bytes((major | 24, number))
    if number < 0x10000:
        return bytes((major | 25,)) + number.to_bytes(2)
    if number < 0x100000000:
        return bytes((major | 26,)) + number.to_bytes(4)
    if number <= _LARGEST:
        return bytes((major | 27,)) + number.to_bytes(8)
    raise Unfit

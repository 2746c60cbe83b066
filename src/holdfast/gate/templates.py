"""Templates name a call's arguments: ``{incident}``, ``{order.id}``, and ``{fields_hash}`` for the hash of an argument.

A template is checked when its action is declared, so that rendering cannot fail for a call that fits its signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from string import Formatter
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidDefinition
from holdfast.journal.cbor import canonical

HASH: Final = "_hash"
PROMISE: Final = "promise"
"""The name of the call itself in its run: the same for every attempt, another for every call."""


class Template:
    """A text with places for arguments."""

    __slots__ = ("_pieces", "_plain", "text")

    def __init__(self, text: str, arguments: Collection[str], secrets: Collection[str], what: str) -> None:
        """Raises InvalidDefinition where the text names what no call has, or what must stay secret."""
        self.text = text
        self._pieces = [(literal, _place(name, arguments, secrets, what)) for literal, name in _parse(text, what)]
        places = [place for _, place in self._pieces if place is not None]
        self._plain = None if places else "".join(literal for literal, _ in self._pieces)

    def render(self, arguments: Mapping[str, Any], promise: str) -> str:
        if self._plain is not None:
            return self._plain
        parts = []
        for literal, place in self._pieces:
            parts.append(literal)
            if place is not None:
                path, hashed = place
                value = promise if path == (PROMISE,) and PROMISE not in arguments else _dig(arguments, path)
                parts.append(digest(value) if hashed else _text(value))
        return "".join(parts)


_Place = tuple[tuple[str, ...], bool]


def digest(value: Any) -> str:
    """The hash of the canonical form of a value: 32 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def _parse(text: str, what: str) -> list[tuple[str, str | None]]:
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise InvalidDefinition(
            f"{what} {text!r} is no template ({error}): double a brace that stands for itself"
        ) from error
    for _, name, spec, conversion in pieces:
        if name is not None and (spec or conversion or not name):
            raise InvalidDefinition(f"{what} {text!r}: a place is the name of an argument in braces and nothing else")
    return [(literal, name) for literal, name, _, _ in pieces]


def _place(name: str | None, arguments: Collection[str], secrets: Collection[str], what: str) -> _Place | None:
    if name is None:
        return None
    path = tuple(name.split("."))
    hashed = path[-1].endswith(HASH) and name not in arguments
    if hashed:
        path = (*path[:-1], path[-1].removesuffix(HASH))
    if path[0] not in arguments and path != (PROMISE,):
        known = ", ".join(arguments) or "none"
        raise InvalidDefinition(f"{what} names {{{name}}}, which is no argument of the action (its arguments: {known})")
    if any(_overlap(path, tuple(secret.split("."))) for secret in secrets):
        raise InvalidDefinition(f"{what} names {{{name}}}, which is secret: everyone who sees a receipt would read it")
    return path, hashed


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one path leads to, or through, the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _dig(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = arguments
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return msgspec.json.encode(value, order="deterministic").decode()

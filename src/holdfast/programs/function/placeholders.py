"""Templates name a call's arguments: ``{incident}``, ``{order.id}``, and ``{fields_hash}`` for the hash of an argument.

A template is checked when its action is declared, so that rendering cannot fail for a call that fits its signature.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from string import Formatter
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidFunction
from holdfast.gate.proposals import KEY_LIMIT, limited
from holdfast.journal.cbor import canonical

HASH: Final = "_hash"
MARK: Final = "~"
MARK_LENGTH: Final = 16
_MARKED: Final = re.compile(r"(~[0-9a-f]{16}|#[0-9]+)\Z")  # the latter is the mark of a later round of a key
_CUT: Final = re.compile(r":[0-9a-f]{64}\Z")
"""The ends of marked keys and of shortened keys. No other key may end like these."""
_NUMBER: Final = re.compile(r"-?[0-9]+")
PROMISE: Final = "promise"
"""The placeholder for the call's own name in its run: the same for every attempt, different for every call."""


class PlaceholderText:
    """A text with places for arguments."""

    __slots__ = ("_pieces", "_plain", "text")

    def __init__(self, text: str, arguments: Collection[str], secrets: Collection[str], what: str) -> None:
        """Raises InvalidFunction where the text names an unknown or a secret argument."""
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
                value = self._value(place, arguments, promise)
                parts.append(value if isinstance(value, str) else _text(value))
        return "".join(parts)

    def _value(self, place: _Place, arguments: Mapping[str, Any], promise: str) -> Any:
        path, hashed = place
        value = promise if path == (PROMISE,) and PROMISE not in arguments else _dig(arguments, path)
        return digest(value) if hashed else value


_Place = tuple[tuple[str, ...], bool]


class KeyTemplate(PlaceholderText):
    """A template that gives different texts for different lists of values.

    Most rendered texts are unambiguous. To an ambiguous one a hash of the values is added: where a text value looks
    like a number, where a value is neither a text nor a whole number, and where the border between two values is
    unclear.
    """

    __slots__ = ("_between", "_places", "_prefix", "_suffix")

    def __init__(self, text: str, arguments: Collection[str], secrets: Collection[str], what: str) -> None:
        super().__init__(text, arguments, secrets, what)
        self._places = [place for _, place in self._pieces if place is not None]
        self._between: list[str]
        literals = [""]
        for literal, place in self._pieces:
            literals[-1] += literal
            if place is not None:
                literals.append("")
        self._prefix, *self._between, self._suffix = literals if self._places else (literals[0], "")

    def render_key(self, arguments: Mapping[str, Any], promise: str) -> tuple[str, str | None]:
        """The key, and the key of older versions for the same values, where it differs."""
        plain = self.render(arguments, promise)
        values = [self._value(place, arguments, promise) for place in self._places]
        if self._is_unambiguous(plain, values):
            return limited(plain), None
        return limited(f"{plain}{MARK}{digest(values)[:MARK_LENGTH]}"), limited(plain)

    def can_render(self, arguments: Mapping[str, Any]) -> bool:
        """Whether these arguments, perhaps of another action, include all that the template names."""
        return all(path[0] in arguments or path == (PROMISE,) for path, _ in self._places)

    def _is_unambiguous(self, plain: str, values: list[Any]) -> bool:
        for (path, hashed), value in zip(self._places, values, strict=True):
            kind = type(value)
            if kind is str:
                if not hashed and path != (PROMISE,) and _NUMBER.fullmatch(value):
                    return False
            elif kind is not int:
                return False
        if _MARKED.search(plain) or (len(plain) == KEY_LIMIT and _CUT.search(plain)):
            return False
        return self._has_clear_borders(plain)

    def _has_clear_borders(self, plain: str) -> bool:
        """Whether the text splits into values in one way only: each literal between them has one possible place."""
        if not self._between:
            return True
        body = plain[len(self._prefix) : len(plain) - len(self._suffix)]
        first, last = [], []
        start, end = 0, len(body)
        for literal in self._between:
            first.append(body.find(literal, start))
            start = first[-1] + len(literal)
        for literal in reversed(self._between):
            last.append(body.rfind(literal, 0, end))
            end = last[-1]
        return "" not in self._between and first == last[::-1]


def digest(value: Any) -> str:
    """The hash of the canonical form of a value: 32 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def _parse(text: str, what: str) -> list[tuple[str, str | None]]:
    try:
        pieces = list(Formatter().parse(text))
    except ValueError as error:
        raise InvalidFunction(
            f"{what} {text!r} is no template ({error}): double a brace that stands for itself"
        ) from error
    for _, name, spec, conversion in pieces:
        if name is not None and (spec or conversion or not name):
            raise InvalidFunction(f"{what} {text!r}: a place is the name of an argument in braces and nothing else")
    return [(literal, name) for literal, name, _, _ in pieces]


def _place(name: str | None, arguments: Collection[str], secrets: Collection[str], what: str) -> _Place | None:
    if name is None:
        return None
    path = tuple(name.split("."))
    hashed = path[-1].endswith(HASH) and name not in arguments
    if hashed:
        path = (*path[:-1], path[-1].removesuffix(HASH))
    if path[0] not in arguments and path != (PROMISE,):
        names = ", ".join(arguments) or "none"
        raise InvalidFunction(f"{what} names {{{name}}}, which is no argument of the action (its arguments: {names})")
    if any(_overlap(path, tuple(secret.split("."))) for secret in secrets):
        raise InvalidFunction(f"{what} names {{{name}}}, which is secret: everyone who sees a receipt would read it")
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

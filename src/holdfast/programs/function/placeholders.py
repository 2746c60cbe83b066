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
from holdfast.journal.cbor import canonical

HASH: Final = "_hash"
MARK: Final = "~"
MARK_LENGTH: Final = 16
_MARKED: Final = re.compile(r"~[0-9a-f]{16}\Z")
_CUT: Final = re.compile(r":[0-9a-f]{64}\Z")
"""How keys end that have a mark, and those that were too long: no other may end so."""
KEY_LIMIT: Final = 500
_NUMBER: Final = re.compile(r"-?[0-9]+")
PROMISE: Final = "promise"
"""The name of the call itself in its run: the same for every attempt, another for every call."""


class Template:
    """A text with places for arguments."""

    __slots__ = ("_pieces", "_plain", "text")

    def __init__(self, text: str, arguments: Collection[str], secrets: Collection[str], what: str) -> None:
        """Raises InvalidFunction where the text names what no call has, or what must stay secret."""
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


class KeyTemplate(Template):
    """A template whose text stands for its values alone: no two different lists of values give the same.

    Most texts tell by themselves what they were made of. Where one does not, a mark of the values is added: to a text
    that could be a number, to whatever is neither text nor a whole number, and where it cannot be told from the text
    where one value ends and the next begins.
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
        """The key, and the one that older versions made of the same values, where that is another."""
        plain = self.render(arguments, promise)
        values = [self._value(place, arguments, promise) for place in self._places]
        if not values or self._tells(plain, values):
            return limited(plain), None
        return limited(f"{plain}{MARK}{digest(values)[:MARK_LENGTH]}"), limited(plain)

    def is_told_by(self, arguments: Mapping[str, Any]) -> bool:
        """Whether these arguments have all that the template names. They may be another action's."""
        return all(path[0] in arguments or path == (PROMISE,) for path, _ in self._places)

    def _tells(self, plain: str, values: list[Any]) -> bool:
        for (path, hashed), value in zip(self._places, values, strict=True):
            kind = type(value)
            if kind is str:
                if not hashed and path != (PROMISE,) and _NUMBER.fullmatch(value):
                    return False
            elif kind is not int:
                return False
        if _MARKED.search(plain) or (len(plain) == KEY_LIMIT and _CUT.search(plain)):
            return False
        return self._is_parted(plain)

    def _is_parted(self, plain: str) -> bool:
        """Whether the text falls into values in one way only: what parts them is first found where it is last found."""
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


def limited(key: str) -> str:
    """A key that is short enough for an index: its beginning, and the hash of all of it."""
    if len(key) <= KEY_LIMIT:
        return key
    return f"{key[: KEY_LIMIT - 65]}:{hashlib.sha256(key.encode()).hexdigest()}"


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
        known = ", ".join(arguments) or "none"
        raise InvalidFunction(f"{what} names {{{name}}}, which is no argument of the action (its arguments: {known})")
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

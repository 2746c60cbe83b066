"""Secret arguments: masked wherever a call is shown, and taken out of the texts of errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.errors import InvalidDefinition
from holdfast.journal.payload import Failure

MASK: Final = "[secret]"
SHORTEST: Final = 4
"""Shorter texts are not looked for in errors: they would be found everywhere."""


class Secrets:
    """Which arguments, or members of arguments, are secret: ``("token", "fields.password")``."""

    __slots__ = ("_paths", "names")

    def __init__(self, names: Sequence[str], arguments: Sequence[str], action: str) -> None:
        self._paths = [tuple(name.split(".")) for name in names]
        for path in self._paths:
            if path[0] not in arguments:
                known = ", ".join(arguments) or "none"
                raise InvalidDefinition(
                    f"action {action}: secret= names {path[0]!r}, which is no argument (its arguments: {known})"
                )
        self.names: Final = frozenset(path[0] for path in self._paths)  # the arguments that are, or hold, a secret

    def __bool__(self) -> bool:
        return bool(self._paths)

    def mask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with every secret replaced; the same where none is there."""
        for path in self._paths:
            arguments = _masked(arguments, path)
        return arguments

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        """A failure without the secrets that its texts may quote."""
        texts = sorted({text for path in self._paths for text in _texts(_dig(arguments, path))}, key=len, reverse=True)
        message, trace = failure.message, failure.trace
        for text in texts:
            message, trace = message.replace(text, MASK), trace.replace(text, MASK)
        return Failure(failure.type, message, trace)


def _masked(value: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return MASK
    if isinstance(value, Mapping) and path[0] in value:
        return {**value, path[0]: _masked(value[path[0]], path[1:])}
    if isinstance(value, list):
        return [_masked(item, path) for item in value]
    return value


def _dig(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    if not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _dig(value[path[0]], path[1:])
    elif isinstance(value, list):
        for item in value:
            yield from _dig(item, path)


def _texts(values: Iterator[Any]) -> Iterator[str]:
    """Every text inside the secrets, as an error might quote it."""
    for value in values:
        if isinstance(value, Mapping):
            yield from _texts(iter(value.values()))
        elif isinstance(value, list):
            yield from _texts(iter(value))
        elif len(text := value if isinstance(value, str) else repr(value)) >= SHORTEST:
            yield text
            yield repr(text)[1:-1]

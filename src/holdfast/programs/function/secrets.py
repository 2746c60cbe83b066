"""Secret arguments: masked in every view of a call, and removed from the texts of errors."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.journal.payload import Failure
from holdfast.journal.quotes import MASK, forms_of, without_forms
from holdfast.journal.secrecy import Place, failure_without
from holdfast.programs.function.secret_paths import Path, follow


class Shape(NamedTuple):
    """A function's parameters: the positional ones, all of them, and those for further arguments of either kind."""

    positional: Sequence[str]
    all: Collection[str]
    rest: str
    keywords: str


class Secrets:
    """Which arguments, or members of arguments, are secret: ``("token", "fields.password")``.

    ``kinds`` are the arguments' annotations. Each path is checked against them: a path to nothing would hide nothing.
    """

    __slots__ = ("_paths", "names")

    def __init__(
        self, names: Sequence[str], arguments: Sequence[str], action: str, kinds: Mapping[str, Any] | None = None
    ) -> None:
        what = f"action {action}: secret="
        self._paths = [follow(name.split("."), arguments, kinds or {}, what) for name in names]
        self.names: Final = frozenset(name for path in self._paths for name in path[0])  # they are, or hold, a secret

    @property
    def written(self) -> list[str]:
        """The secrets by all names under which they may be written."""
        return [".".join(names) for path in self._paths for names in itertools.product(*path)]

    def __bool__(self) -> bool:
        return bool(self._paths)

    def mask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with every secret replaced."""
        for path in self._paths:
            arguments = _masked(arguments, path)
        return arguments

    def places(self, shape: Shape, count: int, given: Collection[str]) -> list[Place]:
        """The places of the secrets in a call with ``count`` positional arguments and those ``given`` by name."""
        ways = [names for path in self._paths for names in itertools.product(*path)]
        return [place for first, *members in ways for place in _of_call(first, members, shape, count, given)]

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        """A failure without the secrets that its texts may quote."""
        return failure_without(failure, self._forms(arguments))

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        """Any other text without the secrets that it may quote."""
        return without_forms(text, self._forms(arguments))

    def _forms(self, arguments: Mapping[str, Any]) -> set[str]:
        return {form for path in self._paths for form in forms_of(_dig(arguments, path))}


def _of_call(
    first: str, members: Sequence[str], shape: Shape, count: int, given: Collection[str]
) -> Iterator[tuple[int | str, ...]]:
    """The places of an argument, or of a member of it, in a call."""
    if first == shape.keywords:
        if members:
            yield (1, *members)
        else:
            yield from ((1, name) for name in given if name not in shape.all)
    elif first == shape.rest:
        for index in range(len(shape.positional), count):
            yield (0, index, *members)
    elif first in given:
        yield (1, first, *members)
    elif first in shape.positional[:count]:
        yield (0, shape.positional.index(first), *members)


def _masked(value: Any, path: Path) -> Any:
    if not path:
        return MASK
    if isinstance(value, Mapping):
        return {**value, **{name: _masked(value[name], path[1:]) for name in path[0] if name in value}}
    if isinstance(value, list):
        return [_masked(item, path) for item in value]
    return None if value is None else MASK  # it has no members: it may be the secret itself


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

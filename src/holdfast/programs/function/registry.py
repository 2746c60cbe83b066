"""The registry of decorated functions, by name.

A name means one function. Two at module level, or two in one scope, are a mistake and refused at once. A function that
is defined again (a notebook cell run twice, a test's local function) replaces the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from holdfast.errors import DuplicateName


class Named(Protocol):
    """A definition that a registry holds."""

    @property
    def name(self) -> str: ...

    @property
    def module(self) -> str: ...

    @property
    def qualname(self) -> str: ...


N = TypeVar("N", bound=Named)


class Registry(Mapping[str, N], Generic[N]):
    """Definitions by name."""

    def __init__(self, kind: str, definitions: Iterable[N] = ()) -> None:
        self._kind = kind
        self._by_name: dict[str, N] = {}
        self.changes = 0  # how often it was changed, for those that keep what they made of it
        for definition in definitions:
            if self._by_name.get(definition.name, definition) is not definition:
                raise self._duplicate(self._by_name[definition.name], definition)
            self._by_name[definition.name] = definition

    def add(self, definition: N) -> None:
        """Add a definition. Raises DuplicateName where another one has its name."""
        earlier = self._by_name.get(definition.name)
        if earlier is not None and not _replaces(earlier, definition):
            raise self._duplicate(earlier, definition)
        self._by_name[definition.name] = definition
        self.changes += 1

    def _duplicate(self, earlier: N, new: N) -> DuplicateName:
        return DuplicateName(
            f"two {self._kind}s are called {new.name!r}: {earlier.module}.{earlier.qualname} and "
            f"{new.module}.{new.qualname}. Runs are found by that name, so give one of them another: "
            f'@{self._kind}(name="…").'
        )

    def __getitem__(self, name: str) -> N:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


def _replaces(earlier: Named, new: Named) -> bool:
    if (earlier.module, earlier.qualname) == (new.module, new.qualname):
        return True
    earlier_scope, new_scope = (f"{d.module}.{d.qualname}".rpartition(".")[0] for d in (earlier, new))
    return earlier_scope != new_scope and ("<locals>" in earlier_scope or "<locals>" in new_scope)

"""Identity: a promise is named by its position in the call tree, so the same code path gives the same names."""

from __future__ import annotations

import hashlib
from typing import Self

import cbor2
import msgspec

ROOT_BYTES = 32


class PromiseId(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """A root hash and the path of child positions below it. A run's own id has an empty path."""

    root: bytes
    path: tuple[int, ...] = ()

    @classmethod
    def of_run(cls, component_digest: str, parent: PromiseId | None, idempotency_key: str) -> PromiseId:
        """The id of a run: the same digest, parent and key always give the same one."""
        above = None if parent is None else [parent.root, list(parent.path)]
        return cls(hashlib.sha256(cbor2.dumps([component_digest, above, idempotency_key], canonical=True)).digest())

    def run(self) -> PromiseId:
        """The id of the run whose journal holds this promise."""
        return PromiseId(self.root)

    def parent(self) -> PromiseId | None:
        """The promise above this one, which learns of its settlement. A run has no parent in its own tree."""
        return PromiseId(self.root, self.path[:-1]) if self.path else None

    def child(self, position: int) -> PromiseId:
        """The promise at the n-th child position below this one."""
        if position < 0:
            raise ValueError(f"a child position is 0 or more, not {position}")
        return PromiseId(self.root, (*self.path, position))

    def __str__(self) -> str:
        return ".".join([self.root.hex(), *map(str, self.path)])

    @classmethod
    def parse(cls, text: str) -> PromiseId:
        """The inverse of ``str``."""
        root, *path = text.split(".")
        try:
            promise = cls(bytes.fromhex(root), tuple(int(part) for part in path))
        except ValueError as error:
            raise ValueError(f"not a promise id: {text!r}") from error
        if len(promise.root) != ROOT_BYTES or any(part < 0 for part in promise.path) or str(promise) != text:
            raise ValueError(f"not a promise id: {text!r}")
        return promise


class JoinSetId:
    """A join set's own name. It wraps a promise id but is not one: it can be neither awaited nor submitted."""

    __slots__ = ("position",)

    def __init__(self, position: PromiseId) -> None:
        self.position = position

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinSetId) and other.position == self.position

    def __hash__(self) -> int:
        return hash(("join set", self.position))

    def __str__(self) -> str:
        return str(self.position)

    def __repr__(self) -> str:
        return f"JoinSetId({self.position})"

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls(PromiseId.parse(text))

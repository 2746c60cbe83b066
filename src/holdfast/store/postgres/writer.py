"""One connection's statements over sets, with the hint and the audit's entries that are sent with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.postgres.sql import SQL

Place = tuple[int, ...]
"""The place of a change in its batch: its index, then its index among the attached changes, and so on. The order of
places is that of making the changes one by one."""

SET_SIZE: Final = 256
"""The most rows of one statement. More are no faster, and the joins between parameters and tables become slow."""


NO_MARKS: Final[Mapping[p.Key, str]] = MappingProxyType({})


class Writer:
    """One connection's statements, and the hint that goes out with the first one that can carry it.

    ``noted`` are the entries of the audit that are attached to the changes made so far, each with its place. ``marks``
    are those of runs that were split, as far as they are known. The store keeps them once they are committed: such a
    run is never whole again.
    """

    def __init__(self, connection: Any, channel: str, instance: str, marks: Mapping[p.Key, str] = NO_MARKS) -> None:
        self.marks = marks
        self._connection = connection
        self._channel = channel
        self._instance = instance
        self.hinting = False
        self.noted: list[tuple[Place, p.Note]] = []

    async def fetch(self, name: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._connection.fetch(SQL[name], *values)
        return found

    async def fetch_columns(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """Run a statement over a set: its rows become one array per column."""
        return await self.fetch(name, *columns(rows, width))

    async def fetch_hinting(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """The same for a statement that can carry the hint. It sends it where it changes anything."""
        hint = self._instance if self.hinting else None
        return await self.fetch(name, *columns(rows, width), self._channel, hint)

    async def fetch_hint(self, name: str, *values: Any) -> list[Any]:
        """A statement that always carries the hint."""
        return await self.fetch(name, *values, self._channel, self._instance)

    async def hint(self) -> None:
        await self.fetch("notify", self._channel, self._instance)

    async def add_blobs(self, given: Sequence[tuple[p.Key, Mapping[bytes, bytes]]], kind: str = "run") -> None:
        """Keep blobs under their digests while the named runs, receipts or tasks use them."""
        uses = sorted({(key.tenant, digest, kind, key.run) for key, blobs in given for digest in blobs})
        if uses:
            data = {(key.tenant, digest): data for key, blobs in given for digest, data in blobs.items()}
            await self.fetch_columns("add_blob", [(*blob, data[blob]) for blob in sorted(data)], width=3)
            await self.fetch_columns("use_blob", uses, width=4)


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    """Rows turned into ``width`` columns, even where there is no row."""
    return list(zip(*rows, strict=True)) or [()] * width

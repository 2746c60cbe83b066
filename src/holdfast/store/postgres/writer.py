"""One connection's statements over sets, and what goes out with the last of them: the hint and the audit's entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.postgres.sql import SQL

Place = tuple[int, ...]
"""Where a change stands in its batch: its index, then its index among what comes also, and so on. Places sort as the
changes would be made one by one."""

SET_SIZE: Final = 256
"""More than this in one statement is no faster, and the joins between what it was given and what it found grow slow."""


class Writer:
    """One connection's statements, and the hint that goes out with the first one that can carry it.

    ``noted`` are the entries of the audit that the changes made so far bring with them, each with its place.
    """

    def __init__(self, connection: Any, channel: str, instance: str) -> None:
        self._connection = connection
        self._channel = channel
        self._instance = instance
        self.hinting = False
        self.noted: list[tuple[Place, p.Note]] = []

    async def fetch(self, name: str, *values: Any) -> list[Any]:
        found: list[Any] = await self._connection.fetch(SQL[name], *values)
        return found

    async def fetch_columns(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """A statement over a set: its rows become one array per column."""
        return await self.fetch(name, *columns(rows, width))

    async def fetch_hinting(self, name: str, rows: Iterable[tuple[Any, ...]], *, width: int) -> list[Any]:
        """The same for a statement that can carry the hint. It does so where it changes anything."""
        hint = self._instance if self.hinting else None
        return await self.fetch(name, *columns(rows, width), self._channel, hint)

    async def fetch_hint(self, name: str, *values: Any) -> list[Any]:
        """A statement that always carries the hint."""
        return await self.fetch(name, *values, self._channel, self._instance)

    async def hint(self) -> None:
        await self.fetch("notify", self._channel, self._instance)

    async def add_blobs(self, given: Sequence[tuple[p.Key, Mapping[bytes, bytes]]], kind: str = "run") -> None:
        """Keep blobs under their digests for as long as those who are named, runs or receipts, use them."""
        uses = sorted({(key.tenant, digest, kind, key.run) for key, blobs in given for digest in blobs})
        if uses:
            data = {(key.tenant, digest): data for key, blobs in given for digest, data in blobs.items()}
            await self.fetch_columns("add_blob", [(*blob, data[blob]) for blob in sorted(data)], width=3)
            await self.fetch_columns("use_blob", uses, width=4)


def columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[Sequence[Any]]:
    """Rows turned into columns, of which there are ``width`` even where there is no row."""
    return list(zip(*rows, strict=True)) or [()] * width

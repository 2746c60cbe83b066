"""Roots of lanes: which content-addressed tree holds a lane's cells as they were at one version of its journal.

The nodes of the tree, and the records of the cells in it, are kept by their SHA-256 with the lane. A lane has a line of
roots, each made from the one before it and from the cells that were written since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from holdfast.store.values import Key


class RootRow(NamedTuple):
    """The root of a lane at one version of its journal: what ``head`` is the hash of there, and how many cells."""

    tenant: str
    lane: str
    version: int
    head: bytes
    root: bytes
    cells: int
    at: int

    @property
    def key(self) -> Key:
        return Key(self.tenant, self.lane)


class PutRoot(msgspec.Struct, frozen=True, gc=False):
    """Keep a root of a lane, and the nodes and records that are new with it. It is part of an ``Operate``.

    ``after`` is the version of the root that it was made from, 0 where there is none. Refused with ``Fenced`` where
    that is not the lane's last one. Marks of deleted cells, and of events that are held no more, are deleted with it,
    where the root has seen them.
    """

    row: RootRow
    after: int
    nodes: Mapping[bytes, bytes]


class Unrooted(NamedTuple):
    """The cells of a lane that were written since a version, and the keys of those that were deleted, all at one
    moment; and where the lane's journal stood then. ``held`` is what was held since for cells, by key and number; None
    where it is held no more."""

    version: int
    head: bytes
    cells: list[tuple[bytes, bytes]]
    deleted: list[bytes]
    held: Sequence[tuple[bytes, int, bytes | None]] = ()


class RootPort(Protocol):
    """The operations about the roots of lanes."""

    async def unrooted(self, lane: Key, since: int) -> Unrooted | None:
        """What was written since that version, read at one moment; None where there is no such lane."""
        ...

    async def roots(self, lane: Key, limit: int, at: int | None = None) -> list[RootRow]:
        """The last roots of a lane, newest first; with ``at`` that of this version only."""
        ...

    async def cell_nodes(self, lane: Key, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those of the nodes and records that are there."""
        ...

    async def cell_node_names(self, lane: Key, limit: int, after: bytes = b"") -> list[bytes]:
        """A page of the names of a lane's nodes and records, in order, beginning after ``after``."""
        ...

    async def sweep(self, lane: Key, last: int, versions: Sequence[int], names: Sequence[bytes]) -> bool:
        """Forget these roots, nodes and records. False, and nothing done, where ``last`` is not the version of the
        lane's last root any more: a new one may use what was garbage."""
        ...

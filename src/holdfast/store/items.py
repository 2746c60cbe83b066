"""Items: what people set up in a tenant, such as users, tokens, templates, schedules and routes.

All of them are kept in one way. An item has a kind, an id and a version, which each change raises by one. A change
names the version that it expects, so of two people who change one item at once, one succeeds and the other looks again.
One that is over says so in its status, and its id keeps its history in the audit. Deleted are only items that nobody
names again, long after they were over: sessions and tokens.

A change of an item is part of an ``Operate``, so it is committed with the audit's note, or not at all. The only
exception is a ``Tally``, which counts what the audit is told later, in one note.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from holdfast.store.values import Cursor


class ItemKey(NamedTuple):
    """An item, by its owner, kind and id. Tenant leads every key."""

    tenant: str
    kind: str
    id: str


class ItemRow(msgspec.Struct, frozen=True, gc=False):
    """An item as it is at one version. ``body`` is what its kind writes; the rest is what lists look for.

    ``due_at`` is when something is to be done about it; ``status`` is a word of its kind.
    """

    tenant: str
    kind: str
    id: str
    version: int
    body: bytes
    status: str = ""
    due_at: int | None = None
    changed_at: int = 0

    @property
    def key(self) -> ItemKey:
        return ItemKey(self.tenant, self.kind, self.id)

    @property
    def cursor(self) -> Cursor:
        """Its place in a list, by tenant and id."""
        return Cursor(0, self.tenant, self.id)


class PutItem(msgspec.Struct, frozen=True, gc=False):
    """Make an item, or give it its next version. Refused with ``Fenced`` where it is not at the version before."""

    item: ItemRow


class ExpectItem(msgspec.Struct, frozen=True, gc=False):
    """Change nothing, and refuse the act with ``Fenced`` where an item is not at this version; 0 where there is none.

    What was judged by an item holds in the commit, then: somebody who is demoted meanwhile has not acted afterwards.
    """

    key: ItemKey
    version: int


class DropItem(msgspec.Struct, frozen=True, gc=False):
    """Delete an item that is over. Refused with ``Fenced`` where it is not at this version."""

    key: ItemKey
    version: int


class Tally(msgspec.Struct, frozen=True, gc=False):
    """Raise an item's version by one, and nothing else: the versions count something. Answered ``Tallied``, or
    ``Unknown`` where there is no such item.

    The item is due then, where it is not due before: so somebody notes the count. After an unknown outcome it may be
    committed again, and counts twice: rather that than not at all.
    """

    key: ItemKey
    due_at: int


ItemChange = PutItem | ExpectItem | DropItem


def item_fits(change: ItemChange, present: int | None) -> bool:
    """Whether an item at this version, or none, is as the change expects it."""
    expected = change.item.version - 1 if isinstance(change, PutItem) else change.version
    return (present or 0) == expected


def item_key(change: ItemChange) -> ItemKey:
    """The item that a change is about."""
    return change.item.key if isinstance(change, PutItem) else change.key


class DueNow(NamedTuple):
    """What is due, and the time of the store by which it is."""

    now: int
    rows: list[ItemRow]


class ItemPort(Protocol):
    """The operations that read items. They are written by ``Operate``."""

    async def item(self, key: ItemKey) -> ItemRow | None:
        """One item."""
        ...

    async def items(
        self,
        kind: str,
        limit: int,
        *,
        tenant: str | None = None,
        id: str | None = None,
        status: str | None = None,
        after: ItemKey | None = None,
    ) -> list[ItemRow]:
        """A page of the items of a kind by ``(tenant, id)``, beginning after ``after``: of one tenant or of all, with
        that id, with that status."""
        ...

    async def due_items(self, kind: str, now: int, limit: int) -> list[ItemRow]:
        """The items of a kind that are due, the longest due first."""
        ...

    async def due_now(self, kind: str, limit: int) -> DueNow:
        """The items of a kind that are due by the store's own clock, the longest due first, and what that clock says.
        Both are of one moment."""
        ...

    async def next_due_item(self, kind: str) -> int | None:
        """When the next item of a kind is due; None where none ever is."""
        ...

"""The usual deliveries of a batch as three statements over all of them, run by the thread that commits (see
``usual_turns``). They come after all other changes of the batch."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.sqlite.usual_turns import FEWEST, Unusual, filled

_NOTED_COLUMNS: Final = 4
_ARRIVED_COLUMNS: Final = 4
_MESSAGE_COLUMNS: Final = 6
_STRANGERS: Final = 10_000


class UsualDeliveries:
    """Messages to runs that get them themselves. ``answers`` are there once they are written; ``strangers`` are the
    runs that did not take theirs: they have ended, were split, or are not there."""

    def __init__(self, deliveries: Collection[p.Deliver]) -> None:
        self.answers: list[p.Answer] = []
        self.strangers: set[p.Key] = set()
        self._left = left = Counter(each.key for each in deliveries)
        self._places: list[tuple[p.Key, int]] = []  # each message by how many of its run come with it or after it
        since: dict[p.Key, int] = {}
        noted: list[Any] = []
        messages: list[Any] = []
        coming = left.copy()
        for each in deliveries:
            key, message = each.key, each.message
            since.setdefault(key, message.at)
            if message.id is not None:
                noted += (*key, message.id, message.at)
            messages += (*key, coming[key], message.kind, message.body, message.at)
            self._places.append((key, coming[key]))
            coming[key] -= 1
        self._noted = len(noted) // _NOTED_COLUMNS
        self._note = filled("note_deliveries", _NOTED_COLUMNS, noted) if noted else None
        arriving = [value for key, count in left.items() for value in (*key, count, since[key])]
        self._arrive = filled("arrive_all", _ARRIVED_COLUMNS, arriving)
        self._add = filled("add_messages", _MESSAGE_COLUMNS, messages)

    def write(self, connection: sqlite3.Connection) -> None:
        """Make all of them, inside a transaction. Raises Unusual where one of them cannot be made: then roll back."""
        if self._note is not None and connection.execute(*self._note).rowcount != self._noted:
            raise Unusual
        found = connection.execute(*self._arrive).fetchall()
        if len(found) != len(self._left):
            self.strangers = self._left.keys() - {p.Key(tenant, run) for tenant, run, _ in found}
            raise Unusual
        connection.execute(*self._add)
        ends = {p.Key(tenant, run): arrived + 1 for tenant, run, arrived in found}
        self.answers = [p.Delivered(ends[key] - left) for key, left in self._places]


class DeliverySorter:
    """Finds the usual deliveries of batches. Runs that did not take one are remembered, and get theirs one by one."""

    def __init__(self) -> None:
        self._strangers: set[p.Key] = set()

    def usual(self, batch: Sequence[p.Change]) -> dict[int, p.Deliver]:
        """The usual deliveries in the batch, by their place in it; none where they are few."""
        found = {
            at: change
            for at, change in enumerate(batch)
            if type(change) is p.Deliver
            and not change.unpauses
            and change.message.kind != p.CANCEL
            and change.key not in self._strangers
        }
        return found if len(found) >= FEWEST else {}

    def remember(self, strangers: Collection[p.Key]) -> None:
        """These runs did not take what was sent to them."""
        if len(self._strangers) + len(strangers) > _STRANGERS:
            self._strangers.clear()
        self._strangers.update(strangers)

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
        self._deliveries = deliveries
        self._arriving = Counter(each.key for each in deliveries)
        self._since = {each.key: each.message.at for each in reversed([*deliveries])}

    def write(self, connection: sqlite3.Connection) -> None:
        """Make all of them, inside a transaction. Raises Unusual where one of them cannot be made: then roll back."""
        noted = [
            (*each.key, message.id, message.at) for each in self._deliveries if (message := each.message).id is not None
        ]
        if noted and connection.execute(*filled("note_deliveries", _NOTED_COLUMNS, noted)).rowcount != len(noted):
            raise Unusual
        arriving = [(*key, count, self._since[key]) for key, count in self._arriving.items()]
        found = connection.execute(*filled("arrive_all", _ARRIVED_COLUMNS, arriving)).fetchall()
        next_positions = {}
        for tenant, run, arrived in found:
            key = p.Key(tenant, run)
            next_positions[key] = arrived + 1 - self._arriving[key]
        self.strangers = self._arriving.keys() - next_positions
        if self.strangers:
            raise Unusual
        rows: list[Sequence[Any]] = []
        for each in self._deliveries:
            position, message = next_positions[each.key], each.message
            next_positions[each.key] += 1
            rows.append((*each.key, position, message.kind, message.body, message.at))
            self.answers.append(p.Delivered(position))
        connection.execute(*filled("add_messages", _MESSAGE_COLUMNS, rows))


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

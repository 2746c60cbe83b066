"""The usual turns of a batch as two statements over all of them.

A statement for each row is run on the event loop's thread: another thread would have to get the interpreter's lock back
after each of them. Two statements are run by the thread that commits, which holds no lock while SQLite works. So the
runs go on meanwhile, on another core.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from holdfast.store import protocol as p
from holdfast.store.judgements import goes_on
from holdfast.store.sqlite.sql import SQL

FEWEST: Final = 8
"""For fewer turns the other thread costs more than it saves: an idle engine takes the short way."""

_GIVEN: Final = "/* given */"  # where the statements have their rows
_ADVANCED_COLUMNS: Final = 11
_SEGMENT_COLUMNS: Final = 8


class Unusual(Exception):
    """A turn among them is not as usual: its run has lost its lease, was paused, or has got a message."""


def is_usual(turn: p.Advance) -> bool:
    """Whether it is the usual turn of a run that has begun: a few more events, and nothing else."""
    return goes_on(turn) and not turn.attached and not turn.blobs and turn.checkpoint is None


class UsualTurns:
    """The usual turns among the changes of a batch."""

    def __init__(self, turns: Collection[p.Advance]) -> None:
        self._count = len(turns)
        self._consumed = [(*turn.key, turn.consumed) for turn in turns if turn.consumed]
        advanced: list[Any] = []
        segments: list[Any] = []
        for turn in turns:
            key, segment, projection = turn.key, turn.segment, turn.projection
            assert segment is not None
            head, at, first = segment.head, segment.at, segment.first
            advanced += (
                *key,
                turn.epoch,
                turn.version,
                turn.generation,
                first + segment.count,
                head,
                turn.consumed,
                at,
                projection.writes,
                projection.governed,
            )
            segments += (*key, turn.generation, first, segment.count, segment.events, head, at)
        self._advance = filled("go_on_all", _ADVANCED_COLUMNS, advanced)
        self._add = filled("add_segments", _SEGMENT_COLUMNS, segments)

    def write(self, connection: sqlite3.Connection) -> None:
        """Make all of them, inside a transaction. Raises Unusual where one of them cannot be made: then roll back."""
        if connection.execute(*self._advance).rowcount != self._count:
            raise Unusual
        connection.execute(*self._add)
        if self._consumed:
            connection.executemany(SQL["drop_messages"], self._consumed)


def went_on(turn: p.Advance) -> p.Answer:
    """The answer to a usual turn that was made."""
    return p.Advanced(turn.consumed, None, False, ())


def usual_turns(batch: Sequence[p.Change]) -> dict[int, p.Advance]:
    """The usual turns in the batch, by their place in it, of runs that nothing else in it touches; none where they are
    few."""
    usual = {at: change for at, change in enumerate(batch) if type(change) is p.Advance and is_usual(change)}
    if FEWEST <= len(usual) < len(batch):
        touched = set(_touched(change for at, change in enumerate(batch) if at not in usual))
        usual = {at: turn for at, turn in usual.items() if turn.key not in touched}
    return usual if len(usual) >= FEWEST else {}


def _touched(others: Iterable[p.Change]) -> Iterator[p.Key]:
    """The runs that get a message from these changes."""
    for change in others:
        for each in (change, *getattr(change, "attached", ())):
            if isinstance(each, p.Deliver | p.FinishWork):
                yield each.key


def filled(name: str, columns: int, values: list[Any]) -> tuple[str, list[Any]]:
    """A statement over rows of so many columns, and their values. It has a power of two of rows, so that few statements
    are prepared: those that fill the list up are NULL."""
    count = len(values) // columns
    size = 1 << (count - 1).bit_length()
    return _statement(name, columns, size), values + [None] * (columns * (size - count))


@cache
def _statement(name: str, columns: int, size: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return SQL[name].replace(_GIVEN, ", ".join([row] * size))

"""The last commits that this handle acknowledged, and the check whether a later server lacks any of them.

A server lacks commits where an asynchronous standby was promoted, or an old backup was put in place. The server's log
is one sequence of commits, and a standby has a prefix of it. So lost commits are the last ones, and a check of the last
few is enough. Only if one of them is missing, the others are checked.

Only changes that can be looked up by key are kept: journal segments, messages, answers to tasks. In normal operation
this costs no query: the check is made when a session is confirmed, see ``doubt``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.store import protocol as p
from holdfast.store.postgres.connection import shown
from holdfast.store.postgres.lineage import Lineage
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns

log = logging.getLogger("holdfast.store")

REMEMBERED: Final = 1000
LAST: Final = 16
"""A few more than sessions: commits on different sessions may be answered in another order than they were made."""

NAMED: Final = 20


class Trace(NamedTuple):
    """The trace of a commit: the statement that looks for it, and its parameters."""

    statement: str
    values: tuple[Any, ...]
    lineage: Lineage | None


class Acknowledged:
    """The last acknowledged commits of one handle."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._traces: deque[Trace] = deque(maxlen=REMEMBERED)

    def note(self, batch: Sequence[p.Change], answers: Sequence[p.Answer], lineage: Lineage | None) -> None:
        """Keep every start of the commit, and the last of its other changes."""
        last = None
        for change, answer in zip(batch, answers, strict=True):
            if type(change) is p.Start:
                if type(answer) is p.Started:
                    self._traces.append(Trace("lacking_segments", _segment(change.key, 0, change.segment), lineage))
            elif type(answer) in _TRACED:
                last = change, answer
        if last is not None and (found := _trace(*last)) is not None:
            self._traces.append(Trace(*found, lineage))

    async def compare(self, session: Any) -> None:
        """Log an error, once, where the session's server lacks acknowledged changes."""
        if not await _lacking(session, tuple(self._traces)[-LAST:]):
            return
        before, count = await _lacking(session, tuple(self._traces)), len(self._traces)
        self._traces.clear()
        names = ", ".join(before[:NAMED]) + (", …" if len(before) > NAMED else "")
        log.critical(
            "%s IS BEHIND: of the last %d changes that this process was told are durable, %d are not there: %s. A "
            "standby that lagged was promoted, or a backup was put in place. Starts and signals among them are lost: "
            "repeat them with the same ids. Steps and actions done since are done again. To prevent it, see "
            "synchronous standbys in docs/operations.md.",
            shown(self._url),
            count,
            len(before),
            names,
        )


_TRACED: Final = (p.Advanced, p.Delivered, p.Tasked)


def _segment(key: p.Key, generation: int, segment: p.Segment) -> tuple[Any, ...]:
    return (*key, generation, segment.first, segment.head)


def _trace(change: p.Change, answer: p.Answer) -> tuple[str, tuple[Any, ...]] | None:
    match change, answer:
        case p.Advance(segment=p.Segment() as segment), p.Advanced():
            return "lacking_segments", _segment(change.key, change.generation, segment)
        case p.Deliver(), p.Delivered(position=position, heir=heir):
            return "lacking_messages", (change.key.tenant, heir or change.key.run, position)
        case p.PutTask(task=task), p.Tasked():
            return "lacking_tasks", (task.tenant, task.id, task.version)
    return None


async def _lacking(session: Any, traces: Sequence[Trace]) -> list[str]:
    """The ids of the changes that are missing.

    A run that is missing as a whole may have been pruned. It counts only where another server has replaced the one that
    committed it.
    """
    given: dict[tuple[str, bool], dict[tuple[Any, ...], None]] = {}
    for trace in traces:
        moved = session.lineage is not None and session.lineage.replaces(trace.lineage)
        given.setdefault((trace.statement, moved), {})[trace.values] = None
    names: set[tuple[str, str]] = set()
    for (statement, moved), values in given.items():
        found = await session.fetch(SQL[statement], *columns(values, len(next(iter(values)))))
        names |= {(tenant, id) for tenant, id, there in found if there or moved}
    return [id for tenant, id in dict.fromkeys(trace.values[:2] for trace in traces) if (tenant, id) in names]

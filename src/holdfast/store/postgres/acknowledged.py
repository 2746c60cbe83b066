"""What this handle has told its callers is durable, and whether a server that it meets later lacks any of it.

That happens where an asynchronous standby was promoted, or an old backup was put in place. The server's log is one line
of commits, and a standby has a beginning of it. So what is missing is missing from the end, and looking at the last few
commits is enough; only when one of them is missing are the others looked for.

Remembered is what leaves a trace that can be looked for by key: journal segments, messages, answers to tasks. Nothing
is asked for it while all is well: the question is put when a session is confirmed, see ``doubt``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from holdfast.store import protocol as p
from holdfast.store.postgres.connection import shown
from holdfast.store.postgres.primary import Lineage
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns

log = logging.getLogger("holdfast.store")

REMEMBERED: Final = 1000
LAST: Final = 16
"""Commits on different sessions may be answered in another order than they were made: a few more than sessions."""

NAMED: Final = 20


class Trace(NamedTuple):
    """What a commit left behind: the statement that looks for it, and what that is given."""

    statement: str
    values: tuple[Any, ...]
    lineage: Lineage | None


class Acknowledged:
    """The last commits that were answered, by one handle."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._traces: deque[Trace] = deque(maxlen=REMEMBERED)

    def note(self, batch: Sequence[p.Change], answers: Sequence[p.Answer], lineage: Lineage | None) -> None:
        """Remember every start, and of all else in the commit the last."""
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
        """Say it loudly where the session's server lacks what was acknowledged. It is said once."""
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
        case p.Deliver(), p.Delivered(position=position):
            return "lacking_messages", (*change.key, position)
        case p.PutTask(task=task), p.Tasked():
            return "lacking_tasks", (task.tenant, task.id, task.version)
    return None


async def _lacking(session: Any, traces: Sequence[Trace]) -> list[str]:
    """The ids of what is not there.

    A run that is gone as a whole may have been pruned. It counts only where another server has taken the place of the
    one that committed it.
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

"""The last commits that this handle acknowledged, and the check whether a later server lacks any of them.

A server lacks commits where an asynchronous standby was promoted, or an old backup was put in place. The server's log
is one sequence of commits, and a standby has a prefix of it. So lost commits are the last ones, and a check of the last
few is enough. Only if one of them is missing, the others are checked.

Only changes that can be looked up by key are kept: journal segments, messages, answers to tasks. In normal operation
this costs no query: the check is made when a session is confirmed, see ``doubt``. One session makes it at a time, so a
loss is reported once: in the log, in a file beside this process, and as items on the server that lacks the changes.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.store import protocol as p
from holdfast.store.losses import Loss, lost_message, lost_start
from holdfast.store.postgres.connection import failures, shown
from holdfast.store.postgres.lineage import Lineage
from holdfast.store.postgres.sql import SQL
from holdfast.store.postgres.writer import columns
from holdfast.store.sql_rows import item_columns
from holdfast.store.state_folder import made_folder

log = logging.getLogger("holdfast.store")

REMEMBERED: Final = 5000
LAST: Final = 16
"""A few more than sessions: commits on different sessions may be answered in another order than they were made."""

OLDEST: Final = 7 * 86400 * 1_000_000
"""What is longer ago is no longer looked for: ids of messages are forgotten after a month."""

NAMED: Final = 50
"""So many are named in one line of the log."""

_SENT: Final = ("signal", p.CANCEL)
"""The kinds of messages that callers send. The others are repeated with the turn that sends them."""


class Trace(NamedTuple):
    """The trace of a commit: the statement that looks for it, its parameters, and what it is to people; None for what
    is repeated by itself."""

    number: int
    at: int
    statement: str
    values: tuple[Any, ...]
    lineage: Lineage | None
    loss: Loss | None


class Acknowledged:
    """The last acknowledged commits of one handle. ``name`` gives the name of the process, as people know it."""

    def __init__(self, url: str, name: Callable[[], str]) -> None:
        self._url = url
        self._name = name
        self._traces: deque[Trace] = deque(maxlen=REMEMBERED)
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()

    def note(self, batch: Sequence[p.Change], answers: Sequence[p.Answer], lineage: Lineage | None) -> None:
        """Keep what callers did, and the last of the turns."""
        last: tuple[str, tuple[Any, ...]] | None = None
        at = time.time_ns() // 1000
        for change, answer in zip(batch, answers, strict=True):
            if type(change) is p.Advance:
                if type(answer) is p.Advanced and change.segment is not None:
                    last = "lacking_segments", _segment(change.key, change.generation, change.segment)
                continue
            for found, loss in _found(change, answer, at):
                self._traces.append(Trace(next(self._numbers), at, *found, lineage, loss))
        if last is not None:
            self._traces.append(Trace(next(self._numbers), at, *last, lineage, None))

    async def compare(self, session: Any) -> None:
        """Report, once, where the session's server lacks acknowledged changes."""
        if not self._traces:
            return
        async with self._turn:
            oldest = time.time_ns() // 1000 - OLDEST
            traces = tuple(trace for trace in self._traces if trace.at > oldest)
            if not await _lacking(session, traces[-LAST:]):
                return
            missing = await _lacking(session, traces)
            now, by = time.time_ns() // 1000, self._name()
            losses = [trace.loss for trace in missing if trace.loss is not None]
            losses = [msgspec.structs.replace(loss, by=by, noticed_at=now) for loss in losses]
            await self._keep(session, losses)
            # No wait from here on: of two sessions, and of callers that go away, one makes the report.
            while self._traces and self._traces[0].number <= traces[-1].number:
                self._traces.popleft()
            self._tell(losses, len(missing) - len(losses), len(traces), _write(losses), missing[0] is traces[0])

    def _tell(self, losses: Sequence[Loss], turns: int, count: int, file: Path | None, goes_back: bool) -> None:
        where = f" They are listed in {file}, and by `holdfast lost`." if losses else ""
        earlier = " Earlier ones, which are not remembered, may be lost, too." if goes_back and count > LAST else ""
        log.critical(
            "%s IS BEHIND: of the last %d changes that this process was told are durable, %d are not there (starts, "
            "messages and answers: %d; turns, which are done again by themselves: %d).%s%s A standby that lagged was "
            "promoted, or a backup was put in place. Repeat the starts and signals with the same ids. Steps and "
            "actions done since are done again. To prevent it, see synchronous standbys in docs/operations.md.",
            shown(self._url),
            count,
            len(losses) + turns,
            len(losses),
            turns,
            where,
            earlier,
        )
        for first in range(0, len(losses), NAMED):
            part = losses[first : first + NAMED]
            log.critical("lost: %s", ", ".join(f"{loss.place} ({loss.tenant})" for loss in part))

    async def _keep(self, session: Any, losses: Sequence[Loss]) -> None:
        """Leave the report on the server. What is there already is the same change, reported by another process."""
        try:
            if losses:
                await session.fetch(SQL["keep_lost"], *columns((item_columns(loss.item()) for loss in losses), 8))
        except failures() as error:
            log.warning("the lost changes are not kept on the server, only in the log and the file: %s", error)


def _found(
    change: p.Change | p.Act, answer: p.Answer, at: int
) -> Iterator[tuple[tuple[str, tuple[Any, ...]], Loss | None]]:
    """What looks for a change, and the loss that it would be."""
    match change, answer:
        case p.Start(), p.Started():
            loss = lost_start(change, at) if change.parent is None else None
            yield ("lacking_segments", _segment(change.key, 0, change.segment)), loss
        case p.Deliver(message=message), p.Delivered() | p.OperatedOn():
            loss = lost_message(change, at) if message.kind in _SENT else None
            if message.id is not None:
                yield ("lacking_deliveries", (*change.key, message.id)), loss
            elif isinstance(answer, p.Delivered):
                yield ("lacking_messages", (change.key.tenant, answer.heir or change.key.run, answer.position)), loss
        case p.PutTask(task=task), p.Tasked() | p.OperatedOn():
            loss = None if task.status == "requested" else Loss(task.tenant, "answer", task.run, task.id, at)
            yield ("lacking_tasks", (task.tenant, task.id, task.version)), loss
        case p.Operate(changes=acts), p.OperatedOn():
            for act in acts:
                yield from _found(act, p.Started(0) if isinstance(act, p.Start) else answer, at)


def _segment(key: p.Key, generation: int, segment: p.Segment) -> tuple[Any, ...]:
    return (*key, generation, segment.first, segment.head)


async def _lacking(session: Any, traces: Sequence[Trace]) -> list[Trace]:
    """Those whose changes are missing.

    A run that is missing as a whole may have been pruned. It counts only where another server has replaced the one that
    committed it.
    """
    given: dict[str, list[Trace]] = {}
    for trace in traces:
        given.setdefault(trace.statement, []).append(trace)
    missing: list[Trace] = []
    for statement, asked in given.items():
        rows = await session.fetch(SQL[statement], *columns((trace.values for trace in asked), len(asked[0].values)))
        for ordinal, there in rows:
            trace = asked[ordinal - 1]
            moved = session.lineage is not None and session.lineage.replaces(trace.lineage)
            if there or moved:
                missing.append(trace)
    return sorted(missing, key=lambda trace: trace.number)


def _record(loss: Loss) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(loss)
    return {"lost": loss.place, **fields, "id": loss.given_id, "machine": loss.machine}


def _write(losses: Sequence[Loss]) -> Path | None:
    """Keep the losses in a file beside this process."""
    try:
        folder = made_folder()
        if folder is None or not losses:
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(losses[0].noticed_at / 1e6))
        file = folder / f"lost-{stamp}-{os.getpid()}-{time.monotonic_ns() % 10**6:06}.jsonl"
        file.touch(0o600)
        file.write_bytes(b"\n".join(msgspec.json.encode(_record(loss)) for loss in losses) + b"\n")
    except OSError as error:
        log.warning("the lost changes are not kept in a file: %s", error)
        return None
    return file

"""Compares the log that steps write with the journals: nothing is lost, and no recorded step is done again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from holdfast import Holdfast
from holdfast.client.views.times import microseconds
from holdfast.views import RunInfo


class Line(NamedTuple):
    """One line of the steps' log."""

    word: str
    key: str
    attempt: int
    at: int


def read_log(path: Path) -> list[Line]:
    """Every line so far; none where no step has begun yet."""
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return [Line(word, key, int(attempt), int(at)) for word, key, attempt, at in lines]


def interrupted(lines: list[Line]) -> int:
    """How many attempts began and never ended: the process was killed during a step."""
    return sum(line.word == "begin" for line in lines) - sum(line.word == "end" for line in lines)


def begun_more_than_once(lines: list[Line]) -> list[str]:
    """The steps that were begun twice or more."""
    return [key for key, count in Counter(line.key for line in lines if line.word == "begin").items() if count > 1]


async def rows_of(app: Holdfast) -> list[RunInfo]:
    return [run async for run in app.list()]


async def results_of(app: Holdfast, rows: list[RunInfo]) -> dict[str, object]:
    """The results of the runs that no other run started."""
    return {run.id: await app.run(run.id).result(60) for run in rows if run.parent is None}


async def completions(app: Holdfast, rows: list[RunInfo]) -> dict[str, int]:
    """When each promise of those runs was recorded as completed, by its key."""
    recorded: dict[str, int] = {}
    for run in rows:
        async for entry in app.run(run.id).journal():
            if entry.event == "InvokeCompleted":
                assert "ok" in entry.fields["result"], entry.text
                recorded[entry.fields["promise_id"]] = microseconds(entry.time)
    return recorded


def done_again(lines: list[Line], recorded: dict[str, int]) -> list[str]:
    """The steps that began after their recorded completion: there must be none."""
    return [
        f"{line.key} began {line.at - recorded[line.key]} µs after it was recorded as completed"
        for line in lines
        if line.word == "begin" and line.key in recorded and line.at > recorded[line.key]
    ]


async def check_steps(app: Holdfast, log: Path) -> list[Line]:
    """Every logged step is recorded, and none began after it was recorded."""
    lines = read_log(log)
    recorded = await completions(app, await rows_of(app))
    assert done_again(lines, recorded) == []
    ended = {line.key for line in lines if line.word == "end"}
    assert {line.key for line in lines} <= recorded.keys()
    assert ended <= recorded.keys()
    return lines


async def _forget_dead_workers(app: Holdfast) -> None:
    """Wait until no killed worker is registered any more: a rescue removes it a second after its last heartbeat."""
    deadline = time.monotonic() + 60
    while await app.store.workers() and time.monotonic() < deadline:
        await app.store.rescue(app.clock.now())
        await asyncio.sleep(0.1)


async def check_store(app: Holdfast) -> None:
    """Every journal keeps every law, and no lease, message, work or worker is left."""
    rows = await rows_of(app)
    for run in rows:
        verdict = await app.run(run.id, tenant=run.tenant).verify()
        assert verdict.good, f"{run.id} of {run.tenant}: {verdict.problem}"
    assert [run.id for run in rows if run.worker is not None] == []
    facts = await app.store.facts()
    assert (facts.inbox, facts.work) == (0, 0)
    await _forget_dead_workers(app)
    assert await app.store.workers() == []

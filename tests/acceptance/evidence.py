"""What the steps' own log and the journals say together: nothing lost, nothing done again once it was recorded."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from holdfast import Holdfast
from holdfast.journal import events as e
from holdfast.journal.payload import Ok
from holdfast.programs.function.values import decode
from holdfast.store.protocol import Run


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
    """How many attempts began and never ended: kills that landed inside a step."""
    return sum(line.word == "begin" for line in lines) - sum(line.word == "end" for line in lines)


def begun_more_than_once(lines: list[Line]) -> list[str]:
    """The steps that were begun twice or more."""
    return [key for key, count in Counter(line.key for line in lines if line.word == "begin").items() if count > 1]


async def rows_of(app: Holdfast) -> list[Run]:
    return [run async for run in app.list()]


async def results_of(app: Holdfast, rows: list[Run]) -> dict[str, object]:
    """The results of the runs that no other run started."""
    return {run.key.run: await app.run(run.key.run).result(5) for run in rows if run.parent is None}


async def completions(app: Holdfast, rows: list[Run]) -> dict[str, int]:
    """When each promise of those runs was recorded as completed, by its key."""
    recorded: dict[str, int] = {}
    for run in rows:
        async for entry in app.run(run.key.run).journal():
            if isinstance(entry.event, e.InvokeCompleted):
                assert isinstance(entry.event.result, Ok), decode_failure(entry.event)
                recorded[str(entry.event.promise_id)] = entry.timestamp
    return recorded


def decode_failure(event: e.InvokeCompleted) -> str:
    return str(decode(event.result.value) if isinstance(event.result, Ok) else event.result.failure)


def done_again(lines: list[Line], recorded: dict[str, int]) -> list[str]:
    """Every begin that is later than the recorded completion of its step: there must be none."""
    return [
        f"{line.key} began {line.at - recorded[line.key]} µs after it was recorded as completed"
        for line in lines
        if line.word == "begin" and line.key in recorded and line.at > recorded[line.key]
    ]


async def check_steps(app: Holdfast, log: Path) -> list[Line]:
    """Every logged step is recorded, none began after that, and each attempt that was recorded had ended."""
    lines = read_log(log)
    recorded = await completions(app, await rows_of(app))
    assert done_again(lines, recorded) == []
    ended = {line.key for line in lines if line.word == "end"}
    assert {line.key for line in lines} <= recorded.keys()
    assert ended <= recorded.keys()
    return lines


async def _dead_are_forgotten(app: Holdfast) -> None:
    """A worker that was killed last is still registered until someone looks, a second after its last heartbeat."""
    deadline = time.monotonic() + 20
    while await app.store.workers() and time.monotonic() < deadline:
        await app.store.rescue(app.clock.now())
        await asyncio.sleep(0.1)


async def check_store(app: Holdfast) -> None:
    """Every journal keeps every law, and nothing is left over: no lease, no message, no work, no worker."""
    rows = await rows_of(app)
    for run in rows:
        verdict = await app.run(run.key.run, tenant=run.key.tenant).verify()
        assert verdict.good, f"{run.key}: {verdict.problem}"
    assert [run.key for run in rows if run.owner is not None] == []
    facts = await app.store.facts()
    assert (facts.inbox, facts.work) == (0, 0)
    await _dead_are_forgotten(app)
    assert await app.store.workers() == []

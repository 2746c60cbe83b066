"""Machines whose effects report how far they are, in every way that there is; and one that does not listen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast import Cell, Err, Ok, Progress, RetryableError, RetryPolicy, Settled, action, machine, report, step
from holdfast.programs.machine.schemas import schema
from holdfast.worker.steps.performance import step_info

DELAY = 0.2


async def _crawl(name: str, pages: list[Any]) -> str:
    for page in pages:
        if page == "sleep":
            await asyncio.sleep(DELAY)
        elif page == "fail" and step_info().attempt == 1:
            raise RetryableError("not yet")
        elif page != "fail":
            report([name, page])
    return f"{name} crawled"


@step(name="crawl.here", retry=RetryPolicy(max_attempts=2, initial=5.0))
async def here(name: str, pages: list[Any]) -> str:
    return await _crawl(name, pages)


@step(name="crawl.queued", queue="crawl", retry=RetryPolicy(max_attempts=2, initial=5.0))
async def queued(name: str, pages: list[Any]) -> str:
    return await _crawl(name, pages)


@step(name="crawl.threaded")
def threaded(name: str, pages: list[Any]) -> str:
    for page in pages:
        report([name, page])
    return f"{name} crawled"


@action(name="crawl.acted", connector="web", operation="page.get", target="{name}")
async def acted(name: str, pages: list[Any]) -> str:
    return await _crawl(name, pages)


@step(name="crawl.flood")
def flood(name: str, count: int) -> int:
    for number in range(count):
        report(number)
    return count


EFFECTS = {"here": here, "queued": queued, "threaded": threaded, "acted": acted}


@dataclass
@schema("crawl/Asked@1")
class Asked:
    name: str
    how: str = "here"
    pages: list[Any] = field(default_factory=list)


@dataclass
@schema("crawl/Log@1")
class Log:
    lines: list[Any] = field(default_factory=list)


def _handled(state: Log | None, event: Any, cell: Cell) -> Log | None:
    log = state or Log()
    match event:
        case Asked(how="forget"):
            return None
        case Asked(how="flood", pages=[count]):
            cell.do(flood, cell.key, count)
        case Asked(how="raise"):
            raise ValueError("it is told to")
        case Asked(how=how, pages=pages):
            cell.do(EFFECTS[how], cell.key, pages)
        case Progress(details=[_, "bad"]):
            raise ValueError("a report that cannot be handled")
        case Progress(details=details, sequence=sequence, attempt=attempt):
            return replace(log, lines=[*log.lines, [sequence, attempt, details]])
        case Settled(outcome=Ok(value), sequence=sequence):
            return replace(log, lines=[*log.lines, [sequence, value]])
        case Settled(outcome=Err(failure), sequence=sequence):
            return replace(log, lines=[*log.lines, [sequence, failure.type.rpartition(":")[2]]])
    return log


@machine(key="name", effects=[*EFFECTS.values(), flood], name="crawl.site", lanes=2)
def site(state: Log | None, event: Asked | Progress | Settled, cell: Cell) -> Log | None:
    return _handled(state, event, cell)


@machine(key="name", effects=[*EFFECTS.values(), flood], name="crawl.deaf", lanes=1)
def deaf(state: Log | None, event: Asked | Settled, cell: Cell) -> Log | None:
    return _handled(state, event, cell)

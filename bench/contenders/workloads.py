"""The workloads, written once: every contender runs exactly these, through the few methods of ``Contender``.

Only the standard library is imported here, because each contender runs in its own virtual environment. A contender
is a script: ``python with_X.py WORKLOAD PARAMETERS`` runs one workload and prints its figures as one line of JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

AT_ONCE = 200
"""The number of concurrent calls when many runs are started or woken. More tasks would be measured themselves."""

STEP_SECONDS = 0.02


class Contender(Protocol):
    """What the workloads need from an engine. Workflows are ``steps``, ``slow``, ``fan`` and ``wait``."""

    async def call(self, workflow: str, id: str, count: int) -> None:
        """Start a run and wait for its result, in the fastest way that the engine offers."""

    async def start(self, workflow: str, id: str, count: int) -> None:
        """Start a run; it is durable when this returns."""

    async def result(self, id: str) -> None:
        """Wait for the end of a run that was started by this process or an earlier one."""

    async def wake(self, id: str) -> None:
        """Send the signal for which a run of ``wait`` waits."""

    async def event(self, key: str, number: int) -> None:
        """Send an event to a key; it is durable when this returns. Only for W8."""

    async def handled(self, key: str) -> None:
        """Wait until all events that were sent to a key are handled."""

    def others(self) -> Iterable[int]:
        """The process ids of services and servers, whose memory counts, too."""


Opened = Callable[[dict[str, Any]], AbstractAsyncContextManager[Any]]
Figures = dict[str, float]
Alone = Callable[[dict[str, Any]], Coroutine[Any, Any, Figures]]
"""A workload of one contender only."""


class Log:
    """A file with one line for each event, which survives the process. Each line is written in one piece."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._read = 0

    def write(self, what: str, run: str = "", step: int = 0) -> None:
        os.write(self._file, f"{what} {run} {step}\n".encode())

    def fresh_lines(self) -> list[str]:
        """The complete lines that were written since the last call."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode().splitlines()


async def slow_step(run: str, number: int) -> int:
    """The step of the recovery workload: it logs a line when it begins and when it has ended."""
    while not _gate_is_open():  # noqa: ASYNC110  # another process opens it
        await asyncio.sleep(0.1)
    log = _log()
    log.write("begun", run, number)
    await asyncio.sleep(STEP_SECONDS)
    log.write("ended", run, number)
    return number


_OPEN: set[str] = set()


def _gate_is_open() -> bool:
    """Steps begin when all runs are started: a kill before that would leave runs that no engine can recover."""
    path = os.environ["BENCH_LOG"] + ".gate"
    if path not in _OPEN and Path(path).exists():
        _OPEN.add(path)
    return path in _OPEN


def _open_gate(log: str) -> None:
    Path(log + ".gate").touch()


def note_waiting() -> None:
    """The body of ``wait`` calls this when it begins to wait."""
    _log().write("waiting")


@cache
def _log() -> Log:
    return Log(os.environ["BENCH_LOG"])


# -- the workloads -------------------------------------------------------------------------------------------------


async def throughput(contender: Contender, runs: int, steps: int, name: str = "w1", **_: Any) -> Figures:
    """W1: many runs of sequential steps, all started at once."""
    await _warm_up(contender, name)
    begun = time.perf_counter()
    await asyncio.gather(*(contender.call("steps", f"{name}-{number}", steps) for number in range(runs)))
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "steps_per_second": runs * steps / seconds}


async def latency(contender: Contender, runs: int, **_: Any) -> Figures:
    """W2: runs of one step, one after the other."""
    await _warm_up(contender, "w2")
    taken = []
    for number in range(runs):
        begun = time.perf_counter()
        await contender.call("steps", f"w2-{number}", 1)
        taken.append((time.perf_counter() - begun) * 1000)
    taken.sort()
    return {"p50_ms": taken[len(taken) // 2], "p99_ms": taken[min(len(taken) - 1, round(len(taken) * 0.99))]}


async def fan_out(contender: Contender, steps: int, **_: Any) -> Figures:
    """W3: one run that gathers many steps."""
    await _warm_up(contender, "w3")
    begun = time.perf_counter()
    await contender.call("fan", "w3", steps)
    return {"seconds": time.perf_counter() - begun}


async def keyed_events(contender: Contender, keys: int, events: int, **_: Any) -> Figures:
    """W8: events for many keys, those of a key one after the other; the state of each key counts them."""
    names = [f"w8-{number}" for number in range(keys)]

    async def send(numbered: tuple[int, str]) -> None:
        number, key = numbered
        await contender.event(key, number)

    await _at_once([*enumerate(names)], send)  # every key exists, and every lane is warm
    await _at_once(names, contender.handled)
    begun = time.perf_counter()
    await _at_once([(number, names[number % keys]) for number in range(events)], send)
    await _at_once(names, contender.handled)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "events_per_second": events / seconds}


async def waiting(contender: Contender, runs: int, log: str, **_: Any) -> Figures:
    """W4: many runs that wait for a signal. A run counts as started when it is durable and waits.

    A first round of the same size comes before, because a process keeps heap memory that it no longer uses.
    """
    await _warm_up(contender, "w4")
    lines = Log(log)
    early = [f"w4-early-{number}" for number in range(runs)]
    await _start_waiting(contender, lines, early)
    await _wake(contender, early)
    ids = [f"w4-{number}" for number in range(runs)]
    await _settled()
    lines.fresh_lines()
    own, others = _resident(os.getpid()), sum(map(_resident, contender.others()))
    begun = time.perf_counter()
    await _start_waiting(contender, lines, ids)
    started = time.perf_counter() - begun
    await _settled()
    own_after, others_after = _resident(os.getpid()), sum(map(_resident, contender.others()))
    begun = time.perf_counter()
    await _wake(contender, ids)
    return {
        "start_seconds": started,
        "bytes_per_run": (own_after - own + others_after - others) / runs,
        "own_bytes_per_run": (own_after - own) / runs,
        "wake_seconds": time.perf_counter() - begun,
    }


async def growth(contender: Contender, steps: int, **_: Any) -> Figures:
    """W6: one long run."""
    await _warm_up(contender, "w6")
    begun = time.perf_counter()
    await contender.call("steps", f"w6-{steps}", steps)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "microseconds_per_step": seconds / steps * 1e6}


async def fill(contender: Contender, runs: int, **_: Any) -> Figures:
    """Make many finished runs."""
    begun = time.perf_counter()
    await _at_once([f"old-{number}" for number in range(runs)], lambda old: contender.call("steps", old, 0), 1000)
    return {"seconds": time.perf_counter() - begun}


async def recovery_begin(contender: Contender, runs: int, steps: int, log: str, **_: Any) -> Figures:
    """W5, until the process is killed."""
    await _at_once([f"w5-{number}" for number in range(runs)], lambda run: contender.start("slow", run, steps))
    _open_gate(log)
    await asyncio.Event().wait()
    return {}


async def recovery_finish(contender: Contender, runs: int, steps: int, log: str, **_: Any) -> Figures:
    """W5, after the restart: starts nothing, and waits until all runs have ended."""
    lines = Log(log)
    unfinished = {f"w5-{number}" for number in range(runs)}
    while unfinished:
        for line in lines.fresh_lines():
            what, run, step = line.split(" ")
            if what == "ended" and int(step) == steps - 1:
                unfinished.discard(run)
        await asyncio.sleep(0.01)
    await _at_once([f"w5-{number}" for number in range(runs)], contender.result)
    return {}


WORKLOADS: dict[str, Callable[..., Awaitable[Figures]]] = {
    "throughput": throughput,
    "latency": latency,
    "fan_out": fan_out,
    "keyed_events": keyed_events,
    "waiting": waiting,
    "growth": growth,
    "fill": fill,
    "recovery_begin": recovery_begin,
    "recovery_finish": recovery_finish,
}


def main(opened: Opened, more: dict[str, Alone] | None = None) -> None:
    """Run the workload that the command line names and print its figures."""
    name, parameters = sys.argv[1], json.loads(sys.argv[2])
    if "log" in parameters:
        os.environ["BENCH_LOG"] = parameters["log"]
    if more and name in more:
        print(json.dumps(asyncio.run(more[name](parameters))), flush=True)
    else:
        asyncio.run(_run(opened, name, parameters))


async def _run(opened: Opened, name: str, parameters: dict[str, Any]) -> None:
    async with opened(parameters) as contender:
        figures = await WORKLOADS[name](contender, **parameters)
        # Printed before the engine stops: how long that takes is not measured.
        print(json.dumps(figures), flush=True)


# -- parts ---------------------------------------------------------------------------------------------------------


async def _warm_up(contender: Contender, name: str) -> None:
    """Open connections, do late imports, fill caches of statements."""
    await asyncio.gather(*(contender.call("steps", f"{name}-warm-{number}", 2) for number in range(20)))


async def _start_waiting(contender: Contender, lines: Log, ids: list[str]) -> None:
    await _at_once(ids, lambda run: contender.start("wait", run, 0))
    waiting = 0
    while True:
        waiting += sum(line.startswith("waiting") for line in lines.fresh_lines())
        if waiting >= len(ids):
            return
        await asyncio.sleep(0.005)


async def _wake(contender: Contender, ids: list[str]) -> None:
    async def finish(id: str) -> None:
        await contender.wake(id)
        await contender.result(id)

    await _at_once(ids, finish)


async def _at_once(items: list[T], act: Callable[[T], Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Call ``act`` with each item, at most ``at_once`` at a time."""
    remaining = iter(items)

    async def work() -> None:
        for item in remaining:
            await act(item)

    await asyncio.gather(*(work() for _ in range(min(at_once, len(items)))))


async def _settled() -> None:
    """Wait until background work has ended, and collect garbage."""
    await asyncio.sleep(0.5)
    gc.collect()


def _resident(pid: int) -> int:
    """The resident memory of a process, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """The ids of a process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]

"""Worker processes that are killed, stopped and started again, and functions that wait for a condition."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast import Holdfast, RunHandle
from holdfast.store.protocol import Status
from tests.fork_server import fork_server

SECONDS = 120.0
ROOT = Path(__file__).parents[2]


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = SECONDS) -> None:
    """Wait for a condition that other processes bring about, and fail after a deadline."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        await asyncio.sleep(0.02)


async def until_status(run: RunHandle[Any], status: Status, seconds: float = SECONDS) -> None:
    """Wait until the run has this status; a failure explains its present state."""

    async def reached() -> bool:
        return await run.status() == status

    try:
        await eventually(reached, status, seconds)
    except AssertionError:
        raise AssertionError(f"run {run.id} is not {status}: {await run.explain()}") from None


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """Like ``eventually``, outside of an event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


class WorkerProcess:
    """One process. Its output goes to a file, so that it never waits for a reader."""

    def __init__(self, arguments: list[str], output: Path, environment: dict[str, str]) -> None:
        self._output = output
        with output.open("wb") as file:
            self._process = fork_server().start(arguments, ROOT, environment, output=file)

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    @property
    def ready(self) -> bool:
        return " is ready" in self.output

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, at any point of its work."""
        self._process.kill()
        self._process.wait(SECONDS)

    def terminate(self) -> None:
        """SIGTERM: it may finish its steps."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Wait for its end, and return the exit code."""
        return self._process.wait(SECONDS)


class WorkerGroup:
    """The worker processes of one app on one store. Leaving the ``with`` kills those that still run."""

    def __init__(self, app: Path, url: str, folder: Path, *options: str, **environment: str) -> None:
        self._arguments = ["worker", str(app), "--store", url, *options]
        self._folder = folder
        self._environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self._started = 0
        self.kills = 0
        self.members: list[WorkerProcess] = []

    def start(self) -> WorkerProcess:
        self._started += 1
        member = WorkerProcess(self._arguments, self._folder / f"worker-{self._started}.txt", self._environment)
        self.members.append(member)
        return member

    def kill(self, member: WorkerProcess) -> None:
        member.kill()
        self.members.remove(member)
        self.kills += 1

    def stop(self) -> None:
        """Stop all of them with SIGTERM, and check that they exit with code 0."""
        for member in self.members:
            until(lambda member=member: member.ready or not member.alive, "a worker to be ready")  # type: ignore[misc]
            member.terminate()
        for member in self.members:
            assert member.ended() == 0, member.output
        self.members.clear()

    def __enter__(self) -> WorkerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.alive:
                member.kill()


async def storm(
    group: WorkerGroup,
    size: int,
    kills: int,
    seed: int,
    *,
    seconds: tuple[float, float],
    feed: Callable[[int], Awaitable[None]] | None = None,
) -> None:
    """Keep ``size`` workers alive, and kill one of them at a random moment, ``kills`` times.

    ``feed`` is called before each kill with its number, so that there is work under way when it comes.
    """
    chance = random.Random(seed)
    for _ in range(size):
        group.start()
    while group.kills < kills:
        victim = chance.choice(group.members)
        if chance.random() < 0.9:  # the others are killed while they are still starting

            async def ready(member: WorkerProcess = victim) -> bool:
                assert member.alive, member.output
                return member.ready

            await eventually(ready, "a worker to be ready")
        if feed is not None:
            await feed(group.kills)
        await asyncio.sleep(chance.uniform(*seconds))
        group.kill(victim)
        group.start()


async def start_all(app: Holdfast, workflow: Any, count: int, *args: Any, first: int = 0) -> None:
    """Start ``count`` runs, called r-0, r-1, …, each with its number as the first argument."""
    numbers = range(first, first + count)
    await asyncio.gather(*(app.start(workflow, number, *args, id=f"r-{number}") for number in numbers))


async def until_completed(app: Holdfast, count: int, seconds: float = SECONDS) -> None:
    """Wait until all runs and their children have completed, and there are at least ``count``."""

    async def all_done() -> bool:
        runs = (await app.store.facts()).runs
        return sum(runs.values()) == runs.get("completed", 0) >= count

    try:
        await eventually(all_done, "", seconds)
    except AssertionError:
        unfinished = [run async for run in app.list() if run.status != "completed"]
        reasons = [f"{run.id}: {await app.run(run.id).explain()}" for run in unfinished[:5]]
        message = f"{len(unfinished)} of {count} runs have not completed:\n" + "\n".join(reasons)
        raise AssertionError(message) from None

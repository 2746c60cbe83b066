"""Worker processes that are killed, stopped and started again, and conditions that are waited for until a deadline."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast import Holdfast, RunHandle
from holdfast.store.protocol import Status

SECONDS = 60.0
ROOT = Path(__file__).parents[2]


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{path}"


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = SECONDS) -> None:
    """Look again and again at what other processes do, and fail when it does not come about."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        await asyncio.sleep(0.02)


async def until_status(run: RunHandle[Any], status: Status, seconds: float = SECONDS) -> None:
    """Wait until the run is what it shall be, and say what it is instead where that does not happen."""

    async def reached() -> bool:
        return await run.status() == status

    try:
        await eventually(reached, status, seconds)
    except AssertionError:
        raise AssertionError(f"run {run.id} is not {status}: {await run.explain()}") from None


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
    """The same, outside of an event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.02)


class WorkerProcess:
    """One process. What it says goes to a file, so that it never waits for a reader."""

    def __init__(self, command: list[str], words: Path, environment: dict[str, str]) -> None:
        self._words = words
        with words.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    @property
    def words(self) -> str:
        return self._words.read_text(encoding="utf-8", errors="replace")

    @property
    def ready(self) -> bool:
        return " is ready" in self.words

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, whatever it is doing."""
        self._process.kill()
        self._process.wait(SECONDS)

    def terminate(self) -> None:
        """SIGTERM: it may finish what it does."""
        self._process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Its exit code, when it has one."""
        return self._process.wait(SECONDS)


class Crew:
    """The worker processes of one app on one store. Leaving the ``with`` kills whatever is left."""

    def __init__(self, app: Path, url: str, folder: Path, *options: str, **environment: str) -> None:
        self._command = [sys.executable, "-m", "holdfast.cli.main", "worker", str(app), "--store", url, *options]
        self._folder = folder
        self._environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment}
        self._hired = 0
        self.kills = 0
        self.members: list[WorkerProcess] = []

    def hire(self) -> WorkerProcess:
        self._hired += 1
        member = WorkerProcess(self._command, self._folder / f"worker-{self._hired}.txt", self._environment)
        self.members.append(member)
        return member

    def kill(self, member: WorkerProcess) -> None:
        member.kill()
        self.members.remove(member)
        self.kills += 1

    def retire(self) -> None:
        """Stop all of them in good order, and see that they ended well."""
        for member in self.members:
            until(lambda member=member: member.ready or not member.alive, "a worker to be ready")  # type: ignore[misc]
            member.terminate()
        for member in self.members:
            assert member.ended() == 0, member.words
        self.members.clear()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.alive:
                member.kill()


async def storm(crew: Crew, size: int, kills: int, seed: int, *, seconds: tuple[float, float]) -> None:
    """Keep so many workers alive and kill one of them at a random moment, again and again; then leave them in peace."""
    chance = random.Random(seed)
    for _ in range(size):
        crew.hire()
    while crew.kills < kills:
        victim = chance.choice(crew.members)
        if chance.random() < 0.9:  # the others die while they are still starting

            async def ready(member: WorkerProcess = victim) -> bool:
                assert member.alive, member.words
                return member.ready

            await eventually(ready, "a worker to be ready")
        await asyncio.sleep(chance.uniform(*seconds))
        crew.kill(victim)
        crew.hire()


@contextmanager
def chosen_seed() -> Iterator[int]:
    """A fresh seed, told where the test fails; ``HOLDFAST_TEST_SEED`` repeats one."""
    seed = int(os.environ.get("HOLDFAST_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"seed {seed}: HOLDFAST_TEST_SEED={seed} repeats it")
    yield seed


async def start_all(app: Holdfast, workflow: Any, count: int, *args: Any) -> None:
    """Start so many runs, called r-0, r-1, …, each with its number as the first argument."""
    await asyncio.gather(*(app.start(workflow, number, *args, id=f"r-{number}") for number in range(count)))


async def until_completed(app: Holdfast, count: int, seconds: float = SECONDS) -> None:
    """Wait until all runs have completed, their children among them, and they are so many or more."""

    async def all_done() -> bool:
        runs = (await app.store.facts()).runs
        return sum(runs.values()) == runs.get("completed", 0) >= count

    try:
        await eventually(all_done, "", seconds)
    except AssertionError:
        left = [run async for run in app.list() if run.status != "completed"]
        told = [f"{run.key.run}: {await app.run(run.key.run).explain()}" for run in left[:5]]
        raise AssertionError(f"{len(left)} of {count} runs have not completed:\n" + "\n".join(told)) from None

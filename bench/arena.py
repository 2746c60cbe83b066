"""The arena: it gives a contender a fresh store, runs one workload in a process of its own, and takes its figures.

Nothing of one measurement is left for the next: store, server and processes are new each time, unless a store is named.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import peers
from peers import Contender

from holdfast.testing.postgres import PostgresServer

Figures = dict[str, float]

LONGEST_SECONDS = 480
RAW = Path(__file__).parent / "raw.py"


class CouldNotRun(Exception):
    """A contender did not come through a workload."""


class Place(NamedTuple):
    """Where one measurement happens."""

    folder: Path
    parameters: dict[str, Any]


class Arena:
    """Runs workloads on one PostgreSQL server and in one folder."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres

    @contextmanager
    def place(self, contender: Contender) -> Iterator[Place]:
        """A fresh store, and a folder for its files."""
        folder = Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        log = {"log": str(folder / "log")}
        try:
            match contender.store:
                case "sqlite":
                    yield Place(folder, {**log, "url": f"sqlite:///{folder}/store.db"})
                case "postgres":
                    url = self._postgres.url()
                    if contender is peers.ABSURD:
                        peers.prepare_absurd(url)
                    yield Place(folder, {**log, "url": url})
                    name = urlsplit(url).path.lstrip("/")
                    self._postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
                case _:
                    with peers.restate_server(folder) as server:
                        yield Place(folder, {**log, **server})
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, contender: Contender, workload: str, **sizes: Any) -> Figures:
        """One workload on a fresh store. Raises CouldNotRun."""
        with self.place(contender) as place:
            return measure(contender, workload, {**place.parameters, **sizes})

    def raw(self, contender: Contender, **sizes: Any) -> Figures:
        """The raw limit on the store that a contender uses."""
        with self.place(contender) as place:
            return _figures([contender.python, str(RAW), "raw", json.dumps({**place.parameters, **sizes})], "raw")

    def recover(self, contender: Contender, runs: int, steps: int) -> Figures:
        """W5: kill it when half of the steps are done, start it again, and wait until all runs have ended."""
        with self.place(contender) as place:
            parameters = {**place.parameters, "runs": runs, "steps": steps}
            log = Path(parameters["log"])
            _kill_in_the_middle(contender, parameters, log, runs * steps // 2)
            recorded = _recorded(contender, parameters)
            before = log.read_text().splitlines()
            begun = time.perf_counter()
            measure(contender, "recovery_finish", parameters)
            seconds = time.perf_counter() - begun
            return {"seconds": seconds, **_twice(before, log.read_text().splitlines(), recorded)}


def measure(contender: Contender, workload: str, parameters: dict[str, Any]) -> Figures:
    """One workload on a given store. Raises CouldNotRun."""
    return _figures([*contender.command, workload, json.dumps(parameters)], f"{contender.name}, {workload}")


def _figures(command: list[str], what: str) -> Figures:
    with tempfile.TemporaryFile("w+") as words:
        with _process(command, words) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    found: Figures = json.loads(line)
                    return found
        words.seek(0)
        said = words.read().strip().splitlines() or [f"exit code {process.returncode}"]
        raise CouldNotRun(f"{what}: {said[-1]}")


@contextmanager
def _process(command: list[str], words: Any) -> Iterator[subprocess.Popen[str]]:
    """A process with all that it starts, none of which outlives the context, nor the longest time."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=words, text=True, start_new_session=True)
    watch = threading.Timer(LONGEST_SECONDS, kill, [process])
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _kill_in_the_middle(contender: Contender, parameters: dict[str, Any], log: Path, steps: int) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    command = [*contender.command, "recovery_begin", json.dumps(parameters)]
    with _process(command, subprocess.DEVNULL) as process:
        while not log.exists() or log.read_bytes().count(b"ended") < steps:
            if process.poll() is not None or time.monotonic() > deadline:
                raise CouldNotRun(f"{contender.name}, recovery: it ended before it was killed")
            time.sleep(0.005)


def _recorded(contender: Contender, parameters: dict[str, Any]) -> Figures | None:
    """How many steps of each run the store calls completed; known for Holdfast only."""
    return measure(contender, "recorded", parameters) if contender in peers.OURS else None


def _twice(before: list[str], after: list[str], recorded: Figures | None) -> Figures:
    """Steps that began twice, and among them those whose completion was recorded before the restart."""
    old = {tuple(line.split(" ")[1:]) for line in before if line.startswith("begun")}
    again = {tuple(line.split(" ")[1:]) for line in after[len(before) :] if line.startswith("begun")}
    repeated = old & again
    figures: Figures = {"steps_run_twice": len(repeated)}
    if recorded is not None:
        figures["recorded_steps_run_again"] = sum(int(step) < recorded.get(run, 0) for run, step in again)
        figures["steps_recorded_before_restart"] = sum(recorded.values())
    return figures

"""The harness: it gives a contender a new store, runs one workload in a separate process, and reads its figures.

One measurement cannot affect the next: store, server and processes are new each time, unless a store is given.
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
    """A contender did not finish a workload."""


class Place(NamedTuple):
    """A folder for one measurement, and the parameters by which a workload finds its store there."""

    folder: Path
    parameters: dict[str, Any]


class Harness:
    """Runs workloads, those on PostgreSQL on one server."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres

    @contextmanager
    def place(self, contender: Contender) -> Iterator[Place]:
        """A new store, and a folder for its files."""
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
        """One workload on a new store. Raises CouldNotRun."""
        with self.place(contender) as place:
            return run_workload(contender, workload, {**place.parameters, **sizes})

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
            run_workload(contender, "recovery_finish", parameters)
            seconds = time.perf_counter() - begun
            return {"seconds": seconds, **_twice(before, log.read_text().splitlines(), recorded)}


def run_workload(contender: Contender, workload: str, parameters: dict[str, Any]) -> Figures:
    """One workload on a given store. Raises CouldNotRun."""
    return _figures([*contender.command, workload, json.dumps(parameters)], f"{contender.name}, {workload}")


def _figures(command: list[str], what: str) -> Figures:
    with tempfile.TemporaryFile("w+") as stderr:
        with _process(command, stderr) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("{"):
                    figures: Figures = json.loads(line)
                    return figures
        stderr.seek(0)
        lines = stderr.read().strip().splitlines() or [f"exit code {process.returncode}"]
        raise CouldNotRun(f"{what}: {lines[-1]}")


@contextmanager
def _process(command: list[str], stderr: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed with its children at the end of the context, or after ``LONGEST_SECONDS``."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True)
    watch = threading.Timer(LONGEST_SECONDS, kill, [process])
    watch.start()
    try:
        yield process
    finally:
        watch.cancel()
        kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to the process and its children."""
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
    """How many steps of each run the store records as completed; only for Holdfast."""
    return run_workload(contender, "recorded", parameters) if contender in peers.OURS else None


def _twice(before: list[str], after: list[str], recorded: Figures | None) -> Figures:
    """The number of steps that began twice, and of those whose completion was recorded before the restart."""
    old = {tuple(line.split(" ")[1:]) for line in before if line.startswith("begun")}
    again = {tuple(line.split(" ")[1:]) for line in after[len(before) :] if line.startswith("begun")}
    repeated = old & again
    figures: Figures = {"steps_run_twice": len(repeated)}
    if recorded is not None:
        figures["recorded_steps_run_again"] = sum(int(step) < recorded.get(run, 0) for run, step in again)
        figures["steps_recorded_before_restart"] = sum(recorded.values())
    return figures

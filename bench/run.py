"""``make bench``: Holdfast and the engines that a Python team would use instead, in one run on one machine.

Every measurement has its own process and its own store. The engines take turns, so that a slow minute of the machine
affects all of them; short measurements are repeated and the median counts. ``QUICK=1`` measures W1 to W3 with smaller
sizes, in less than a minute.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import peers
import report
import surroundings
from harness import CouldNotRun, Figures, Harness, run_workload
from peers import Contender
from targets import DEFINITIONS, EVENTS

from holdfast.testing.postgres import server

REPEATS = 3
SHORT_REPEATS = 7
"""For W1 to W3, which take a second or less: the speed of a shared machine varies within seconds."""
SHORT_SECONDS = 15.0
"""A measurement that takes longer than this is not repeated."""

FULL = {"runs": 500, "latency_runs": 200, "fan": 500}
QUICK = {"runs": 100, "latency_runs": 30, "fan": 500}
STEPS = 10
WAITING_RUNS = 2000
RECOVERY_RUNS = 300
OLD_RUNS = 100_000
WORKERS = (1, 2, 4)
SHARE = 125
"""Runs that a worker of W7 holds at once: a quarter of all runs, so that the other workers have some, too."""


def sizes_of_events(sizes: dict[str, int]) -> dict[str, int]:
    """W8 has ten events for each run of W1, for as many keys."""
    return {"keys": sizes["runs"], "events": sizes["runs"] * STEPS}


Measure = Callable[[Contender], Figures]
Results = dict[str, dict[str, dict[str, Any]]]


class Bench:
    """One run of all workloads."""

    def __init__(self, harness: Harness, missing: dict[str, str]) -> None:
        self._harness = harness
        self._missing = missing
        self.results: Results = {}

    def turns(
        self, name: str, contenders: Sequence[Contender], measure: Measure, repeats: int = REPEATS, label: str = ""
    ) -> None:
        """Measure the contenders in turn, and keep every sample and the median."""
        samples: dict[str, list[Figures]] = {}
        slow: set[str] = set()
        lines = self.results.setdefault(name, {})
        for _ in range(repeats):
            for contender in contenders:
                line = label or contender.name
                if line in slow:
                    continue
                begun = time.monotonic()
                try:
                    samples.setdefault(line, []).append(self._one(contender, measure))
                except CouldNotRun as error:
                    lines[line] = {"error": str(error)}
                    slow.add(line)
                if time.monotonic() - begun > SHORT_SECONDS:
                    slow.add(line)
                print(f"  {name}: {line}, {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        for line, taken in samples.items():
            if taken:
                medians = {key: statistics.median(sample[key] for sample in taken) for key in taken[0]}
                lines[line] = {**lines.get(line, {}), "median": medians, "samples": taken}

    def _one(self, contender: Contender, measure: Measure) -> Figures:
        reason = self._missing.get(contender.environment or "")
        if reason is not None:
            raise CouldNotRun(reason)
        try:
            return measure(contender)
        except (OSError, RuntimeError) as error:
            raise CouldNotRun(f"could not be run: {error}") from error

    def short(self, sizes: dict[str, int], repeats: int) -> None:
        """W1 to W3, and the raw limit."""
        harness, runs = self._harness, sizes["runs"]
        everyone = peers.ALL
        self.turns("W1", everyone, lambda c: harness.run(c, "throughput", runs=runs, steps=STEPS), repeats)
        both = [each for ours in peers.OURS for each in (ours, *_defined(ours))]
        self.turns(DEFINITIONS, both, lambda c: harness.run(c, "throughput", runs=runs, steps=STEPS), repeats)
        for contender in peers.OURS:
            label = f"raw limit, {contender.name.split(', ')[1]}"
            self.turns("raw", [contender], lambda c: harness.raw(c, runs=runs, steps=STEPS), repeats, label)
        self.turns("W2", everyone, lambda c: harness.run(c, "latency", runs=sizes["latency_runs"]), repeats)
        self.turns("W3", everyone, lambda c: harness.run(c, "fan_out", steps=sizes["fan"]), repeats)
        self.turns(EVENTS, peers.KEYED, lambda c: harness.run(c, "keyed_events", **sizes_of_events(sizes)), repeats)

    def long(self) -> None:
        """W4 to W7."""
        harness = self._harness
        self.turns("W4", peers.ALL, lambda c: harness.run(c, "waiting", runs=WAITING_RUNS))
        self.turns("W5", peers.ALL, lambda c: harness.recover(c, runs=RECOVERY_RUNS, steps=STEPS))
        self.turns("W6, 1,000 steps", peers.ALL, lambda c: harness.run(c, "growth", steps=1000))
        self.turns("W6, 10,000 steps", peers.ALL, lambda c: harness.run(c, "growth", steps=10_000))
        for contender in peers.OURS:
            self._old_runs(contender)
        for workers in WORKERS:
            self.turns(
                f"W7, {workers} workers",
                [peers.HOLDFAST_POSTGRES],
                lambda c, workers=workers: harness.run(  # type: ignore[misc]
                    c, "scale", runs=FULL["runs"], steps=STEPS, workers=workers, capacity=SHARE
                ),
            )

    def _old_runs(self, contender: Contender) -> None:
        """W6: W1 on a store that holds many finished runs, alternating with W1 on an empty one."""
        harness = self._harness
        sizes = {"runs": FULL["runs"], "steps": STEPS}
        with harness.place(contender) as place:
            run_workload(contender, "fill", {**place.parameters, "runs": OLD_RUNS})
            for number in range(REPEATS):
                self._sample("W6, empty store", contender, harness.run(contender, "throughput", **sizes))
                parameters = {**place.parameters, **sizes, "name": f"w1-{number}"}
                figures = run_workload(contender, "throughput", parameters)
                self._sample("W6, 100,000 finished runs", contender, figures)

    def _sample(self, name: str, contender: Contender, figures: Figures) -> None:
        line = self.results.setdefault(name, {}).setdefault(contender.name, {"samples": []})
        line["samples"].append(figures)
        line["median"] = {key: statistics.median(sample[key] for sample in line["samples"]) for key in figures}
        print(f"  {name}: {contender.name}", file=sys.stderr, flush=True)


def _defined(ours: Contender) -> list[Contender]:
    """The same workload as a definition, on the same store."""
    store = ours.name.split(", ")[1]
    return [each for each in peers.DEFINED if each.name.split(", ")[1] == store]


def machine() -> dict[str, Any]:
    """The machine and the software versions of this measurement."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.machine(),
        "python": surroundings.interpreter(),
        "fsync_ms": _fsync_milliseconds(),
        "load": os.getloadavg()[0],
        "versions": {**peers.versions(), "sqlite": surroundings.sqlite()},
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _fsync_milliseconds() -> float:
    """How long a small write takes to become durable on the disk of the stores."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def save(measured: dict[str, Any]) -> None:
    """Write the measurements as data, as a plot and into the documents."""
    report.PATH.write_text(json.dumps(measured, indent=1) + "\n")
    report.write_plot(measured)
    report.write_documents(measured)


def main() -> int:
    quick = os.environ.get("QUICK", "") not in ("", "0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that servers and contenders end, too
    missing = peers.install()
    begun = time.monotonic()
    environment = machine()
    with server(own=True, fast=False) as postgres:
        environment["versions"]["postgresql"] = postgres.execute("SHOW server_version")[0][0].split(" ")[0]
        bench = Bench(Harness(postgres), missing)
        measured = {"machine": environment, "quick": quick, "results": bench.results}
        try:
            bench.short(QUICK if quick else FULL, 1 if quick else SHORT_REPEATS)
            if not quick:
                bench.long()
        finally:
            environment["seconds"] = round(time.monotonic() - begun)
            environment["load_after"] = os.getloadavg()[0]
            if not quick and bench.results:
                save(measured)
    print(report.text(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``make bench``: Holdfast and what a Python team would pick instead, in one run on one machine, side by side.

Every measurement is a process of its own on a store of its own. Contenders take turns, so that a slow minute of the
machine falls on all of them; short measurements are repeated and the median counts. ``QUICK=1`` does W1 to W3 with
smaller sizes, in less than a minute.
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

import arena
import peers
import report
from arena import Arena, CouldNotRun, Figures
from peers import Contender

from holdfast.testing.postgres import server

REPEATS = 3
SHORT_REPEATS = 7
"""Of W1 to W3, which take a second or less: a machine that others share is fast and slow by turns."""
SHORT_SECONDS = 15.0
"""What takes longer than this is measured once."""

FULL = {"runs": 500, "latency_runs": 200, "fan": 500}
QUICK = {"runs": 100, "latency_runs": 30, "fan": 500}
STEPS = 10
WAITING_RUNS = 2000
RECOVERY_RUNS = 300
OLD_RUNS = 100_000
WORKERS = (1, 2, 4)
SHARE = 125
"""Runs that a worker of W7 holds at once: a quarter of them all, so that there is something left for the others."""

Measure = Callable[[Contender], Figures]
Results = dict[str, dict[str, dict[str, Any]]]


class Bench:
    """One run of the whole."""

    def __init__(self, ring: Arena, missing: dict[str, str]) -> None:
        self._arena = ring
        self._missing = missing
        self.results: Results = {}

    def turns(
        self, name: str, contenders: Sequence[Contender], measure: Measure, repeats: int = REPEATS, label: str = ""
    ) -> None:
        """Let the contenders take turns, and keep every sample and the median."""
        samples: dict[str, list[Figures]] = {}
        slow: set[str] = set()
        found = self.results.setdefault(name, {})
        for _ in range(repeats):
            for contender in contenders:
                line = label or contender.name
                if line in slow:
                    continue
                begun = time.monotonic()
                try:
                    samples.setdefault(line, []).append(self._one(contender, measure))
                except CouldNotRun as error:
                    found[line] = {"error": str(error)}
                    slow.add(line)
                if time.monotonic() - begun > SHORT_SECONDS:
                    slow.add(line)
                print(f"  {name}: {line}, {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
        for line, taken in samples.items():
            if taken:
                medians = {key: statistics.median(sample[key] for sample in taken) for key in taken[0]}
                found[line] = {**found.get(line, {}), "median": medians, "samples": taken}

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
        ring, runs = self._arena, sizes["runs"]
        everyone = peers.ALL
        self.turns("W1", everyone, lambda c: ring.run(c, "throughput", runs=runs, steps=STEPS), repeats)
        for contender in peers.OURS:
            label = f"raw limit, {contender.name.split(', ')[1]}"
            self.turns("raw", [contender], lambda c: ring.raw(c, runs=runs, steps=STEPS), repeats, label)
        self.turns("W2", everyone, lambda c: ring.run(c, "latency", runs=sizes["latency_runs"]), repeats)
        self.turns("W3", everyone, lambda c: ring.run(c, "fan_out", steps=sizes["fan"]), repeats)

    def long(self) -> None:
        """W4 to W7."""
        ring = self._arena
        self.turns("W4", peers.ALL, lambda c: ring.run(c, "waiting", runs=WAITING_RUNS))
        self.turns("W5", peers.ALL, lambda c: ring.recover(c, runs=RECOVERY_RUNS, steps=STEPS))
        self.turns("W6, 1,000 steps", peers.ALL, lambda c: ring.run(c, "growth", steps=1000))
        self.turns("W6, 10,000 steps", peers.ALL, lambda c: ring.run(c, "growth", steps=10_000))
        for contender in peers.OURS:
            self._old_runs(contender)
        for workers in WORKERS:
            self.turns(
                f"W7, {workers} workers",
                [peers.HOLDFAST_POSTGRES],
                lambda c, workers=workers: ring.run(  # type: ignore[misc]
                    c, "scale", runs=FULL["runs"], steps=STEPS, workers=workers, capacity=SHARE
                ),
            )

    def _old_runs(self, contender: Contender) -> None:
        """W6: W1 on a store that holds many finished runs, in turn with W1 on an empty one."""
        ring = self._arena
        sizes = {"runs": FULL["runs"], "steps": STEPS}
        with ring.place(contender) as place:
            arena.measure(contender, "fill", {**place.parameters, "runs": OLD_RUNS})
            names = iter(f"w1-{number}" for number in range(REPEATS))
            for _ in range(REPEATS):
                self._sample("W6, empty store", contender, ring.run(contender, "throughput", **sizes))
                again = {**place.parameters, **sizes, "name": next(names)}
                self._sample("W6, 100,000 finished runs", contender, arena.measure(contender, "throughput", again))

    def _sample(self, name: str, contender: Contender, figures: Figures) -> None:
        line = self.results.setdefault(name, {}).setdefault(contender.name, {"samples": []})
        line["samples"].append(figures)
        line["median"] = {key: statistics.median(sample[key] for sample in line["samples"]) for key in figures}
        print(f"  {name}: {contender.name}", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What it was measured on."""
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "processor": names[0] if names else platform.machine(),
        "python": platform.python_version(),
        "fsync_ms": _fsync_milliseconds(),
        "load": os.getloadavg()[0],
        "versions": peers.versions(),
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _fsync_milliseconds() -> float:
    """How long a small write takes to become durable where the stores lie."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(b"x" * 4096)
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def save(found: dict[str, Any]) -> None:
    """Write what was measured, as data, as a plot and into the documents."""
    report.PATH.write_text(json.dumps(found, indent=1) + "\n")
    report.write_plot(found)
    report.write_documents(found)


def main() -> int:
    quick = os.environ.get("QUICK", "") not in ("", "0")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and contenders end with it
    missing = peers.install()
    begun = time.monotonic()
    surroundings = machine()
    with server(own=True, fast=False) as postgres:
        surroundings["versions"]["postgresql"] = postgres.execute("SHOW server_version")[0][0].split(" ")[0]
        bench = Bench(Arena(postgres), missing)
        found = {"machine": surroundings, "quick": quick, "results": bench.results}
        try:
            bench.short(QUICK if quick else FULL, 1 if quick else SHORT_REPEATS)
            if not quick:
                bench.long()
        finally:
            surroundings["seconds"] = round(time.monotonic() - begun)
            surroundings["load_after"] = os.getloadavg()[0]
            if not quick and bench.results:
                save(found)
    print(report.text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

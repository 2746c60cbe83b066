"""The benchmarks run: ``make bench``, ``bench-gate``, ``-machines``, ``-schedules``, ``-serving``; small, on SQLite.

Nothing is measured here. A benchmark that no longer runs is otherwise noticed only when somebody measures.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

GATE = """
import asyncio, json, pathlib, sys, gate
gate.ROUNDS, gate.SHORT_RUNS = 1, 2
print(json.dumps(asyncio.run(gate.short_runs(pathlib.Path(sys.argv[1])))))
"""
WORKLOADS = """
import json, peers, run
from harness import Harness
peers.ALL = peers.OURS = (peers.HOLDFAST_SQLITE,)
peers.KEYED = peers.KEYED[:1]
bench = run.Bench(Harness(None), {})
bench.short({"runs": 2, "latency_runs": 2, "fan": 2}, repeats=1)
bench.turns("W4", peers.ALL, lambda contender: bench._harness.run(contender, "waiting", runs=2), repeats=1)
bench.turns("W5", peers.ALL, lambda contender: bench._harness.recover(contender, runs=2, steps=4), repeats=1)
print(json.dumps(bench.results))
"""


SCHEDULES = """
import asyncio, json, pathlib, sys, schedules
url = f"sqlite:///{pathlib.Path(sys.argv[1]) / 'schedules.db'}"
print(json.dumps(asyncio.run(schedules.measure(url, 700, 2))))
"""


SERVING = """
import asyncio, json, pathlib, sys, filler, reads, serving, starts, streams
from holdfast import Holdfast
folder, found = pathlib.Path(sys.argv[1]), {}
url = f"sqlite:///{folder / 'store.db'}"
filler.fill(url, 1200)
tokens = asyncio.run(serving.tokens_of(url))
streams.STREAMS, streams.STARTS, streams.SETTLE_SECONDS = 4, 1, 0.05
async def measure(server):
    await reads.read_all(server, tokens, 2, lambda name, cost: found.update({name: cost.count}))
    found["streams"] = await streams.streams(server, tokens["ann"], 0.1)
    async with Holdfast(url, worker=False) as app:
        found["starts"] = await starts.alternate(app, server, tokens["ann"], 1, 2)
with serving.serving(folder, url, "--no-worker") as server:
    asyncio.run(measure(server))
print(json.dumps(found))
"""


MACHINES = """
import asyncio, json, machines, sys
url = f"sqlite:///{sys.argv[1]}/%s.db"
found = {effects: asyncio.run(machines.measure(url % effects, 60, 300, effects)) for effects in (False, True)}
print(json.dumps(found))
"""


def _run(script: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=ROOT / "bench", capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_the_bench_of_the_gate_runs(tmp_path: Path) -> None:
    """Its policy allows its actions, and its runs have evidence."""
    figures = _run(GATE, str(tmp_path))
    assert figures.keys() == {"steps_microseconds", "actions_microseconds", "evidence_microseconds", "evidence_bytes"}
    assert figures["evidence_bytes"] > 0


@pytest.mark.long
def test_the_bench_of_schedules_runs(tmp_path: Path) -> None:
    """More of them than one look finds, and two schedulers: none is lost, and none is started twice."""
    figures = _run(SCHEDULES, str(tmp_path))
    assert (figures["schedules"], figures["lost"], figures["moved_twice"]) == (700, 0, 0)


@pytest.mark.long
def test_the_bench_of_machines_runs(tmp_path: Path) -> None:
    """No event is lost in the states, with and without effects."""
    figures = _run(MACHINES, str(tmp_path))
    assert [(each["events"], each["lost"]) for each in figures.values()] == [(300, 0), (600, 0)]


@pytest.mark.long
def test_the_workloads_run() -> None:
    """Each gives figures and no error."""
    results = _run(WORKLOADS)
    assert results.keys() == {"W1", "W1, definitions", "raw", "W2", "W3", "W4", "W5", "W8"}
    assert [name for name, lines in results.items() for line in lines.values() if "error" in line] == []


@pytest.mark.long
def test_the_bench_of_serving_runs(tmp_path: Path) -> None:
    """It fills a store, asks for every list and page, and its streams hear of what is started."""
    figures = _run(SERVING, str(tmp_path))
    assert figures["starts"].keys() >= {"unbound", "bound", "http"}
    assert figures["console task"] == figures["list, parked"] == 2
    assert figures["streams"]["heard"] == 1

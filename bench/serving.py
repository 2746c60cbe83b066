"""What serving costs: ``python bench/serving.py [--runs 1000000] [--store sqlite|postgres] [--only starts,reads,…]``.

starts: a start over HTTP beside one in the process. reads: lists, runs and tasks, with a great many runs in the store.
load: many visitors at once, by ``wrk`` where it is installed. streams: 200 open streams. idle: a worker without work.
Tables are printed as they are in docs/performance.md. The machine's other work changes times by the clock more than
the CPU time of the server, so both are told.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import filler
import reads
import starts
import streams
import surroundings
from visitors import Cost, ServerProcess, serving

from holdfast import Holdfast
from holdfast.testing.postgres import server as postgres_server

PARTS = ("starts", "reads", "load", "streams", "idle")


def conditions(url: str) -> str:
    """Interpreter, the store's version and the load of the machine."""
    store = (
        f"SQLite {surroundings.sqlite()}" if url.startswith("sqlite") else f"PostgreSQL {asyncio.run(_version(url))}"
    )
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{surroundings.interpreter()}, {store}, {os.cpu_count()} cores, load {load}"


async def _version(url: str) -> str:
    async with Holdfast(url, worker=False) as app:
        return (await app.store.facts()).version


@contextmanager
def stores(kinds: list[str]) -> Iterator[list[tuple[str, str]]]:
    """A new store of each kind, by its name."""
    with tempfile.TemporaryDirectory(prefix="holdfast-serving-") as folder:
        found = [("SQLite", f"sqlite:///{folder}/store.db")] if "sqlite" in kinds else []
        if "postgres" not in kinds:
            yield found
            return
        with postgres_server() as postgres:
            yield [*found, ("PostgreSQL", postgres.url())]


async def tokens_of(url: str) -> dict[str, str]:
    async with Holdfast(url, worker=False) as app:
        return {name: (await app.tokens.mint(name, tenant=filler.OWN)).text for name in ("ann", "zoe")}


def show_starts(name: str, found: dict[str, float]) -> None:
    for load in ("", f", {starts.AT_ONCE} at once"):
        unbound, bound, http = (found[f"{way}{load}"] for way in ("unbound", "bound", "http"))
        label = f"{name}{load or ', one by one'}"
        print(f"| {label} | {unbound:.2f} | {bound:.2f} | {http:.2f} | {http - bound:.2f} | {http - unbound:.2f} |")


def show_cost(name: str, cost: Cost) -> None:
    late = " **late**" if cost.p95 > reads.LIMIT_MS else ""
    print(f"| {name} | {cost.p50:.1f} | {cost.p95:.1f}{late} | {cost.cpu:.1f} |", flush=True)


def wrk(server: ServerProcess, token: str, path: str) -> None:
    """The same by wrk, for whoever knows it."""
    if shutil.which("wrk") is None:
        print("wrk is not installed: the client of this benchmark was used alone.")
        return
    address = f"http://127.0.0.1:{server.port}{path}"
    command = ["wrk", "-t1", "-c32", "-d5s", "--latency", "-H", f"Authorization: Bearer {token}", address]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(name: str, url: str, folder: Path, options: argparse.Namespace) -> None:
    print(f"\n### {name}\n\n{conditions(url)}")
    if "starts" in options.only:
        print("\n| CPU ms for each start | unbound | bound | HTTP | HTTP - bound | HTTP - unbound |")
        print("|---|--:|--:|--:|--:|--:|")
        fresh = f"sqlite:///{folder}/starts.db" if url.startswith("sqlite") else url
        show_starts(name, asyncio.run(starts.measure(folder, fresh, options.rounds, options.count)))
    if set(options.only) <= {"starts"}:
        return
    seconds = filler.fill(url, options.runs)
    print(f"\n{options.runs:,} runs were written in {seconds:.0f} s.\n", flush=True)
    measure_filled(url, folder, options)


def measure_filled(url: str, folder: Path, options: argparse.Namespace) -> None:
    """All that is measured with many runs in the store."""
    tokens = asyncio.run(tokens_of(url))
    with serving(folder, url, "--no-worker") as server:
        if "reads" in options.only:
            print("| read | p50 ms | p95 ms | CPU ms |\n|---|--:|--:|--:|")
            asyncio.run(reads.read_all(server, tokens, options.repeat, show_cost))
        if "load" in options.only:
            print("\n| 32 at once | p50 ms | p95 ms | CPU ms |\n|---|--:|--:|--:|")
            for what, cost in asyncio.run(reads.load(server, tokens["ann"], 32, options.repeat * 5)).items():
                show_cost(f"{what}, {cost.per_second:.0f} a second", cost)
            wrk(server, tokens["ann"], "/v1/runs?limit=50")
        if "streams" in options.only:
            show_figures("streams", asyncio.run(streams.streams(server, tokens["ann"], options.seconds)))
    if "idle" in options.only:
        idle = streams.idle_worker(folder, url, tokens["ann"], options.seconds)
        show_figures("a worker without work, CPU ms in a second", asyncio.run(idle))


def show_figures(title: str, found: dict[str, float]) -> None:
    print(f"\n| {title} | |\n|---|--:|")
    for name, value in found.items():
        print(f"| {name.replace('_', ' ')} | {value:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--store", action="append", choices=["sqlite", "postgres"])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--repeat", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with stores(options.store or ["sqlite", "postgres"]) as made, tempfile.TemporaryDirectory() as folder:
        for name, url in made:
            measure(name, url, Path(folder), options)


if __name__ == "__main__":
    main()

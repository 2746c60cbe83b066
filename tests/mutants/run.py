"""Break the engine in every named way and show which test notices: ``python -m tests.mutants.run [NAME ...]``.

Each mutant lives in a copy of the source tree, in a temporary folder. An unbroken copy goes first: a judge that
fails on it proves nothing. Exit code 1 where a mutant survives, 2 where one cannot be made or a
judge is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from tests.mutants.mutants import MUTANTS, Judge, Mutant

ROOT: Final = Path(__file__).parents[2]
AT_ONCE: Final = 2
LIMIT_SECONDS: Final = 120


class NoMutant(Exception):
    """The text to replace is not there exactly once: the source has moved on, and the mutant must follow."""


class Verdict(msgspec.Struct, frozen=True):
    """What a judge, or all of them, found. ``finding`` is empty where nothing was noticed."""

    mutant: str
    judge: str
    finding: str
    seconds: float


def place(tree: Path, mutant: Mutant) -> Path:
    """The one file to break. Raises NoMutant where the text does not occur exactly once."""
    where = tree / mutant.where
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    found = [file for file in files for _ in range(file.read_text().count(mutant.old))]
    if len(found) != 1:
        raise NoMutant(f"{mutant.name}: {mutant.where} contains {len(found)} times, not once:\n{mutant.old}")
    return found[0]


def mutate(tree: Path, mutant: Mutant) -> None:
    """Break the copy."""
    file = place(tree, mutant)
    file.write_text(file.read_text().replace(mutant.old, mutant.new))


def copy(source: Path, folder: Path) -> None:
    """What the judges need of the project."""
    unneeded = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in ("src", "tests"):
        shutil.copytree(source / name, folder / name, ignore=unneeded)
    shutil.copy(source / "pyproject.toml", folder)


def judge(tree: Path, by: Judge) -> str:
    """What this judge finds in a tree; empty for nothing. It stops at its first finding."""
    if by.seeds is not None:
        first, count = by.seeds
        arguments = ["-m", "tests.simulation.simulate", str(first), "3", str(count)]
    else:
        arguments = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *by.tests]
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tree,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{by.name}: no end within {LIMIT_SECONDS} s"
    return "" if done.returncode == 0 else f"{by.name}: {_finding(done.stdout)}"


def _finding(output: str) -> str:
    """The test that failed, or the seed that failed and why."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    if failed is not None:
        return failed[1].removeprefix("tests/")
    lines = output.strip().splitlines()
    seed = next((line.partition(":")[0] for line in reversed(lines) if line.startswith("seed ")), "")
    messages = [line for line in lines if not line.startswith((" ", "seed ", "Traceback"))]
    return f"{seed}: {messages[-1] if messages else 'failed'}"


def verdict_on(source: Path, name: str, judges: Iterable[Judge], mutant: Mutant | None = None) -> Verdict:
    """Make a copy, break it by the mutant, if there is one, and try the judges in order."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as folder:
        tree = Path(folder)
        copy(source, tree)
        if mutant is not None:
            mutate(tree, mutant)
        for one in judges:
            if finding := judge(tree, one):
                return Verdict(name, one.name, finding, time.monotonic() - began)
    return Verdict(name, "", "", time.monotonic() - began)


def _print(verdict: Verdict, missing: str) -> None:
    print(f"{verdict.mutant:32s} {verdict.seconds:6.1f} s  {(verdict.finding or missing)[:150]}", flush=True)


def judged(source: Path, wanted: list[Mutant]) -> int:
    """Try the judges on the unbroken source, then every mutant; gives the exit code."""
    judges = list(dict.fromkeys(one for mutant in wanted for one in mutant.judges))
    survivors = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        control = list(pool.map(lambda one: verdict_on(source, f"unbroken, {one.name}", [one]), judges))
        for verdict in control:
            _print(verdict, "sound")
        if any(verdict.finding for verdict in control):
            print("A judge fails on the unbroken engine: mend that first.")
            return 2
        for verdict in pool.map(lambda mutant: verdict_on(source, mutant.name, mutant.judges, mutant), wanted):
            _print(verdict, "SURVIVED")
            survivors += not verdict.finding
    print(f"{len(wanted) - survivors} of {len(wanted)} mutants were caught")
    return 1 if survivors or not wanted else 0


def main() -> int:
    wanted = [mutant for mutant in MUTANTS if not sys.argv[1:] or mutant.name in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="holdfast-unbroken-") as folder:
        copy(ROOT, Path(folder))  # so that edits during the run break no mutant
        try:
            for mutant in wanted:
                place(Path(folder), mutant)
            return judged(Path(folder), wanted)
        except NoMutant as error:
            print(error)
            return 2


if __name__ == "__main__":
    sys.exit(main())

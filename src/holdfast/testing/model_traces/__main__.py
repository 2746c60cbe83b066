"""``python -m holdfast.testing.model_traces FILE…``: a line of JSON for each trace; exit 0 where all agree."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.testing.model_traces.driver import Report, follow
from holdfast.testing.model_traces.engine import MEMORY, run_steered, trace_engine
from holdfast.testing.model_traces.trace import ModelTrace, TraceError, read_trace
from holdfast.testing.model_traces.walks import random_trace

WRONG: Final = 1
UNUSABLE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Follow the traces of the files; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        named = list(_traces(options.files, options.seed, options.random))
    except (OSError, TraceError) as error:
        return _unusable(str(error))
    if not named:
        return _unusable("there is no trace: name files, or folders of them, or use --random COUNT")
    wrong = 0
    try:
        for name, trace in named:
            report = followed(trace, name, options.store)
            wrong += not report.agrees
            sys.stdout.write(f"{written(report)}\n")
            sys.stdout.flush()
    except HoldfastError as error:
        return _unusable(str(error))
    if len(named) > 1:
        sys.stderr.write(f"{len(named)} traces, {wrong} do not agree\n")
    return WRONG if wrong else 0


def followed(trace: ModelTrace, name: str, url: str = MEMORY) -> Report:
    """What came of a trace, on an engine of its own. On a shared store its tenants have names of their own."""

    async def walk() -> Report:
        async with trace_engine(url) as engine:
            return await follow(engine, trace, name, "" if url == MEMORY else f"m{secrets.token_hex(4)}-")

    return run_steered(walk(), url)


def written(report: Report) -> str:
    """A report as a line of JSON. The keys are stable."""
    record = {
        "trace": report.trace,
        "agrees": report.agrees,
        "steps": report.steps,
        "accepted": report.accepted,
        "refused": [{"step": step, "rule": rule, "error": error} for step, rule, error in report.refused],
        "illegal": report.illegal,
        "differs": report.differs,
        "problems": report.problems,
    }
    return msgspec.json.encode(record).decode()


def _traces(paths: Iterable[str], seed: int, count: int) -> Iterator[tuple[str, ModelTrace]]:
    for path in map(Path, paths):
        files = [path]
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file() and ".json" in each.suffixes)
        yield from ((str(file), read_trace(file)) for file in files)
    yield from ((f"seed {each}", random_trace(each)) for each in range(seed, seed + count))


def _unusable(words: str) -> int:
    sys.stderr.write(f"error: {words}\n")
    return UNUSABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.testing.model_traces",
        description="Follow traces of the model of templates through a real engine, and compare.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="a trace, or a folder of them")
    parser.add_argument("--store", default=MEMORY, metavar="URL", help="the engine's store; in memory if not said")
    parser.add_argument("--random", type=int, default=0, metavar="COUNT", help="follow so many random traces as well")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of the first random trace")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

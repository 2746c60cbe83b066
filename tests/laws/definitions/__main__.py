"""Judge seeds: ``python -m tests.laws.definitions SEED [COUNT]``. One seed is shown with its definition.

Each is played in the kernel and on a whole engine. Of many seeds those that break a law are listed, the smallest
definitions first. The exit status says whether all held.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import yaml

from tests.laws.definitions.grow import Case, case
from tests.laws.definitions.judge import judge, judge_whole
from tests.laws.definitions.shrink import shrunk
from tests.simulation.beside import chosen_store


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.definitions", description="Judge random definitions.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    given = parser.parse_args()
    began, ends, faults = time.monotonic(), Counter[str](), list[tuple[int, int, str]]()
    for seed in range(given.seed, given.seed + given.count):
        found = case(seed)
        try:
            ends[judge(found).how] += 1
            with chosen_store(seed):
                judge_whole(found)
        except Exception as error:
            if given.count == 1:
                print(shown(shrunk(found)))
                raise
            faults.append((len(shown(found)), seed, f"{type(error).__name__}: {error}"))
    for _, seed, text in sorted(faults)[:20]:
        print(f"seed {seed}: {text:.300}")
    print(f"{given.count} seeds in {time.monotonic() - began:.0f} s, {len(faults)} break a law; {dict(ends)}")
    return 1 if faults else 0


def shown(found: Case) -> str:
    """A case, to be read."""
    parts = [*found.children.values(), found.document]
    text = "\n".join(yaml.safe_dump(each, sort_keys=False, default_flow_style=None, width=150) for each in parts)
    return f"{text}\nsignals {found.signals}\ncancelled at {found.cancel_at}"


if __name__ == "__main__":
    sys.exit(main())

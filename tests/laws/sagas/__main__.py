"""Judge seeds: ``python -m tests.laws.sagas SEED [COUNT]``, or a program: ``… --program JSON SEED``.

One seed that breaks a law is shown with the smallest program that does so. Of many seeds the faults are counted, each
class with its smallest seed. The exit status says whether all laws held.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import defaultdict

from tests.laws.sagas.grow import program
from tests.laws.sagas.runner import Broken, play, shrunk
from tests.laws.sagas.tree import read, size


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.sagas", description="Judge workflow programs by laws.")
    parser.add_argument("--program", help="a program as JSON, instead of the seed's own")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--shrink", action="store_true", help="shrink one of each class of faults")
    parser.add_argument("--whole", action="store_true", help="on the whole engine, with crashes, not by hand")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)  # workers say that they are dying; that is the point
    if given.program is not None:
        return _one(play(read(given.program), given.seed, whole=given.whole), shrink=False)
    if given.count == 1:
        return _one(play(program(given.seed), given.seed, whole=given.whole), shrink=True)
    return _many(given.seed, given.count, shrink=given.shrink, whole=given.whole)


def _one(broken: Broken | None, *, shrink: bool) -> int:
    if broken is None:
        print("every law holds")
        return 0
    print(broken.shown())
    if shrink:
        print("\nThe smallest that was found:\n" + shrunk(broken).shown())
    return 1


def _many(seed: int, count: int, *, shrink: bool, whole: bool) -> int:
    faults: dict[str, list[tuple[int, int]]] = defaultdict(list)
    began = time.monotonic()
    for number in range(seed, seed + count):
        if (broken := play(program(number), number, whole=whole)) is not None:
            faults[broken.violation.kind].append((size(broken.tree), number))
    for kind, found in sorted(faults.items()):
        smallest = ", ".join(f"{number} ({nodes} nodes)" for nodes, number in sorted(found)[:4])
        print(f"{len(found):6d}  {kind}\n        seeds {smallest}")
    print(f"{count} seeds in {time.monotonic() - began:.0f} s, {sum(map(len, faults.values()))} break a law")
    if shrink:
        for found in faults.values():
            number = min(found)[1]
            if (broken := play(program(number), number, whole=whole)) is not None:
                print(f"\nseed {number}:\n{shrunk(broken).shown()}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

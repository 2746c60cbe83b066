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
from typing import Final

from tests.laws.sagas.grow import program
from tests.laws.sagas.runner import Broken, digests, play, shrunk
from tests.laws.sagas.tree import read, size
from tests.simulation.beside import chosen_store

TRIES: Final = 20
"""How often one seed is tried: an order that depends on addresses may not show at once."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.laws.sagas", description="Judge workflow programs by laws.")
    parser.add_argument("--program", help="a program as JSON, instead of the seed's own")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--shrink", action="store_true", help="shrink one of each class of faults")
    parser.add_argument("--whole", action="store_true", help="on the whole engine, with crashes, not by hand")
    parser.add_argument("--digests", action="store_true", help="print what each seed did, in a few letters")
    given = parser.parse_args()
    if given.digests:
        print("\n".join(digests(range(given.seed, given.seed + given.count))))
        return 0
    logging.disable(logging.CRITICAL)  # workers log that they die, and here they die often
    if given.program is not None or given.count == 1:
        tree = program(given.seed) if given.program is None else read(given.program)
        tries = (play(tree, given.seed, whole=given.whole) for _ in range(TRIES))
        return _one(next((broken for broken in tries if broken), None), shrink=given.program is None)
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
        with chosen_store(number):
            broken = play(program(number), number, whole=whole)
        if broken is not None:
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

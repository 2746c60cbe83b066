"""Seeds from the command line: the first, and how many from it on."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

from tests.simulation.beside import chosen_store


def play_seeds(play: Callable[[int], Counter[str]]) -> None:
    """Play them one after the other, and print what was reached, how often."""
    seed, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    total: Counter[str] = Counter()
    for number in range(seed, seed + count):
        with chosen_store(number):
            total += play(number)
    for what, times in sorted(total.items()):
        print(f"{times:8d}  {what}")

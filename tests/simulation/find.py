"""Find seeds that reach the rare situations: ``python -m tests.simulation.find FIRST COUNT``."""

from __future__ import annotations

import logging
import sys

from tests.simulation import situations
from tests.simulation.simulate import simulate
from tests.simulation.violation import Violation


def main(first: int, count: int) -> None:
    """A line for each seed that reaches some of them, or breaks a law."""
    logging.disable()
    for seed in range(first, first + count):
        try:
            reached = simulate(seed)
        except Violation as violation:
            print(seed, "breaks a law:", violation, flush=True)
            continue
        found = [situation for situation in situations.ALL if reached[situation]]
        if found:
            print(seed, "; ".join(found), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))

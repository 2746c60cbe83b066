"""Judge seeds: ``python -m tests.laws.twins SEED [COUNT]``. One seed that breaks a law is told as a story."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, defaultdict

from tests.laws.twins.runner import Broken, play


def main() -> int:
    logging.disable(logging.CRITICAL)  # workers log that they die, and here they die often
    seed, count = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    faults: defaultdict[str, list[int]] = defaultdict(list)
    reached: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(seed, seed + count):
        try:
            reached += play(number)
        except Broken as broken:
            found = faults[broken.violation.kind]
            if not found:  # the first of its kind is told
                print(broken, flush=True)
            found.append(number)
    for what, times in sorted(reached.items()):
        print(f"{times:8d}  {what}")
    for kind, found in sorted(faults.items()):
        print(f"{len(found):8d}  BROKEN: {kind}, seeds {', '.join(map(str, found[:8]))}")
    print(f"{count} seeds in {time.monotonic() - began:.0f} s, {sum(map(len, faults.values()))} break a law")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Place orders for many keys and see each of them end: ``make orders``, ``make orders KEYS=100000``.

    python examples/orders/run.py [--keys 200] [--store sqlite:///FILE]

The worker is stopped and started again in the middle. Nothing is lost and nothing is paid twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

from holdfast import Holdfast
from holdfast.errors import LaneFull

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--keys", type=int, default=200, help="how many orders")
parser.add_argument("--patience", type=float, help="how many seconds an order waits for its parcel")
parser.add_argument("--store", help="the URL of a store; by default a file that is deleted")
given = parser.parse_args()
os.environ["ORDERS_PATIENCE_SECONDS"] = str(given.patience or max(5, given.keys / 200))

from orders_app import Order, Placed, engine, order  # noqa: E402  # it reads how long an order waits

AT_ONCE = 500
WAIT_SECONDS = 3600.0


def placed(number: int) -> Placed:
    """Most orders are plain ones; some are too dear, declined, sold out, or never packed."""
    match number % 20:
        case 3:
            return Placed(f"o{number}", 99_000, "a thing")
        case 7:
            return Placed(f"o{number}", 0, "a thing")
        case 11:
            return Placed(f"o{number}", 500, "a rare thing")
        case 17:
            return Placed(f"o{number}", 500, "a slow thing")
        case _:
            return Placed(f"o{number}", 500, "a thing")


def check(found: Counter[str], keys: int) -> None:
    """Every order has ended once. On a slow machine more of them than those that nobody packs come too late."""
    ends = Counter(number % 20 for number in range(keys))
    assert found.total() == keys
    assert found["refused"] == ends[3] + ends[7]
    assert found["refunded: too late"] >= ends[17]
    assert found["refunded: sold out"] <= ends[11]


async def place(app: Holdfast, numbers: range) -> None:
    """Each event with an id of its own: sent again, as here, it is taken in once."""
    for first in range(numbers.start, numbers.stop, AT_ONCE):
        some = range(first, min(first + AT_ONCE, numbers.stop))
        await asyncio.gather(*(emit(app, number) for number in some))
    await emit(app, numbers.start)


async def emit(app: Holdfast, number: int) -> None:
    """Send an order's event, again where too many wait for its lane already."""
    while True:
        try:
            await app.emit(placed(number), id=f"web-{number}")
        except LaneFull:
            await asyncio.sleep(0.2)
        else:
            return


async def ended(app: Holdfast, keys: int) -> Counter[str]:
    """Wait until every order has ended, and count the ends."""
    found: Counter[str] = Counter()
    async with asyncio.timeout(WAIT_SECONDS):
        for number in range(keys):
            while (end := _end(await app.cell(order, f"o{number}").state())) is None:  # noqa: ASYNC110  # not ended yet
                await asyncio.sleep(0.05)
            found[end] += 1
    return found


def _end(state: Order | None) -> str | None:
    if state is None or state.stage not in ("shipped", "refused", "refunded"):
        return None
    return f"{state.stage}: {state.why}" if state.stage == "refunded" else state.stage


async def main(keys: int, url: str) -> None:
    began = time.monotonic()
    half = keys // 2
    async with engine(url) as app:
        await place(app, range(half))
        print(f"{half:,} orders are placed, and the engine stops in the middle of them")
    async with engine(url) as app:
        await place(app, range(half, keys))
        print(f"{keys:,} orders are placed")
        found = await ended(app, keys)
    for end, count in sorted(found.items()):
        print(f"  {count:>7,}  {end}")
    check(found, keys)
    print(f"All have ended as they must, in {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(given.keys, given.store or f"sqlite:///{Path(folder) / 'orders.db'}"))

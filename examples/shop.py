"""A shop: charge, wait for an approval, ship and email. If the order is not approved, everything is undone.

    python examples/shop.py

Three orders go through the same workflow: one is approved, one is refused, and one is never answered. An approval may
take two days; for the last order it may take two seconds.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec

from holdfast import Holdfast, RunFailed, TerminalError, receive, step, step_info, workflow

TWO_DAYS = 2 * 24 * 3600.0


class Order(msgspec.Struct):
    """An item that a customer buys."""

    item: str
    price: float


def say(text: str) -> None:
    """Print what is done, and by which process."""
    print(f"  process {os.getpid()} │ {text}", flush=True)


@step
async def put_back(item: str) -> None:
    """Undo ``reserve``. Its argument is the result of ``reserve``."""
    say(f"put back   {item}")


@step(undo=put_back)
async def reserve(order: Order) -> str:
    """Take the item off the shelf."""
    say(f"reserve    {order.item}")
    await asyncio.sleep(0.1)
    return order.item


@step
async def refund(payment: str) -> None:
    """Undo ``charge``."""
    say(f"refund     payment {payment}")


@step(retries=5, timeout=30, undo=refund)
async def charge(order: Order) -> str:
    """Take the money. The key is the same at every attempt: send it to the bank, and the bank charges once."""
    key = step_info().key
    say(f"charge     {order.price:.2f} EUR")
    await asyncio.sleep(0.2)
    return f"p-{key[:6]}"


@step(retries=5)
async def ship(order: Order) -> str:
    """Hand over the parcel. This takes a second."""
    say(f"ship       {order.item} …")
    await asyncio.sleep(1.0)
    return "parcel-1"


@step(retries=5)
async def email(order: Order, parcel: str) -> None:
    """Inform the customer."""
    say(f"email      {order.item} is on its way ({parcel})")


@workflow
async def checkout(order: Order, patience_seconds: float = TWO_DAYS) -> str:
    """Reserve, charge, wait for approval, ship, inform. Every ``await`` is durable."""
    await reserve(order)
    await charge(order)
    try:
        async with asyncio.timeout(patience_seconds):
            approved = await receive("approval", bool)
    except TimeoutError:
        approved = False
    if not approved:
        raise TerminalError("not approved")  # steps with an undo= are undone, the last one first
    parcel = await ship(order)
    await email(order, parcel)
    return parcel


async def main() -> None:
    """Run the three orders."""
    with tempfile.TemporaryDirectory() as folder:
        async with Holdfast(f"sqlite:///{Path(folder) / 'shop.db'}") as app:
            book = await app.start(checkout, Order("a book", 12.0), id="order-1")
            await book.signal("approval", value=True)
            print(f"order-1: {await book.result()}")

            yacht = await app.start(checkout, Order("a yacht", 990_000.0), id="order-2")
            await yacht.signal("approval", value=False)
            await print_failure(app, "order-2")

            await app.start(checkout, Order("a kite", 20.0), patience_seconds=2.0, id="order-3")
            await print_failure(app, "order-3")


async def print_failure(app: Holdfast, id: str) -> None:
    """Wait for a run that must fail, and print its error."""
    try:
        await app.run(id).result()
    except RunFailed as error:
        print(f"{id}: {error}")


if __name__ == "__main__":
    asyncio.run(main())

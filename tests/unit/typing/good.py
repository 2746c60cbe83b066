"""A typed program of a user: everything here must pass ``mypy --strict`` as it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from holdfast import (
    Holdfast,
    RetryPolicy,
    RunHandle,
    SyncHoldfast,
    continue_as_new,
    join_set,
    now,
    patched,
    random,
    receive,
    send,
    spawn,
    step,
    step_info,
    uuid,
    workflow,
)


@dataclass
class Order:
    item: str
    cents: int


@step
async def plain(order: Order) -> int:
    return order.cents


@step
def in_a_thread(text: str) -> str:
    return text.upper()


@step(retries=3)
async def refund(payment: str) -> None:
    assert step_info().attempt >= 1


@step(retry=RetryPolicy(max_attempts=3), timeout=5.0, undo=refund)
async def charge(order: Order, *, currency: str = "EUR") -> str:
    return f"{order.cents} {currency}"


@workflow
async def child(number: int) -> int:
    return number


@workflow(name="shop.checkout")
async def checkout(order: Order, tries: int = 0) -> str:
    cents: int = await plain(order)
    payment: str = await charge(order, currency="USD")
    loud: str = await in_a_thread(payment)
    approved: bool = await receive("approval", bool)
    first, second = await asyncio.gather(child(1), plain(order))
    total: int = first + second + cents
    async with asyncio.TaskGroup() as group:
        task: asyncio.Task[int] = group.create_task(child(2))
    results = join_set()
    results.submit(charge(order))
    results.submit(charge, order)
    moment: datetime = now()
    chance: float = random()
    token: UUID = uuid()
    id: str = await spawn(child, 3)
    await send(id, "hello", {"at": moment.isoformat(), "token": str(token), "chance": chance})
    if patched("second try") and not approved and tries < 3:
        continue_as_new(order, tries + 1)
    return f"{loud} {total + task.result()}"


async def main() -> None:
    async with Holdfast("memory://") as app:
        run: RunHandle[str] = await app.start(checkout, Order("book", 1200), id="order-1")
        result: str = await run.result(timeout=5)
        print(result)
        async for row in app.list(status="completed"):
            print(row.key.run)


def script() -> None:
    with SyncHoldfast("memory://") as app:
        number: int = app.start(child, 3).result()
        print(number)

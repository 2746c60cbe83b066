"""A user's program with mistakes: mypy must refuse each line marked ``# wrong: CODE`` with that code; pyright too."""

from __future__ import annotations

from datetime import timedelta

from holdfast import (
    Holdfast,
    Receipt,
    RunHandle,
    SyncHoldfast,
    WorkerOptions,
    action,
    child,
    perform,
    receive,
    step,
    workflow,
)
from holdfast.definition import D, Sketch, define, task


@step
async def charge(cents: int) -> str:
    return str(cents)


@step
def plain(text: str) -> int:
    return len(text)


@workflow
async def checkout(cents: int) -> str:
    number: int = await charge(cents)  # wrong: assignment
    await charge("twelve")  # wrong: arg-type
    await charge()  # wrong: call-arg
    await plain(text=3)  # wrong: arg-type
    text: str = await receive("approval", bool)  # wrong: arg-type
    print(text)
    charge(cents).upper()  # wrong: attr-defined
    charge(cents)  # wrong: unused-coroutine
    return number  # wrong: return-value


@action(connector="bank", operation="pay", reverse=charge)  # wrong: arg-type
async def pay(cents: int) -> str:
    return str(cents)


@action(connector="bank", operation="pay", risk="extreme")  # wrong: arg-type
def risky(cents: int) -> int:
    return cents


@action(connector="bank")  # wrong: call-arg
async def vague() -> None: ...


@workflow
async def governed(receipt: Receipt) -> int:
    number: int = await pay(3)  # wrong: assignment
    await pay("three")  # wrong: arg-type
    await risky()  # wrong: call-arg
    print(receipt.amount)  # wrong: attr-defined
    return number


@workflow  # wrong: arg-type
def not_async(cents: int) -> int:
    return cents


@step(retries="three")  # wrong: call-overload
async def impatient() -> None: ...


async def main() -> None:
    async with Holdfast("memory://", options=WorkerOptions(leases=3)) as app:  # wrong: call-arg
        run: RunHandle[int] = await app.start(checkout, 3)  # wrong: arg-type
        await app.start(checkout, "three")  # wrong: arg-type
        await app.start(checkout, "three", id="c-1")  # wrong: arg-type
        await app.start(checkout)  # wrong: arg-type
        await app.start(checkout, id="c-1")  # wrong: arg-type
        await app.start(checkout, 3, 4, id="c-1")  # wrong: call-arg
        await app.start(checkout, 3, ID="c-1")  # wrong: call-arg
        await app.start(checkout, 3, id=1)  # wrong: call-arg
        await app.start(checkout, cents="three")  # wrong: call-overload
        await app.start(checkout.bind("three"), id="c-1")  # wrong: arg-type
        await app.start(checkout.bind(3), 3, id="c-1")  # wrong: call-overload
        await app.start(charge, 3, id="c-1")  # wrong: arg-type
        print(await run.signal("approval"))  # wrong: func-returns-value
        app.list(status="ended")  # wrong: arg-type
        await app.tasks.approve(by="ann")  # wrong: call-arg
        app.tasks.list(status="open")  # wrong: arg-type


def script() -> None:
    with SyncHoldfast("memory://") as app:
        app.start(checkout, "three", id="c-1")  # wrong: arg-type
        number: int = app.start(checkout, 3, id="c-1").result()  # wrong: assignment
        app.tasks.approve(by="ann")  # wrong: call-arg
        app.tasks.list(status="open")  # wrong: arg-type
        text: str = app.receipts.get("r-1")  # wrong: assignment
        print(number, text)


async def look(item: str, deep: bool = False) -> int:
    return len(item)


@workflow
async def calling() -> None:
    text: str = await child("letters", int)({"to": "ann"})  # wrong: assignment
    print(text)
    child(3)  # wrong: call-overload
    child("letters")({"to": "ann"})  # wrong: unused-coroutine


@workflow
async def looking() -> None:
    text: str = await perform("look", look, "nut")  # wrong: arg-type
    print(text)
    await perform("look", look, 3)  # wrong: arg-type
    await perform("look", look, "nut", retries="three")  # wrong: arg-type
    await perform("look", len, "nut")  # wrong: arg-type
    perform("look", look, "nut")  # wrong: unused-coroutine


flow = define("shop.settle", version=1)
define("shop.settle")  # wrong: call-arg
define("shop.settle", version="1")  # wrong: arg-type
flow.sleep("rest", 5)  # wrong: arg-type
flow.wait("go", "go", tmeout="1h")  # wrong: call-arg
flow.wait("go", "go", timeout=5)  # wrong: arg-type
flow.task("ask", 5)  # wrong: arg-type
flow.fork("both", {"a": 1})  # wrong: dict-item
flow.repeat("each", lambda d: d, most="5")  # wrong: arg-type
flow.block("b", lambda d: 5)  # wrong: arg-type
flow.switch("s").when(D.state.x > 1)  # wrong: call-arg
flow.switch("s").when(D.state.x > 1, lambda d: d).end("e")  # wrong: attr-defined
switched: int = flow.switch("s").otherwise(lambda d: d)  # wrong: assignment
task("t", "T")  # wrong: call-arg
task("t", "T", dict, due=5)  # wrong: arg-type
sketch: Sketch = flow.sleep("rest", timedelta(hours=1)).end("done", 1, 2)  # wrong: call-arg

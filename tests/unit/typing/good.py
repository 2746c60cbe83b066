"""A typed program of a user: everything here must pass ``mypy --strict`` and pyright as it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from holdfast import (
    Cost,
    DidNotHappen,
    Happened,
    Holdfast,
    Policy,
    Receipt,
    RetryPolicy,
    RunHandle,
    SyncHoldfast,
    Trigger,
    action,
    continue_as_new,
    join_set,
    now,
    patched,
    perform,
    random,
    receive,
    send,
    spawn,
    step,
    step_info,
    uuid,
    workflow,
)
from holdfast import child as named
from holdfast.definition import D, Flow, Sketch, Term, define, has, task, when
from holdfast.programs.function.decorators import Workflow
from holdfast.views import Page, ReceiptInfo, RunInfo, TaskInfo, WaitInfo


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


@action(connector="bank", operation="refund", target="{receipt.target}")
async def take_back(receipt: Receipt) -> bool:
    return receipt.state == "succeeded"


async def look(order: Order, *, note: str = "") -> Happened | DidNotHappen:
    return Happened(order.cents) if note else DidNotHappen()


def price(cents: int) -> Cost:
    return Cost("openbank", cents / 100, currency="EUR")


@action(
    connector="bank",
    operation="pay",
    target="{order.item}",
    risk="high",
    idempotency_key="{order_hash}",
    reverse=take_back,
    cost=price,
    probe=look,
    secret=["note"],
    retry=RetryPolicy(max_attempts=2),
    timeout=5.0,
)
async def pay(order: Order, *, note: str = "") -> int:
    return order.cents


@action(connector="bank", operation="balance", writes=False, undo=refund)
def balance(account: str) -> str:
    return account


@workflow
async def governed(order: Order) -> str:
    cents: int = await pay(order, note="x")
    both: tuple[int, str] = await asyncio.gather(pay(order), balance("a-1"))
    return f"{await balance(account='a-1')} {cents + both[0]}"


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
    letters: int = await named("letters@^2", int)({"to": "ann"})
    other: str = await spawn(named("letters"), to="bob", id=str(letters))
    results.submit(named("letters@3", str)({"to": other}))
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
            ended: datetime | None = row.ended_at
            print(row.id, ended)
        page: Page[RunInfo] = await app.page(limit=10)
        info: RunInfo = await run.info()
        waits: tuple[WaitInfo, ...] = info.waits
        print(page.next, waits)
        async for entry in run.journal():
            fields: dict[str, object] = entry.fields
            print(entry.event, fields)


@workflow
async def gift(order: Order, *, note: str, id: int = 0) -> bool:
    return bool(note) and id > 0


@workflow
async def nothing() -> None: ...


@workflow
async def several(a: int, b: str, c: float, d: bool, e: bytes = b"") -> None: ...


async def starts(app: Holdfast, any_workflow: Workflow[..., int]) -> None:
    """Positional arguments beside the options of start, named ones alone, all of them bound."""
    order = Order("book", 1200)
    await app.start(nothing)
    await app.start(nothing, id="n-1", tenant="acme", priority=3, attributes={"a": "b"})
    await app.start(checkout, order)
    await app.start(checkout, order, 3, id="c-1")
    await app.start(checkout, order=order, tries=3)
    await app.start(several, 1, "b", 3, True, id="s-1")
    await app.start(several, 1, "b", 3.0, True, b"e", id="s-1")
    run: RunHandle[bool] = await app.start(gift.bind(order, note="x", id=3), id="g-1")
    named: RunHandle[object] = await app.start("gift", order, note="x", id="g-1")
    loose: RunHandle[int] = await app.start(any_workflow, 1, 2, 3, id="l-1")
    print(run, named, loose)


async def people(policy: Policy) -> None:
    async with Holdfast("memory://", policy=policy) as app:
        await app.start(governed, Order("book", 1), actor="ann", workspace="ops", trigger=Trigger("mail", "1"))
        async for task in app.tasks.list(status="requested"):
            answered: TaskInfo = await app.tasks.approve(task.id, by="bob")
            print(answered.answers[-1].at.year)
        async for receipt in app.receipts.list():
            found: ReceiptInfo = receipt
            reversal: RunHandle[object] = await app.receipts.reverse(found.id, by="ann")
            print(await reversal.result())


def script() -> None:
    with SyncHoldfast("memory://") as app:
        number: int = app.start(child, 3).result()
        number = app.start(child, 3, id="c-1").result()
        number = app.start(child.bind(number=3), id="c-1").result()
        print(number)
        for task in app.tasks.list(status="requested", limit=3):
            answered: TaskInfo = app.tasks.approve(task.id, by="bob")
            print(answered.status)
        receipts: Page[ReceiptInfo] = app.receipts.page(limit=2)
        good: bool = app.audit.verify(tenant="acme").good
        print(receipts.next, good)


async def _look(item: str, deep: bool = False) -> int:
    return len(item)


@workflow
async def performing() -> int:
    shallow: int = await perform("look", _look, "nut")
    deep: int = await perform("look", _look, "nut", True, retries=2, timeout=3.0)
    return shallow + deep


@dataclass
class Decision:
    decision: str


approve = task("approve", "Approve " + D.start.item, Decision, groups=["claims"], due=timedelta(days=2), remind=["24h"])


def paid(flow: Flow) -> Flow:
    return flow.action("pay", pay, order=D.start, undo=take_back, timeout="1h", on_failure=None)


settle: Sketch = (
    define("shop.settle", version=1, start=Order, state={"total": {"type": "number", "default": 0}})
    .step("price", plain, order=D.start, into=D.state.total, retry={"max": 3, "first": "2s"})
    .switch("route")
    .when((D.state.total > 100) & has(D.start.item), lambda d: d.task("ask", approve, into="state.answer"))
    .when(D.start.item.startsWith("gift"), lambda d: d.run("child", child, number=1))
    .otherwise(lambda d: d.set("auto", {"state.answer": {"decision": "approve"}}))
    .repeat("each", lambda d: d.sleep("nap", timedelta(seconds=1)), times=3, at_once=2)
    .fork("both", {"pay": paid, "wait": lambda d: d.wait("papers", "documents", key=D.start.item, timeout="30d")})
    .pick("first", {"go": lambda d: d.wait("going", "go"), "late": (lambda d: d.sleep("rest", "7d"), paid)})
    .end("done", status=when(D.state.total > 100, "large", "small"))
)
condition: Term = ~D.state.ok & (D.state.total >= 1)


async def define_and_start(app: Holdfast) -> None:
    app.definitions.add(settle)
    run: RunHandle[object] = await app.start("shop.settle", Order("book", 1200))
    state: object = await run.state()
    print(state, condition)

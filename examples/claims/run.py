"""Settle two claims: a small one, and one that a person must approve. ``make claims``."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from claims_app import engine

from holdfast import Holdfast
from holdfast.errors import InvalidAnswer


async def settle_small(app: Holdfast) -> None:
    print("A small claim: nobody is asked")
    run = await app.start("claims.settle", claim("C-1", 12.0), id="C-1")
    await run.signal("documents", ["photo"], key="C-1")
    print(f"  it ended with {await run.result(timeout=30)}")


async def settle_large(app: Holdfast) -> None:
    print("A large claim: it waits for a person")
    run = await app.start("claims.settle", claim("C-2", 9000.0), id="C-2")
    await run.signal("documents", ["photo"], key="C-2")
    while not (tasks := [task async for task in app.tasks.list(run="C-2")]):  # noqa: ASYNC110  # not made yet
        await asyncio.sleep(0.05)
    (task,) = tasks
    print(f"  {task.summary}; its state is {await run.state()}")
    try:
        await app.tasks.complete(task.id, {"decision": "reject"}, by="bob", groups=["claims"])
    except InvalidAnswer as error:
        print(f"  refused: {error}")
    await app.tasks.complete(task.id, {"decision": "approve"}, by="bob", groups=["claims"])
    print(f"  it ended with {await run.result(timeout=30)}")


def claim(number: str, amount: float) -> dict[str, object]:
    return {"claimNo": number, "filedBy": "ann", "items": [{"what": "things", "amount": amount}]}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with engine(f"sqlite:///{Path(folder) / 'claims.db'}") as app:
            await settle_small(app)
            await settle_large(app)


if __name__ == "__main__":
    asyncio.run(main())

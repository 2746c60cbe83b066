"""Children: workflows that start other workflows, and wait for them or not.

    python examples/children.py

Calling a workflow inside a workflow starts a child with its own journal. Its id consists of its parent's id and its
position there. It is cancelled when its parent no longer waits for it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast import Holdfast, StepFailed, TerminalError, receive, send, spawn, step, workflow


@step
async def cook(dish: str) -> str:
    """Cook a dish. A soufflé fails."""
    await asyncio.sleep(0.05)
    if dish == "soufflé":
        raise TerminalError("it collapsed")
    return f"hot {dish}"


@step
async def wash(dishes: int) -> int:
    """Wash the dishes. Dinner does not wait for this."""
    return dishes


@workflow
async def one_dish(dish: str) -> str:
    """A child: its steps are in its own journal."""
    return await cook(dish)


@workflow
async def wash_up(dishes: int, receiver: str) -> int:
    """An independent run, which sends a signal to the run ``receiver`` when it is done."""
    washed = await wash(dishes)
    await send(receiver, "washed", washed)
    return washed


@workflow
async def dinner(dishes: list[str]) -> list[str]:
    """Start all children at once; a child's failure is an exception here."""
    served = []
    for call in asyncio.as_completed([one_dish(dish) for dish in dishes]):
        try:
            served.append(await call)
        except StepFailed as error:
            served.append(f"no dish ({error.failure})")
    await spawn(wash_up, len(dishes), "kitchen", id="wash-up")
    return sorted(served)


@workflow
async def kitchen() -> int:
    """Wait for the signal of the run that washes up."""
    return await receive("washed", int)


async def main() -> None:
    """Cook, and print the state of each child."""
    with tempfile.TemporaryDirectory() as folder:
        async with Holdfast(f"sqlite:///{Path(folder) / 'children.db'}") as app:
            washed = await app.start(kitchen, id="kitchen")
            run = await app.start(dinner, ["soup", "fish", "soufflé"], id="dinner")
            print(await run.result())
            async for child in run.children():
                print(f"  child {child.id} is {await child.status()}")
            print(f"the kitchen received {await washed.result()} washed dishes")


if __name__ == "__main__":
    asyncio.run(main())

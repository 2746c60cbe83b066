"""The app that the command line's tests load."""

from __future__ import annotations

from typing import Any

from holdfast import Holdfast, receive, step, workflow

app = Holdfast("sqlite:///cli-shop.db", worker=False)


@step(name="cli_charge")
async def charge(amount: int) -> dict[str, Any]:
    return {"paid": amount, "raw": b"\x00\xff"}


@workflow(name="cli_order")
async def order(amount: int, gift: bool = False) -> dict[str, Any]:
    paid = await charge(amount)
    ok = await receive("ok", bool)
    return {"ok": ok, "gift": gift, **paid}


@workflow(name="cli_failing")
async def failing(why: str) -> None:
    await charge(1)
    raise ValueError(why)

"""An application with routes of its own, and the engine's API and console under ``/engine``.

    pip install 'holdfast[server]' fastapi
    holdfast init ann --tenant default --store sqlite:///orders.db
    uvicorn --app-dir examples/fastapi main:web

``POST /orders`` starts a run. The console is at http://127.0.0.1:8000/engine/; log in with the token of ``init``.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from msgspec import Struct
from pydantic import BaseModel

from holdfast import Holdfast, ask, step, workflow
from holdfast.errors import RunNotFound
from holdfast.server import Server

app = Holdfast(os.environ.get("HOLDFAST_STORE", "sqlite:///orders.db"))


class Packed(Struct):
    """What the person who packs an order answers."""

    parcels: int


@step
async def reserve(item: str, count: int) -> str:
    return f"{count} × {item}"


@workflow
async def order(item: str, count: int) -> str:
    reserved = await reserve(item, count)
    packed = await ask(f"Pack {reserved}", Packed, groups=["warehouse"])
    return f"{reserved} in {packed.parcels} parcels"


server = Server(app)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """The engine opens and closes with the application."""
    async with app:
        yield
        await server.stop_streams()


web = FastAPI(lifespan=lifespan)
web.mount("/engine", server.asgi)


class Order(BaseModel):
    """The body of ``POST /orders``. The number makes the order: sent twice, it is one run."""

    number: str
    item: str
    count: int = 1


@web.post("/orders", status_code=201)
async def place(body: Order) -> dict[str, str]:
    run = await app.start(order, body.item, body.count, id=f"order-{body.number}")
    return {"order": body.number, "run": run.id}


@web.get("/orders/{number}")
async def show(number: str) -> dict[str, str]:
    try:
        run = await app.run(f"order-{number}").info()
    except RunNotFound:
        raise HTTPException(404, f"there is no order {number}") from None
    return {"order": number, "status": run.status}

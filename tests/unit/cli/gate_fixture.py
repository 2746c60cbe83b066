"""A store with governed runs: one that was paid, one that asks two people, one whose act has an unknown outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast import Holdfast, Trigger
from holdfast.gate.policy.policy import parse
from holdfast.programs.function.decorators import Workflow
from holdfast.views import TaskInfo
from tests.unit.cli import cli_bank

WORKFLOWS: list[Workflow[..., Any]] = [cli_bank.payment, cli_bank.wiring]


def engine(url: str) -> Holdfast:
    """An engine with a worker that serves them under their policy."""
    return Holdfast(url, workflows=WORKFLOWS, policy=parse(cli_bank.POLICY, "cli_bank"))


async def asked(app: Holdfast, run: str) -> TaskInfo:
    """Wait for the open task of a run."""
    while True:
        async for task in app.tasks.list(run=run):
            return task
        await app.changed(0.05)


async def fill(url: str) -> None:
    async with engine(url) as app:
        paid = await app.start(
            cli_bank.payment,
            "a-1",
            10,
            actor="ann",
            workspace="ops",
            trigger=Trigger("webhook", "INC-1"),
            id="paid",
        )
        await app.tasks.approve((await asked(app, "paid")).id, by="bob", reason="it is small")
        await paid.result(30)
        await app.start(cli_bank.payment, "a-2", 5000, actor="cid", id="asking")
        await asked(app, "asking")
        await app.start(cli_bank.wiring, "a-3", tenant="acme", id="doubtful")
        await asked(app, "doubtful")


def with_worker(url: str, work: Callable[[Holdfast], Coroutine[Any, Any, Any]]) -> Any:
    """Run a worker on the store while ``work`` runs."""

    async def whole() -> Any:
        async with engine(url) as app:
            return await work(app)

    return asyncio.run(whole())

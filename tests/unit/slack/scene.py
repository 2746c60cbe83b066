"""An engine whose payments must be approved, a server, and a stand-in for Slack with people in it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from holdfast import Holdfast, Policy, action, workflow
from holdfast.runs.clock import Clock
from holdfast.server import Server, ServerSettings
from holdfast.slack import Slack
from holdfast.slack.cards import APPROVE, REJECT
from tests.serving import served
from tests.slack_stand_in import CHANNEL, OTHER, Message, SlackStandIn
from tests.unit.worker.ground import asking

ANN, BOB, CEC, EVE = "UANN", "UBOB", "UCEC", "UEVE"


@action(connector="bank", operation="pay", target="{account}", secret=["password"], name="slack.pay")
async def pay(account: str, amount: int, note: str, password: str) -> str:
    return f"paid {amount}"


@workflow(name="slack.paying")
async def paying(amount: int = 7, note: str = "rent") -> str:
    return await pay("DE1", amount, note, "hunter22")


class MovingClock:
    """The real time, and what a test adds to it."""

    def __init__(self) -> None:
        self.more_seconds = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + int(self.more_seconds * 1e6)


class Scene:
    """What a test sees of it all."""

    def __init__(self, app: Holdfast, stand_in: SlackStandIn, slack: Slack, address: str, clock: MovingClock) -> None:
        self.app = app
        self.stand_in = stand_in
        self.slack = slack
        self.address = address
        self.clock = clock

    async def ask(self, run: str = "r1", *args: Any, tenant: str = "acme", actor: str = "zoe") -> str:
        """Start a run that asks for an approval; gives the task."""
        await self.app.start("slack.paying", *args, id=run, tenant=tenant, actor=actor)
        await self.app.run(run, tenant=tenant).settled(timeout=60)
        return (await anext(self.app.tasks.list(run=run, tenant=tenant))).id

    async def result(self, run: str = "r1", tenant: str = "acme") -> Any:
        return await self.app.run(run, tenant=tenant).result(timeout=60)

    async def approve(self, card: Message, account: str = ANN, **how: Any) -> httpx.Response:
        return await self.stand_in.send(self.address, self.stand_in.press_of(card, APPROVE, account), **how)

    async def reject(self, card: Message, reason: str, account: str = ANN) -> httpx.Response:
        """Press Reject, wait for the form, and send it."""
        views = len(self.stand_in.views)
        assert (
            await self.stand_in.send(self.address, self.stand_in.press_of(card, REJECT, account))
        ).status_code == 200
        await self.stand_in.until(lambda: len(self.stand_in.views) > views)
        return await self.stand_in.send(self.address, self.stand_in.submission_of(reason, account))

    async def told(self, account: str) -> str:
        """What only this person was told."""

        def found() -> str | None:
            return next((text for who, text in self.stand_in.ephemeral if who == account), None)

        text: str = await self.stand_in.until(found)
        self.stand_in.ephemeral.clear()
        return text

    async def acts(self, act: str, tenant: str = "acme") -> list[dict[str, Any]]:
        """The notes of the audit about acts of this name."""
        found = [each.record async for each in self.app.audit.list(tenant=tenant)]
        return [record for record in found if record is not None and record.get("act") == act]


async def people(app: Holdfast) -> None:
    """Two tenants with the same names in them, each with its own channel."""
    for tenant, channel in (("acme", CHANNEL), ("beta", OTHER)):
        await app.tenants.create(tenant, by="root")
        for name, level in (("root", 6), ("ann", 2), ("bob", 2), ("cec", 1), ("zoe", 4)):
            await app.users.create(name, level=level, tenant=tenant, by="root")
        await app.slack.use(channel, tenant=tenant, by="root")
    for account, name in ((ANN, "ann"), (BOB, "bob"), (CEC, "cec")):
        await app.slack.map(account, name, tenant="acme", by="root")


@asynccontextmanager
async def scene(
    policy: Policy | None = None,
    *,
    read_only: bool = False,
    starts: bool = True,
    url: str = "memory://",
    **settings: Any,
) -> AsyncIterator[Scene]:
    """All of it, on a memory store or another one."""
    clock = MovingClock()
    plain: Clock = clock
    stand_in = SlackStandIn()
    app = Holdfast(url, workflows=[paying], policy=policy or asking(), clock=plain)
    async with stand_in.running(), app:
        await people(app)
        slack = Slack(app, stand_in.settings(**settings), takes_presses=not read_only)
        server = Server(app, slack=slack, settings=ServerSettings(read_only=read_only), console=False)
        async with served(app, server=server) as address:
            if starts:
                await server.open()
            try:
                yield Scene(app, stand_in, slack, address, clock)
            finally:
                await server.close()


def value_of(card: Message) -> dict[str, Any]:
    """What the buttons of a card say."""
    (actions,) = [each for each in card["blocks"] if each["type"] == "actions"]
    found: dict[str, Any] = json.loads(actions["elements"][0]["value"])
    return found


def is_decided(card: Message) -> bool:
    return all(block["type"] != "actions" for block in card["blocks"])


async def decided(scene: Scene, channel: str = CHANNEL) -> Message:
    """The first card without buttons."""
    return await scene.stand_in.until(lambda: next(filter(is_decided, scene.stand_in.cards(channel)), None))

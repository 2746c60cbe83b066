"""The roles that tell subscriptions, step by step: on one store, with a clock that a test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Holdfast
from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.audit.sealer import Sealer
from holdfast.client.views.webhooks import DeliveryInfo
from holdfast.runs.clock import SYSTEM_ENTROPY
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.memory.store import MemoryStore
from holdfast.transports.http import sender
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.webhooks.occurrences import run_note
from holdfast.webhooks.signatures import proved_id
from holdfast.worker.lifecycle import Lifecycle
from holdfast.worker.roles.deliverer import Deliverer
from holdfast.worker.roles.follower import Follower
from tests.unit.transports.server import Request, Server

TENANT = "acme"


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 1_800_000_000_000_000

    def now(self) -> int:
        return self.at

    def pass_by(self, seconds: float) -> None:
        self.at += round(seconds * 1e6)


class Mortal:
    """A process's handle on the store, which dies at its next commit: before it, or behind it."""

    def __init__(self, store: p.Store) -> None:
        self._store = store
        self.dies: str = ""
        self.died = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Sequence[p.Change]) -> list[p.Answer]:
        answers = [] if self.dies == "before" else await self._store.commit(batch)
        if self.dies:
            self.died.set()
            await asyncio.Event().wait()
        return answers


class Process:
    """A worker's two roles, and the handle by which it can be killed."""

    def __init__(self, store: p.Store, clock: HandClock) -> None:
        self.store = Mortal(store)
        parts: Any = (self.store, Committer(self.store), clock, SYSTEM_ENTROPY)
        self.follower_parts: Any = parts
        self.lifecycle = Lifecycle()
        self.deliverer = Deliverer(*parts, SecretKeeper(self.store), lambda: None)
        self.follower = Follower(*parts, self.lifecycle, self.deliverer)

    async def round(self) -> None:
        """Follow, and send what is due, until nothing is under way."""
        self.follower._rests_until = 0.0
        await self.follower.round()
        await self.deliverer.round()
        await self.deliverer.idle()

    async def dies(self, when: str, work: Any) -> None:
        """Do this, and die at its next commit."""
        self.store.dies = when
        task = asyncio.create_task(work)
        await self.store.died.wait()
        task.cancel()
        for each in self.deliverer._under_way.values():
            each.cancel()
        await asyncio.gather(task, *self.deliverer._under_way.values(), return_exceptions=True)


class Post:
    """An engine without a worker, and what happens in it."""

    def __init__(self, app: Holdfast, clock: HandClock) -> None:
        self.app = app
        self.clock = clock
        self.process = self.another()

    def another(self) -> Process:
        """Another worker."""
        return Process(self.app.store, self.clock)

    async def happen(self, event: str, run: str, workflow: str = "pay", tenant: str = TENANT) -> None:
        """Something happens to a run, and is sealed."""
        self.clock.pass_by(0.001)
        await self.app.committer.commit(run_note(tenant, event, self.clock.now(), {"run": run, "workflow": workflow}))
        await self.seal()
        self.clock.pass_by(0.001)

    async def seal(self) -> None:
        await Sealer(self.app.store, self.clock).seal()

    async def deliveries(self, id: str = "ops") -> Sequence[DeliveryInfo]:
        return await self.app.subscriptions.deliveries(id, tenant=TENANT)

    async def acts(self) -> list[r.Operated]:
        query = p.AuditQuery(TENANT)
        found = [r.decode(entry.body) async for entry in entries_of(self.app.store, query)]
        return [each for each in found if isinstance(each, r.Operated)]


@asynccontextmanager
async def post(store: str | p.Store = "") -> AsyncIterator[Post]:
    clock = HandClock()
    async with Holdfast(store or MemoryStore(), worker=False, clock=clock) as app:
        yield Post(app, clock)
        await sender.close()


def is_signed(request: Request, secret: str, clock: HandClock) -> bool:
    """Whether a request is signed with this secret, as its receiver checks it."""
    return proved_id("standard", [secret], request.headers, request.body, clock.now() / 1e6) is not None


async def subscribed(it: Post, receiver: Server, *events: str, **more: Any) -> str:
    made = await it.app.subscriptions.create(
        "ops", receiver.url + "/hook?x=1", events or ["run.*"], tenant=TENANT, by="ann", **more
    )
    it.clock.pass_by(10)
    return made.secret or ""

"""What a request costs, guarded by counts and not by times: reads, commits and clients that are made."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection

from holdfast import Holdfast, workflow
from holdfast.server import authentication
from holdfast.server.streams.watcher import Subject, Subscription
from holdfast.store import protocol as p
from holdfast.store.memory.store import MemoryStore
from tests.serving import person, served, token_of


@workflow(name="costs.nothing")
async def nothing(number: int) -> int:
    return number


class CountedStore(MemoryStore):
    """A store in memory that counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    async def item(self, key: p.ItemKey) -> p.ItemRow | None:
        self.asked[f"item {key.kind}"] += 1
        return await super().item(key)

    async def items(self, kind: str, limit: int, **conditions: Any) -> list[p.ItemRow]:
        self.asked[f"items {kind}"] += 1
        return await super().items(kind, limit, **conditions)

    async def get(self, keys: Any) -> list[p.Run]:
        self.asked["get"] += 1
        return await super().get(keys)

    async def find(self, query: p.Query, limit: int, after: p.Run | p.Cursor | None = None) -> list[p.Run]:
        self.asked["find"] += 1
        return await super().find(query, limit, after)

    async def definitions(self, *given: Any, **named: Any) -> list[p.DefinitionRow]:
        self.asked["definitions"] += 1
        return await super().definitions(*given, **named)

    async def workers(self) -> list[p.WorkerRow]:
        self.asked["workers"] += 1
        return await super().workers()

    async def commit(self, batch: Any) -> list[p.Answer]:
        self.asked["commit"] += 1
        return await super().commit(batch)


Ask = Callable[[httpx.AsyncClient], Any]

WHO = {"item token": 1, "item user": 1}
"""Who asks is read anew for each request: the token and its user."""


@pytest.mark.parametrize(
    ("ask", "costs"),
    [
        (lambda http: http.post("/v1/runs", json={"workflow": "costs.nothing", "args": [1]}), {"commit": 1}),
        (lambda http: http.get("/v1/runs?workflow=costs.nothing"), {"find": 1}),
        (lambda http: http.get("/v1/runs/one"), {"get": 1, "workers": 1, "items lost": 1}),
    ],
    ids=["start", "list", "run"],
)
def test_a_request_reads_and_commits_no_more_than_it_must(ask: Ask, costs: dict[str, int]) -> None:
    """A start is one commit; nothing that is asked for repeatedly is made or looked for again."""

    async def judge() -> None:
        store = CountedStore()
        async with Holdfast(store, workflows=[nothing], worker=False) as app:
            token = await token_of(app, "acme", "ann", 4)
            await app.start(nothing, 1, id="one", tenant="acme")
            async with served(app) as address, person(address, token) as http:
                assert (await ask(http)).is_success
                store.asked.clear()
                assert (await ask(http)).is_success
                assert dict(store.asked) == {**WHO, **costs}

    asyncio.run(judge())


def test_clients_of_tokens_are_kept_for_those_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number, by a hash of the token: whoever sends many other tokens fills no memory."""

    async def judge() -> None:
        async with Holdfast("memory://", worker=False) as app:
            monkeypatch.setattr(authentication, "MOST_CLIENTS", 2)
            way = authentication.BearerTokens(app)
            tokens = [await token_of(app, "acme", name, 1) for name in ("ann", "bea", "cat")]

            async def client(token: str) -> Holdfast:
                scope = {"type": "http", "headers": [(b"authorization", f"Bearer {token}".encode())]}
                acting = await way.authenticate(HTTPConnection(scope))
                assert acting is not None
                assert token not in acting.key
                return acting.client

            ann, bea = await client(tokens[0]), await client(tokens[1])
            assert await client(tokens[0]) is ann
            await client(tokens[2])
            assert await client(tokens[0]) is ann
            assert await client(tokens[1]) is not bea
            assert len(way._kept) == 2

    asyncio.run(judge())


def test_a_kept_client_is_judged_anew_for_each_request() -> None:
    """What was changed a moment ago counts: a token that is revoked, and a user who is demoted."""

    async def judge() -> None:
        async with Holdfast("memory://", workflows=[nothing], worker=False) as app:
            token = await token_of(app, "acme", "ann", 4)
            minted = [each.id async for each in app.tokens.list(tenant="acme")]
            async with served(app) as address, person(address, token) as http:

                async def start() -> int:
                    return (await http.post("/v1/runs", json={"workflow": "costs.nothing", "args": [1]})).status_code

                assert await start() == 201
                await app.users.set_level("ann", 1, tenant="acme", by="root")
                assert await start() == 403
                await app.users.set_level("ann", 4, tenant="acme", by="root")
                assert await start() == 201
                await app.tokens.revoke(minted[0], tenant="acme", by="root")
                assert await start() == 401

    asyncio.run(judge())


def test_a_state_is_written_once_for_all_streams_of_a_subject() -> None:
    """Two hundred people who watch one list get the same bytes, and the next state is written anew."""
    written: list[str] = []

    def write(value: list[str]) -> bytes:
        written.extend(value)
        return value[0].encode()

    subject = Subject(None, None)
    readers = [Subscription(subject) for _ in range(3)]
    first, second = ["first"], ["second"]
    assert {reader.written(first, write) for reader in readers} == {b"first"}
    assert {reader.written(second, write) for reader in readers} == {b"second"}
    assert written == ["first", "second"]

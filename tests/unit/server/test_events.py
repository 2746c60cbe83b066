"""Streams of events: what is there, then what changes; they go on where they ended, and end with the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings
from holdfast.server.route import EVENTS
from holdfast.server.streams import watcher as stream_watcher
from tests.serving import person, served, token_of
from tests.unit.cli.cli_machines import Poured, tank
from tests.unit.server.test_runs import WAIT, WORKFLOWS


class Event(NamedTuple):
    kind: str
    id: str | None
    data: Any


async def events(response: httpx.Response) -> AsyncIterator[Event]:
    """The events of a stream, without its pings."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Event(fields["event"], fields.get("id"), json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


@asynccontextmanager
async def streaming() -> AsyncIterator[tuple[Holdfast, Server, httpx.AsyncClient]]:
    async with Holdfast("memory://", workflows=WORKFLOWS) as app:
        token = await token_of(app, "acme", "ann", 4)
        server = Server(app, settings=ServerSettings(requests_at_once=10**6))
        async with served(app, server=server) as address, person(address, token) as client:
            yield app, server, client


async def wait_for(client: httpx.AsyncClient, id: str) -> None:
    await client.post("/v1/runs", json={"workflow": "served.waiting", "id": id}, headers=WAIT)


def test_a_run_is_followed_to_its_end_and_the_stream_goes_on_where_it_was_lost() -> None:
    """Every entry comes once, in order; what was received is not sent again; after the end there is nothing."""

    async def main() -> None:
        async with streaming() as (_, _, client):
            await wait_for(client, "r")
            async with client.stream("GET", "/v1/events/runs/r", params={"first": 0}) as response:
                assert response.headers["content-type"].startswith("text/event-stream")
                found = events(response)
                first = [await anext(found) for _ in range(3)]
                assert [each.kind for each in first] == ["entry", "entry", "run"]
                await client.post("/v1/runs/r/signal", json={"name": "go", "value": "x"})
                rest = [each async for each in found]
            assert [each.kind for each in rest[-2:]] == ["run", "end"]
            assert rest[-2].data["status"] == "completed"
            sequences = [each.data["sequence"] for each in (*first, *rest) if each.kind == "entry"]
            assert sequences == list(range(len(sequences)))
            whole = (await client.get("/v1/runs/r/journal")).json()["entries"]
            assert [each.data for each in (*first, *rest) if each.kind == "entry"] == whole

            lost = {"Last-Event-ID": first[1].id or ""}
            async with client.stream("GET", "/v1/events/runs/r", headers=lost) as response:
                again = [each async for each in events(response)]
            assert [each.data["sequence"] for each in again if each.kind == "entry"] == sequences[2:]
            last = [each.id for each in rest if each.kind == "entry"][-1] or ""
            over = await client.get("/v1/events/runs/r", headers={"Last-Event-ID": last})
            assert over.status_code == 204
            odd = await client.get("/v1/events/runs/r", headers={"Last-Event-ID": "x"})
            assert odd.json()["problems"][0]["pointer"] == "header/Last-Event-ID"
            assert (await client.get("/v1/events/runs/none")).status_code == 404

    asyncio.run(main())


def test_a_list_and_the_inbox_are_sent_as_they_change() -> None:
    """The page comes at once and after every change; a reader that has it already gets the next one."""

    async def main() -> None:
        async with streaming() as (_, _, client):
            async with client.stream("GET", "/v1/events/runs", params={"workflow": "served.waiting"}) as response:
                found = events(response)
                empty = await anext(found)
                assert (empty.kind, empty.data["items"]) == ("runs", [])
                await wait_for(client, "a")
                page = await anext(found)
                while page.data["items"][0]["status"] != "waiting":
                    page = await anext(found)
                assert [run["id"] for run in page.data["items"]] == ["a"]
            headers = {"Last-Event-ID": page.id or ""}
            async with client.stream(
                "GET", "/v1/events/runs", params={"workflow": "served.waiting"}, headers=headers
            ) as response:
                found = events(response)
                await wait_for(client, "b")
                assert [run["id"] for run in (await anext(found)).data["items"]][-1] == "a"
            async with client.stream("GET", "/v1/events/inbox") as response:
                assert (await anext(events(response))).data == {"items": [], "next": None}

    asyncio.run(main())


def test_many_streams_share_one_look_and_an_idle_store_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many streams of the same things read them together, and nothing where nothing is committed."""
    monkeypatch.setattr(stream_watcher, "LOOK_SECONDS", 3600.0)

    async def main() -> None:
        async with streaming() as (app, server, client):
            await wait_for(client, "r")
            watcher, reads = server.watcher, [0]
            find, get = app.store.find, app.store.get

            async def counted_find(*args: Any) -> Any:
                reads[0] += 1
                return await find(*args)

            async def counted_get(*args: Any) -> Any:
                reads[0] += 1
                return await get(*args)

            app._store.find, app._store.get = counted_find, counted_get  # type: ignore[method-assign]
            requests = [client.build_request("GET", path) for path in ("/v1/events/runs", "/v1/events/runs/r") * 30]
            limits = httpx.Limits(max_connections=300)
            async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as many:
                opened = [await many.send(request, stream=True) for request in requests]
                assert watcher.open_streams == 60
                readers = [events(response) for response in opened]
                for reader in readers:
                    await anext(reader)
                while watcher.is_due or await app.store.unsealed(1):  # the audit is sealed some time after an entry
                    await many.get(f"{client.base_url}/healthz")
                looks, reads[0] = watcher.looks, 0
                for _ in range(50):
                    await many.get(f"{client.base_url}/healthz")
                assert (watcher.looks - looks, reads[0]) == (0, 0)
                await client.post("/v1/runs/r/signal", json={"name": "go"})
                ends = [[each async for each in reader] for reader in readers[1::2]]
                assert all(end[-1].kind == "end" for end in ends)
                assert watcher.looks - looks < 10
                for response in opened:
                    await response.aclose()

    asyncio.run(main())


def test_a_stream_ends_with_the_server_and_with_the_right_to_look() -> None:
    """A server that stops ends all streams at once; whoever may not look any more gets no further event."""

    async def main() -> None:
        async with streaming() as (app, server, client):
            await wait_for(client, "r")
            other = person(str(client.base_url), await token_of(app, "acme", "bob", 1))
            async with other, other.stream("GET", "/v1/events/runs/r", params={"first": 0}) as response:
                found = events(response)
                assert (await anext(found)).kind == "entry"
                await app.users.disable("bob", tenant="acme", by="root")
                await client.post("/v1/runs/r/signal", json={"name": "go"})
                late = [each async for each in found]
                assert late[-1].kind == "problem"
                assert late[-1].data["code"] == "not_permitted"
                assert "SignalReceived" not in str(late)
            async with client.stream("GET", "/v1/events/runs") as response:
                found = events(response)
                await anext(found)
                await server.stop_streams()
                assert [each async for each in found] == []
            assert (await client.get("/v1/me")).status_code == 200

    asyncio.run(main())


def test_one_caller_cannot_have_all_streams() -> None:
    """Somebody else's stream begins; and so does another of the first caller's, when one of theirs has ended."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            tokens = [await token_of(app, tenant, "ann", 4) for tenant in ("acme", "bolt")]
            server = Server(app, settings=ServerSettings(stream_limit_each=1))
            async with (
                served(app, server=server) as address,
                person(address, tokens[0]) as greedy,
                person(address, tokens[1]) as other,
            ):
                async with greedy.stream("GET", "/v1/events/runs") as first:
                    await anext(events(first))
                    second = await greedy.get("/v1/events/inbox")
                    assert (second.status_code, second.json()["code"]) == (429, "too_many_requests")
                    async with other.stream("GET", "/v1/events/runs") as third:
                        assert (await anext(events(third))).kind == "runs"
                while server.watcher.open_streams:  # noqa: ASYNC110  # uvicorn tells nobody that a reader has gone
                    await asyncio.sleep(0.01)
                async with greedy.stream("GET", "/v1/events/runs") as again:
                    assert (await anext(events(again))).kind == "runs"

    asyncio.run(main())


def test_whoever_asks_for_the_head_of_a_stream_opens_none() -> None:
    """The connection is good for the next request at once."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            token = await token_of(app, "acme", "ann", 4)
            server = Server(app)
            async with served(app, server=server) as address, person(address, token) as client:
                for path in ("/v1/events/runs", "/v1/events/inbox"):
                    head = await client.head(path)
                    assert (head.status_code, head.headers["content-type"].partition(";")[0]) == (200, EVENTS)
                    assert server.watcher.open_streams == 0
                assert (await client.get("/v1/me")).status_code == 200

    asyncio.run(main())


@pytest.mark.parametrize("limits", [{"stream_limit_each": 2}, {"stream_limit": 2}], ids=["of one caller", "of all"])
def test_one_stream_more_than_the_limit_is_refused_before_it_begins(limits: dict[str, int]) -> None:
    """Of every kind, and HEAD likewise, with the status and the time to wait; each that ends makes room for one."""
    paths = ["/v1/events/runs", "/v1/events/runs/r", "/v1/events/inbox", "/v1/events/cells/cli_tank/1"]

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            token = await token_of(app, "acme", "ann", 4)
            sent = await app.emit(Poured(1, 5), tenant="acme")
            await app.cell(tank, 1, tenant="acme").state(after=sent.places[0])
            server = Server(app, settings=msgspec.convert(limits, ServerSettings))
            async with served(app, server=server) as address, person(address, token) as client:
                await wait_for(client, "r")
                for path in paths:
                    first = await client.send(client.build_request("GET", path), stream=True)
                    second = await client.send(client.build_request("GET", path), stream=True)
                    assert (first.status_code, second.status_code, server.watcher.open_streams) == (200, 200, 2)
                    for each in paths:
                        third = await client.get(each)
                        assert (third.status_code, third.json()["code"]) == (429, "too_many_requests"), each
                        assert third.headers["retry-after"] == "5"
                        assert (await client.head(each)).status_code == 429
                    await second.aclose()
                    while server.watcher.open_streams == 2:  # noqa: ASYNC110  # uvicorn tells nobody of it
                        await asyncio.sleep(0.001)
                    assert (await client.head(path)).status_code == 200
                    assert server.watcher.open_streams == 1
                    await first.aclose()
                    while server.watcher.open_streams:  # noqa: ASYNC110  # uvicorn tells nobody of it
                        await asyncio.sleep(0.001)

    asyncio.run(main())

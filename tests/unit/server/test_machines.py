"""Machines over HTTP: cells are listed, shown, followed and released; events come in, dead letters go out again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from holdfast import Holdfast
from tests.serving import person, served, token_of
from tests.unit.cli.cli_machines import Poured, tank
from tests.unit.server.test_events import events


@asynccontextmanager
async def tanks() -> AsyncIterator[tuple[Holdfast, httpx.AsyncClient]]:
    async with Holdfast("memory://") as app:
        token = await token_of(app, "acme", "ann", 4)
        for number, litres in ((1, 120), (2, 5), (3, 5), (3, -1), (3, 7)):
            sent = await app.emit(Poured(number, litres), tenant="acme")
            await app.cell(tank, number, tenant="acme").state(after=sent.places[0])
        async with served(app) as address, person(address, token) as client:
            yield app, client


def test_machines_and_cells_are_listed_and_shown() -> None:
    """By fields of the state, too; keys are JSON where they are no texts."""

    async def main() -> None:
        async with tanks() as (_, client):
            found = {each["name"]: each for each in (await client.get("/v1/machines")).json()}["cli_tank"]
            assert found["cells"] == {"running": 2, "parked": 1}
            query = {"machine": "cli_tank", "where": ["litres=5", "label=water"]}
            page = (await client.get("/v1/cells", params=query)).json()
            assert sorted(each["key"] for each in page["items"]) == [2, 3]
            assert page["next"] is None
            shown = (await client.get("/v1/cells/cli_tank/3")).json()
            assert (shown["status"], shown["state"], shown["held"]) == ("parked", {"litres": 5, "label": "water"}, 2)
            trace = (await client.get("/v1/cells/cli_tank/1/trace")).json()
            assert [each["kind"] for each in trace["items"]] == ["event", "emitted", "changed"]
            diagnosis = (await client.get("/v1/cells/cli_tank/3/diagnosis")).json()
            assert diagnosis["causes"][0]["code"] == "release_cell"
            for path in (
                "cells/cli_tank/9",
                "cells/cli_tank/9/trace",
                "cells/cli_tank/9/diagnosis",
                "events/cells/cli_tank/9",
            ):
                missing = await client.get(f"/v1/{path}")
                assert (missing.status_code, missing.json()["code"]) == (404, "cell_not_found"), path
            assert (await client.get("/v1/cells/no/9")).status_code == 400
            wrong = await client.get("/v1/cells/cli_tank/nine")
            assert (wrong.status_code, wrong.json()["code"]) == (422, "schema_mismatch")

    asyncio.run(main())


def test_a_parked_cell_is_released_and_followed() -> None:
    """The stream goes on behind the last whole turn that was received."""

    async def main() -> None:
        async with tanks() as (app, client), asyncio.timeout(30):
            async with client.stream("GET", "/v1/events/cells/cli_tank/3") as response:
                done = await client.post("/v1/cells/cli_tank/3/release", json={"drop": True, "reason": "wrong"})
                assert done.json() == {"machine": "cli_tank", "key": 3, "dropped": True}
                items = []
                async for each in events(response):
                    items.append(each)
                    if each.data["kind"] == "changed":
                        break
            assert [each.data["kind"] for each in items] == ["released", "changed"]
            assert items[-1].id is not None
            await client.post(
                "/v1/machines/events", json={"schema": "tank/Poured@1", "event": {"tank": 3, "litres": 1}}
            )
            last = {"Last-Event-ID": items[-1].id}
            async with client.stream("GET", "/v1/events/cells/cli_tank/3", headers=last) as response:
                first = await anext(events(response))
            assert (first.data["kind"], first.data["actor"]) == ("event", "ann")
            again = await client.post("/v1/cells/cli_tank/3/release", json={})
            assert (again.status_code, again.json()["code"]) == (409, "cell_not_parked")
            bad = await client.get("/v1/events/cells/cli_tank/3", headers={"Last-Event-ID": "x"})
            assert bad.status_code == 400
            acts = [each.record async for each in app.audit.list(tenant="acme", kind="operator")]
            assert [each["act"] for each in acts if each["who"] == "ann"][-2:] == ["drop_event", "send_event"]

    asyncio.run(main())


def test_events_come_in_as_json_and_dead_letters_are_redelivered() -> None:
    async def main() -> None:
        async with tanks() as (_, client):
            body = {"schema": "tank/Poured@1", "event": {"tank": 2, "litres": 1}, "id": "one"}
            sent = await client.post("/v1/machines/events", json=body)
            assert (sent.status_code, sent.json()["places"][0]["machine"]) == (201, "cli_tank")
            assert (await client.post("/v1/machines/events", json=body)).json()["repeated"]
            wrong = await client.post("/v1/machines/events", json={**body, "event": {"tank": 2}})
            assert (wrong.status_code, wrong.json()["code"]) == (422, "schema_mismatch")
            (letter,) = (await client.get("/v1/dead-letters")).json()["items"]
            assert (letter["schema"], letter["value"]) == ("tank/Full@1", {"tank": 1})
            refused = await client.post(f"/v1/dead-letters/{letter['id']}/redelivery", json={})
            assert (refused.status_code, "nobody hears" in refused.json()["detail"]) == (400, True)
            gone = await client.post("/v1/dead-letters/cli_tank:0:999:0/redelivery", json={})
            assert (gone.status_code, gone.json()["code"]) == (404, "dead_letter_not_found")

    asyncio.run(main())


def test_lanes_are_split_by_those_who_may() -> None:
    """By an author; the cells are where they were, for whoever asks for them by key, and a stream goes on."""

    async def main() -> None:
        async with tanks() as (app, client):
            refused = await client.post("/v1/machines/cli_tank/split", json={"lanes": 4})
            assert refused.status_code == 403
            author = await token_of(app, "acme", "bob", 5)
            async with person(str(client.base_url), author) as bob:
                wrong = await bob.post("/v1/machines/cli_tank/split", json={"lanes": 3})
                assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request")
                split = await bob.post("/v1/machines/cli_tank/split", json={"lanes": 4, "reason": "more load"})
                assert (split.status_code, split.json()["lanes"]) == (200, 4)
            while (await app.machines.show(tank, tenant="acme")).moving:
                await app.changed(0.05)
            shown = (await client.get("/v1/cells/cli_tank/3")).json()
            assert (shown["status"], shown["held"]) == ("parked", 2)
            assert shown["lane"].rpartition(":")[2] in {"2", "3", "4", "5"}
            sent = await client.post(
                "/v1/machines/events", json={"schema": "tank/Poured@1", "event": {"tank": 2, "litres": 1}}
            )
            assert sent.json()["places"][0]["lane"] >= 2

    asyncio.run(main())

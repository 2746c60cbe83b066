"""Ids with a segment ``.`` or ``..``: none is made, by any door; those that older versions made are reached."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from holdfast import Holdfast
from holdfast.client.people.identities import Identities, Vouched
from holdfast.errors import InvalidRequest, LoginRefused, RunCancelled
from holdfast.people.tenants import WORKSPACE
from holdfast.people.users import USER
from holdfast.runs.addresses import path_part
from holdfast.runs.birth import Trigger, former_run_id
from holdfast.schedules.schedule import KIND as SCHEDULE
from holdfast.store import protocol as p
from holdfast.templates.template import TEMPLATE
from holdfast.webhooks.webhook import WEBHOOK, EmitEvent
from tests.serving import person, served, token_of
from tests.unit.client.operations import Heard, counter
from tests.unit.server.older_ids import RUNS, older_item, older_run
from tests.unit.server.test_runs import WORKFLOWS, total, waiting

DOTTED = ("..", ".", "../x", "a/../b", "a/.", "a\\..\\b")

BODIES: dict[str, dict[str, Any]] = {
    "runs": {"workflow": total.name, "args": [1]},
    "templates": {"program": waiting.name},
    "templates/plain/start": {},
    "schedules": {"workflow": waiting.name, "every": 3600},
    "webhooks": {"does": {"do": "emit", "event": "x"}},
    "subscriptions": {"url": "https://x.example/", "events": ["run.*"]},
    "users": {"level": 1},
    "workspaces": {},
}


@asynccontextmanager
async def acme() -> AsyncIterator[tuple[Holdfast, httpx.AsyncClient]]:
    async with Holdfast("memory://", workflows=WORKFLOWS) as app:
        token = await token_of(app, "acme", "ann", 6)
        ann = app.acting_as("ann", tenant="acme")
        await ann.templates.create("plain", waiting)
        await ann.templates.activate("plain")
        await ann.workspaces.create("plain")
        await ann.webhooks.create("plain", EmitEvent(event="x"))
        await ann.schedules.create("plain", waiting, every=3600)
        async with served(app) as address, person(address, token) as client:
            yield app, client


@pytest.mark.parametrize("id", DOTTED)
def test_nothing_new_has_a_dotted_id_over_http(id: str) -> None:
    """The refusal names the segment. Dots elsewhere are no segments."""

    async def main() -> None:
        async with acme() as (_, client):
            for path, body in BODIES.items():
                name = "name" if path in ("users", "workspaces") else "id"
                refused = await client.post(f"/v1/{path}", json={**body, name: id})
                assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request"), (path, refused.text)
                assert "has a segment '.' or '..'" in refused.json()["detail"], path
                made = await client.post(f"/v1/{path}", json={**body, name: f"..{path.replace('/', '-')}/a.."})
                assert made.status_code in (200, 201), (path, made.text)
            for path in ("runs", "templates/plain/start"):
                keyed = await client.post(f"/v1/{path}", json=BODIES[path], headers={"Idempotency-Key": id})
                assert keyed.status_code == 400, path
            await client.post("/v1/runs", json={**BODIES["runs"], "id": "origin"}, headers={"Prefer": "wait=10"})
            forked = await client.post("/v1/runs/origin/fork", json={"sequence": 1, "id": id})
            assert forked.status_code == 400, forked.text

    asyncio.run(main())


@pytest.mark.parametrize("id", DOTTED)
def test_nothing_new_has_a_dotted_id_in_the_library(id: str) -> None:
    """Tenants, too, which only the operator makes."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS) as app:
            for made in (
                app.start(total, 1, id=id),
                app.tenants.create(id, by="root"),
                app.schedules.create(id, waiting, every=3600),
                app.templates.create(id, waiting),
            ):
                with pytest.raises(InvalidRequest, match="segment"):
                    await made

    asyncio.run(main())


def test_a_start_that_is_repeated_finds_what_an_older_version_started() -> None:
    """By its id, by its trigger, and as an instance: nothing is started twice."""
    cause = Trigger("hook", "x/../../runs/victim")

    async def main() -> None:
        async with acme() as (app, client):
            await older_run(app, waiting, "acme", "a/../b")
            again = await client.post("/v1/runs", json={"workflow": waiting.name, "id": "a/../b"})
            assert (again.status_code, again.json()["id"]) == (201, "a/../b"), again.text
            former = former_run_id(cause, waiting.name)
            assert (await app.start(waiting, tenant="acme", trigger=cause)).id == cause.run_id(waiting.name) != former
            await older_run(app, waiting, "beta", former)
            assert (await app.start(waiting, tenant="beta", trigger=cause)).id == former

    asyncio.run(main())


@pytest.mark.parametrize("id", RUNS)
def test_an_older_run_is_reached_and_no_other(id: str) -> None:
    """Over HTTP in the form that nothing resolves and quoted, and in the library. A fork of it has a new id."""

    async def main() -> None:
        async with acme() as (app, client):
            victim = await app.start(waiting, id="victim", tenant="acme")
            await older_run(app, waiting, "acme", id)
            for part in (path_part(id), id.replace("/", "%2F").replace("..", "%2E%2E")):
                address = httpx.URL(str(client.base_url)).copy_with(raw_path=f"/v1/runs/{part}".encode())
                assert (await client.get(address)).json()["run"]["id"] == id, part
            forked = await client.post(f"/v1/runs/{path_part(id)}/fork", json={"sequence": 1})
            assert re.fullmatch(r"fork-[\w-]+", forked.json()["id"]), forked.text
            assert (await app.run(id, tenant="acme").info()).id == id
            await client.post(f"/v1/runs/{path_part(id)}/cancel", json={})
            with pytest.raises(RunCancelled):
                await app.run(id, tenant="acme").result(30)
            assert (await victim.settled(10)).run.status == "waiting"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "path", "page"),
    [
        (TEMPLATE, "/v1/templates/{}", "/templates/{}"),
        (SCHEDULE, "/v1/schedules/{}", "/schedules/{}"),
        (WEBHOOK, "/v1/webhooks/{}", "/webhooks/in/{}"),
        (USER, "/v1/users/{}", "/people/{}"),
    ],
)
def test_what_an_older_version_made_is_reached(kind: str, path: str, page: str) -> None:
    """Its page has links and forms that a browser sends as they are."""
    id = "../workspaces/plain"

    async def main() -> None:
        async with acme() as (app, client):
            of_plain = p.ItemKey("acme", kind, "ann" if kind == USER else "plain")
            await older_item(app, of_plain, id)
            found = await client.get(path.format(path_part(id)))
            assert id in (found.json().get("id"), found.json().get("name")), found.text
            shown = await client.get(page.format(path_part(id)), headers={"Accept": "text/html"})
            assert shown.status_code == 200
            check_links(shown.text, page.format(path_part(id)))

    asyncio.run(main())


def check_links(text: str, here: str) -> None:
    """Every address of a page is what a browser makes of it: it has nothing to resolve."""
    found = [each.partition("?")[0] for each in re.findall(r'(?:href|action|src)="(/[^"]*)"', text)]
    assert found
    assert any(here in each for each in found), here
    for each in found:
        plain = re.sub("%2e", ".", each, flags=re.IGNORECASE)
        assert urljoin(f"http://x{here}", plain) == f"http://x{plain}", each


def test_an_older_workspace_is_archived_and_no_other() -> None:
    """Also by the form on the console's page."""

    async def main() -> None:
        async with acme() as (app, client):
            id = "../workspaces/plain"
            await older_item(app, p.ItemKey("acme", WORKSPACE, "plain"), id)
            done = await client.post(f"/v1/workspaces/{path_part(id)}/archive", json={})
            assert (done.json()["name"], done.json()["archived"]) == (id, True), done.text
            assert not (await app.workspaces.get("plain", tenant="acme")).archived

    asyncio.run(main())


def test_the_console_lists_older_runs_with_links_that_survive() -> None:
    async def main() -> None:
        async with acme() as (app, client):
            for id in RUNS:
                await older_run(app, waiting, "acme", id)
            text = (await client.get("/runs", headers={"Accept": "text/html"})).text
            for id in RUNS:
                assert f'href="/runs/{path_part(id)}"' in text
                shown = await client.get(f"/runs/{path_part(id)}", headers={"Accept": "text/html"})
                assert shown.status_code == 200
                check_links(shown.text, f"/runs/{path_part(id)}")

    asyncio.run(main())


def test_a_path_has_one_spelling() -> None:
    """So a proxy that keeps /metrics from the public keeps all of it."""

    async def main() -> None:
        async with acme() as (_, client):
            for path in ("/metrics/", "//metrics", "/%6Detrics", "/v1/runs/", "//v1/runs", "/v1//runs", "/healthz/"):
                address = httpx.URL(str(client.base_url)).copy_with(raw_path=path.encode())
                assert (await client.get(address)).status_code == 404, path

    asyncio.run(main())


def test_no_login_makes_a_user_with_a_dotted_name() -> None:
    """Nor is an account linked to that name."""

    async def main() -> None:
        async with acme() as (app, _):
            vouched = Vouched("acme", "a/../ann", "https://id.example", "1", 1, None)
            with pytest.raises(LoginRefused, match="segment"):
                await Identities(app).begin(vouched, make=True)

    asyncio.run(main())


KEYS = ("", "..", "a/../b", "a\\..\\b", "/", "~", "~.2E.2E", "a~b", "../../runs/victim")


def test_a_key_of_a_cell_may_be_any_text_and_is_reached() -> None:
    """Keys are data of events, so none is refused: each has an address that nothing resolves."""

    async def main() -> None:
        async with Holdfast("memory://") as app:
            token = await token_of(app, "acme", "ann", 4)
            for key in KEYS:
                sent = await app.emit(Heard(key), tenant="acme")
                await app.cell(counter, key, tenant="acme").state(after=sent.places[0])
            async with served(app) as address, person(address, token) as client:
                for key in KEYS:
                    shown = await client.get(f"/v1/cells/{counter.name}/{path_part(key)}")
                    assert shown.json()["state"]["key"] == key, (key, shown.text)
                    page = await client.get(f"/cells/{counter.name}/{path_part(key)}", headers={"Accept": "text/html"})
                    assert page.status_code == 200, key
                    check_links(page.text, f"/cells/{counter.name}/{path_part(key)}")

    asyncio.run(main())

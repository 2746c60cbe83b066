"""Every route is judged: below its level it is refused, and what is another tenant's is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import msgspec

from holdfast import Holdfast, WorkerOptions
from holdfast.server import ServerSettings
from holdfast.server.problems import PROBLEM
from holdfast.server.routes.table import ROUTES
from holdfast.webhooks.webhook import EmitEvent
from tests.serving import person, served
from tests.unit.client.operations import FREE, MISSING, TWO, WORKFLOWS, Heard, Things, counter, furnish, leaf
from tests.unit.server.requests import send

QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)


@asynccontextmanager
async def furnished(url: str) -> AsyncIterator[tuple[Holdfast, str, Things, Things]]:
    options = WorkerOptions(retention_days=None, webhooks=False)
    async with Holdfast(url, workflows=WORKFLOWS, policy=FREE, options=options) as app:
        acme, bolt = [await furnish(app, tenant) for tenant in ("acme", "bolt")]
        for tenant in ("acme", "bolt"):
            await app.definitions.publish(TWO, tenant=tenant)
            await app.schedules.create("offered", leaf.name, every=3600, paused=True, tenant=tenant)
        async with served(app, settings=QUICK) as address:
            yield app, address, acme, bolt


async def as_level(app: Holdfast, address: str, level: int, tenant: str = "acme") -> httpx.AsyncClient:
    minted = await app.tokens.mint(f"level {level}", tenant=tenant)
    return person(address, minted.text)


def test_each_route_needs_its_level_and_every_refusal_is_a_problem() -> None:
    """Below the level of its operation it is refused with 403; from it on the answer is the route's own."""

    async def main() -> None:
        async with furnished("memory://") as (app, address, acme, _), AsyncExitStack() as stack:
            people = [await stack.enter_async_context(await as_level(app, address, level)) for level in range(1, 7)]
            for route in ROUTES:
                for level, client in enumerate(people, 1):
                    response = await send(client, route, acme)
                    refused = response.status_code == 403 and response.json()["code"] == "not_permitted"
                    if route.name == "audit.rotate_key" and level == 6:
                        assert refused  # the key signs other tenants' chains, too
                        continue
                    assert refused == (level < route.least_level), (route.name, level, response.status_code)
                    check_problem(response)

    asyncio.run(main())


def check_problem(response: httpx.Response) -> None:
    """No 5xx, and whatever is refused says why in one way."""
    assert response.status_code < 500, (response.request.url, response.text)
    if response.status_code >= 400:
        problem = response.json()
        assert response.headers["content-type"] == PROBLEM
        assert problem["status"] == response.status_code
        assert problem["type"] == f"urn:holdfast:error:{problem['code']}"
        assert problem["detail"]


def test_without_a_token_no_route_answers() -> None:
    """The routes of the table are for people who are known."""

    async def main() -> None:
        async with furnished("memory://") as (_, address, acme, _), person(address, None) as nobody:
            for route in ROUTES:
                response = await send(nobody, route, acme)
                assert (response.status_code, response.json()["code"]) == (401, "not_authenticated"), route.name
                assert response.headers["www-authenticate"].startswith("Bearer")

    asyncio.run(main())


SECRET = "seen-by-bolt-alone"


async def hide(app: Holdfast, bolt: Things) -> Things:
    """Things that only one tenant has; each would give a secret away. The ids are those that another tenant sends."""
    await app.start(leaf, id="hidden", tenant="bolt", attributes={"secret": SECRET})
    await app.users.create("hidden", level=1, groups=[SECRET], tenant="bolt")
    await app.workspaces.create("hidden", title=SECRET, tenant="bolt")
    await app.templates.create("hidden", leaf.name, name=SECRET, tenant="bolt")
    await app.schedules.create("hidden", leaf.name, every=3600, attributes={"secret": SECRET}, tenant="bolt")
    await app.slack.map("UHIDDEN", "hidden", tenant="bolt", reason=SECRET)
    await app.webhooks.create("hidden", EmitEvent("x"), name=SECRET, user="level 4", tenant="bolt")
    await app.subscriptions.create("hidden", "https://a.example/", ["task.*"], name=SECRET, tenant="bolt")
    for number in range(9):  # so that the other tenant has no dead letter of the same name
        await app.cell(counter, "x", tenant="bolt").state(
            after=(await app.emit(Heard(f"before {number}"), tenant="bolt")).places[0]
        )
    sent = await app.emit(Heard("hidden", note=SECRET), tenant="bolt")
    await app.cell(counter, "hidden", tenant="bolt").state(after=sent.places[0])
    letter = [each.id async for each in app.machines.dead_letters(tenant="bolt")][-1]
    definition = {**TWO, "name": "hidden", "title": SECRET}
    await app.definitions.publish(definition, tenant="bolt")
    names = ("waiting", "paid", "child", "defined", "definition", "user", "workspace", "template", "instance")
    names = (*names, "webhook", "subscription", "cell")
    bolt = msgspec.structs.replace(bolt, letter=letter)
    return msgspec.structs.replace(bolt, tenant="acme", account="UHIDDEN", **dict.fromkeys(names, "hidden"))


def test_no_route_reaches_another_tenant(tmp_path: Path) -> None:
    """What is there for its own tenant is missing for another exactly like what is not there; and stays as it was."""

    async def main() -> None:
        url = f"sqlite:///{tmp_path}/store.db"
        async with furnished(url) as (app, address, acme, bolt), await as_level(app, address, 6) as client:
            hidden, nowhere = await hide(app, bolt), msgspec.structs.replace(acme, **MISSING)
            before = [(run.id, run.events) async for run in app.list(tenant="bolt")]
            for route in ROUTES:
                if route.name in ("audit.rotate_key", "machines.split_machine"):  # of the own tenant, whatever is named
                    continue
                there, missing = await send(client, route, hidden), await send(client, route, nowhere)
                check_problem(there)
                if route.parameters:
                    codes = [each.json()["code"] for each in (there, missing)]
                    assert (there.status_code, codes[0]) == (missing.status_code, codes[1]), route.name
                    is_for_operator = route.operation == "tenants.change"
                    assert there.status_code in ((403,) if is_for_operator else (400, 404)), route.name
                if there.is_stream_consumed:
                    assert SECRET not in there.text, route.name
            assert [(run.id, run.events) async for run in app.list(tenant="bolt")] == before
            assert await anext(app.audit.list(tenant="bolt", kind="operator")) is not None

    asyncio.run(main())

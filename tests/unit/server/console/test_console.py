"""The console over HTTP: logging in, who may, where forms come from, and that each page is also data."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from holdfast import Holdfast
from holdfast.server import Server, ServerSettings, console
from holdfast.server.console.pages.table import FORMS, NAVIGATION, PAGES
from holdfast.server.routes.table import ROUTES
from tests.serving import listening, person, served, token_of
from tests.unit.client.operations import FREE, WORKFLOWS, Things, furnish, leaf
from tests.unit.people.levels import NEEDED

QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)
HTML = {"Accept": "text/html"}
HERE = {**HTML, "Sec-Fetch-Site": "same-origin"}


@asynccontextmanager
async def office(settings: ServerSettings = QUICK) -> AsyncIterator[tuple[Holdfast, str, Things]]:
    async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE) as app:
        things = await furnish(app, "acme")
        async with served(app, settings=settings) as address:
            yield app, address, things


async def log_in(client: httpx.AsyncClient, token: str) -> httpx.Response:
    return await client.post("/login", data={"token": token, "to": "/tasks"}, headers=HERE)


def of(page_path: str, things: Things) -> str:
    values = {
        "run": things.waiting,
        "task": things.task,
        "receipt": things.receipt,
        "name": things.definition,
        "workflow": leaf.name,
        "user": "level 1",
        "token": "0" * 12,
        "template": things.template,
        "schedule": things.schedule,
        "machine": "permitted.counter",
        "key": things.cell,
        "tenant": things.tenant,
        "workspace": things.workspace,
        "webhook": things.webhook,
        "account": things.account,
        "subscription": things.subscription,
    }
    queries = {
        "/definitions/{name}/diagram": "?version=1",
        "/cells": "?machine=permitted.counter",
        "/v1/cells": "?machine=permitted.counter",
    }
    query = queries.get(page_path, "")
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]].replace(" ", "%20"), page_path) + query


def test_every_page_is_data_at_the_same_address() -> None:
    """Whoever asks for JSON gets exactly what the API answers, whatever the page's own parameters say."""

    async def main() -> None:
        async with office() as (app, address, things):
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            async with person(address, token) as client:
                for page in PAGES:
                    shown = await client.get(of(page.path, things), headers=HTML)
                    assert shown.status_code == 200, page.path
                    assert shown.headers["content-type"].startswith(("text/html", "image/svg")), page.path
                    if page.path.endswith("/diagram"):
                        continue
                    answered, expected = await _answers(client, of(page.path, things), of(page.data, things))
                    assert answered == expected, page.path

    asyncio.run(main())


async def _answers(client: httpx.AsyncClient, page: str, route: str) -> tuple[str, str]:
    """What a page and its route answer, with no change between the two: runs go on meanwhile."""

    async def asked(path: str) -> str:
        answer = await client.get(path, headers={"Accept": "application/json"})
        assert answer.status_code == 200, (path, answer.text)
        return _still(answer)

    for _ in range(20):
        before, answered, after = await asked(route), await asked(page), await asked(route)
        if before == after:
            return answered, after
    raise AssertionError(f"{route} changes all the time: this proves nothing")


def _still(answer: httpx.Response) -> str:
    """An answer without what changes from one moment to the next: lengths of time, and leases."""
    return re.sub(r'[\d.]+ (?:milli)?seconds|"[a-z_]+_at":"[^"]*"|\d+ min\w*', "", answer.text)


def test_pages_are_judged_like_routes() -> None:
    """Each page needs the level of its operation, and says so on a page; what is another tenant's is not there."""

    async def main() -> None:
        async with office() as (app, address, things):
            bolt = await token_of(app, "bolt", "eve", 6)
            for level in (1, 3):
                token = (await app.tokens.mint(f"level {level}", tenant="acme")).text
                async with person(address, token) as client:
                    for page in PAGES:
                        answer = await client.get(of(page.path, things), headers=HTML)
                        expected = 200 if NEEDED[page.operation] <= level else 403
                        assert answer.status_code == expected, (page.path, level)
                    for form in FORMS:
                        if NEEDED[form.operation] > level:
                            refused = await client.post(of(form.path, things), data={"reason": "x"}, headers=HERE)
                            assert refused.status_code == 403, (form.path, level)
            async with person(address, bolt) as client:
                for path in ("/runs/waiting", "/runs/waiting/diagram", f"/tasks/{things.task}", "/evidence/waiting"):
                    answer = await client.get(path, headers=HTML)
                    assert answer.status_code in (404, 200), path
                    assert "permitted" not in answer.text, path

    asyncio.run(main())


def test_a_login_is_a_session_that_ends_with_its_token() -> None:
    """The cookie is not the token, is new at each login, and is good until logout, revocation or another login."""

    async def main() -> None:
        async with office() as (app, address, _):
            minted = await app.tokens.mint("level 4", tenant="acme")
            async with person(address, None) as client:
                asked = await client.get("/tasks?show=all", headers=HTML)
                assert (asked.status_code, asked.headers["location"]) == (303, "/login?to=%2Ftasks%3Fshow%3Dall")
                wrong = await log_in(client, "hf_000000000000_" + "0" * 64)
                assert wrong.status_code == 401
                assert "not valid" in wrong.text
                done = await log_in(client, minted.text)
                assert (done.status_code, done.headers["location"]) == (303, "/tasks")
                cookie = done.headers["set-cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=lax" in cookie
                first = client.cookies["holdfast-session"]
                assert first not in minted.text
                assert (await client.get("/tasks", headers=HTML)).status_code == 200
                await log_in(client, minted.text)
                assert client.cookies["holdfast-session"] != first
                stale = await client.get("/tasks", headers={**HTML, "Cookie": f"holdfast-session={first}"})
                assert stale.status_code == 303
                await app.tokens.revoke(minted.token.id, tenant="acme", by="root")
                assert (await client.get("/tasks", headers=HTML)).status_code in (303, 401)

    asyncio.run(main())


def test_a_logout_ends_the_session_on_the_server() -> None:
    """The cookie of a session that was left is good for nothing, and the audit has both."""

    async def main() -> None:
        async with office() as (app, address, _):
            token = (await app.tokens.mint("level 4", tenant="acme")).text
            async with person(address, None) as client:
                await log_in(client, token)
                secret = client.cookies["holdfast-session"]
                await client.post("/logout", headers=HERE)
                left = await client.get("/runs", headers={**HTML, "Cookie": f"holdfast-session={secret}"})
                assert left.status_code == 303
            entries = [entry async for entry in app.audit.list(tenant="acme", kind="operator")]
            assert [entry.record["act"] for entry in entries[-2:] if entry.record] == ["login", "logout"]

    asyncio.run(main())


def test_over_https_the_cookie_belongs_to_this_host_alone() -> None:
    """Its name begins with ``__Host-``, it is secure, and it has no domain."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE) as app:
            token = await token_of(app, "acme", "ann", 4)
            transport = httpx.ASGITransport(Server(app).asgi)
            async with httpx.AsyncClient(transport=transport, base_url="https://holdfast.example") as client:
                cookie = (await log_in(client, token)).headers["set-cookie"]
                assert cookie.startswith("__Host-holdfast-session=")
                assert "Secure" in cookie
                assert "domain" not in cookie.lower()
                assert (await client.get("/runs", headers=HTML)).status_code == 200

    asyncio.run(main())


def test_another_site_cannot_act_for_somebody_who_is_logged_in() -> None:
    """A form that a page of another site sends is refused, also the one to log in; so is one that hides where it is."""

    async def main() -> None:
        async with office() as (app, address, _):
            token = (await app.tokens.mint("level 4", tenant="acme")).text
            async with person(address, None) as client:
                await log_in(client, token)
                ways = [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}]
                for headers in ways:
                    for path in ("/runs/waiting/cancel", "/login", "/logout"):
                        typed = {"reason": "x", "token": token}
                        sent = await client.post(path, data=typed, headers={**HTML, **headers})
                        assert sent.status_code == 403, (path, headers)
                own = await client.post(
                    "/runs/waiting/pause", data={"reason": "tea"}, headers={**HTML, "Origin": address}
                )
                assert own.status_code == 303
            assert await app.run("waiting", tenant="acme").status() == "paused"

    asyncio.run(main())


def test_the_first_user_is_made_once() -> None:
    """The link works once, only while there is no user, and leaves somebody of level 6 who is logged in."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE) as app:
            server = Server(app, settings=QUICK)
            assert server.console is not None
            link = f"/{server.console.invite()}"
            key = link.partition("key=")[2]
            async with served(app, server=server) as address, person(address, None) as client:
                assert (await client.get("/welcome?key=guess", headers=HTML)).status_code == 404
                assert "first user" in (await client.get(link, headers=HTML)).text
                refused = await client.post("/welcome", data={"key": key, "name": "no\nname"}, headers=HERE)
                assert refused.status_code == 400
                made = await client.post("/welcome", data={"key": key, "name": "ann"}, headers=HERE)
                token = re.search(r"hf_\w+", made.text)
                assert token is not None
                assert "level 6" in (await client.get("/runs", headers=HTML)).text
                assert (
                    await client.post("/welcome", data={"key": key, "name": "eve"}, headers=HERE)
                ).status_code == 404
                async with person(address, token[0]) as again:
                    assert (await again.get("/v1/me")).json()["level"] == 6

    asyncio.run(main())


def test_every_link_honours_the_prefix() -> None:
    """Mounted below a path, every link, form, picture and redirect of every page stays below it."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE) as app:
            things = await furnish(app, "acme")
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            server = Server(app, settings=QUICK)
            async with listening(server.asgi, root_path="/flow") as address, person(address, token) as client:
                for page in PAGES:
                    shown = await client.get(of(page.path, things), headers=HTML)
                    assert shown.status_code == 200, page.path
                    text = shown.text
                    for link in re.findall(r'(?:href|src|action|formaction|data-events)="([^"]*)"', text):
                        assert link.startswith(("/flow/", "#")), (page.path, link)
                home = await client.get("/", headers=HTML)
                assert home.headers.get("location") == "/flow/runs", home.text
                sent = await client.post("/runs/waiting/pause", data={"reason": "tea"}, headers=HERE)
                assert sent.headers.get("location") == "/flow/runs/waiting", (sent.status_code, sent.text)
            await server.stop_streams()

    asyncio.run(main())


def test_what_people_wrote_is_never_markup() -> None:
    """An id, a reason and a value with markup in them are shown as they are."""

    async def main() -> None:
        async with office() as (app, address, _):
            bad = "<script>alert(1)</script>"
            run = await app.start(leaf.name, id=bad, tenant="acme", attributes={bad: '"><img src=x>'})
            await run.signal("go", bad)
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            async with person(address, token) as client:
                its = "/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E"
                for path in ("/runs", its, "/audit?span=all", "/login?to=%22%3E%3Cimg%20src=x%3E"):
                    answer = await client.get(path, headers=HTML)
                    assert answer.status_code == 200
                    assert "<script>alert" not in answer.text
                    assert "<img src=x>" not in answer.text

    asyncio.run(main())


def test_a_login_leads_nowhere_else() -> None:
    """Where a login leads is a path of this server, whatever the form says."""

    async def main() -> None:
        async with office() as (app, address, _):
            token = (await app.tokens.mint("level 1", tenant="acme")).text
            async with person(address, None) as client:
                for to in (
                    "https://evil.example/",
                    "//evil.example/",
                    "/\\evil.example",
                    "javascript:alert(1)",
                    "/%2e%2e/x",
                ):
                    done = await client.post("/login", data={"token": token, "to": to}, headers=HERE)
                    assert done.headers["location"] == "/runs", to

    asyncio.run(main())


def test_a_read_only_server_offers_nothing_and_takes_nothing() -> None:
    """Its pages have no form that changes something, and a form that is sent all the same is refused on a page."""

    async def main() -> None:
        async with office(ServerSettings(read_only=True)) as (app, address, things):
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            async with person(address, token) as client:
                for page in PAGES:
                    shown = await client.get(of(page.path, things), headers=HTML)
                    assert shown.status_code == 200, page.path
                    text = shown.text
                    posts = re.findall(r'<form method="post"[^>]*action="([^"]*)"', text)
                    assert set(posts) <= {"/audit/verify", f"/start/{leaf.name}"}, page.path
                sent = await client.post("/runs/waiting/cancel", data={"reason": "x"}, headers=HERE)
                assert sent.status_code == 403
                assert "read" in sent.text

    asyncio.run(main())


def test_an_act_without_a_reason_is_not_done() -> None:
    """Each form on a run asks why. Without it nothing happens, and the page is shown again with what was typed."""

    async def main() -> None:
        async with office() as (app, address, _):
            token = (await app.tokens.mint("level 4", tenant="acme")).text
            async with person(address, token) as client:
                for act in ("cancel", "pause", "resume", "signal", "fork"):
                    typed = {"act": act, "reason": "  ", "name": "typed before", "sequence": "1"}
                    sent = await client.post(f"/runs/waiting/{act}", data=typed, headers=HERE)
                    assert sent.status_code == 400, act
                    assert "say why" in sent.text
                    assert (act != "signal") or "typed before" in sent.text
            assert await app.run("waiting", tenant="acme").status() == "waiting"

    asyncio.run(main())


def test_an_empty_store_says_how_to_start() -> None:
    """The first visit shows a program, the commands, and what this server can start."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE) as app:
            token = await token_of(app, "acme", "ann", 4)
            async with served(app, settings=QUICK) as address, person(address, token) as client:
                text = (await client.get("/runs", headers=HTML)).text
                assert "Nothing has run here yet" in text
                assert "@workflow" in text
                assert leaf.name in text

    asyncio.run(main())


def test_a_token_that_is_no_persons_gets_problems_not_pages() -> None:
    """A program that fails is answered with a problem, on the pages' addresses, too."""

    async def main() -> None:
        async with office() as (_, address, _), person(address, None) as client:
            answer = await client.get("/runs/waiting", headers={"Accept": "application/json"})
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"

    asyncio.run(main())


def test_the_table_of_pages_is_whole() -> None:
    """Each page names a route of the API with the same variable parts; the navigation and every form lead to pages."""
    paths = {route.path for route in ROUTES if route.method == "GET"}
    for page in PAGES:
        assert page.data in paths, page.path
        assert set(re.findall(r"\{\w+\}", page.data)) <= set(re.findall(r"\{\w+\}", page.path))
        assert page.words.endswith(".")
    assert {f"/{entry.place}" for entry in NAVIGATION} <= {page.path for page in PAGES}
    assert all(form.page in PAGES for form in FORMS)
    assert len({entry.key for entry in NAVIGATION}) == len(NAVIGATION)


def test_the_script_stays_small() -> None:
    """Pages are made on the server; about 150 lines of our own keep them up to date and add keys."""
    script = (Path(console.__file__).parent / "assets" / "console.js").read_text()
    assert len(script.splitlines()) <= 150

"""An old login is proved again for keys, users and approvals of tier high, and nothing that was typed is lost."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast import Holdfast, action, workflow
from holdfast.client.people.sessions import SESSION_SECONDS
from holdfast.server import Operator, Server, ServerSettings, TrustedHeader
from holdfast.server.console.pages.table import FORMS
from holdfast.server.step_up import ASKED_AGAIN
from tests.provider import SECRET, LocalProvider, providing, query_of
from tests.serving import listening, person, served, token_of
from tests.unit.worker.ground import policy_of

HTML = {"Accept": "text/html"}
HERE = {**HTML, "Sec-Fetch-Site": "same-origin"}
JSON = {"Accept": "application/json", "Sec-Fetch-Site": "same-origin"}
QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)
QUARTER = 15 * 60
NEW = {"name": "zoe & <co>", "level": "2", "groups": "", "reason": 'she said "now"'}


class MovedClock:
    """The real time, and what the test has added to it."""

    def __init__(self) -> None:
        self.moved = 0.0

    def now(self) -> int:
        return time.time_ns() // 1000 + int(self.moved * 1e6)


@action(connector="bank", operation="pay", name="asked.pay")
async def pay() -> str:
    return "paid"


@workflow(name="asked.paying")
async def paying() -> str:
    return await pay()


class Desk:
    """A server with tenant acme, whose ruler is root."""

    def __init__(self, app: Holdfast, clock: MovedClock, address: str, token: str) -> None:
        self.app, self.clock, self.address, self.token = app, clock, address, token

    async def names(self) -> set[str]:
        return {each.name async for each in self.app.users.list(tenant="acme")}

    @asynccontextmanager
    async def logged_in(self) -> AsyncIterator[httpx.AsyncClient]:
        async with person(self.address, None) as client:
            done = await client.post("/login", data={"token": self.token}, headers=HERE)
            assert done.status_code == 303
            yield client


@asynccontextmanager
async def desk(settings: ServerSettings = QUICK, tier: str = "high") -> AsyncIterator[Desk]:
    clock = MovedClock()
    policy = policy_of({"effect": "needs_approval", "tier": tier, "candidates": ["root"]})
    async with Holdfast("memory://", workflows=[paying], policy=policy, clock=clock) as app:
        token = await token_of(app, "acme", "root", 6)
        async with served(app, settings=settings) as address:
            yield Desk(app, clock, address, token)


def is_asked(answer: httpx.Response) -> bool:
    """Whether the page asks for the proof again."""
    return answer.status_code == 403 and 'id="step-up"' in answer.text


def resent(page: httpx.Response) -> dict[str, str]:
    """The hidden fields of the form that asks for the proof."""
    form = page.text.partition('id="step-up"')[2].partition("</form>")[0]
    found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', form)
    return {html.unescape(name): html.unescape(value) for name, value in found}


def test_every_form_of_keys_and_users_asks_after_a_quarter_of_an_hour() -> None:
    """And the API, asked with the same cookie. Before that, and with a token of its own, nothing is asked."""

    async def main() -> None:
        async with desk() as here, here.logged_in() as client:
            assert not is_asked(await client.post("/people", data={**NEW, "name": "zoe"}, headers=HERE))
            assert "zoe" in await here.names()
            here.clock.moved = QUARTER + 1
            tokens = {each.user: each.id async for each in here.app.tokens.list(tenant="acme")}
            forms = [form for form in FORMS if form.operation in ASKED_AGAIN]
            assert len(forms) > 5
            for form in forms:
                path = form.path.format_map({"user": "zoe", "token": tokens["root"], "account": "U0"})
                assert is_asked(await client.post(path, data={"reason": "x"}, headers=HERE)), path
            for path, body in (
                ("/v1/users", {"name": "eve", "level": 6}),
                ("/v1/tokens", {"user": "root"}),
            ):
                answer = await client.post(path, json=body, headers=JSON)
                assert (answer.status_code, answer.json()["code"]) == (403, "login_too_old"), path
                async with person(here.address, here.token) as program:
                    assert (await program.post(path, json=body)).status_code == 201
            seen = await client.get("/people", headers=HTML)
            assert seen.status_code == 200
            assert 'id="step-up"' not in seen.text

    asyncio.run(main())


def test_the_token_again_does_what_was_typed_with_a_new_session() -> None:
    """The form is kept, whatever is in it. Who has the old cookie has nothing any more; another tab has the new one."""

    async def main() -> None:
        async with desk() as here, here.logged_in() as client:
            old = client.cookies["holdfast-session"]
            here.clock.moved = QUARTER + 1
            page = await client.post("/people", data=NEW, headers=HERE)
            assert is_asked(page)
            assert resent(page) == NEW
            assert await here.names() == {"root"}
            assert client.cookies["holdfast-session"] == old
            done = await client.post("/people", data={**resent(page), "login_proof": here.token}, headers=HERE)
            assert done.status_code == 303, done.text
            assert NEW["name"] in await here.names()
            assert urlsplit(done.headers["location"]).path.startswith("/people")
            assert client.cookies["holdfast-session"] != old
            async with person(here.address, None) as thief:
                stale = await thief.get("/v1/me", headers={"Cookie": f"holdfast-session={old}"})
                assert stale.status_code == 401
            other_tab = await client.post("/people", data={**NEW, "name": "joe"}, headers=HERE)
            assert other_tab.status_code == 303
            assert not is_asked(other_tab)
            here.clock.moved += QUARTER + 1
            assert is_asked(await client.post("/people", data={**NEW, "name": "eve"}, headers=HERE))

    asyncio.run(main())


def test_the_new_session_is_given_although_the_form_is_refused() -> None:
    """Else whoever mistypes a level would be logged out."""

    async def main() -> None:
        async with desk() as here, here.logged_in() as client:
            here.clock.moved = QUARTER + 1
            wrong = await client.post("/people", data={**NEW, "level": "9", "login_proof": here.token}, headers=HERE)
            assert wrong.status_code == 400
            assert 'id="step-up"' not in wrong.text
            assert here.token not in wrong.text
            assert (await client.get("/v1/me", headers=JSON)).status_code == 200
            assert (await client.post("/people", data={**NEW, "name": "joe"}, headers=HERE)).status_code == 303

    asyncio.run(main())


def test_only_the_token_of_the_login_is_a_proof() -> None:
    """Another token of the same user is not, nor one that was revoked. Failures are counted as those of logins."""

    async def main() -> None:
        settings = ServerSettings(failures_per_minute=6)
        async with desk(settings) as here, here.logged_in() as client:
            other = (await here.app.tokens.mint("root", tenant="acme")).text
            bob = await token_of(here.app, "acme", "bob", 6)
            here.clock.moved = QUARTER + 1
            for proof in (other, bob, "hf_x", here.token[:-1] + "g", " "):
                page = await client.post("/people", data={**NEW, "login_proof": proof}, headers=HERE)
                assert is_asked(page), proof
                assert resent(page) == NEW
                assert proof == " " or proof not in page.text
            crossing = {**HTML, "Sec-Fetch-Site": "cross-site"}
            crossed = await client.post("/people", data={**NEW, "login_proof": here.token}, headers=crossing)
            assert crossed.status_code == 403
            assert not is_asked(crossed)
            assert "zoe" not in str(await here.names())
            for _ in range(3):
                page = await client.post("/people", data={**NEW, "login_proof": other}, headers=HERE)
            assert page.status_code == 429

    asyncio.run(main())


@pytest.mark.parametrize(("tier", "asks"), [("high", True), ("med", False)])
def test_approvals_of_tier_high_ask(tier: str, asks: bool) -> None:
    """By the form and by the API; what it asks leads to the next task, as without."""

    async def main() -> None:
        async with desk(tier=tier) as here, here.logged_in() as client:
            await here.app.start(paying, id="r1", actor="ann", tenant="acme")
            await here.app.run("r1", tenant="acme").settled(timeout=30)
            (task,) = [each async for each in here.app.tasks.list(tenant="acme")]
            here.clock.moved = QUARTER + 1
            if asks:
                answer = await client.post(f"/v1/tasks/{task.id}/reject", json={"reason": "no"}, headers=JSON)
                assert answer.json()["code"] == "login_too_old"
                page = await client.post(
                    f"/tasks/{task.id}/approve", data={"proposal": task.proposal, "reason": "ok"}, headers=HERE
                )
                assert is_asked(page)
                assert (await here.app.tasks.get(task.id, tenant="acme")).status == "requested"
                data = {**resent(page), "login_proof": here.token}
            else:
                data = {"proposal": task.proposal, "reason": "ok"}
            done = await client.post(f"/tasks/{task.id}/approve", data=data, headers=HERE)
            assert (done.status_code, done.headers["location"]) == (303, "/tasks"), done.text
            assert await here.app.run("r1", tenant="acme").result(timeout=30) == "paid"

    asyncio.run(main())


def test_the_operator_shows_the_key_again() -> None:
    """In the form, or by opening the link. The cookie has the time, not the key, and nobody can make a later one."""

    async def main() -> None:
        clock = MovedClock()
        async with Holdfast("memory://", clock=clock, worker=False) as app:
            await app.tenants.create("default")
            operator = Operator(app, "root")
            server = Server(app, settings=QUICK, authenticators=[operator])
            async with served(app, server=server) as address, person(address, None) as client:
                assert (await client.get(f"/people?key={operator.key}", headers=HTML)).status_code == 303
                (cookie,) = client.cookies.items()
                assert operator.key not in cookie[1]
                clock.moved = QUARTER + 1
                page = await client.post("/people", data=NEW, headers=HERE)
                assert is_asked(page)
                assert is_asked(await client.post("/people", data={**NEW, "login_proof": "x"}, headers=HERE))
                later = f"{clock.now()}.{cookie[1].partition('.')[2]}"
                async with person(address, None) as thief:
                    forged = await thief.get("/v1/me", headers={"Cookie": f"{cookie[0]}={later}"})
                    assert forged.status_code == 401
                data = {**resent(page), "login_proof": operator.key}
                assert (await client.post("/people", data=data, headers=HERE)).status_code == 303
                clock.moved *= 2
                assert is_asked(await client.post("/people", data={**NEW, "name": "joe"}, headers=HERE))
                assert (await client.get(f"/people?key={operator.key}", headers=HTML)).status_code == 303
                assert (await client.post("/people", data={**NEW, "name": "joe"}, headers=HERE)).status_code == 303
                async with person(address, operator.key) as program:
                    clock.moved *= 2
                    made = await program.post("/v1/users", json={"name": "eve", "level": 1})
                    assert made.status_code == 201
                clock.moved += SESSION_SECONDS + 1
                assert (await client.get("/v1/me", headers=JSON)).status_code == 401

    asyncio.run(main())


# -- a provider of identities ------------------------------------------------------------------------------------------


@asynccontextmanager
async def provided(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Desk, LocalProvider, httpx.AsyncClient]]:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", SECRET)
    clock = MovedClock()
    async with Holdfast("memory://", worker=False, clock=clock) as app, providing() as provider:
        token = await token_of(app, "acme", "root", 6)
        await app.users.create("ann", level=6, tenant="acme")
        await app.users.link("ann", issuer=provider.issuer, subject="account-1", tenant="acme")
        server = Server(app, settings=QUICK, openid=provider.settings())
        async with listening(server.asgi) as address, person(address, None) as client:
            yield Desk(app, clock, address, token), provider, client


async def log_in(client: httpx.AsyncClient, address: str = "/login/oidc") -> httpx.Response:
    away = await client.get(address, headers=HTML)
    back = (await client.get(away.headers["location"])).headers["location"]
    return await client.get(back, headers=HTML)


def now(provider: LocalProvider, ago: float = 0) -> None:
    """The provider says when the person authenticated."""
    provider.twist = lambda claims: claims.update(auth_time=int(time.time() - ago))


def test_the_provider_asks_for_the_password_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a tab of its own, which lands on the page; the tab with the form then sends it as it is."""

    async def main() -> None:
        async with provided(monkeypatch) as (here, provider, client):
            now(provider)
            assert (await log_in(client)).headers["location"] == "/runs"
            assert "prompt" not in provider.sent[-1]
            assert (await client.post("/people", data={**NEW, "name": "joe"}, headers=HERE)).status_code == 303
            old = client.cookies["holdfast-session"]
            here.clock.moved = QUARTER + 1
            page = await client.post("/people/joe", data={"level": "3", "groups": "", "reason": "x"}, headers=HERE)
            assert is_asked(page)
            (link,) = re.findall(r'href="(/login/oidc[^"]*)"', page.text)
            provider.twist = lambda claims: claims.update(auth_time=here.clock.now() // 1_000_000)
            done = await log_in(client, html.unescape(link))
            assert (done.status_code, done.headers["location"]) == (303, "/people/joe"), done.text
            assert (provider.sent[-1]["prompt"], provider.sent[-1]["max_age"]) == ("login", "0")
            assert client.cookies["holdfast-session"] != old
            sent = await client.post("/people/joe", data=resent(page), headers=HERE)
            assert sent.status_code == 303
            assert (await here.app.users.get("joe", tenant="acme")).level == 3

    asyncio.run(main())


def test_a_provider_that_did_not_ask_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login without a password, from a session at the provider, is as old as that; one of unknown age is too old."""

    async def main() -> None:
        async with provided(monkeypatch) as (here, provider, client):
            assert (await log_in(client)).status_code == 303  # it does not say when
            assert is_asked(await client.post("/people", data=NEW, headers=HERE))
            for claims in (
                {},
                {"auth_time": True},
                {"auth_time": 0},
                {"auth_time": int(time.time()) - QUARTER - 9},
            ):
                before = client.cookies["holdfast-session"]
                provider.twist = lambda sent, claims=claims: sent.update(claims)  # type: ignore[misc]
                refused = await log_in(client, "/login/oidc?again=yes&to=/people")
                assert "--step-up-seconds 0" in refused.text, claims
                assert client.cookies["holdfast-session"] == before
            now(provider, ago=QUARTER + 9)
            assert (await log_in(client)).status_code == 303
            assert is_asked(await client.post("/people", data=NEW, headers=HERE))
            page = await client.post("/people", data={**NEW, "login_proof": here.token}, headers=HERE)
            assert is_asked(page)  # a token is no proof of a login with the provider
            now(provider)
            for away in ("//evil.example", "https://evil.example", "/\\evil.example"):
                done = await log_in(client, f"/login/oidc?again=yes&to={away}")
                assert done.headers["location"] == "/runs"
            assert query_of(str(done.headers["location"])) == {}

    asyncio.run(main())


# -- who is not asked --------------------------------------------------------------------------------------------------


def test_a_user_whom_a_proxy_names_is_not_asked() -> None:
    """Nothing here can ask them: what the proxy wants before it names somebody is the proxy's."""

    async def main() -> None:
        clock = MovedClock()
        async with Holdfast("memory://", worker=False, clock=clock) as app:
            await token_of(app, "acme", "root", 6)
            way = TrustedHeader(app, "X-User", ["127.0.0.1"], "acme")
            server = Server(app, settings=QUICK, authenticators=[way])
            async with served(app, server=server) as address, person(address, None) as client:
                clock.moved = QUARTER + 1
                done = await client.post("/people", data=NEW, headers={**HERE, "X-User": "root"})
                assert done.status_code == 303

    asyncio.run(main())


def test_a_server_can_do_without() -> None:
    """Where the provider never says when somebody authenticated."""

    async def main() -> None:
        settings = ServerSettings(step_up_seconds=0)
        async with desk(settings) as here, here.logged_in() as client:
            here.clock.moved = QUARTER * 4
            assert (await client.post("/people", data=NEW, headers=HERE)).status_code == 303

    asyncio.run(main())

"""What protects people in their browsers: no inline code, sessions that end, bounded logins, forms with a size."""

from __future__ import annotations

import asyncio
import json
import re
from html.parser import HTMLParser

import pytest

from holdfast import Holdfast
from holdfast.client.people.sessions import SESSION_SECONDS
from holdfast.server import Server, ServerSettings
from holdfast.server.console.console import POLICY
from holdfast.server.console.pages.table import PAGES
from tests.serving import person, served, token_of
from tests.unit.server.console.test_console import HERE, HTML, QUICK, log_in, of, office


class Markup(HTMLParser):
    """Finds what a strict policy would not run, and what would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.inline: list[str] = []
        self.elsewhere: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("style", "object", "embed", "iframe", "base") or (tag == "script" and "src" not in given):
            self.inline.append(tag)
        self.inline += [f"{tag} {name}" for name in given if name.startswith("on") or name in ("style", "srcdoc")]
        places = [given[name] for name in ("src", "href", "action", "formaction", "poster", "data") if name in given]
        self.elsewhere += [place for place in places if not re.match(r"(/(?!/)|#|\?)", place)]


def test_no_page_has_inline_code_or_loads_anything_from_elsewhere() -> None:
    """Every page, those to log in, and those of refusals; all under the same strict policy, and none can be framed."""

    async def main() -> None:
        async with office() as (app, address, things):
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            async with person(address, token) as client:
                paths = [of(page.path, things) for page in PAGES if not page.path.endswith("/diagram")]
                for path in (*paths, "/login", "/login?left=yes", "/welcome?key=x", "/nothing", "/runs/nothing"):
                    page = await client.get(path, headers=HTML)
                    assert page.headers["content-type"].startswith("text/html"), path
                    assert page.headers["content-security-policy"] == POLICY, path
                    assert page.headers["x-content-type-options"] == "nosniff"
                    assert page.headers["x-frame-options"] == "DENY"
                    assert page.headers["cache-control"] == "no-store"
                    markup = Markup()
                    markup.feed(page.text)
                    assert (markup.inline, markup.elsewhere) == ([], []), path
        assert POLICY.startswith("default-src 'none'; ")
        assert "frame-ancestors 'none'" in POLICY
        assert not re.search(r"unsafe|\*|https?:|data:|blob:", POLICY)

    asyncio.run(main())


def test_the_finder_of_inline_code_finds_it() -> None:
    markup = Markup()
    markup.feed('<a href="//x" onclick="f()"></a><p style="x"></p><script>f()</script><img src="https://x">')
    assert markup.inline == ["a onclick", "p style", "script"]
    assert markup.elsewhere == ["//x", "https://x"]


def test_other_sites_are_not_invited() -> None:
    """There is no CORS, on no route and in no answer to a browser that asks beforehand."""

    async def main() -> None:
        async with office() as (_, address, _), person(address, None) as client:
            asks = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "POST"}
            for path in ("/v1/runs", "/login", "/runs", "/openapi.json", "/assets/console.js"):
                answers = [await client.options(path, headers=asks), await client.get(path, headers=asks)]
                for answer in answers:
                    assert not [name for name in answer.headers if name.startswith("access-control")], path
                assert answers[0].status_code == 405, path

    asyncio.run(main())


class MovedClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 1_800_000_000_000_000

    def now(self) -> int:
        return self.at


def test_a_session_ends_after_its_time_whatever_the_browser_keeps() -> None:
    """The server knows when; nothing that is used makes it longer."""

    async def main() -> None:
        clock = MovedClock()
        async with Holdfast("memory://", worker=False, clock=clock) as app:
            token = await token_of(app, "acme", "ann", 4)
            async with served(app) as address, person(address, None) as client:
                await log_in(client, token)
                kept = {"Cookie": f"holdfast-session={client.cookies['holdfast-session']}"}
                clock.at += (SESSION_SECONDS - 1) * 1_000_000
                assert (await client.get("/v1/me", headers=kept)).status_code == 200
                clock.at += 2_000_000
                assert (await client.get("/v1/me", headers=kept)).status_code == 401

    asyncio.run(main())


def test_failed_logins_of_one_address_are_bounded() -> None:
    """After so many nobody from there can log in for a while, not even with a good token; sessions go on."""

    async def main() -> None:
        settings = ServerSettings(failures_per_minute=3)
        async with Holdfast("memory://", worker=False) as app:
            token = await token_of(app, "acme", "ann", 4)
            async with served(app, settings=settings) as address, person(address, None) as client:
                await log_in(client, token)
                bad = "hf_000000000000_" + "0" * 64
                async with person(address, None) as guesser:
                    codes = [(await log_in(guesser, bad)).status_code for _ in range(5)]
                    assert codes == [401, 401, 401, 429, 429]
                    assert (await log_in(guesser, token)).status_code == 429
                assert (await client.get("/v1/me")).status_code == 200

    asyncio.run(main())


def test_bodies_are_bounded_before_they_are_read() -> None:
    """A form says how large it is, and is small; JSON is not too deep; a page of a list is not too long."""

    async def main() -> None:
        async with office() as (app, address, _):
            token = (await app.tokens.mint("level 6", tenant="acme")).text
            async with person(address, token) as client:

                async def chunks() -> object:
                    yield b"token=x"

                form = {**HERE, "Content-Type": "application/x-www-form-urlencoded"}
                for path in ("/login", "/welcome"):
                    assert (await client.post(path, content=chunks(), headers=form)).status_code == 413
                    assert (await client.post(path, data={"token": "x" * 30_000}, headers=HERE)).status_code == 413
                deep = json.dumps({"workflow": "x", "args": [json.loads("[" * 80 + "]" * 80)]})
                sent = await client.post("/v1/runs", content=deep, headers={"Content-Type": "application/json"})
                assert (sent.status_code, sent.json()["code"]) == (400, "malformed_request")
                assert "deeper than 64" in sent.text
                for path in ("/v1/runs", "/v1/tasks", "/v1/receipts", "/v1/audit"):
                    assert (await client.get(path, params={"limit": 1001})).status_code == 400, path

    asyncio.run(main())


@pytest.mark.parametrize("names", [("ann", "eve"), ("ann", "ann")])
def test_the_link_for_the_first_user_is_good_once_even_when_it_is_used_twice_at_once(names: tuple[str, str]) -> None:
    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            server = Server(app, settings=QUICK)
            assert server.console is not None
            key = server.console.invite().partition("key=")[2]
            async with served(app, server=server) as address, person(address, None) as client:
                sent = [client.post("/welcome", data={"key": key, "name": name}, headers=HERE) for name in names]
                codes = sorted([answer.status_code for answer in await asyncio.gather(*sent)])
                assert codes == [200, 404]
                assert len([user async for user in app.users.list()]) == 1

    asyncio.run(main())

"""Which account of a provider is which user: by spelling, by subject, and who links levels 5 and 6."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import msgspec
import pytest

from holdfast import Holdfast
from holdfast.client.items import Change, change_item
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.people.identities import LINKED, identity_key
from holdfast.server import ServerSettings
from tests.provider import SECRET
from tests.serving import person, token_of
from tests.unit.server.openid.test_login import CHANGING, HTML, acts, log_in, office, words_of

LOOK_ALIKES = ("Ann", "\u00aann", "a\u207fn", "\uff41nn", "\u24d0nn")


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SECRET_OIDC", SECRET)


async def link_as_before(app: Holdfast, user: str, issuer: str, subject: str) -> None:
    """A link as versions before this one wrote it."""
    body = msgspec.json.encode({"issuer": issuer, "subject": subject})
    change = Change(body, LINKED, details={"issuer": issuer, "subject": subject})
    await change_item(app, identity_key("acme", user), "link_identity", lambda _: change, by="OpenID Connect")


async def refusal(client: httpx.AsyncClient) -> str:
    answer = await log_in(client)
    assert answer.status_code == 403, answer.text
    assert "holdfast-session" not in client.cookies
    return unescape(words_of(answer))


@pytest.mark.parametrize("more", [{}, {"make_users": True, **CHANGING}], ids=["users are made here", "by logins"])
def test_an_account_whose_name_looks_like_a_users_is_another_persons(more: dict[str, Any]) -> None:
    """It is refused like a name that is not there, and changes no user and no link; the user still logs in."""

    async def main() -> None:
        quick = ServerSettings(failures_per_minute=1e6)
        async with office(settings=quick, **more) as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=4, tenant="acme", by="root")
            for name in LOOK_ALIKES:
                provider.account |= {"sub": "account-2", "preferred_username": name, "roles": ["viewer"]}
                words = await refusal(client)
                assert words.startswith(f"tenant 'acme' has no user {name!r}, in this very spelling"), ascii(name)
            ann = await app.users.get("ann", tenant="acme")
            assert (ann.level, await app.users.identity("ann", tenant="acme")) == (4, None)
            noted = [each["details"] for each in await acts(app) if each["act"] == "refuse"]
            assert [each["login"] for each in noted] == list(LOOK_ALIKES)
            provider.account |= {"sub": "account-1", "preferred_username": "ann", "roles": ["approver"]}
            assert (await log_in(client)).status_code == 303
            assert (await client.get("/v1/me")).json()["user"] == "ann"

    asyncio.run(main())


def test_the_refusal_of_another_spelling_does_not_say_that_a_user_is_there() -> None:
    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=4, tenant="acme", by="root")
            provider.account |= {"preferred_username": "ANN"}
            taken = await refusal(client)
            provider.account |= {"preferred_username": "eve"}
            assert taken.replace("'ANN'", "'eve'") == await refusal(client)

    asyncio.run(main())


@pytest.mark.parametrize("level", [5, 6])
def test_no_login_links_a_user_of_level_5_or_6(level: int) -> None:
    """Its refusal names the command, with this account; after that the account is let in, and no other one. So it is
    with a server that changes nothing."""

    async def main() -> None:
        for settings in (None, ServerSettings(read_only=True)):
            async with office(settings=settings) as (app, address, provider), person(address, None) as client:
                await app.users.create("ann", level=level, tenant="acme", by="root")
                words = await refusal(client)
                command = f"holdfast users link ann --tenant acme --issuer {provider.issuer} --subject account-1"
                assert f"`{command}`" in words
                assert await app.users.identity("ann", tenant="acme") is None
                await app.users.link("ann", issuer=provider.issuer, subject="account-1", tenant="acme", by="operator")
                linked = await app.users.identity("ann", tenant="acme")
                assert linked is not None
                assert (linked.subject, linked.made_by) == ("account-1", "person")
                assert (await log_in(client)).status_code == 303
                provider.account |= {"sub": "account-2"}
                async with person(address, None) as other:
                    assert "another account" in await refusal(other)

    asyncio.run(main())


def test_level_6_is_needed_to_link_over_http() -> None:
    """The link is one change with its entry in the audit; the same again is none."""

    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=6, tenant="acme", by="root")
            ruler = (await app.tokens.mint("root", tenant="acme")).text
            author = await token_of(app, "acme", "bob", 5)
            body = {"link": {"issuer": provider.issuer, "subject": "account-1"}, "reason": "I saw them"}
            async with person(address, author) as bob, person(address, ruler) as root:
                refused = await bob.patch("/v1/users/ann", json=body)
                assert (refused.status_code, refused.json()["code"]) == (403, "not_permitted")
                await refusal(client)
                for _ in range(2):
                    assert (await root.patch("/v1/users/ann", json=body)).status_code == 200
                for half in ({}, {"issuer": provider.issuer}, {"subject": "x"}, {"issuer": "", "subject": " "}):
                    wrong = await root.patch("/v1/users/ann", json={"link": half})
                    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request"), half
                missing = await root.patch("/v1/users/zoe", json=body)
                assert missing.status_code == 404
            (linked,) = [each for each in await acts(app) if each["act"] == "link_identity"]
            assert (linked["who"], linked["reason"], linked["details"]["subject"]) == (
                "root",
                "I saw them",
                "account-1",
            )
            assert (await log_in(client)).status_code == 303

    asyncio.run(main())


def test_claims_raise_to_level_5_and_6_only_an_account_that_a_person_linked() -> None:
    """Neither a user whom a login makes, nor one whom a login linked; the level stays. After `link` they are raised."""

    async def main() -> None:
        async with office(make_users=True, **CHANGING) as (app, address, provider), person(address, None) as client:
            provider.account |= {"roles": ["ruler"]}
            words = await refusal(client)
            assert "`holdfast users create ann --level N --tenant acme` and then `holdfast users link ann" in words
            assert [each.name async for each in app.users.list(tenant="acme")] == ["root"]
            provider.account |= {"roles": ["approver"]}
            assert (await log_in(client)).status_code == 303
            provider.account |= {"roles": ["ruler"]}
            async with person(address, None) as again:
                assert "holdfast users link ann" in await refusal(again)
                assert (await app.users.get("ann", tenant="acme")).level == 2
                await app.users.link("ann", issuer=provider.issuer, subject="account-1", tenant="acme", by="root")
                assert (await log_in(again)).status_code == 303
            assert (await app.users.get("ann", tenant="acme")).level == 6

    asyncio.run(main())


def test_a_user_whom_a_login_linked_and_a_person_raised_is_linked_by_a_person_before_the_next_login() -> None:
    """The session that is open goes on."""

    async def main() -> None:
        async with office() as (app, address, _), person(address, None) as client:
            await app.users.create("ann", level=2, tenant="acme", by="root")
            assert (await log_in(client)).status_code == 303
            await app.users.set_level("ann", 5, tenant="acme", by="root")
            assert (await client.get("/v1/me")).json()["level"] == 5
            async with person(address, None) as again:
                assert "holdfast users link ann" in await refusal(again)

    asyncio.run(main())


def test_links_and_sessions_of_older_versions_go_on() -> None:
    """A link of level 6 that does not say who made it counts for the level that the user has, not for a higher one. A
    session of another spelling stays its user's."""

    async def main() -> None:
        async with office(**CHANGING) as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=6, tenant="acme", by="root")
            await link_as_before(app, "ann", provider.issuer, "account-1")
            provider.account |= {"roles": ["ruler"]}
            assert (await log_in(client)).status_code == 303
            await app.users.create("bob", level=2, tenant="acme", by="root")
            await link_as_before(app, "bob", provider.issuer, "account-b")
            provider.account = {"sub": "account-b", "preferred_username": "bob", "roles": ["approver"]}
            async with person(address, None) as bob:
                assert (await log_in(bob)).status_code == 303
                provider.account |= {"roles": ["ruler"]}
                refused = await log_in(bob)
                assert "holdfast users link bob" in unescape(words_of(refused))
                secret = await ConsoleSessions(app).begin_for("acme", "Bob", provider.issuer)
                me = await bob.get("/v1/me", headers={"Cookie": f"holdfast-session={secret}"})
                assert (me.json()["user"], me.json()["level"]) == ("bob", 2)

    asyncio.run(main())


def test_an_account_of_another_spelling_is_let_in_when_a_person_links_the_spelling() -> None:
    """The session is the user's by the stored name, and the subject counts all the same."""

    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=6, tenant="acme", by="root")
            account = {"issuer": provider.issuer, "subject": "account-1"}
            await app.users.link("ann", **account, login="Ann", tenant="acme", by="root")
            provider.account |= {"preferred_username": "Ann"}
            assert (await log_in(client)).status_code == 303
            assert (await client.get("/v1/me")).json()["user"] == "ann"
            assert [each["who"] for each in await acts(app) if each["act"] == "login"] == ["ann"]
            provider.account |= {"sub": "account-2"}
            async with person(address, None) as other:
                assert "another account" in await refusal(other)
            await app.users.unlink("ann", tenant="acme", by="root")
            async with person(address, None) as other:
                assert "holdfast users link Ann" in await refusal(other)  # no login links a user of level 6

    asyncio.run(main())


def test_the_console_links_an_account_and_a_spelling_and_takes_them_off() -> None:
    async def main() -> None:
        async with office() as (app, address, provider), person(address, None) as client:
            await app.users.create("ann", level=6, tenant="acme", by="root")
            token = (await app.tokens.mint("root", tenant="acme")).text
            here = {**HTML, "Sec-Fetch-Site": "same-origin"}
            await client.post("/login", data={"token": token}, headers=here)
            form = {"issuer": provider.issuer, "subject": "account-1", "login": "Ann", "reason": "I saw them"}
            done = await client.post("/people/ann/link", data=form, headers=here)
            assert done.status_code == 303, done.text
            page = (await client.get("/people/ann", headers=here)).text
            assert re.search(r"account-1.*linked by a person", page, re.DOTALL)
            assert "<code>Ann</code>" in page
            wrong = await client.post("/people/ann/link", data={"login": "anne", "reason": "x"}, headers=here)
            assert (wrong.status_code, "another name than" in unescape(wrong.text)) == (400, True)
            await client.post("/people/ann/unlink", data={"login": "Ann", "reason": "x"}, headers=here)
            assert (await app.users.get("ann", tenant="acme")).logins == ()
            assert await app.users.identity("ann", tenant="acme") is not None
            await client.post("/people/ann/unlink", data={"reason": "x"}, headers=here)
            assert await app.users.identity("ann", tenant="acme") is None

    asyncio.run(main())

"""Tenants, users, tokens and workspaces: each change with its note, and what must never happen does not."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from holdfast import Holdfast, workflow
from holdfast.audit import records
from holdfast.errors import (
    InvalidRequest,
    InvalidToken,
    LastRuler,
    NameTaken,
    NotPermitted,
    TenantNotFound,
    TokenNotFound,
    UserNotFound,
    WorkspaceNotFound,
)
from holdfast.people.tenants import TenantQuota
from holdfast.store import protocol as p
from holdfast.templates.template import EventRoute


@workflow(name="people.greet")
async def greet(name: str) -> str:
    return f"hello {name}"


@asynccontextmanager
async def engine() -> AsyncIterator[Holdfast]:
    async with Holdfast("memory://", worker=False) as app:
        await app.tenants.create("acme", by="root")
        await app.users.create("ann", level=6, tenant="acme", by="root")
        yield app


async def notes(app: Holdfast, tenant: str = "acme") -> list[records.Operated]:
    found = [records.decode(each.body) for each in await app.store.entries(p.AuditQuery(tenant), 999)]
    return [each for each in found if isinstance(each, records.Operated)]


def test_a_tenant_is_made_once_by_the_operator() -> None:
    async def main() -> None:
        async with engine() as app:
            with pytest.raises(NameTaken):
                await app.tenants.create("acme")
            limits = TenantQuota(max_concurrency=3, weight=2)
            changed = await app.tenants.change("acme", title="Acme", limits=limits, by="root")
            assert (changed.title, changed.max_concurrency, changed.weight, changed.limits) == ("Acme", 3, 2, limits)
            assert [each.name async for each in app.tenants.list()] == ["acme"]
            with pytest.raises(TenantNotFound):
                await app.tenants.change("bolt", title="x")
            with pytest.raises(InvalidRequest, match="weight"):
                await app.tenants.change("acme", limits=TenantQuota(weight=0))
            ann = app.acting_as("ann", tenant="acme")
            with pytest.raises(NotPermitted, match="operator of the installation"):
                await ann.tenants.create("bolt")
            assert [note.act for note in await notes(app)][-3:] == ["create_user", "change_tenant", "refuse"]

    asyncio.run(main())


def test_a_user_is_made_in_a_tenant_that_is_there() -> None:
    async def main() -> None:
        async with engine() as app:
            with pytest.raises(TenantNotFound):
                await app.users.create("bob", level=1, tenant="bolt")
            bob = await app.users.create("Bob", level=2, groups=["desk", "desk"], tenant="acme")
            assert (bob.name, bob.level, bob.groups, bob.disabled) == ("Bob", 2, ("desk",), False)
            with pytest.raises(NameTaken, match="Bob"):
                await app.users.create("bob", level=1, tenant="acme")
            assert await app.users.get("BOB", tenant="acme") == bob
            with pytest.raises(UserNotFound):
                await app.users.get("zoe", tenant="acme")
            last = (await notes(app))[-1]
            assert (last.act, last.details["level"], last.details["groups"]) == ("create_user", "2", '["desk"]')
            for name in ("", " bob", "hf_x", "b*", "a~b", "x" * 201):
                with pytest.raises(InvalidRequest):
                    await app.users.create(name, level=1, tenant="acme")
            for level in (0, 7, True, "4"):
                with pytest.raises(InvalidRequest, match="level"):
                    await app.users.create("eve", level=level, tenant="acme")  # type: ignore[arg-type]

    asyncio.run(main())


def test_the_last_user_of_level_six_stays() -> None:
    """Neither demoted nor disabled; with another one they may go, and the same again changes nothing."""

    async def main() -> None:
        async with engine() as app:
            ann = app.acting_as("ann", tenant="acme")
            for act in (
                ann.users.disable("ann"),
                ann.users.set_level("ann", 5),
                app.users.disable("ann", tenant="acme"),
            ):
                with pytest.raises(LastRuler):
                    await act
            await ann.users.create("bob", level=6)
            await ann.users.disable("bob")
            with pytest.raises(LastRuler):
                await ann.users.set_level("ann", 1)
            await ann.users.enable("bob")
            before = len(await notes(app))
            await ann.users.enable("bob")
            assert len(await notes(app)) == before
            await ann.users.set_level("ann", 1)
            with pytest.raises(NotPermitted):
                await ann.users.set_level("ann", 6)

    asyncio.run(main())


def test_of_two_who_remove_each_other_at_once_one_stays() -> None:
    """Each saw the other when they decided; the tenant's item lets only one of the two commit by that."""

    async def main() -> None:
        async with engine() as app:
            for attempt in range(5):
                await app.users.create(f"bob {attempt}", level=6, tenant="acme")
                ann, bob = app.acting_as("ann", tenant="acme"), app.acting_as(f"bob {attempt}", tenant="acme")
                done = await asyncio.gather(
                    ann.users.disable(f"bob {attempt}"), bob.users.disable("ann"), return_exceptions=True
                )
                assert sum(isinstance(each, Exception) for each in done) == 1
                rulers = [each async for each in app.users.list(tenant="acme") if each.level == 6 and not each.disabled]
                assert len(rulers) == 1
                await app.users.enable("ann", tenant="acme")
                if rulers[0].name != "ann":
                    await app.users.disable(rulers[0].name, tenant="acme")

    asyncio.run(main())


def test_a_token_is_kept_as_a_hash() -> None:
    """It expires by default, is revoked for good, and its last use is known."""

    async def main() -> None:
        async with engine() as app:
            minted = await app.tokens.mint("ann", tenant="acme", purpose="ci", by="root")
            assert minted.text not in repr(minted)
            row = (await app.store.items("token", 9))[0]
            secret = bytes.fromhex(minted.text.split("_")[2])
            assert len(secret) == 32
            assert secret.hex().encode() not in row.body
            assert hashlib.sha256(secret).hexdigest().encode() in row.body
            assert minted.token.expires_at is not None
            client = app.acting_as(minted.text)
            who = await client.whoami()
            assert who is not None
            assert (who.user, who.tenant, who.level) == ("ann", "acme", 6)
            (seen,) = [each async for each in client.tokens.list(user="Ann")]
            assert (seen.purpose, seen.made_by, seen.revoked) == ("ci", "root", False)
            assert seen.last_used_at is not None
            revoked = await client.tokens.revoke(minted.token.id)
            assert revoked.revoked
            with pytest.raises(InvalidToken, match="revoked"):
                await client.whoami()
            with pytest.raises(TokenNotFound):
                await app.tokens.revoke("000000000000", tenant="acme")
            acts = [note.act for note in await notes(app)]
            assert acts[-4:] == ["mint_token", "use_token", "revoke_token", "refuse"]

    asyncio.run(main())


def test_everybody_sees_and_revokes_their_own_tokens() -> None:
    """At every level, and only their own: another's is missing like one that does not exist."""

    async def main() -> None:
        async with engine() as app:
            await app.users.create("Bob", level=1, tenant="acme")
            hers = await app.tokens.mint("ann", tenant="acme")
            first, second = [await app.tokens.mint("bob", tenant="acme") for _ in range(2)]
            bob = app.acting_as(first.text)
            assert {each.id async for each in bob.tokens.own()} == {first.token.id, second.token.id}
            with pytest.raises(NotPermitted):
                await bob.tokens.revoke(second.token.id)
            for id in (hers.token.id, "000000000000"):
                with pytest.raises(TokenNotFound, match=f"you have no token '{id}'"):
                    await bob.tokens.revoke_own(id)
            revoked = await bob.tokens.revoke_own(second.token.id, reason="lost")
            assert (revoked.id, revoked.revoked) == (second.token.id, True)
            note = [note for note in await notes(app) if note.act == "revoke_token"][-1]
            assert (note.who, note.reason, note.details["token"]) == ("Bob", "lost", second.token.id)
            assert (await bob.tokens.revoke_own(first.token.id)).revoked  # the very one that it acts with
            with pytest.raises(InvalidToken, match="revoked"):
                await bob.whoami()
            with pytest.raises(InvalidToken):
                await app.acting_as(second.text).whoami()
            scoped = app.acting_as((await app.tokens.mint("bob", scope=["runs"], tenant="acme")).text)
            with pytest.raises(NotPermitted, match="scope"):
                await scoped.tokens.revoke_own(first.token.id)
            with pytest.raises(InvalidRequest, match="bound"):
                await app.tokens.revoke_own(hers.token.id)

    asyncio.run(main())


def test_lists_of_people_come_in_pages() -> None:
    """Each page names the place where the next begins; all of them together are the list. A cursor is for its list."""

    async def main() -> None:
        async with engine() as app:
            for _ in range(3):
                await app.tokens.mint("ann", tenant="acme")
            for number in range(4):
                await app.users.create(f"user {number}", level=1, tenant="acme")
                await app.tokens.mint(f"user {number}", tenant="acme")
                await app.schedules.create(f"s{number}", greet, input="x", every=60, tenant="acme")
                await app.templates.create(f"t{number}", greet, tenant="acme")
            await app.schedules.delete("s1", tenant="acme")
            ann = app.acting_as("ann", tenant="acme")
            reads: dict[str, tuple[Any, Any, Any]] = {
                "users": (ann.users.page, ann.users.list(), lambda each: each.name),
                "tokens": (ann.tokens.page, ann.tokens.list(), lambda each: each.id),
                "own": (partial(ann.tokens.page, user="Ann"), ann.tokens.own(), lambda each: each.id),
                "templates": (ann.templates.page, ann.templates.list(), lambda each: each.id),
                "schedules": (ann.schedules.page, ann.schedules.list(), lambda each: each.id),
            }
            for name, (read, whole, place) in reads.items():
                found, after = [], None
                while True:
                    page = await read(limit=2, after=after)
                    found += [place(each) for each in page.items]
                    after = page.next
                    if after is None:
                        break
                    assert len(page.items) == 2, name
                assert found == [place(each) async for each in whole], name
                assert len(found) > 2, name
            cursor = (await ann.users.page(limit=1)).next
            with pytest.raises(InvalidRequest, match="a list of users"):
                await ann.templates.page(after=cursor)

    asyncio.run(main())


def test_a_token_is_never_above_its_maker() -> None:
    """Nor above its user, nor beyond the scope of the token that makes it."""

    async def main() -> None:
        async with engine() as app:
            await app.users.create("bob", level=3, tenant="acme")
            with pytest.raises(InvalidRequest, match="level 3"):
                await app.tokens.mint("bob", level=4, tenant="acme")
            with pytest.raises(UserNotFound):
                await app.tokens.mint("zoe", tenant="acme")
            narrow = await app.tokens.mint("ann", scope=["tokens", "runs.see"], tenant="acme")
            client = app.acting_as(narrow.text)
            for scope in ([], ["runs"], ["tasks.see"]):
                with pytest.raises(NotPermitted, match="for more"):
                    await client.tokens.mint("ann", scope=scope)
            assert (await client.tokens.mint("ann", scope=["tokens.see", "runs.see"])).token.scope
            with pytest.raises(InvalidRequest, match="no operation"):
                await app.tokens.mint("ann", scope=["dance"], tenant="acme")
            for days in (0, -1, 99999, float("nan")):
                with pytest.raises(InvalidRequest, match="days"):
                    await app.tokens.mint("ann", days=days, tenant="acme")
            forever = await app.tokens.mint("bob", days=None, tenant="acme")
            assert (forever.token.expires_at, forever.token.level) == (None, 3)
            await app.users.set_level("bob", 1, tenant="acme")
            who = await app.acting_as(forever.text).whoami()
            assert who is not None
            assert who.level == 1

    asyncio.run(main())


def test_runs_start_in_the_workspaces_that_there_are() -> None:
    """A tenant without workspaces has none to be held to."""

    async def main() -> None:
        async with engine() as app:
            ann = app.acting_as("ann", tenant="acme")
            await ann.start(greet, "a", id="r1", workspace="anything")
            await ann.workspaces.create("sales", title="Sales")
            with pytest.raises(NameTaken):
                await ann.workspaces.create("sales")
            with pytest.raises(WorkspaceNotFound):
                await ann.start(greet, "a", id="r2", workspace="anything")
            await ann.start(greet, "a", id="r2", workspace="sales")
            await ann.templates.create("greet", greet, route=EventRoute("met"))
            await ann.templates.activate("greet")
            await ann.templates.start("greet", "a", id="r4", workspace="sales")
            await ann.workspaces.archive("sales")
            for place in ("sales", "anything"):
                with pytest.raises(WorkspaceNotFound):
                    await ann.start(greet, "a", id="r3", workspace=place)
                with pytest.raises(WorkspaceNotFound):
                    await ann.templates.start("greet", "a", id="r3", workspace=place)
                with pytest.raises(WorkspaceNotFound):
                    await ann.emit("met", {"name": "a"}, id="e1", workspace=place)
            assert sorted([run.id async for run in app.list(tenant="acme")]) == ["r1", "r2", "r4"]
            with pytest.raises(WorkspaceNotFound):
                await ann.workspaces.archive("nowhere")
            assert [(each.name, each.archived) async for each in ann.workspaces.list()] == [("sales", True)]

    asyncio.run(main())

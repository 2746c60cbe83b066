"""A token that a token has minted is never worth more than its makers are now, however long the line is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from holdfast import Holdfast
from holdfast.client.people.makers import MOST_MAKERS
from holdfast.people.tokens import TOKEN, read_token, write_token
from holdfast.store import protocol as p
from tests.unit.server.names.door import Door, Reply, opened

TENANT: Final = "acme"
DAY: Final = 86_400
PEOPLE: Final = ("ann", "bea", "cid")


class Line(NamedTuple):
    """Tokens of a tenant, each minted with the one before it; the first by the operator. Each is another person's."""

    tenant: str
    ids: list[str]
    texts: list[str]


@asynccontextmanager
async def tenant() -> AsyncIterator[tuple[Holdfast, Door]]:
    async with Holdfast("memory://", worker=False) as app, opened(app) as door:
        await peopled(app, TENANT)
        yield app, door


async def peopled(app: Holdfast, tenant: str) -> None:
    await app.tenants.create(tenant)
    for name in ("root", *PEOPLE):
        await app.users.create(name, level=6, tenant=tenant)


async def mint(door: Door, token: str, user: str, **more: Any) -> Reply:
    return await door.ask(token, "POST", "/v1/tokens", {"user": user, **more})


async def line(app: Holdfast, door: Door, tenant: str = TENANT) -> Line:
    first = await app.tokens.mint(PEOPLE[0], tenant=tenant)
    ids, texts = [first.token.id], [first.text]
    for name in PEOPLE[1:]:
        reply = await mint(door, texts[-1], name)
        assert reply.status == 201, reply
        ids.append(reply.body["token"]["id"])
        texts.append(reply.body["text"])
    return Line(tenant, ids, texts)


async def level_of(door: Door, token: str) -> int:
    """The level with which a token acts; 0 if it is over."""
    reply = await door.ask(token, "GET", "/v1/me")
    return int(reply.body["level"]) if reply.status == 200 else 0


Change = Callable[[Holdfast, Line, int], Awaitable[Any]]


async def revoke(app: Holdfast, it: Line, place: int) -> None:
    await app.tokens.revoke(it.ids[place], tenant=it.tenant)


async def disable(app: Holdfast, it: Line, place: int) -> None:
    await app.users.disable(PEOPLE[place], tenant=it.tenant)


async def lower(app: Holdfast, it: Line, place: int) -> None:
    await app.users.set_level(PEOPLE[place], 3, tenant=it.tenant)


CHANGES: Final[tuple[tuple[Change, int], ...]] = ((revoke, 0), (disable, 0), (lower, 3))
"""What is done to a token or its user, and the level that is left to it and to all that were minted with it."""


def test_what_happens_to_a_maker_happens_to_all_that_it_made() -> None:
    """Every pair of changes at every two places of a line of three: each token has the lowest level of those that are
    left to it and its makers, at once, and the list says so."""

    async def main() -> None:
        cases = itertools.product(CHANGES, CHANGES, range(3), range(3))
        async with tenant() as (app, door):
            for number, ((one, left), (two, right), here, there) in enumerate(cases):
                await peopled(app, f"tenant {number}")
                it = await line(app, door, f"tenant {number}")
                assert [await level_of(door, text) for text in it.texts] == [6, 6, 6]
                await one(app, it, here)
                await two(app, it, there)
                levels = [min(6, left if place >= here else 6, right if place >= there else 6) for place in range(3)]
                about = (one.__name__, here, two.__name__, there)
                assert [await level_of(door, text) for text in it.texts] == levels, about
                await _check_list(app, it, about, levels)

    asyncio.run(main())


async def _check_list(app: Holdfast, it: Line, about: tuple[Any, ...], levels: list[int]) -> None:
    """A token of a disabled user is shown as good, as ever: it would be, were the user enabled."""
    tokens = {token.id: token async for token in app.tokens.list(tenant=it.tenant)}
    for place in (1, 2):
        over = levels[place - 1] == 0
        assert (tokens[it.ids[place]].problem is not None) == (over or tokens[it.ids[place]].revoked), about
        if not over:
            assert tokens[it.ids[place]].level <= levels[place - 1], about
    assert tokens[it.ids[2]].minted_with == it.ids[1]


def test_a_minted_token_has_no_longer_life_and_no_wider_scope() -> None:
    """It ends with its maker's token at the latest, whatever is asked for; a wider scope is refused."""

    async def main() -> None:
        async with tenant() as (app, door):
            narrow = await app.tokens.mint("ann", scope=["tokens.change"], days=1, tenant=TENANT)
            for days in (0.5, 90, 3650, None):
                made = await mint(door, narrow.text, "bea", scope=["tokens.change"], days=days)
                ends = msgspec.convert(made.body["token"]["expires_at"], type(narrow.token.expires_at))
                assert made.status == 201, made
                assert (ends <= narrow.token.expires_at) is True, days
                again = await mint(door, made.body["text"], "cid", scope=["tokens.change"], days=days)
                assert again.body["token"]["expires_at"] <= made.body["token"]["expires_at"]
            for scope in ([], ["tokens"], ["tokens.change", "runs.start"]):
                assert (await mint(door, narrow.text, "ann", scope=scope)).is_refused
            short = await app.tokens.mint("ann", level=6, tenant=TENANT)
            await app.users.set_level("ann", 5, tenant=TENANT)
            assert (await mint(door, short.text, "ann")).is_refused

    asyncio.run(main())


def test_a_line_of_tokens_has_an_end() -> None:
    """All makers are read with each use, so their number is bounded; the refusal says what to do."""

    async def main() -> None:
        async with tenant() as (app, door):
            text = (await app.tokens.mint("ann", tenant=TENANT)).text
            for _ in range(MOST_MAKERS - 1):
                text = (await mint(door, text, "ann")).body["text"]
            assert await level_of(door, text) == 6
            refused = await mint(door, text, "ann")
            assert (refused.status, refused.code) == (400, "invalid_request")
            assert "use an earlier one" in refused.body["detail"]

    asyncio.run(main())


def test_a_user_without_a_token_is_a_maker_too() -> None:
    """A user who is proved in another way bounds what they mint as well. The operator bounds nothing."""

    async def main() -> None:
        async with tenant() as (app, door):
            by_bea = (await app.acting_as("bea", tenant=TENANT).tokens.mint("cid")).text
            by_operator = (await app.tokens.mint("cid", tenant=TENANT, by="bea")).text
            await app.users.set_level("bea", 2, tenant=TENANT)
            assert [await level_of(door, each) for each in (by_bea, by_operator)] == [2, 6]
            await app.users.disable("bea", tenant=TENANT)
            assert [await level_of(door, each) for each in (by_bea, by_operator)] == [0, 6]

    asyncio.run(main())


def test_tokens_of_older_versions_go_on() -> None:
    """They record no maker: what becomes of the token with which they were minted does not concern them."""

    async def main() -> None:
        async with tenant() as (app, door):
            it = await line(app, door)
            key = p.ItemKey(TENANT, TOKEN, it.ids[1])
            row = await app.store.item(key)
            assert row is not None
            old = msgspec.structs.replace(read_token(row), maker="", minted_with="")
            assert b"maker" not in write_token(old)
            body = p.PutItem(msgspec.structs.replace(row, version=row.version + 1, body=write_token(old)))
            note = p.Note(TENANT, None, b"", "test", "old")
            assert await app.committer.commit(p.Operate(note, (body,))) == p.OperatedOn()
            await app.tokens.revoke(it.ids[0], tenant=TENANT)
            await app.users.disable("ann", tenant=TENANT)
            assert [await level_of(door, text) for text in it.texts] == [0, 6, 6]

    asyncio.run(main())


def test_what_was_judged_of_a_maker_holds_in_the_commit() -> None:
    """A maker's token that is revoked between the judgement and the commit prevents the act; another change of the
    maker does not."""

    async def main() -> None:
        async with tenant() as (app, door):
            it = await line(app, door)
            commit, happens = app.committer.commit, list[Callable[[], Awaitable[Any]]]()

            async def between(change: p.Change) -> p.Answer:
                if happens:
                    await happens.pop()()
                return await commit(change)

            app.committer.commit = between  # type: ignore[method-assign]
            happens.append(lambda: app.users.set_groups("ann", ["desk"], tenant=TENANT))
            made = await door.ask(it.texts[2], "POST", "/v1/users", {"name": "first", "level": 1})
            assert made.status == 201, made
            happens.append(lambda: app.tokens.revoke(it.ids[0], tenant=TENANT))
            late = await door.ask(it.texts[2], "POST", "/v1/users", {"name": "second", "level": 1})
            assert (late.status, late.code) == (401, "invalid_token"), late
            assert "with which it was made" in late.body["detail"]
            assert [user.name async for user in app.users.list(tenant=TENANT)].count("second") == 0

    asyncio.run(main())

"""Every route, on every named thing of another user and of another tenant, by every level and every scope.

The answers that are expected are those of ``table``. After each change that is allowed, the thing acts in the name of
the table, and does nothing for which its new owner has no right.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast import EventRoute, Holdfast, WorkerOptions
from holdfast.people.permissions import LEAST
from holdfast.server.route import Route
from holdfast.server.routes.table import ROUTES
from holdfast.store import protocol as p
from holdfast.webhooks.vault import secret_key
from holdfast.webhooks.webhook import EmitEvent
from tests.unit.client.operations import FREE, TWO, WORKFLOWS, Things, furnish, leaf
from tests.unit.server.names.door import Door, Reply, opened
from tests.unit.server.names.table import CALLER, DOES, LEFT_OUT, NAMES, NEVER, ROWS, SCOPES
from tests.unit.server.requests import EXAMPLES, Example, route_named
from tests.unit.server.test_who_may import hide

TENANT: Final = "acme"
KINDS: Final = ("webhook", "schedule", "template", "route", "subscription", "token", "user", "identity")


class Asker(NamedTuple):
    """A user with a token, and what the token is for; for all if it has no scope."""

    level: int
    scope: tuple[str, ...]
    token: str

    @property
    def name(self) -> str:
        return f"level {self.level}"

    def has(self, operation: str) -> bool:
        """Whether the token is for an operation."""
        return not self.scope or operation in self.scope or operation.partition(".")[0] in self.scope


@asynccontextmanager
async def furnished() -> AsyncIterator[tuple[Holdfast, Door, Things, Things]]:
    options = WorkerOptions(retention_days=None, webhooks=False)
    async with Holdfast("memory://", workflows=WORKFLOWS, policy=FREE, options=options) as app:
        acme, bolt = [await furnish(app, tenant) for tenant in (TENANT, "bolt")]
        for tenant in (TENANT, "bolt"):
            await app.definitions.publish(TWO, tenant=tenant)
            await app.schedules.create("offered", leaf.name, every=3600, paused=True, tenant=tenant)
        await app.users.create("joe", level=6, tenant=TENANT)
        async with opened(app) as door:
            yield app, door, acme, bolt


class Askers:
    """The users with their tokens, each minted once."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._minted: dict[tuple[int, tuple[str, ...]], Asker] = {}

    async def of(self, needs: tuple[str, ...]) -> list[Asker]:
        """Every level, every scope, all that a route needs together, and all of it but one."""
        less = [tuple(each for each in needs if each != left_out) for left_out in needs]
        several = [needs, *less] if len(needs) > 1 else []
        scopes = [*((scope,) for scope in SCOPES), *several]
        return [await self._one(*each) for each in [*((level, ()) for level in range(1, 7)), *((6, s) for s in scopes)]]

    async def _one(self, level: int, scope: tuple[str, ...]) -> Asker:
        if (level, scope) not in self._minted:
            minted = await self._app.tokens.mint(f"level {level}", scope=scope, tenant=TENANT)
            self._minted[level, scope] = Asker(level, scope, minted.text)
        return self._minted[level, scope]


def test_the_table_has_every_route_and_every_scope() -> None:
    """A new route or operation needs its row: who may use it, and in whose name things act afterwards."""
    assert {route.name for route in ROUTES} == set(ROWS)
    named = {route.name for route in ROUTES if route.changes and route.parameters}
    assert named == set(NAMES) | set(LEFT_OUT)
    assert set(NAMES).isdisjoint(LEFT_OUT)
    assert set(SCOPES) == set(LEAST) | {name.partition(".")[0] for name in LEAST}


# -- another user's ----------------------------------------------------------------------------------------------------


class Joes:
    """Makes things of Joe's, and reads in whose name they act."""

    def __init__(self, app: Holdfast, things: Things) -> None:
        self._app = app
        self._joe = app.acting_as("joe", tenant=TENANT)
        self._things = things
        self._count = 0

    async def new(self, kind: str, route: str) -> tuple[str, Things]:
        """One that the route can be used on; its id, and the things with it in their place."""
        self._count += 1
        id = f"joe's {self._count}"
        makers: dict[str, Callable[[str, str], Coroutine[Any, Any, str]]] = {
            "webhook": self._webhook,
            "schedule": self._schedule,
            "template": self._template,
            "subscription": self._subscription,
            "run": self._run,
            "token": self._token,
        }
        id = await makers[kind](id, route)
        if kind == "run":
            return id, replace(self._things, waiting=id, child=id, defined=id)
        return id, replace(self._things, **{"template" if kind == "schedule" else kind: id})

    async def _webhook(self, id: str, route: str) -> str:
        await self._joe.webhooks.create(id, EmitEvent("nothing"))
        if route == "webhooks.enable":
            await self._joe.webhooks.change(id, disabled=True)
        return id

    async def _schedule(self, id: str, route: str) -> str:
        await self._joe.schedules.create(id, leaf.name, every=3600, paused=route == "schedules.resume")
        return id

    async def _template(self, id: str, route: str) -> str:
        await self._joe.templates.create(id, leaf.name, route=EventRoute("never"))
        if route != "templates.activate":
            await self._joe.templates.activate(id)
        if route == "templates.resume":
            await self._joe.templates.pause(id)
        return id

    async def _subscription(self, id: str, route: str) -> str:
        await self._joe.subscriptions.create(id, "https://a.example/", ["task.reminded"])
        if route == "subscriptions.enable":
            await self._joe.subscriptions.disable(id)
        return id

    async def _run(self, id: str, route: str) -> str:
        run = await self._joe.start(leaf, id=id)
        if route == "runs.resume":
            await run.pause()
        return id

    async def _token(self, id: str, _: str) -> str:
        return (await self._joe.tokens.mint("somebody", purpose=id)).token.id

    async def principal(self, kind: str, id: str) -> str | None:
        """In whose name it acts."""
        app = self._app
        match kind:
            case "webhook":
                return (await app.webhooks.show(id, tenant=TENANT)).user
            case "schedule":
                return (await app.schedules.show(id, tenant=TENANT)).owner
            case "template":
                return (await app.templates.show(id, tenant=TENANT)).owner
            case "subscription":
                return (await app.subscriptions.show(id, tenant=TENANT)).made_by
            case "run":
                return await actor(app, id)
            case _:
                return next(each.made_by for each in [t async for t in app.tokens.list(tenant=TENANT)] if each.id == id)

    async def state(self, kind: str, id: str) -> Any:
        """All that a refusal must leave as it is."""
        if kind == "run":
            (row,) = await self._app.store.get([p.Key(TENANT, id)])
            return row.pause, row.cancelling, row.actor, row.arrived
        row = await self._app.store.item(p.ItemKey(TENANT, kind, id))
        secrets = [await self._app.store.item(secret_key(TENANT, way, id)) for way in ("in", "out")]
        return row, secrets


async def actor(app: Holdfast, run: str) -> str | None:
    (row,) = await app.store.get([p.Key(TENANT, run)])
    return row.actor


def example_of(route: Route, things: Things, who: Asker) -> Example:
    """What is sent; the examples of other tests, except if they would not try what is meant here."""
    example = EXAMPLES[route.name](things)
    match route.name:
        case "people.mint_token":  # a token with a scope makes none without one
            example.body = {**(example.body or {}), "scope": list(who.scope)}
        case "schedules.backfill":
            example.body = {**(example.body or {}), "dry_run": False}
        case "runs.signal":
            example.body = {"name": "go", "value": "on"}
    return example


def expects_refusal(route: Route, who: Asker) -> bool:
    row = ROWS[route.name]
    return who.level < row.level or not all(map(who.has, row.needs))


def test_another_users_things_by_every_route_level_and_scope() -> None:
    """Below the level, and without all that a thing does later in its scope, a route is refused and changes nothing.
    Else the thing acts in the name of the table, and only does what its owner may do."""

    async def main() -> None:
        async with furnished() as (app, door, acme, _):
            joes, askers = Joes(app, acme), Askers(app)
            for route in ROUTES:
                people = await askers.of(ROWS[route.name].needs)
                if route.name in NAMES:
                    await _search_named(app, door, joes, route, people)
                else:
                    await _search_plain(door, acme, route, people)

    asyncio.run(main())


async def _search_plain(door: Door, things: Things, route: Route, people: list[Asker]) -> None:
    for who in people:
        reply = await door.send(who.token, route, example_of(route, things, who))
        assert reply.is_refused == expects_refusal(route, who), (route.name, who[:2], reply)
        assert reply.status < 500, (route.name, reply)


async def _search_named(app: Holdfast, door: Door, joes: Joes, route: Route, people: list[Asker]) -> None:
    kind, whose = NAMES[route.name]
    id, things = await joes.new(kind, route.name)
    for who in people:
        before = await joes.state(kind, id)
        reply = await door.send(who.token, route, example_of(route, things, who))
        about = (route.name, who[:2], reply)
        assert reply.is_refused == expects_refusal(route, who), about
        if reply.is_refused:
            assert await joes.state(kind, id) == before, about
            assert_says_what_to_do(route, who, reply)
            continue
        assert reply.status < 300, about
        assert await joes.principal(kind, id) == (who.name if whose == CALLER else "joe"), about
        await check_rights(app, route, who, id, reply)
        id, things = await joes.new(kind, route.name)


def assert_says_what_to_do(route: Route, who: Asker, reply: Reply) -> None:
    """If only what the thing does later is missing, the refusal names that operation and the remedy."""
    row = ROWS[route.name]
    if who.level >= row.level and who.has(row.needs[0]):
        missing = next(each for each in row.needs if not who.has(each))
        assert missing in reply.body["detail"], reply
        assert "use a token that has" in reply.body["detail"], reply


async def check_rights(app: Holdfast, route: Route, who: Asker, id: str, reply: Reply) -> None:
    """What it does from now on, its owner may do; and what was started at once was started in the caller's name."""
    if NAMES[route.name] == ("webhook", CALLER):
        does = msgspec.to_builtins((await app.webhooks.show(id, tenant=TENANT)).does)["do"]
        assert who.has(DOES[does]), (route.name, who, does)
        secret = reply.body["secret"]
        assert secret, "the new user is shown the new secret"
    if route.name == "schedules.run_now":
        assert await actor(app, reply.body["run"]) == who.name
    if route.name == "templates.start":
        assert await actor(app, reply.body["id"]) == who.name


# -- another tenant's --------------------------------------------------------------------------------------------------


async def everything_of(app: Holdfast, tenant: str) -> list[Any]:
    found: list[Any] = []
    for kind in KINDS:
        found += await app.store.items(kind, 1000, tenant=tenant)
    return [*found, *[(run.id, run.events, run.status) async for run in app.list(tenant=tenant)]]


def test_another_tenants_things_by_every_route_level_and_scope() -> None:
    """They are not found by who has the right, and refused to who has not, like things that are nowhere; all of them
    stay as they were."""

    async def main() -> None:
        async with furnished() as (app, door, _, bolt):
            hidden, askers = await hide(app, bolt), Askers(app)
            before = await everything_of(app, "bolt")
            for route in ROUTES:
                row = ROWS[route.name]
                if (
                    not route.parameters or route.name == "machines.split_machine"
                ):  # that names a machine, of all tenants
                    continue
                for who in await askers.of(row.needs):
                    reply = await door.send(who.token, route, example_of(route, hidden, who))
                    refused = who.level < row.level or not who.has(row.needs[0])
                    about = (route.name, who[:2], reply)
                    assert reply.is_refused == refused, about
                    assert reply.status in ((403,) if refused else (400, 404)), about
            assert await everything_of(app, "bolt") == before

    asyncio.run(main())


def test_never_is_above_every_level() -> None:
    """The rows that no level is enough for are those of the operator, and the key that signs all tenants' chains."""
    assert {name for name, row in ROWS.items() if row.level == NEVER} == {
        "people.create_tenant",
        "people.change_tenant",
        "audit.rotate_key",
    }
    assert route_named("people.create_tenant").operation == "tenants.change"

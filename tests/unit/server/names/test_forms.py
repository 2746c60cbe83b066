"""Every form of the console, on things of another user and of another tenant, by every level and every scope."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import quote, urlencode

from holdfast import Holdfast
from holdfast.server.console.pages import table as console
from tests.unit.client.operations import Things, leaf
from tests.unit.server.names.door import Door, Reply
from tests.unit.server.names.forms import FORMS, FormRow
from tests.unit.server.names.table import CALLER
from tests.unit.server.names.test_search import TENANT, Asker, Askers, Joes, actor, everything_of, furnished
from tests.unit.server.test_who_may import hide

FORM: Final = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
WORDS: Final = ("is not in the scope of the token", " needs level ", "you act with a token for")
"""A page that says that something was refused says one of these, if the caller has not the right."""
PROGRAM: Final = {"workflow": leaf.name, "machine": "permitted.counter"}


def test_the_table_has_every_form() -> None:
    assert {form.path for form in console.FORMS} == set(FORMS)


def path_of(path: str, things: Things) -> str:
    """The path of a form, about one of these things."""
    more = {"run": "waiting", "name": "definition", "key": "cell", "schedule": "template"}

    def value(found: re.Match[str]) -> str:
        name = found[1]
        return quote(PROGRAM.get(name) or getattr(things, more.get(name, name)), safe="")

    return re.sub(r"\{(\w+)\}", value, path)


async def send(door: Door, who: Asker, path: str, row: FormRow, things: Things) -> Reply:
    """Send a form as the console's page would, with the scope of the token where a token is made."""
    typed = {"reason": "a test", **row.typed, **({"scope": " ".join(who.scope)} if "days" in row.typed else {})}
    return await door.ask(who.token, "POST", path_of(path, things), urlencode(typed).encode(), FORM)


def is_refused(reply: Reply) -> bool:
    """By the problem, or by the page that is shown again."""
    return reply.is_refused or (reply.status == 403 and any(words in reply.text for words in WORDS))


def expects_refusal(row: FormRow, who: Asker) -> bool:
    return who.level < row.level or not all(map(who.has, row.needs))


def test_another_users_things_by_every_form_level_and_scope() -> None:
    """Who has not the right to the route that does the same is refused, and nothing is changed. Else the thing acts in
    the name of the table."""

    async def main() -> None:
        async with furnished() as (app, door, acme, _):
            joes, askers = Joes(app, acme), Askers(app)
            for path, row in FORMS.items():
                people = await askers.of(row.needs)
                if row.kind:
                    await _search_named(app, door, joes, path, row, people)
                else:
                    await _search_plain(door, acme, path, row, people)

    asyncio.run(main())


async def _search_plain(door: Door, things: Things, path: str, row: FormRow, people: list[Asker]) -> None:
    for who in people:
        reply = await send(door, who, path, row, things)
        assert is_refused(reply) == expects_refusal(row, who), (path, who[:2], reply)
        assert reply.status < 500, (path, reply)


async def _search_named(app: Holdfast, door: Door, joes: Joes, path: str, row: FormRow, people: list[Asker]) -> None:
    id, things = await joes.new(row.kind, row.state)
    for who in people:
        before = await joes.state(row.kind, id)
        reply = await send(door, who, path, row, things)
        about = (path, who[:2], reply)
        assert is_refused(reply) == expects_refusal(row, who), about
        if is_refused(reply):
            assert await joes.state(row.kind, id) == before, about
            continue
        assert reply.status < 400, about
        assert await joes.principal(row.kind, id) == (who.name if row.whose == CALLER else "joe"), about
        id, things = await joes.new(row.kind, row.state)


def test_what_a_form_starts_is_started_in_the_name_of_who_sent_it() -> None:
    """Also of a schedule or a template that is another's."""

    async def main() -> None:
        async with furnished() as (app, door, acme, _):
            joes, eve = Joes(app, acme), (await Askers(app).of(()))[3]
            for path in ("/start/{workflow}", "/templates/{template}/start", "/schedules/{schedule}/run"):
                kind = FORMS[path].kind
                things = (await joes.new(kind, ""))[1] if kind else acme
                before = {run.id async for run in app.list(tenant=TENANT)}
                reply = await send(door, eve, path, FORMS[path], things)
                assert reply.status == 303, (path, reply)
                (run,) = {run.id async for run in app.list(tenant=TENANT)} - before
                assert await actor(app, run) == eve.name, path

    asyncio.run(main())


def test_another_tenants_things_by_every_form_level_and_scope() -> None:
    """They are not found, or refused, and stay as they were."""

    async def main() -> None:
        async with furnished() as (app, door, _, bolt):
            hidden, askers = await hide(app, bolt), Askers(app)
            before = await everything_of(app, "bolt")
            for path, row in FORMS.items():
                if "{" not in path or path == "/start/{workflow}":  # that names code, of all tenants
                    continue
                for who in await askers.of(row.needs):
                    reply = await send(door, who, path, row, hidden)
                    about: Any = (path, who[:2], reply)
                    assert reply.status in (400, 403, 404), about
                    if who.level < row.level or not who.has(row.needs[0]):
                        assert is_refused(reply), about
            assert await everything_of(app, "bolt") == before

    asyncio.run(main())

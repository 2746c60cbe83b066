"""Users, tokens, links and sessions that somebody changed behind the engine's back: ``verify`` names them."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.audit import collector
from holdfast.audit.check import user_items
from holdfast.audit.check.claims import Claim
from holdfast.audit.check.user_items import check_user_items
from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.audit.sealer import Sealer
from holdfast.cli.main import main
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.memory.tables import Tables
from holdfast.testing.postgres import PostgresServer
from tests.scope import one_stays

TENANT = "acme"
ISSUER = "https://id.example"


def awaited(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """The test on a loop of its own."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(test(**arguments))

    return run


class Place:
    """A store, and the way to its items that no engine knows. ``write`` gives an item other columns, or makes one."""

    def __init__(self, store: p.Store | str, execute: Callable[[str], None] | None) -> None:
        self.store = store
        self._execute = execute

    def write(self, row: p.ItemRow) -> None:
        self.delete(row.key)
        if self._execute is None:
            self._tables().items[row.key] = row
            return
        texts = ", ".join(f"'{each}'" for each in (row.tenant, row.kind, row.id, row.status))
        due_at = "NULL" if row.due_at is None else row.due_at
        literal = f"X'{row.body.hex()}'" if isinstance(self.store, str) and "sqlite" in self.store else _bytea(row.body)
        columns = "tenant, kind, id, status, version, due_at, changed_at, body"
        numbers = f"{row.version}, {due_at}, {row.changed_at}"
        self._execute(f"INSERT INTO items ({columns}) VALUES ({texts}, {numbers}, {literal})")

    def delete(self, key: p.ItemKey) -> None:
        if self._execute is None:
            self._tables().items.pop(key, None)
        else:
            self._execute(
                f"DELETE FROM items WHERE tenant = '{key.tenant}' AND kind = '{key.kind}' AND id = '{key.id}'"
            )

    def _tables(self) -> Tables:
        assert isinstance(self.store, MemoryStore)
        return self.store._tables


def _bytea(body: bytes) -> str:
    return rf"'\x{body.hex()}'::bytea"


@pytest.fixture(params=one_stays(["sqlite", "memory", "postgres"]))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return Place(MemoryStore(), None)
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.schema_url()
        return Place(url, lambda statement: [server.execute(statement, url)].clear())
    return Place(f"sqlite:///{tmp_path / 'shop.db'}", lambda statement: _run(tmp_path / "shop.db", statement))


def _run(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


async def staffed(app: Holdfast) -> dict[str, str]:
    """People of every kind, each changed some times, in a sealed audit; gives the ids of their items."""
    await app.tenants.create(TENANT)
    await app.users.create("Root", level=6, tenant=TENANT)
    await app.users.create("joe", level=2, groups=["claims"], tenant=TENANT)
    await app.users.set_level("joe", 3, tenant=TENANT)
    await app.users.set_level("joe", 2, tenant=TENANT)
    await app.users.create("gone", level=4, tenant=TENANT)
    await app.users.disable("gone", tenant=TENANT)
    await app.users.link("Root", issuer=ISSUER, subject="r-1", login="root", tenant=TENANT)
    await app.users.link("joe", issuer=ISSUER, subject="j-1", tenant=TENANT)
    await app.users.link("gone", issuer=ISSUER, subject="g-1", tenant=TENANT)
    await app.users.unlink("gone", tenant=TENANT)
    minted = await app.tokens.mint("joe", level=1, scope=["tasks"], tenant=TENANT)
    own = await app.tokens.mint("Root", tenant=TENANT)
    revoked = await app.acting_as(own.text).tokens.mint("Root", level=5, days=1)
    await app.tokens.revoke(revoked.token.id, tenant=TENANT)
    await app.slack.map("U0JOE", "joe", tenant=TENANT)
    await app.slack.map("U0GONE", "gone", tenant=TENANT)
    await app.slack.unmap("U0GONE", tenant=TENANT)
    sessions = ConsoleSessions(app)
    await sessions.begin(minted.text)
    await sessions.end(await sessions.begin(own.text))
    await sessions.begin_for(TENANT, "joe", ISSUER)
    await Sealer(app.whole_store, app.clock).seal()
    return {"minted": minted.token.id, "revoked": revoked.token.id}


async def people(app: Holdfast) -> Claim:
    """The claim about people; no other one is broken."""
    claims = (await app.audit.verify(tenant=TENANT)).claims
    assert {claim.about for claim in claims if claim.state == "broken"} <= {"people"}
    (found,) = [claim for claim in claims if claim.about == "people"]
    return found


async def item(app: Holdfast, kind: str, id: str) -> p.ItemRow:
    row = await app.whole_store.item(p.ItemKey(TENANT, kind, id))
    assert row is not None
    return row


def changed(row: p.ItemRow, status: str | None = None, **fields: Any) -> p.ItemRow:
    body = msgspec.json.encode({**msgspec.json.decode(row.body), **fields})
    return replace(row, body=body, status=row.status if status is None else status)


def both(name: str, audit: str, store: str) -> str:
    return f"its {name} is {audit!r}, and the store has {store!r}"


Alteration = tuple[str, str, dict[str, Any], str, str]

ALTERATIONS: dict[str, Alteration] = {
    "level": ("user", "joe", {"level": 6}, "user joe: by entry ", both("level", "2", "6")),
    "groups": ("user", "joe", {"groups": ["admins"]}, "user joe: ", both("groups", '["claims"]', '["admins"]')),
    "enabled": (
        "user",
        "gone",
        {"disabled": False, "status": "enabled"},
        "user gone: ",
        both("status", "disabled", "enabled"),
    ),
    "enabled in its content": (
        "user",
        "gone",
        {"disabled": False},
        "user gone: ",
        both("status", "disabled", "enabled in its content, disabled in lists"),
    ),
    "login": ("user", "joe", {"logins": ["joe", "Ｊoe"]}, "user joe: ", r'["joe","\uff2aoe"]'),
    "name": ("user", "joe", {"name": "root"}, "user joe: ", both("user", "joe", "root")),
    "account": ("identity", "joe", {"subject": "eve"}, "account of user joe: ", both("subject", "j-1", "eve")),
    "linked": ("identity", "gone", {"status": "linked"}, "account of user gone", both("status", "unlinked", "linked")),
    "vouched": ("identity", "joe", {"made_by": "login"}, "account of user joe", both("made_by", "person", "login")),
    "token's level": ("token", "minted", {"level": 2}, "token ", both("level", "1", "2")),
    "token's scope": ("token", "minted", {"scope": ["runs"]}, "token ", both("scope", "tasks", "runs")),
    "token's user": ("token", "minted", {"user": "root"}, "token ", both("user", "joe", "root")),
    "token's secret": ("token", "minted", {"sha256": "00" * 32}, "token ", "and the store has '0000"),
    "token's end": ("token", "minted", {"expires_at": 1}, "token ", "and the store has '1'"),
    "token's maker": ("token", "revoked", {"maker": ""}, "token ", both("maker", "root", "")),
    "token's token": ("token", "revoked", {"minted_with": ""}, "token ", "and the store has ''"),
    "revived": (
        "token",
        "revoked",
        {"revoked": False, "status": "active"},
        "token ",
        both("status", "revoked", "active"),
    ),
    "Slack": ("slack_account", "U0JOE", {"user": "Root"}, "Slack account U0JOE: ", both("user", "joe", "Root")),
}


@pytest.mark.parametrize("name", ALTERATIONS)
@awaited
async def test_what_was_altered_is_named_with_both_values(place: Place, name: str) -> None:
    """A level that was raised by SQL counts, and no entry gave it."""
    kind, id, fields, begins, says = ALTERATIONS[name]
    async with Holdfast(place.store, worker=False) as app:
        ids = await staffed(app)
        assert (await people(app)).state == "consistent"
        row = await item(app, kind, ids.get(id, id))
        place.write(changed(row, **fields))
        found = await people(app)
    assert found.state == "broken"
    assert begins in found.text
    assert says in found.text


@awaited
async def test_an_item_that_no_entry_made_is_named(place: Place) -> None:
    """Whoever can write to the store could add a user, a token of theirs, or a session of somebody who is there."""
    async with Holdfast(place.store, worker=False) as app:
        await staffed(app)
        for kind in ("user", "token", "identity", "slack_account", "session"):
            (row, *_) = await app.whole_store.items(kind, 1, tenant=TENANT)
            place.write(replace(row, id="zoe"))
            found = await people(app)
            assert found.state == "broken"
            assert "zoe: the store has it, and no entry of the audit made it." in found.text
            place.delete(p.ItemKey(TENANT, kind, "zoe"))
        assert (await people(app)).state == "consistent"


@pytest.mark.parametrize(("kind", "id"), [("user", "joe"), ("identity", "joe"), ("slack_account", "U0GONE")])
@awaited
async def test_an_item_that_is_gone_is_named(place: Place, kind: str, id: str) -> None:
    """Without the link of an account, the next login would link another one."""
    async with Holdfast(place.store, worker=False) as app:
        await staffed(app)
        place.delete(p.ItemKey(TENANT, kind, id))
        found = await people(app)
    assert found.state == "broken"
    assert found.text.endswith(f"{id}: the audit has entries of it, and it is gone.")


@awaited
async def test_a_session_that_became_another_users_is_named(place: Place) -> None:
    """It would act as that user, with no token and no provider."""
    async with Holdfast(place.store, worker=False) as app:
        await staffed(app)
        rows = await app.whole_store.items("session", 10, tenant=TENANT)
        (row,) = [each for each in rows if msgspec.json.decode(each.body).get("issuer")]
        place.write(changed(row, user="root"))
        found = await people(app)
    assert both("user", "joe", "root") in found.text


@awaited
async def test_bytes_that_are_no_user_are_named(place: Place) -> None:
    async with Holdfast(place.store, worker=False) as app:
        await staffed(app)
        place.write(replace(await item(app, "user", "joe"), body=b"{"))
        assert (await people(app)).text == "user joe: it was altered, and cannot be read."


@awaited
async def test_what_an_older_version_did_not_record_is_not_judged(place: Place) -> None:
    """Its entries of tokens had no hash and no maker, those of sessions nothing, and those of users no other logins."""
    async with Holdfast(place.store, worker=False) as app:
        ids = await staffed(app)
        for id, body, act, details in (
            ("0ld", (await item(app, "token", ids["minted"])).body, "mint_token", {"user": "joe", "level": "1"}),
            ("s3ss", b'{"user":"joe","expires_at":1}', "login", {}),
        ):
            kind = "token" if act == "mint_token" else "session"
            record = Operated(app.clock.now(), act, "joe", None, "", {kind: id, **details})
            row = p.ItemRow(TENANT, kind, id, 1, body, "active" if kind == "token" else "open")
            noted = replace(note(TENANT, None, record), id=id)
            await app.committer.commit(p.Operate(noted, (p.PutItem(row),)))
        found = await people(app)
        assert (found.state, "(16)" in found.text) == ("consistent", True), found.text
        place.write(changed(await item(app, "token", "0ld"), level=4))
        found = await people(app)
        assert both("level", "1", "4") in found.text
        assert "by an entry that is not sealed yet" in found.text


@awaited
async def test_changes_at_the_same_time_break_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check reads an item, and its entries later: what was changed in between is read again."""
    monkeypatch.setattr(user_items, "MANY", 10)
    monkeypatch.setattr(user_items, "PAGE", 7)
    monkeypatch.setattr(collector, "PAGE", 7)
    async with Holdfast(place.store, worker=False) as app:
        ids = await staffed(app)

        async def keep_changing() -> None:
            for at in range(20):
                await app.users.set_level("joe", 2 + at % 3, tenant=TENANT)
                await app.users.link("joe", issuer=ISSUER, subject=f"j-{at}", tenant=TENANT)
                await app.tokens.revoke(ids["minted"], tenant=TENANT)
                await app.users.create(f"new-{at}", level=1, tenant=TENANT)

        changing = asyncio.create_task(keep_changing())
        while not changing.done():
            assert (await check_user_items(app.whole_store, TENANT)).problem is None
        await changing
        found = await check_user_items(app.whole_store, TENANT)
        assert found.problem is None
        assert found.count > len(ids)


def test_the_command_names_the_user_and_both_levels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An UPDATE in the database, and nothing else: `holdfast audit verify` ends with the code of something broken."""
    monkeypatch.chdir(tmp_path)

    def hold(*args: str) -> Any:
        return CliRunner().invoke(main, args, prog_name="holdfast")

    assert hold("init", "ann", "--tenant", TENANT).exit_code == 0
    assert hold("users", "create", "joe", "--level", "2", "--tenant", TENANT).exit_code == 0
    assert hold("audit", "verify", "--tenant", TENANT).exit_code == 0
    raised = """UPDATE items SET body = CAST(json_set(body, '$.level', 6) AS BLOB) WHERE kind = 'user' AND id = 'joe'"""
    _run(tmp_path / "holdfast.db", raised)
    done = hold("audit", "verify", "--tenant", TENANT)
    assert done.exit_code != 0
    assert both("level", "2", "6") in " ".join(done.output.split())
    assert "user joe" in done.output

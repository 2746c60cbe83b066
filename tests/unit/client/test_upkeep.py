"""What workers do about people's items by themselves: refusals are counted, sessions and tokens end."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast, receive, workflow
from holdfast.audit import records
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.errors import InvalidToken, NotPermitted
from holdfast.store import protocol as p
from holdfast.webhooks.signatures import signed_headers
from holdfast.webhooks.webhook import ANSWERED, REMEMBERED_DAYS, SignalRun

DAY = 86_400


async def acme(app: Holdfast) -> None:
    await app.tenants.create("acme", by="root")
    await app.users.create("ann", level=6, tenant="acme", by="root")
    await app.users.create("bob", level=1, tenant="acme", by="root")


async def notes(app: Holdfast, *acts: str) -> list[records.Operated]:
    found = [records.decode(each.body) for each in await app.store.entries(p.AuditQuery("acme"), 999)]
    return [each for each in found if isinstance(each, records.Operated) and each.act in acts]


async def refused(app: Holdfast, times: int) -> None:
    bob = app.acting_as("bob", tenant="acme")
    for _ in range(times):
        with pytest.raises(NotPermitted):
            await bob.users.create("eve", level=1)


def counted(found: list[records.Operated]) -> list[int]:
    """How many refusals each entry stands for."""
    return [int(each.details.get("left_out", "0")) + ("as often more" not in each.reason) for each in found]


async def test_refusals_do_not_fill_the_audit_and_every_one_counts(holdfast_app: Holdfast) -> None:
    """One entry a minute for a user, an operation and a cause; the next one says how many were left out. The count is
    in the store: of all processes together, and nobody's death changes it."""
    app = holdfast_app
    await acme(app)
    await refused(app, 20)
    other = Holdfast(app.store, worker=False, clock=app.clock)
    await other.open()  # it is never closed: its store is the other one's
    await asyncio.gather(refused(other, 10), refused(app, 10))
    found = await notes(app, "refuse")
    assert counted(found) == [1]
    assert (found[0].who, found[0].details["operation"]) == ("bob", "users.change")
    with pytest.raises(NotPermitted):
        await app.acting_as("bob", tenant="acme").workspaces.create("north")
    assert counted(await notes(app, "refuse")) == [1, 1]
    await asyncio.sleep(70)  # the minute is over, and a worker notes the rest
    assert counted(await notes(app, "refuse")) == [1, 1, 39]
    await asyncio.sleep(600)
    assert len(await notes(app, "refuse")) == 3
    await refused(app, 1)
    assert counted(await notes(app, "refuse")) == [1, 1, 39, 1]


async def test_without_a_worker_the_next_refusal_notes_the_count(holdfast_app: Holdfast) -> None:
    app = holdfast_app
    await acme(app)
    assert app.worker is not None
    await app.worker.stop()
    await refused(app, 5)
    await asyncio.sleep(120)
    await refused(app, 1)
    assert counted(await notes(app, "refuse")) == [1, 5]


async def test_sessions_and_tokens_that_are_long_over_are_deleted(holdfast_app: Holdfast) -> None:
    """Some time after they ended, with a note; what is good, or over since yesterday, is still shown."""
    app, sessions = holdfast_app, ConsoleSessions(holdfast_app)
    await acme(app)
    good = await app.tokens.mint("ann", tenant="acme", days=365)
    forever = await app.tokens.mint("ann", tenant="acme", days=None)
    short = await app.tokens.mint("bob", tenant="acme", days=1)
    lost = await app.tokens.mint("bob", tenant="acme", days=None)
    await app.acting_as(lost.text).whoami()
    await app.tokens.revoke(lost.token.id, tenant="acme", by="ann")
    left = await sessions.begin(good.text)
    await sessions.begin(good.text)
    await sessions.end(left)
    assert len(await app.store.items("session", 9)) == 2
    await asyncio.sleep(2 * DAY)
    assert await app.store.items("session", 9) == []
    assert {each.id async for each in app.tokens.list(tenant="acme")} == {
        each.token.id for each in (good, forever, short, lost)
    }
    assert sum(int(each.details["count"]) for each in await notes(app, "delete_sessions")) == 2
    await asyncio.sleep(30 * DAY)
    assert {each.id async for each in app.tokens.list(tenant="acme")} == {good.token.id, forever.token.id}
    assert [row.id for row in await app.store.items("token_use", 9)] == [good.token.id]
    deleted = ",".join(each.details["tokens"] for each in await notes(app, "delete_tokens"))
    assert sorted(deleted.split(",")) == sorted([short.token.id, lost.token.id])
    with pytest.raises(InvalidToken):
        await app.acting_as(lost.text).whoami()
    assert await app.acting_as(good.text).whoami() is not None


@workflow
async def long_wait() -> None:
    await receive("go", bool)
    await receive("stop", bool)


async def test_what_came_of_a_webhooks_delivery_is_remembered_for_a_month(holdfast_app: Holdfast) -> None:
    """Then a repetition counts as a new delivery, and nothing is left of the old one."""
    app = holdfast_app
    await acme(app)
    await app.start(long_wait, id="W-1", tenant="acme")
    made = await app.webhooks.create("go", SignalRun("W-1", "go"), user="ann", tenant="acme", by="ann")

    async def repeated() -> bool:
        headers = signed_headers([made.secret or ""], "m-1", app.clock.now() // 1_000_000, b"true")
        return (await app.webhooks.receive("acme", "go", headers, b"true")).repeated

    assert not await repeated()
    await asyncio.sleep((REMEMBERED_DAYS - 1) * DAY)
    assert await repeated()
    await asyncio.sleep(2 * DAY)
    assert await app.store.items(ANSWERED, 9) == []
    assert [each.details["count"] for each in await notes(app, "delete_webhook_answers")] == ["1"]
    assert not await repeated()

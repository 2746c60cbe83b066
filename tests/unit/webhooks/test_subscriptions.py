"""Subscriptions: their secrets, what is shown of them, and what cannot be one."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import SyncHoldfast
from holdfast.errors import InvalidRequest, SubscriptionNotFound
from holdfast.store import protocol as p
from holdfast.webhooks.occurrences import worker_note
from holdfast.webhooks.subscription import check_events
from holdfast.webhooks.webhook import EmitEvent
from holdfast.worker.roles import follower as f
from tests.unit.transports.server import Server
from tests.unit.webhooks.post import TENANT, is_signed, post, subscribed


def test_a_rotated_secret_signs_beside_the_one_before_it_for_a_while(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            first = await subscribed(it, receiver)
            rotated = await it.app.subscriptions.rotate("ops", overlap_seconds=3600, tenant=TENANT, by="ann")
            second = rotated.secret or ""
            await it.happen("completed", "R-1")
            await it.process.round()
            assert is_signed(receiver.seen[0], first, it.clock)
            assert is_signed(receiver.seen[0], second, it.clock)
            it.clock.pass_by(3601)
            await it.happen("completed", "R-2")
            await it.process.round()
            assert not is_signed(receiver.seen[1], first, it.clock)
            assert is_signed(receiver.seen[1], second, it.clock)

    asyncio.run(main())


def test_a_secret_by_name_is_the_workers_and_is_not_kept(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with post() as it:
            secret = await subscribed(it, receiver, secret_name="OPS_HOOK")
            assert not secret
            await it.happen("completed", "R-1")
            await it.process.round()
            (info,) = await it.deliveries()
            assert "no secret OPS_HOOK" in info.last_problem
            assert not receiver.seen
            monkeypatch.setenv("HOLDFAST_SECRET_OPS_HOOK", "a secret of the workers")
            it.clock.pass_by(6)
            await it.process.round()
            assert is_signed(receiver.seen[0], "a secret of the workers", it.clock)
            with pytest.raises(InvalidRequest, match="OPS_HOOK"):
                await it.app.subscriptions.rotate("ops", tenant=TENANT)

    asyncio.run(main())


def test_a_ping_arrives_without_an_event(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver, "task.expired")
            await it.app.subscriptions.ping("ops", tenant=TENANT, by="ann")
            await it.process.round()
            assert [request.json["type"] for request in receiver.seen] == ["ping"]

    asyncio.run(main())


def test_a_worker_that_sends_nothing_still_knows_who_is_told(receiver: Server) -> None:
    """Its runs are noted, and another worker sends."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            quiet = f.Follower(*it.process.follower_parts, it.process.lifecycle, None)
            await quiet.round()
            assert it.process.lifecycle.is_noted(TENANT)
            assert not it.process.lifecycle.is_noted("else")

    asyncio.run(main())


def test_no_secret_is_in_the_audit_in_views_or_in_other_items(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            secret = await subscribed(it, receiver)
            await it.happen("completed", "R-1")
            await it.process.round()
            rotated = await it.app.subscriptions.rotate("ops", tenant=TENANT, by="ann")
            shown = [each async for each in it.app.subscriptions.list(tenant=TENANT)]
            entries = await it.app.store.entries(p.AuditQuery(TENANT), 1000)
            texts = [*(entry.body.decode() for entry in entries), repr(shown), repr(await it.deliveries())]
            for kind in ("subscription", "subscription_place", "delivery"):
                texts += [row.body.decode() for row in await it.app.store.items(kind, 100)]
            for each in (secret, rotated.secret or ""):
                assert each
                assert not [text for text in texts if each.removeprefix("whsec_")[:20] in text]

    asyncio.run(main())


def test_what_cannot_be_subscribed_to_is_refused() -> None:
    async def main() -> None:
        async with post() as it:
            create = it.app.subscriptions.create
            for url, events, secret in (
                ("ftp://a.example", ["run.*"], None),
                ("https://ann:pass@a.example/", ["run.*"], None),
                ("https://a.example/", ["run.exploded"], None),
                ("https://a.example/", [], None),
                ("https://a.example/", ["run.*"], "short"),
                ("https://a.example/", ["run.*"], "whsec_notbase64!!!!!!!!!!"),
            ):
                with pytest.raises(InvalidRequest) as caught:
                    await create("ops", url, events, secret=secret, tenant=TENANT)
                assert "pass@" not in str(caught.value)
            with pytest.raises(SubscriptionNotFound):
                await it.app.subscriptions.show("ops", tenant=TENANT)

    asyncio.run(main())


def test_a_subscription_that_was_altered_keeps_no_other_from_being_told(receiver: Server) -> None:
    """And a pattern of workflows says nothing about whether the tenant's runs are noted."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver, workflows=["p[ao]y"])
            altered = p.ItemRow(TENANT, "subscription", "altered", 1, b"{}", "active")
            note = worker_note(TENANT, "alter", it.clock.now(), {}, "altered")
            await it.app.committer.commit(p.Operate(note, (p.PutItem(altered),)))
            await it.happen("completed", "R-1")
            await it.process.round()
            assert it.process.lifecycle.is_noted(TENANT)
            assert [request.json["data"]["run"] for request in receiver.seen] == ["R-1"]

    asyncio.run(main())


def test_code_without_a_loop_has_them_too() -> None:
    with SyncHoldfast("memory://", worker=False) as app:
        app.tenants.create("default")
        app.users.create("hooks", level=4)
        assert (app.webhooks.create("in", EmitEvent("x"), user="hooks").secret or "").startswith("whsec_")
        app.subscriptions.create("out", "https://a.example/", ["run.*"])
        ping = app.subscriptions.ping("out")
        assert [each.id for each in app.subscriptions.deliveries("out")] == [ping.id]
        assert [each.id for each in app.webhooks.list()] == ["in"]


def test_types_are_patterns() -> None:
    assert check_events(["task.*", "run.failed"]) == ("task.*", "run.failed")
    assert json.loads(json.dumps(check_events(["*"]))) == ["*"]

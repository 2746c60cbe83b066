"""Subscriptions: what is told to whom, at least once, signed, in bounded tries, and what is seen of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from holdfast.webhooks.subscription import RETRY_SECONDS
from holdfast.webhooks.tries import KEPT_DAYS
from holdfast.worker.roles import deliverer as d
from holdfast.worker.roles import follower as f
from tests.scope import one_stays
from tests.unit.transports.server import Reply, Request, Server
from tests.unit.webhooks.post import TENANT, is_signed, post, subscribed

BAD = Reply(500, b"broken")
DAY = 86400


def ids(receiver: Server) -> list[str]:
    return [request.headers["webhook-id"] for request in receiver.seen]


def test_an_event_is_delivered_once_signed_and_seen(receiver: Server) -> None:
    """The body has facts and no values; the answer is kept; another worker goes on behind it."""

    async def main() -> None:
        async with post() as it:
            secret = await subscribed(it, receiver)
            await it.happen("completed", "R-1")
            await it.process.round()
            await it.another().round()
            (request,) = receiver.seen
            assert is_signed(request, secret, it.clock)
            assert request.path == "/hook?x=1"
            assert request.json["type"] == "run.completed"
            assert request.json["data"] == {"tenant": TENANT, "run": "R-1", "workflow": "pay"}
            (info,) = await it.deliveries()
            assert (info.id, info.status, info.last_status) == (request.headers["webhook-id"], "delivered", 204)
            assert info.body.encode() == request.body
            words = [each.act for each in await it.acts()]
            assert words.count("tell_subscription") == words.count("deliver_event") == 1
            await it.happen("failed", "R-2")
            await it.another().round()
            assert [request.json["data"]["run"] for request in receiver.seen] == ["R-1", "R-2"]

    asyncio.run(main())


def test_a_delivery_that_is_long_over_is_deleted_and_no_other_is(receiver: Server) -> None:
    """It is kept for a month, neither sent nor due; then one worker deletes it, with a note."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            await it.happen("completed", "R-1")
            await it.process.round()
            it.clock.pass_by((KEPT_DAYS - 1) * DAY)
            await it.happen("completed", "R-2")
            await it.process.round()
            assert [(each.status, each.due_at) for each in await it.deliveries()] == [("delivered", None)] * 2
            it.clock.pass_by(2 * DAY)
            await asyncio.gather(it.process.round(), it.another().round())
            assert ["R-2" in each.body for each in await it.deliveries()] == [True]
            assert len(receiver.seen) == 2
            (note,) = [each for each in await it.acts() if each.act == "delete_deliveries"]
            assert note.details["count"] == "1"

    asyncio.run(main())


def test_only_what_is_subscribed_to_is_told_and_only_to_its_tenant(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            await it.happen("failed", "before", "claims.pay")
            await subscribed(it, receiver, "run.failed", workflows=["claims.*"])
            await it.happen("completed", "other event", "claims.pay")
            await it.happen("failed", "other workflow", "pay")
            await it.happen("failed", "other tenant", "claims.pay", tenant="else")
            await it.happen("failed", "right", "claims.pay")
            await it.process.round()
            assert [request.json["data"]["run"] for request in receiver.seen] == ["right"]

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_worker_that_dies_at_the_commit_of_deliveries_loses_none(receiver: Server, when: str) -> None:
    """Before the commit nothing was made; behind it another worker sends them when their claim is over."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            await it.happen("completed", "R-1")
            await it.happen("completed", "R-2")
            await it.process.dies(when, it.process.follower.round())
            assert not receiver.seen
            it.clock.pass_by(d.CLAIM_SECONDS + 1)
            await it.another().round()
            assert sorted(request.json["data"]["run"] for request in receiver.seen) == ["R-1", "R-2"]
            assert {info.status for info in await it.deliveries()} == {"delivered"}

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "behind"])
def test_a_worker_that_dies_when_it_has_sent_sends_the_same_again_or_never(receiver: Server, when: str) -> None:
    """At least once: the second time with the same id and the same body."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            await it.happen("completed", "R-1")
            first = it.process

            async def follow_and_die() -> None:
                await first.follower.round()
                first.store.dies = when  # the next commit is that of the outcome
                await first.deliverer.idle()

            task = asyncio.create_task(follow_and_die())
            await first.store.died.wait()
            task.cancel()
            for each in list(first.deliverer._under_way.values()):
                each.cancel()
            await asyncio.gather(task, return_exceptions=True)
            it.clock.pass_by(d.CLAIM_SECONDS + 1)
            await it.another().round()
            assert len(receiver.seen) == (2 if when == "before" else 1)
            assert len(set(ids(receiver))) == len({request.body for request in receiver.seen}) == 1
            assert [info.status for info in await it.deliveries()] == ["delivered"]

    asyncio.run(main())


@pytest.mark.parametrize("kind", one_stays(["memory", "sqlite"]))
def test_of_two_workers_one_tells_and_one_tries_again(receiver: Server, kind: str, tmp_path: Path) -> None:
    """By the version of the place, and of the delivery."""

    async def main() -> None:
        async with post(f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else "") as it:
            await subscribed(it, receiver)
            for number in range(5):
                await it.happen("completed", f"R-{number}")
            one, two = it.process, it.another()
            await asyncio.gather(one.round(), two.round())
            assert len(ids(receiver)) == len(set(ids(receiver))) == 5
            receiver.behaviour = lambda _: BAD
            await it.happen("failed", "R-9")
            await one.round()
            it.clock.pass_by(RETRY_SECONDS[0] * 1.2)
            await asyncio.gather(one.round(), two.round())
            assert len(receiver.seen) == 7

    asyncio.run(main())


def test_a_failing_address_is_tried_by_the_schedule_and_then_given_up(receiver: Server) -> None:
    """Ten tries in three days, then the delivery has failed and the subscription, to which nothing could be delivered
    meanwhile, is disabled, with a note. A person may enable it and send the delivery again."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            receiver.behaviour = lambda _: BAD
            await it.happen("completed", "R-1")
            await it.process.round()
            for number, seconds in enumerate(RETRY_SECONDS):
                (info,) = await it.deliveries()
                assert (info.status, info.attempts, info.last_status) == ("pending", number + 1, 500)
                assert "answered 500" in info.last_problem
                it.clock.pass_by(seconds * 0.99)
                await it.process.round()
                assert len(receiver.seen) == number + 1
                it.clock.pass_by(seconds * 0.12)
                await it.process.round()
            assert len(receiver.seen) == len(RETRY_SECONDS) + 1
            assert len(set(ids(receiver))) == 1
            (info,) = await it.deliveries()
            assert (info.status, info.due_at) == ("failed", None)
            found = await it.app.subscriptions.show("ops", tenant=TENANT)
            assert found.status == "disabled"
            assert "for days" in found.disabled
            assert "disable_subscription" in [each.act for each in await it.acts()]
            receiver.behaviour = lambda _: Reply(200)
            await it.app.subscriptions.enable("ops", tenant=TENANT, by="ann")
            await it.app.subscriptions.resend("ops", info.id, tenant=TENANT, by="ann")
            await it.process.round()
            (info,) = await it.deliveries()
            assert (info.status, info.attempts) == ("delivered", 11)

    asyncio.run(main())


def test_one_bad_delivery_does_not_end_a_subscription_that_works(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            receiver.behaviour = lambda request: BAD if request.json["data"]["run"] == "bad" else Reply(200)
            await it.happen("completed", "bad")
            await it.process.round()
            it.clock.pass_by(1)
            await it.happen("completed", "good")
            await it.process.round()
            for seconds in RETRY_SECONDS:
                it.clock.pass_by(seconds * 1.2)
                await it.process.round()
            assert {info.status for info in await it.deliveries()} == {"delivered", "failed"}
            assert (await it.app.subscriptions.show("ops", tenant=TENANT)).status == "active"

    asyncio.run(main())


def test_an_address_that_is_gone_is_told_nothing_more(receiver: Server) -> None:
    """410 ends it at once; what waits for it fails without being sent."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            receiver.behaviour = lambda _: BAD
            await it.happen("completed", "R-1")
            await it.process.round()
            receiver.behaviour = lambda _: Reply(410)
            it.clock.pass_by(1)
            await it.happen("completed", "R-2")
            await it.process.round()
            assert (await it.app.subscriptions.show("ops", tenant=TENANT)).status == "disabled"
            it.clock.pass_by(10)
            await it.happen("completed", "R-3")
            await it.process.round()
            assert len(receiver.seen) == 2
            assert {info.status for info in await it.deliveries()} == {"failed"}

    asyncio.run(main())


def test_an_address_that_asks_to_wait_is_left_alone_for_as_long(receiver: Server) -> None:
    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            receiver.behaviour = lambda _: Reply(429, b"", {"Retry-After": "600"})
            await it.happen("completed", "R-1")
            await it.process.round()
            it.clock.pass_by(590)
            await it.process.round()
            assert len(receiver.seen) == 1
            it.clock.pass_by(11)
            await it.process.round()
            assert len(receiver.seen) == 2

    asyncio.run(main())


def test_a_private_address_is_refused_where_it_is_resolved(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name says nothing: what it leads to is looked at, and nothing is sent."""

    async def main() -> None:
        async with post() as it:
            monkeypatch.delenv("HOLDFAST_PRIVATE_HOSTS")
            await it.app.subscriptions.create(
                "ops", f"http://localhost:{receiver.port}/", ["run.*"], tenant=TENANT, by="ann"
            )
            it.clock.pass_by(10)
            await it.happen("completed", "R-1")
            await it.process.round()
            (info,) = await it.deliveries()
            assert (info.status, info.attempts) == ("pending", 1)
            assert "private address" in info.last_problem
            assert not receiver.seen
            monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "localhost")
            it.clock.pass_by(6)
            await it.process.round()
            assert len(receiver.seen) == 1

    asyncio.run(main())


def test_a_redirect_is_not_followed(receiver: Server) -> None:
    """It could lead inside; and a body that is signed for one address is not for another."""

    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            receiver.behaviour = lambda _: Reply(307, b"", {"Location": f"http://localhost:{receiver.port}/inside"})
            await it.happen("completed", "R-1")
            await it.process.round()
            (info,) = await it.deliveries()
            assert (info.status, info.last_status) == ("pending", 307)
            assert "redirects are not followed" in info.last_problem
            assert [request.path for request in receiver.seen] == ["/hook?x=1"]

    asyncio.run(main())


def test_a_slow_address_is_given_up_and_holds_up_nobody_else(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with post() as it:
            await subscribed(it, receiver)
            await it.app.subscriptions.create("quick", f"{receiver.url}/quick", ["run.*"], tenant=TENANT, by="ann")
            it.clock.pass_by(10)
            monkeypatch.setattr(d, "TRY_SECONDS", 1.0)

            def behave(request: Request) -> Reply:
                if request.path != "/quick":
                    over.wait(30)
                return Reply(200)

            receiver.behaviour = behave
            await it.happen("completed", "R-1")
            await it.process.round()
            assert [info.status for info in await it.deliveries("quick")] == ["delivered"]
            (info,) = await it.deliveries()
            over.set()
            assert (info.status, info.last_status) == ("pending", None)
            assert "no answer within 1 s" in info.last_problem

    over = threading.Event()
    asyncio.run(main())


def test_a_dead_address_gets_no_more_than_it_can_be_tried(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits, waits in the audit, and comes when the address is back."""

    async def main() -> None:
        async with post() as it:
            monkeypatch.setattr(f, "PENDING_MOST", 3)
            monkeypatch.setattr(d, "EACH_AT_ONCE", 2)
            await subscribed(it, receiver)
            receiver.behaviour = lambda _: BAD
            for number in range(8):
                await it.happen("completed", f"R-{number}")
            for _ in range(5):
                await it.process.round()
            assert len(await it.deliveries()) == 4
            receiver.behaviour = lambda _: Reply(200)
            it.clock.pass_by(6)
            for _ in range(5):
                await it.process.round()
            assert {request.json["data"]["run"] for request in receiver.seen} == {f"R-{each}" for each in range(8)}
            assert {info.status for info in await it.deliveries()} == {"delivered"}

    asyncio.run(main())


def test_entries_that_are_for_nobody_are_read_once(receiver: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place behind them is kept, and its note is no reason to keep it again."""

    async def main() -> None:
        async with post() as it:
            monkeypatch.setattr(f, "KEEP_EVERY", 5)
            await subscribed(it, receiver, "run.failed")
            for number in range(6):
                await it.happen("completed", f"R-{number}")
            for _ in range(3):
                await it.another().round()
                await it.seal()
            assert [each.act for each in await it.acts()].count("tell_subscription") == 1

    asyncio.run(main())

"""Webhooks in: who is proved acts as the webhook's user, once; who is not learns nothing."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter, process_time
from typing import Any

import httpx
import pytest

from holdfast import Holdfast, receive, workflow
from holdfast.errors import InvalidRequest, NameTaken, NotPermitted, UserNotFound
from holdfast.runs.clock import SYSTEM_CLOCK
from holdfast.server import Server, ServerSettings
from holdfast.store import protocol as p
from holdfast.templates.template import EventRoute
from holdfast.webhooks.signatures import new_secret, signed_headers
from holdfast.webhooks.webhook import EmitEvent, SignalRun, StartTemplate, WebhookAct

T = "acme"


@workflow(name="hooked.paid")
async def paid(order: str) -> str:
    return await receive("go", str)


class Hooked:
    """A tenant with templates and a service user, and a server; what is sent there is signed as a sender would."""

    def __init__(self, app: Holdfast, client: httpx.AsyncClient) -> None:
        self.app = app
        self.client = client
        self.secrets: dict[str, str] = {}

    async def hook(self, id: str, does: WebhookAct, **more: Any) -> None:
        made = await self.app.webhooks.create(id, does, **{"user": "hooks", "tenant": T, "by": "ann", **more})
        self.secrets[id] = made.secret or ""

    async def send(
        self, id: str, payload: Any, message: str = "m-1", *, secret: str = "", age: int = 0, tenant: str = T
    ) -> httpx.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        at = SYSTEM_CLOCK.now() // 1_000_000 - age
        headers = signed_headers([secret or self.secrets.get(id, new_secret("standard"))], message, at, body)
        return await self.client.post(f"/hooks/{tenant}/{id}", content=body, headers=headers)

    async def rows(self) -> list[p.Run]:
        return await self.app.store.find(p.Query(tenant=T), 100)


SLOW = ServerSettings(hooks_per_second=0.001, hooks_at_once=1, failures_per_minute=3)


@asynccontextmanager
async def hooked(settings: ServerSettings | None = None) -> AsyncIterator[Hooked]:
    async with Holdfast("memory://", workflows=[paid], worker=False) as app:
        await app.tenants.create(T)
        await app.users.create("hooks", level=4, tenant=T)
        for id, route in (("pays", None), ("hears", EventRoute("order.paid", "", "event.data"))):
            await app.templates.create(id, paid, trigger="event" if route else "manual", route=route, tenant=T)
            await app.templates.activate(id, tenant=T)
        quick = settings or ServerSettings(failures_per_minute=1e6)
        transport = httpx.ASGITransport(Server(app, settings=quick, console=False).asgi)
        async with httpx.AsyncClient(base_url="http://holdfast.example", transport=transport) as client:
            yield Hooked(app, client)


@asynccontextmanager
async def client_at(server: Server, address: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(server.asgi, client=(address, 1))
    async with httpx.AsyncClient(base_url="http://holdfast.example", transport=transport) as client:
        yield client


def code_of(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


def test_a_delivery_starts_a_template_once_with_its_trigger_and_user() -> None:
    """Sent again it is answered with the same, and starts nothing; another delivery starts another."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays", "={'order': payload.no}"))
            first = await it.send("orders", {"no": "O-1"})
            assert first.status_code == 200, first.text
            again = await it.send("orders", {"no": "O-1"})
            assert again.json() == {**first.json(), "repeated": True}
            other = await it.send("orders", {"no": "O-2"}, "m-2")
            assert other.json()["runs"] != first.json()["runs"]
            rows = {row.key.run: row for row in await it.rows()}
            assert rows.keys() == {*first.json()["runs"], *other.json()["runs"]}
            row = rows[first.json()["runs"][0]]
            assert (row.trigger_type, row.trigger_ref, row.actor) == ("webhook", "orders:m-1", "hooks")

    asyncio.run(main())


def test_a_delivery_is_an_event_for_every_template_that_hears_it() -> None:
    async def main() -> None:
        async with hooked() as it:
            await it.hook("shop", EmitEvent("='order.' + payload.kind", "={'order': payload.no}"))
            first = await it.send("shop", {"kind": "paid", "no": "O-1"})
            assert (first.json()["did"], first.json()["event"]) == ("emitted", "order.paid")
            again = await it.send("shop", {"kind": "paid", "no": "O-1"})
            assert again.json() == {**first.json(), "repeated": True}
            (row,) = await it.rows()
            assert (row.trigger_type, row.trigger_ref, row.actor) == ("webhook", "shop:m-1", "hooks")
            unheard = await it.send("shop", {"kind": "lost", "no": "O-1"}, "m-2")
            assert (unheard.status_code, unheard.json().get("runs", [])) == (200, [])

    asyncio.run(main())


def test_a_delivery_signals_a_run_once_even_when_it_has_ended_since() -> None:
    """The answer is remembered in the commit of the signal."""

    async def main() -> None:
        async with hooked() as it:
            await it.app.start(paid, "O-1", id="O-1", tenant=T)
            await it.hook("go", SignalRun("=payload.order", "go", "=payload.word"))
            first = await it.send("go", {"order": "O-1", "word": "yes"})
            assert (first.json()["did"], first.json()["runs"]) == ("signalled", ["O-1"])
            await it.send("go", {"order": "O-1", "word": "yes"})
            (row,) = await it.app.store.get([p.Key(T, "O-1")])
            assert row.arrived == 1
            assert code_of(await it.send("go", {"order": "O-9", "word": "yes"}, "m-2")) == (404, "run_not_found")
            async with Holdfast(it.app.store, workflows=[paid]) as worker:
                assert await worker.run("O-1", tenant=T).result(timeout=30) == "yes"
                again = await it.send("go", {"order": "O-1", "word": "yes"})
                assert again.json() == {**first.json(), "repeated": True}
                assert code_of(await it.send("go", {"order": "O-1", "word": "no"}, "m-3")) == (409, "run_ended")

    asyncio.run(main())


def test_of_equal_deliveries_at_once_one_is_done() -> None:
    async def main() -> None:
        async with hooked() as it:
            await it.app.start(paid, "O-1", id="O-1", tenant=T)
            await it.hook("go", SignalRun("O-1", "go"))
            await it.hook("orders", StartTemplate("pays"))
            sent = [it.send("go", "now") for _ in range(4)] + [it.send("orders", {"order": "x"}) for _ in range(4)]
            assert {answer.status_code for answer in await asyncio.gather(*sent)} == {200}
            (row,) = await it.app.store.get([p.Key(T, "O-1")])
            assert (row.arrived, len(await it.rows())) == (1, 2)

    asyncio.run(main())


def test_who_proves_nothing_learns_nothing() -> None:
    """A wrong secret, a stale one, no such webhook, another tenant's, a disabled one: all are refused alike."""

    async def main() -> None:
        async with hooked() as it:
            await it.app.tenants.create("bolt")
            await it.hook("orders", StartTemplate("pays"))
            await it.hook("off", StartTemplate("pays"))
            await it.app.webhooks.change("off", disabled=True, tenant=T, by="ann")
            good = it.secrets["orders"]
            answers = [
                await it.send("orders", {}, secret=new_secret("standard")),
                await it.send("orders", {}, age=301),
                await it.send("missing", {}, secret=good),
                await it.send("orders", {}, secret=good, tenant="bolt"),
                await it.send("off", {}),
                await it.client.post(f"/hooks/{T}/orders", content=b"{}"),
            ]
            assert {code_of(answer) for answer in answers} == {(401, "webhook_refused")}
            assert len({answer.json()["detail"] for answer in answers}) == 1
            assert not await it.rows()

    asyncio.run(main())


def test_a_user_who_may_not_makes_the_webhook_refuse() -> None:
    """Judged like any other, as of now, and noted; enabled again, the sender's next try is done."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"))
            await it.app.users.set_level("hooks", 3, tenant=T, by="ann")
            assert code_of(await it.send("orders", {"order": "x"})) == (403, "not_permitted")
            await it.app.users.set_level("hooks", 4, tenant=T, by="ann")
            await it.app.users.disable("hooks", tenant=T, by="ann")
            assert code_of(await it.send("orders", {"order": "x"})) == (403, "not_permitted")
            assert not await it.rows()
            await it.app.users.enable("hooks", tenant=T, by="ann")
            answer = await it.send("orders", {"order": "x"})
            assert (answer.status_code, answer.json().get("repeated", False)) == (200, False)

    asyncio.run(main())


def test_what_fails_has_done_nothing_and_may_come_again() -> None:
    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays", "={'order': payload.no}"))
            assert code_of(await it.send("orders", {"other": 1})) == (400, "invalid_request")
            assert code_of(await it.send("orders", b"no json")) == (400, "invalid_request")
            assert code_of(await it.send("orders", b"[" * 70 + b"]" * 70)) == (400, "malformed_request")
            assert code_of(await it.send("orders", b"x" * (2**20 + 1))) == (413, "body_too_large")
            await it.app.templates.pause("pays", tenant=T, by="ann")
            assert code_of(await it.send("orders", {"no": "O-1"})) == (409, "template_conflict")
            await it.app.templates.resume("pays", tenant=T, by="ann")
            assert (await it.send("orders", {"no": "O-1"})).status_code == 200

    asyncio.run(main())


def test_a_filter_leaves_the_rest_alone() -> None:
    async def main() -> None:
        async with hooked() as it:
            when = "=headers['x-kind'] == 'paid' && payload.sum > 5"
            await it.hook("orders", StartTemplate("pays", "={'order': payload.order}"), filter=when)
            body = json.dumps({"order": "O-1", "sum": 6}).encode()
            at = SYSTEM_CLOCK.now() // 1_000_000
            for number, (kind, did) in enumerate([("lost", "ignored"), ("paid", "started")]):
                headers = {**signed_headers([it.secrets["orders"]], f"m-{number}", at, body), "X-Kind": kind}
                answer = await it.client.post(f"/hooks/{T}/orders", content=body, headers=headers)
                assert did in answer.text, answer.text

    asyncio.run(main())


LONG = "payload.l.all(x, !payload.s.contains(payload.t))"
HEAVY = {"l": list(range(1_900)), "s": "a" * 600_000, "t": "a" * 300_000 + "b"}


@pytest.mark.long
def test_a_filter_that_takes_long_holds_nobody_up() -> None:
    """It is ended after its processor time, and the delivery is refused; the server answers meanwhile."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays", "={'order': payload.s}"), filter=f"={LONG}")
            await it.hook("shaped", EmitEvent("order.paid", f"={{'all': {LONG}}}"))
            light = {"l": [1], "s": "abc", "t": "d"}
            assert (await it.send("orders", light, "m-0")).json()["did"] == "started"
            for id in ("orders", "shaped"):
                delivery = asyncio.create_task(it.send(id, HEAVY, "m-1"))
                slowest, asked = await asked_meanwhile(it.client, delivery)
                refused = await delivery
                assert code_of(refused) == (400, "invalid_request")
                assert "takes too long, or too much memory" in refused.json()["detail"]
                assert (slowest < 1, asked > 3) == (True, True), (slowest, asked)
            assert (await it.send("orders", light, "m-2")).json()["did"] == "started"

    asyncio.run(main())


async def asked_meanwhile(client: httpx.AsyncClient, delivery: asyncio.Task[Any]) -> tuple[float, int]:
    """How long the server took at most to say that it lives until the delivery was answered, and how often it said."""
    slowest, asked = 0.0, 0
    while not delivery.done():
        began = perf_counter()
        assert (await client.get("/healthz")).status_code == 200
        slowest, asked = max(slowest, perf_counter() - began), asked + 1
        await asyncio.wait([delivery], timeout=0.05)
    return slowest, asked


def test_github_is_known_by_the_body_or_by_a_header_that_its_author_believes() -> None:
    async def main() -> None:
        async with hooked() as it:
            secret = "a secret that was typed in at the sender"
            await it.hook("hub", StartTemplate("pays", "={'order': payload.order}"), scheme="github", secret=secret)
            more = {"scheme": "hmac", "header": "X-Signature", "id_header": "X-Id", "secret": secret}
            await it.hook("plain", StartTemplate("pays", "={'order': payload.order}"), **more)
            body = b'{"order": "O-1"}'
            digest = hmac.digest(secret.encode(), body, "sha256").hex()
            for name, header, count in (("hub", "X-Hub-Signature-256", 1), ("plain", "X-Signature", 3)):
                for id in ("1", "2"):
                    headers = {header: f"sha256={digest}", "X-Id": id}
                    answer = await it.client.post(f"/hooks/{T}/{name}", content=body, headers=headers)
                    assert answer.status_code == 200, answer.text
                assert len(await it.rows()) == count

    asyncio.run(main())


def test_more_than_a_webhook_takes_is_refused_with_a_time() -> None:
    async def main() -> None:
        async with hooked(ServerSettings(hooks_per_second=0.001, hooks_at_once=2, failures_per_minute=3)) as it:
            await it.hook("orders", StartTemplate("pays"))
            answers = [await it.send("orders", {"order": "x"}, f"m-{number}") for number in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert int(answers[2].headers["retry-after"]) > 0
            guesses = [await it.send("other", {}, f"m-{number}") for number in range(2)]
            assert {answer.status_code for answer in guesses} == {401}

    asyncio.run(main())


def test_strangers_use_up_nothing_of_what_the_sender_may_send() -> None:
    """An unproved delivery is counted for its webhook and address, and all addresses of one IPv6 network are one. A
    proved one is taken all the same, also from there: others may share the address, of a proxy or a large sender."""

    async def main() -> None:
        async with hooked(SLOW) as it:
            await it.hook("orders", StartTemplate("pays"))
            await it.hook("other", StartTemplate("pays"))
            server, path = Server(it.app, settings=SLOW, console=False), f"/hooks/{T}/orders"
            seen = []
            for number in range(5):
                async with client_at(server, f"2001:db8::{number + 1}") as stranger:
                    seen.append((await stranger.post(path, content=b"{}")).status_code)
            assert seen == [401, 401, 401, 429, 429]
            async with client_at(server, "2001:db8::9") as client:
                own = Hooked(it.app, client)
                own.secrets = it.secrets
                sent = [await own.send("orders", {"order": "x"}, f"m-{number}") for number in range(2)]
                assert [answer.status_code for answer in sent] == [200, 429]
                refused = await client.post(f"/hooks/{T}/other", content=b"{}")
                assert code_of(refused) == (401, "webhook_refused")

    asyncio.run(main())


def test_limits_do_not_show_which_webhooks_there_are() -> None:
    """A webhook that is not there is answered and counted as one that is, however many unproved deliveries come."""

    async def main() -> None:
        async with hooked(SLOW) as it:
            await it.hook("orders", StartTemplate("pays"))
            await it.hook("locked", StartTemplate("pays"), secret_name="NOT_THERE")
            seen = {}
            for place in (f"{T}/orders", f"{T}/locked", f"{T}/missing", "nobody/orders"):
                answers = [await it.client.post(f"/hooks/{place}", content=b"{}") for _ in range(5)]
                seen[place] = [
                    (each.status_code, each.json()["detail"], each.headers.get("retry-after")) for each in answers
                ]
            assert len(set(map(tuple, seen.values()))) == 1, seen
            assert [status for status, _, _ in seen[f"{T}/orders"]] == [401, 401, 401, 429, 429]
            assert (await it.send("orders", {"order": "x"})).status_code == 200

    asyncio.run(main())


def test_nothing_of_an_unproved_body_is_read() -> None:
    """What is nested too deep, or is no JSON, is refused like all that is not proved; what is too large before it is
    read. A proved one is told what is wrong."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"))
            wrong = new_secret("standard")
            for body in (b"[" * 70 + b"]" * 70, b"no json", b'{"a":' + b"[]," * 70 + b'"' + b'\\"' * 15_000):
                assert code_of(await it.send("orders", body, secret=wrong)) == (401, "webhook_refused")
            assert code_of(await it.send("orders", b"x" * (2**20 + 1), secret=wrong)) == (413, "body_too_large")
            assert code_of(await it.send("orders", b"[" * 70 + b"]" * 70)) == (400, "malformed_request")

    asyncio.run(main())


def test_a_body_of_unfinished_texts_does_not_hold_the_server_up() -> None:
    """Signed or not, a body of the largest size is judged in a moment: it took minutes."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"))
            body = b'{"a":' + b"[]," * 70 + b'"' + b'\\"' * 500_000
            for secret, status in ((new_secret("standard"), 401), ("", 400)):
                began = process_time()
                assert (await it.send("orders", body, secret=secret)).status_code == status
                assert process_time() - began < 5

    asyncio.run(main())


def test_a_server_that_only_shows_takes_nothing() -> None:
    async def main() -> None:
        async with hooked(ServerSettings(read_only=True)) as it:
            await it.hook("orders", StartTemplate("pays"))
            assert (await it.send("orders", {})).status_code == 403

    asyncio.run(main())


def test_a_rotated_secret_counts_beside_the_one_before_it_for_a_while() -> None:
    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"))
            first = it.secrets["orders"]
            second = (await it.app.webhooks.rotate("orders", tenant=T, by="ann")).secret or ""
            for number, secret in enumerate((first, second)):
                assert (await it.send("orders", {"order": "x"}, f"m-{number}", secret=secret)).status_code == 200
            await it.app.webhooks.rotate("orders", overlap_seconds=0, tenant=T, by="ann")
            assert (await it.send("orders", {}, "m-3", secret=second)).status_code == 401

    asyncio.run(main())


def test_the_servers_secret_is_named_and_a_missing_one_is_in_the_log_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sender cannot be proved without it, so it is refused like any other: an answer of its own would show that there
    is such a webhook."""

    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"), secret_name="ORDERS_HOOK")
            monkeypatch.setenv("HOLDFAST_SECRET_ORDERS_HOOK", "what the server was given")
            answer = await it.send("orders", {"order": "x"}, secret="what the server was given")
            assert answer.status_code == 200
            monkeypatch.delenv("HOLDFAST_SECRET_ORDERS_HOOK")
            answer = await it.send("orders", {"order": "x"}, "m-2", secret="what the server was given")
            assert code_of(answer) == (401, "webhook_refused")
            assert "ORDERS_HOOK" not in answer.text
            assert "ORDERS_HOOK" in caplog.text

    asyncio.run(main())


def test_nobody_below_level_6_lets_a_webhook_act_in_anothers_name() -> None:
    async def main() -> None:
        async with hooked() as it:
            for name, level in (("ann", 5), ("eve", 6)):
                await it.app.users.create(name, level=level, tenant=T)
            ann, eve = (it.app.acting_as(name, tenant=T) for name in ("ann", "eve"))
            assert (await ann.webhooks.create("own", EmitEvent("x"))).webhook.user == "ann"
            with pytest.raises(NotPermitted, match="another's name"):
                await ann.webhooks.create("other", EmitEvent("x"), user="hooks")
            with pytest.raises(NotPermitted, match="another's name"):
                await ann.webhooks.change("own", user="eve")
            assert (await eve.webhooks.create("other", EmitEvent("x"), user="hooks")).webhook.user == "hooks"

    asyncio.run(main())


def test_what_cannot_be_a_webhook_is_refused() -> None:
    async def main() -> None:
        async with hooked() as it:
            create = it.app.webhooks.create
            for does, more in (
                (EmitEvent("=payload."), {}),
                (EmitEvent(""), {}),
                (StartTemplate("pays", "payload"), {}),
                (EmitEvent("x"), {"filter": "payload.x"}),
                (EmitEvent("x"), {"filter": "='text'"}),
                (EmitEvent("x"), {"scheme": "hmac"}),
                (EmitEvent("x"), {"header": "X-Signature"}),
                (EmitEvent("x"), {"id_header": "X-Id"}),
                (EmitEvent("x"), {"secret": "short"}),
                (EmitEvent("x"), {"user": None}),
                ("emit", {}),
            ):
                with pytest.raises(InvalidRequest):
                    await create("bad", does, **{"user": "hooks", "tenant": T, **more})  # type: ignore[arg-type]
            with pytest.raises(UserNotFound):
                await create("bad", EmitEvent("x"), user="nobody", tenant=T)
            await create("good", EmitEvent("x"), user="hooks", tenant=T)
            with pytest.raises(NameTaken):
                await create("good", EmitEvent("x"), user="hooks", tenant=T)

    asyncio.run(main())


def test_no_secret_is_in_the_audit_in_views_or_in_logs(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with hooked() as it:
            await it.hook("orders", StartTemplate("pays"))
            await it.send("orders", {"order": "x"})
            await it.send("orders", {"order": "x"}, secret=new_secret("standard"))
            entries = await it.app.store.entries(p.AuditQuery(T), 1000)
            shown = [each async for each in it.app.webhooks.list(tenant=T)]
            texts = [*(entry.body.decode() for entry in entries), repr(shown), caplog.text]
            for kind in ("webhook", "webhook_answer"):
                texts += [row.body.decode() for row in await it.app.store.items(kind, 100)]
            needle = it.secrets["orders"].removeprefix("whsec_")[:20]
            assert needle
            assert not [text for text in texts if needle in text]

    with caplog.at_level("DEBUG"):
        asyncio.run(main())
